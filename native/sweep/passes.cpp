#include "sweep/passes.h"

#include <algorithm>

namespace cutaway {

void Passes::limit(std::vector<Pause>& pauses, uint64_t paused_since) {
  if (iterations.size() < kMost) return;
  const size_t old = iterations.size() / 2;
  forget_pauses(pauses, old, std::min(iterations[old].time, paused_since));
  join(old);
}

// Makes the older half coarser: neighbours become one row until there is room again. The first two
// stay, they tell where start-up ends; so does what comes before iterations that nobody marked.
void Passes::join(size_t old) {
  const std::vector<Iteration> fine(iterations.begin() + static_cast<std::ptrdiff_t>(old),
                                    iterations.end());
  iterations.resize(old);
  for (uint64_t most = 2; iterations.size() > old - old / 4 && most <= UINT32_MAX; most *= 2) {
    std::vector<Iteration> joined;
    for (const Iteration& next : iterations) {
      const bool goes_on =
          joined.size() > 2 && next.number == joined.back().number + joined.back().count;
      if (goes_on && uint64_t{joined.back().count} + next.count <= most) {
        joined.back().count += next.count;
        joined.back().paused += next.paused;
      } else {
        joined.push_back(next);
      }
    }
    iterations = std::move(joined);
  }
  iterations.insert(iterations.end(), fine.begin(), fine.end());
}

// Pauses in the first of the iterations become a length of each. Those stay that tell where an
// iteration ended whose successor nobody marked.
void Passes::forget_pauses(std::vector<Pause>& pauses, size_t rows, uint64_t until) {
  std::sort(pauses.begin(), pauses.end(),
            [](const Pause& a, const Pause& b) { return a.start < b.start; });
  std::vector<Pause> kept;
  for (size_t i = 0, row = 0, next = 0; i < pauses.size(); i = next) {
    uint64_t end = pauses[i].end;
    for (next = i + 1; next < pauses.size() && pauses[next].start <= end; ++next)
      end = std::max(end, pauses[next].end);
    while (row + 1 < rows && iterations[row + 1].time <= pauses[i].start) ++row;
    bool stays = end > until || iterations[row].time > pauses[i].start;
    for (size_t r = row; r < rows && iterations[r].time < end; ++r)
      stays |= iterations[r + 1].number != iterations[r].number + iterations[r].count;
    if (stays) kept.insert(kept.end(), &pauses[i], &pauses[i] + (next - i));
    for (size_t r = row; !stays && r < rows && iterations[r].time < end; ++r) {
      const uint64_t from = std::max(pauses[i].start, iterations[r].time);
      iterations[r].paused += std::max(from, std::min(end, iterations[r + 1].time)) - from;
    }
  }
  pauses = std::move(kept);
}

}  // namespace cutaway
