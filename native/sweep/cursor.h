// The records of one thread, in order, from its blocks and live segments: a small window at a time.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "sweep/blocks.h"
#include "sweep/clock.h"

namespace cutaway {

// The maps of a process, one for each Clock, and the instants between which its records can lie: a live
// segment has no checksum, and one flipped bit in a time must not stretch a life to centuries.
struct Clocks {
  std::vector<ClockMap> maps;
  uint64_t first = 0, last = UINT64_MAX;
};

struct Event {
  uint64_t time, end;  // nanoseconds; end == time unless the record is a Call
  uint32_t value, tag;
};

class Cursor {
 public:
  Cursor(const std::vector<std::string>& files, std::vector<Source> sources, Clocks& clocks)
      : files_(files), sources_(std::move(sources)), clocks_(clocks) {}

  // The next event, or nullptr at the end; it stays where it is until the one after it is asked for. Times
  // never go back: what does is moved to the time before.
  const Event* next() {
    if (__builtin_expect(at_ == filled_, 0) && !refill()) return nullptr;
    return &events_[at_++];
  }

  uint64_t events = 0, disordered = 0, implausible = 0, damaged = 0;

 private:
  static constexpr size_t kWindow = 512;  // records and events of a window stay in the first cache

  bool refill() {
    at_ = filled_ = 0;
    while (!filled_) {
      if (!open_ && !open_source()) return false;
      if (unpacker_) {
        unpack_window();
      } else {
        read_window();
      }
      convert_window();
    }
    events += filled_;
    return true;
  }

  bool open_source() {
    if (next_source_ == sources_.size()) return false;
    source_ = sources_[next_source_++];
    map_ = &clocks_.maps[source_.clock < clocks_.maps.size() ? source_.clock : 0];
    file_ = std::make_unique<File>(files_[source_.file]);
    read_ = 0;
    open_ = true;
    if (source_.packed) {
      if (!read_payload(*file_, source_, payload_)) {
        ++damaged;
        payload_.clear();
        source_.count = 0;
      }
      unpacker_ = std::make_unique<Unpacker>(payload_.data(), payload_.size(), source_.count);
    }
    return true;
  }

  void unpack_window() {
    window_.resize(kWindow);
    window_.resize(unpacker_->fill(window_.data(), kWindow));
    if (window_.size() == kWindow) return;
    damaged += unpacker_->broken();
    unpacker_.reset();
    open_ = false;
  }

  void read_window() {
    Source part = source_;
    part.offset += read_ * sizeof(Record);
    part.count = static_cast<uint32_t>(std::min<uint64_t>(kWindow, source_.count - read_));
    read_records(*file_, part, payload_, window_);
    read_ += window_.size();
    if (window_.size() < kWindow) open_ = false;
  }

  void convert_window() {
    uint64_t before = before_;
    size_t n = 0;
    for (const Record& r : window_) {
      uint64_t time = map_->to_ns(r.time);
      uint64_t end = map_->to_ns(end_of(r));
      if (__builtin_expect(time < clocks_.first || end > clocks_.last, 0)) {
        ++implausible;
        continue;
      }
      if (__builtin_expect(time < before, 0)) {
        ++disordered;
        time = before;
        end = end < time ? time : end;
      }
      before = end;
      events_[n++] = {time, end, r.value, r.tag};
    }
    before_ = before;
    filled_ = n;
  }

  const std::vector<std::string>& files_;
  std::vector<Source> sources_;
  Clocks& clocks_;
  ClockMap* map_ = nullptr;
  std::vector<Record> window_;
  std::array<Event, kWindow> events_;
  std::vector<uint8_t> payload_;
  std::unique_ptr<File> file_;
  std::unique_ptr<Unpacker> unpacker_;
  Source source_{};
  size_t next_source_ = 0, at_ = 0, filled_ = 0;
  uint64_t read_ = 0, before_ = 0;
  bool open_ = false;
};

}  // namespace cutaway
