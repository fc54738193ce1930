// One pass over all timelines of a process: the records of every thread, the accelerator API calls
// and the device work, merged in order of time. Between two neighbouring boundaries nothing
// changes, so each stretch is added to one cell. Processes do not see each other, so all cores can
// sweep. The readable twin is tests/analysis/sweep_twin.py. Nothing here knows Python.
#pragma once
#include <memory>
#include <vector>

#include "sweep/device_totals.h"
#include "sweep/drawing.h"
#include "sweep/past.h"
#include "sweep/slices.h"
#include "sweep/timeline.h"

namespace cutaway {

class ProcessSweep {
 public:
  explicit ProcessSweep(SharedFiles files) : timeline(std::move(files)) {}
  ProcessSweep(const ProcessSweep&) = delete;
  ProcessSweep& operator=(const ProcessSweep&) = delete;

  // `id`: what the process's records call the thread. Without events it is known from API calls
  // only.
  uint32_t add_thread(uint32_t id, std::unique_ptr<Events> events);
  void set_device_work(std::unique_ptr<Spans<ApiCall>::Feed> api,
                       std::unique_ptr<Spans<Work>::Feed> work,
                       std::vector<std::vector<uint32_t>> stream_threads);
  // Numbers of streams (device << 32 | stream) that stay the same from look to look.
  std::vector<uint32_t> number_streams(const std::vector<uint64_t>& streams);
  size_t streams() const { return stream_keys_.size(); }

  void follow_leader(std::vector<LeaderMark> marks, bool even_with_iterations = false);
  // The steady state ends with the last work of the process (0: unknown), or with that of the run
  // if the process has no iterations. After follow_leader.
  void end_steady(uint64_t own, uint64_t run);
  void draw(std::vector<Lanes> lanes);

  // Takes in what happens before `until`, and before the frontiers of all threads; can be called
  // again.
  void run(uint64_t until = UINT64_MAX);
  uint64_t next_time();  // of what `run` would take in next; UINT64_MAX: there is nothing

  bool goes_on = false;  // a thread ends by its own records only: more may come of any

  Timeline timeline;
  Drawing drawing{timeline};
  DeviceTotals devices;  // what its device work adds up to
  Slices slices{timeline, drawing, devices};
  Past past{*this};

  template <class A>
  void members(A& a) {
    a(timeline, slices, api_, work_, stream_keys_);
  }

 private:
  friend class Past;
  struct Head;

  std::vector<Head> next_heads();
  Head head_of(uint8_t rank, uint32_t index) const;
  void step(const Head& head, const Head& limit);
  void step_thread(SweepThread& t, const Head& limit);
  void apply(SweepThread& t, const Event& e);
  void next_event(SweepThread& t);
  void rest(SweepThread& t);
  void step_api();
  void step_work();

  std::unique_ptr<Events> samples_;
  const Event* sample_ = nullptr;
  Spans<ApiCall> api_;
  Spans<Work> work_;
  std::vector<uint64_t> stream_keys_;  // by number
  uint64_t until_ = UINT64_MAX;
};

}  // namespace cutaway
