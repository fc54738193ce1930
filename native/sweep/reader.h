// The events of one thread with what they mean: which operation and layer the thread is in from each on.
// Everything that looks at single events reads them here: live view, exports, calibration, balance.
#pragma once
#include <optional>

#include "sweep/events.h"

namespace cutaway {

enum RowFlag : uint8_t {
  kRecorded = 1,    // from here on time counts: the thread lives and recording is not paused
  kLossBefore = 2,  // records are missing between this event and the one before
};

struct Row {
  uint64_t time, end;   // as in Event
  uint32_t value, id;   // of the record
  uint32_t operation;   // name of the innermost operation from `time` on, 0 for none
  uint32_t calls;       // calls that began on this thread up to and with this event, modulo 2^32
  uint32_t operations;  // operations that were recorded, with the marks that cost as much; none that the
                        // analysis named
  uint8_t kind;
  uint8_t layer;  // from `time` on
  uint8_t after;  // from `end` on; differs from `layer` only for a Call
  uint8_t flags;  // RowFlag
};
static_assert(sizeof(Row) == 40, "EVENT_DTYPE in trace/format.py says so too");

class Reader {
 public:
  Reader(SharedFiles files, std::vector<Source> sources);

  void follow(SharedFiles files, std::vector<Source> sources);

  // Up to `room` events that end at `since` or later and are of one of the `kinds` (a bit for each Kind);
  // none at the end. What comes before `since` is passed over, except for the last of it: it says what the
  // thread was doing then.
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
