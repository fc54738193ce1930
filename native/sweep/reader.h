// The events of one thread with what they mean: which operation and layer the thread is in from
// each on. Everything that looks at single events reads them here: exports, calibration,
// balance.
#pragma once
#include <optional>

#include "sweep/events.h"

namespace cutaway {

class Reader {
 public:
  Reader(SharedFiles files, std::vector<Source> sources);

  void follow(SharedFiles files, std::vector<Source> sources);

  // Up to `room` events that end at `since` or later and are of one of the `kinds` (a bit for each
  // Kind); none at the end. What comes before `since` is passed over, except for the last of it: it
  // says what the thread was doing then.
  std::vector<Row> read(size_t room, uint64_t since, uint32_t kinds);

  const ReadCounts& counts() const { return events_->counts(); }

 private:
  Row take(const Event& e);
  uint8_t layer() const { return calls_.empty() ? uint8_t{0} : calls_.back().layer; }

  struct OpenCall {
    uint32_t call;
    uint8_t layer;
  };

  SharedFiles files_;
  std::unique_ptr<Events> events_;
  std::vector<OpenCall> calls_;
  std::vector<uint32_t> operations_;
  bool alive_ = false, paused_ = false;
  uint32_t calls_begun_ = 0, operations_begun_ = 0;
  uint64_t lost_ = 0;
  std::optional<Row> passed_;
};

}  // namespace cutaway
