// What the records of a process need in order to be read, from its log.jsonl: layers of calls, what
// the rule that names time must know (naming.h), anchors of the clock. The log may still grow.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "sweep/events.h"

namespace cutaway {

class LogFacts {
 public:
  explicit LogFacts(std::string path) : path_(std::move(path)) {}

  void refresh();  // takes in the lines that were completed since

  // All that is known by now but for the clocks.
  void describe(ProcessFiles& files) const;
  // The map of the recorder's ticks, through the process's own anchors; nothing before there are
  // two.
  bool clock(ClockMap& map) const;
  uint64_t last_anchor() const { return anchors_.empty() ? 0 : anchors_.back().second; }
  uint64_t first_anchor() const { return anchors_.empty() ? 0 : anchors_.front().second; }
  uint32_t sample_stream() const { return sample_stream_; }

 private:
  struct Call {
    std::string function;
    uint8_t layer, hint;
  };
  struct Line;
  void take(const std::string& text);
  void take_call(const Line& line);
  uint8_t hint_of(const Call& call) const;

  std::string path_, rest_;
  uint64_t read_ = 0;
  std::vector<Call> calls_;  // by id
  std::map<std::string, uint32_t> names_;
  std::unordered_map<std::string, uint8_t> compiled_;
  std::map<uint32_t, uint64_t> environments_;           // intervals in which each was stepped
  std::vector<std::pair<uint64_t, uint64_t>> anchors_;  // ticks, CLOCK_MONOTONIC
  uint32_t sample_stream_ = UINT32_MAX;
};

// The map through these points (its time, monotonic time). Points at which a clock goes back are
// left out.
ClockMap map_through(std::vector<std::pair<uint64_t, uint64_t>> points);

}  // namespace cutaway
