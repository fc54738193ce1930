// The past of one process that goes on: its sweep takes in what ended before an instant, again and
// again. Everything it knows then can be saved as bytes, and loaded into a new one before that gets
// threads. So of a run that keeps only its last stretch in full (`--keep`) totals are those of the
// whole run, to the nanosecond.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sweep/events.h"

namespace cutaway {

class ProcessSweep;
struct SweepThread;

class Past {
 public:
  explicit Past(ProcessSweep& sweep) : sweep_(sweep) {}

  // The past of this process is being folded; `origin` of the stretches of time.
  void keep(uint64_t origin);
  bool is_kept() const { return loaded_ || keeps_; }
  bool is_loaded() const { return loaded_; }
  uint64_t reached() const { return reached_; }  // by what was saved

  // What is on disk now.
  void refresh(SharedFiles files);
  void follow(uint32_t thread, std::vector<Source> sources, std::vector<Record> open,
              uint64_t until);
  std::pair<uint32_t, uint64_t> samples_position() const;
  void follow_samples(std::vector<Source> sources, uint64_t until);
  // Of a run that is not over: when its first work began, and its second iteration; 0: not yet.
  void lead(uint64_t first_work, uint64_t steady);

  // Gives a thread events, behind those that were loaded with it.
  void attach(SweepThread& t, std::unique_ptr<Events> events);
  void attach_samples(std::unique_ptr<Events> events);
  // Of a past that was loaded, one thread after the other that only device records know; then
  // kNoCell.
  uint32_t next_without_records();
  // All time up to where the past ends is in the cells and drawn.
  void settle();

  // API calls and device work that begin at `reached` or later and are in it all the same.
  std::pair<uint64_t, uint64_t> begun();
  // Since when a living thread has written nothing; UINT64_MAX if it has ended.
  uint64_t silent_since(uint32_t thread) const;
  // Whether calibration has paused the recording of a thread.
  bool calibrates(uint32_t thread) const;

  std::vector<uint8_t> save();
  bool load(const uint8_t* bytes, size_t n);

 private:
  void forget_naming();
  const SweepThread* thread(uint32_t id) const;
  bool sound() const;
  bool devices_are_sound() const;
  bool calls_are_sound(const SweepThread& t) const;

  ProcessSweep& sweep_;
  // Whether the events of a loaded process go through the rule that names time.
  bool named_ = false;
  bool loaded_ = false, keeps_ = false;
  uint64_t reached_ = 0;
  size_t without_records_ = 0;
  std::vector<uint8_t> saved_samples_;
  Event held_sample_{};
};

}  // namespace cutaway
