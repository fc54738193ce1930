// The records of one thread, in order, from its blocks and live segments: a small window at a time.
#pragma once
#include <array>
#include <optional>

#include "sweep/events.h"

namespace cutaway {

class Cursor final : public Events {
 public:
  Cursor(SharedFiles files, std::vector<Source> sources)
      : files_(std::move(files)), sources_(std::move(sources)) {}

  void follow(SharedFiles files, std::vector<Source> sources) override;
  void bound(uint64_t until, std::vector<Record> open) override;
  const ReadCounts& counts() const override { return counts_; }
  uint64_t frontier() const override { return stopped_ ? stopped_at_ : until_; }
  std::pair<uint32_t, uint64_t> position() const override {
    return {source_.seq, begun_ ? taken_ : 0};
  }
  void save(Saver& to) override;
  void load(Loader& from) override;

 protected:
  bool refill() override;

 private:
  static constexpr size_t kWindow = 512;  // records and events of a window stay in the first cache

  class Converter;

  bool open_source();
  void go_on();
  bool announce();
  bool is_announced(const Record& r, Event& event);
  bool is_careful() const;
  void convert_carefully();
  void read_window();
  size_t convert_packed();
  size_t convert_plain();

  SharedFiles files_;
  std::vector<Source> sources_;
  std::optional<ClockWalk> clock_;
  std::vector<Record> window_;
  std::array<Event, kWindow> events_;
  std::vector<uint8_t> payload_;
  std::optional<File> file_;
  std::unique_ptr<Unpacker> unpacker_;
  Source source_{};
  size_t next_source_ = 0;
  uint64_t taken_ = 0, before_ = 0;  // records taken from the source; end of the last event
  bool open_ = false, begun_ = false, follows_ = false, resumes_ = false;
  ReadCounts counts_;

  // Of a process that still runs, for which only the past is read:
  uint64_t until_ = UINT64_MAX, stopped_at_ = 0;
  bool stopped_ = false;
  Record last_{};  // that was read
  std::vector<Record> unwritten_,
      announced_;            // calls that were handed out before they were written
  std::vector<Event> held_;  // of a cursor that was loaded
};

}  // namespace cutaway
