// Maps a foreign clock to CLOCK_MONOTONIC, piecewise between anchors, in integers, never backwards. This is
// the only clock map: src/cutaway/trace/clocks.py chooses the points, everything is mapped here.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cutaway {

constexpr unsigned kRateShift = 40;

// Points of the map: there is at least one. `before` is the rate ahead of the first.
struct ClockMap {
  std::vector<uint64_t> source, target, rate;
  uint64_t before;
};

// Goes through a map with mostly growing times. The map must outlive it.
class ClockWalk {
 public:
  explicit ClockWalk(const ClockMap& map) : map_(&map) { stand_at(0); }

  uint64_t to_ns(uint64_t time) {
    if (__builtin_expect(time - first_ >= width_, 0)) {
      const auto& source = map_->source;
      if (time < source[0]) {
        const uint64_t back = scale(source[0] - time, map_->before);
        return back < map_->target[0] ? map_->target[0] - back : 0;
      }
      stand_at(static_cast<size_t>(std::upper_bound(source.begin(), source.end(), time) - source.begin()) -
               1);
    }
    return std::min(base_ + scale(time - first_, here_), top_);
  }

 private:
  // Bounded, so that a clock gone mad cannot make time wrap round.
  static uint64_t scale(uint64_t ticks, uint64_t rate) {
    const unsigned __int128 ns = static_cast<unsigned __int128>(ticks) * rate >> kRateShift;
    return ns >> 62 ? 1ull << 62 : static_cast<uint64_t>(ns);
  }

  void stand_at(size_t i) {
    const bool last = i + 1 == map_->source.size();
    first_ = map_->source[i];
    width_ = last ? UINT64_MAX - first_ : map_->source[i + 1] - first_;
    base_ = map_->target[i];
    here_ = map_->rate[i];
    top_ = last ? UINT64_MAX : map_->target[i + 1];
  }

  const ClockMap* map_;
  uint64_t first_, width_, base_, here_, top_;  // of the piece of the last time: the next is mostly there too
};

}  // namespace cutaway
