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
  const ReadCounts& counts() const override { return counts_; }

 protected:
  bool refill() override;

 private:
  static constexpr size_t kWindow = 512;  // records and events of a window stay in the first cache

  class Converter;

  bool open_source();
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
};

}  // namespace cutaway
