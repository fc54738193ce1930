// The slowest iterations of a process, with what it did in each: evidence for `cutaway show
// --slowest`. Of an iteration in which recording was paused nobody knows how long it would have
// taken, so it is left out.
#pragma once
#include <algorithm>
#include <vector>

#include "sweep/dense.h"
#include "sweep/tables.h"

namespace cutaway {

struct SlowCell {
  uint32_t thread, operation, layer;
  uint64_t ns;
};

struct SlowIteration {
  uint32_t number;
  uint64_t start, end, steps;
  std::vector<SlowCell> cells;

  template <class A>
  void members(A& a) {
    a(number, start, end, steps, cells);
  }
};

class Slowest {
 public:
  // An iteration begins, and the one before it ends. All time up to here is in the cells.
  void mark(uint32_t number, uint64_t time, uint64_t steps, const std::vector<Cell>& cells,
            const Dense<ContextKey, Context>& contexts) {
    if (open_) end(time, steps, cells, contexts);
    now_ = {number, time, 0, steps, {}};
    open_ = true;
    before_.resize(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) before_[i] = cells[i].ns;
  }

  // Cells were put together: where each of them is now.
  void follow(const std::vector<uint32_t>& cells) {
    std::vector<uint64_t> before;
    for (size_t i = 0; i < std::min(before_.size(), cells.size()); ++i) {
      before.resize(std::max<size_t>(before.size(), cells[i] + 1));
      before[cells[i]] += before_[i];
    }
    before_ = std::move(before);
  }

  void forget() { open_ = false; }  // the iteration that is under way

  template <class A>
  void members(A& a) {
    a(worst, durations, now_, open_, before_);
  }

  std::vector<SlowIteration> worst;  // in no order
  Durations durations;               // of all

 private:
  static constexpr size_t kMost = 10;

  void end(uint64_t time, uint64_t steps, const std::vector<Cell>& cells,
           const Dense<ContextKey, Context>& contexts) {
    const uint64_t ns = time - now_.start;
    durations.add(ns);
    const auto shortest = std::min_element(worst.begin(), worst.end(),
                                           [](const SlowIteration& a, const SlowIteration& b) {
                                             return a.end - a.start < b.end - b.start;
                                           });
    if (worst.size() == kMost && shortest->end - shortest->start >= ns) return;
    if (worst.size() == kMost) worst.erase(shortest);
    now_.end = time;
    now_.steps = steps - now_.steps;
    for (size_t i = 0; i < cells.size(); ++i) {
      const uint64_t more = cells[i].ns - (i < before_.size() ? before_[i] : 0);
      const ContextKey& who = contexts.entries()[cells[i].context].key;
      if (more) now_.cells.push_back({who.thread, who.operation, cells[i].state >> 3, more});
    }
    worst.push_back(std::move(now_));
  }

  SlowIteration now_{};
  bool open_ = false;
  std::vector<uint64_t> before_;  // time of the cells when it began
};

}  // namespace cutaway
