// The sweep of one thread of a run that is still recording, continued at each look: what the thread
// did in each bin of the last seconds, and what it is in now. Threads are swept apart, so one that
// tells nothing for a while does not hold up the others.
#pragma once
#include <optional>

#include "sweep/sweep.h"

namespace cutaway {

class LiveThread {
 public:
  // `width`, `count`: of the bins; the newest ones are known. Nothing is read before `follow`.
  LiveThread(const SharedFiles& files, std::vector<Source> sources, uint64_t width, uint32_t count);

  // Takes in what was written since.
  void follow(const SharedFiles& files, std::vector<Source> sources);

  const Lanes& lanes() const { return sweep_.drawing.lanes[0]; }
  const SweepThread& thread() const { return *sweep_.timeline.threads[0]; }
  uint32_t iteration() const { return sweep_.slices.iteration(); }  // the newest
  uint64_t steps() const { return sweep_.slices.steps; }

  // Operation and layer; none if it is not recorded now.
  struct State {
    uint32_t operation;
    uint8_t layer;
  };
  std::optional<State> now() const;

 private:
  ProcessSweep sweep_;
};

}  // namespace cutaway
