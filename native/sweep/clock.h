// Maps a foreign clock to CLOCK_MONOTONIC, piecewise between anchors; the readable twin is trace/clocks.py.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace cutaway {

constexpr unsigned kRateShift = 40;

struct ClockMap {
  std::vector<uint64_t> source, target, rate;  // at least one point
  uint64_t before = 1ull << kRateShift;        // rate ahead of the first point
  size_t hint = 0;                             // times mostly go on from where they were

  // Bounded, so that a clock gone mad cannot make time wrap round.
  static uint64_t scale(uint64_t ticks, uint64_t rate) {
    const unsigned __int128 ns = static_cast<unsigned __int128>(ticks) * rate >> kRateShift;
    return ns >> 62 ? 1ull << 62 : static_cast<uint64_t>(ns);
  }

  uint64_t to_ns(uint64_t time) {
    if (__builtin_expect(time < source[hint] || (hint + 1 < source.size() && time >= source[hint + 1]), 0)) {
      if (time < source[0]) {
        const uint64_t back = scale(source[0] - time, before);
        return back < target[0] ? target[0] - back : 0;
      }
      hint = static_cast<size_t>(std::upper_bound(source.begin(), source.end(), time) - source.begin()) - 1;
    }
    const uint64_t ns = target[hint] + scale(time - source[hint], rate[hint]);
    return hint + 1 < target.size() ? std::min(ns, target[hint + 1]) : ns;
  }
};

}  // namespace cutaway
