#include "sweep/device_queue.h"

#include <algorithm>

namespace cutaway {

// Kernels of one graph are launched together: each finds as many before it as the last one did.
void DeviceQueue::add(uint64_t launched, uint64_t started, uint32_t row) {
  Waiting own{launched, started, started, row, 0};
  has_early_ |= own.is_early();
  const auto first =
      std::lower_bound(waiting.begin(), waiting.end(), launched,
                       [](const Waiting& w, uint64_t time) { return w.launched < time; });
  const bool together =
      !has_early_ && first != waiting.end() && waiting.back().launched == launched;
  if (together) {
    own.length = waiting.back().length;
  } else {
    compare_with_all(own, first);
  }
  const auto at = together ? waiting.end() : first;
  for (auto w = waiting.insert(at, own); w != waiting.end(); ++w)
    w->reach = std::max(w->started, w == waiting.begin() ? 0 : std::prev(w)->reach);
}

// Of two pieces of work each may wait for the other: for one launched before it that starts after
// its launch. `first`: those from there on were launched at the same time or later.
void DeviceQueue::compare_with_all(Waiting& own, At first) {
  const At begin = waiting.begin();
  if (own.is_early()) --own.length;
  for (auto w = first; w != begin && std::prev(w)->reach > own.launched;)
    own.length += (--w)->started > own.launched;
  for (auto w = first; w != begin && std::prev(w)->launched >= own.started;) --(--w)->length;
  for (auto w = first; w != waiting.end(); ++w) {
    own.length -= w->started <= own.launched;
    w->length += int{own.launched < w->launched} - int{own.started <= w->launched};
  }
}

}  // namespace cutaway
