// nvidia-smi's figure: in how many periods at least one kernel ran. A device that computes for a
// millisecond in each of them reads 100 %. The one place that counts them.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace cutaway {

struct Periods {
  static constexpr std::array<uint64_t, 2> kLengths = {1000000000 / 6, 1000000000};  // by product

  uint64_t count[2] = {}, next[2] = {};  // `next`: the first that may not be counted yet

  // Kernels ran from one instant to another; these come in order. Periods begin at `origin`, and
  // what lies after `until` does not count.
  void touch(uint64_t origin, uint64_t until, uint64_t from, uint64_t to) {
    from = std::max(from, origin);
    to = std::min(to, until);
    for (size_t i = 0; i < kLengths.size() && from < to; ++i) {
      const uint64_t first = std::max((from - origin) / kLengths[i], next[i]);
      const uint64_t end = (to - 1 - origin) / kLengths[i] + 1;
      if (end > first) count[i] += end - first;
      next[i] = std::max(next[i], end);
    }
  }
};

}  // namespace cutaway
