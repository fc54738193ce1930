// The pulse of threads that write nothing: it stores on disk where they are, so that a hang can be
// recognised after a kill. Only the background thread looks, so it costs the program nothing.
#pragma once
#include <vector>

#include "recorder/state.h"

namespace cutaway {

class Pulses {
 public:
  void look();  // at each tick

 private:
  struct Seen {
    const Segment* segment = nullptr;
    const Record* cursor = nullptr;
    uint32_t depth = 0, written = 0;
    uint64_t start = 0;  // of the innermost open call
    bool operator==(const Seen& o) const {
      return segment == o.segment && cursor == o.cursor && depth == o.depth &&
             written == o.written && start == o.start;
    }
  };
  struct Slot {
    Seen seen;
    uint64_t told_ns = 0;  // when its pulse was last written, 0: not since it came here
  };
  static Seen see(const ThreadState* t);
  void tell(const ThreadState* t, const Seen& seen);
  std::vector<Slot> slots_;  // by thread id
};

}  // namespace cutaway
