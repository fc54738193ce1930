// Maps a foreign clock to CLOCK_MONOTONIC, piecewise between anchors, in integers, never backwards.
// This is the only clock map: src/cutaway/trace/clocks.py chooses the points, everything is mapped
// here.
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
    const uint64_t ticks = time - first_;
    if (__builtin_expect(ticks >= reach_, 0)) return look_up(time);
    const auto product = static_cast<unsigned __int128>(2 * ticks) * doubled_;
    return std::min(base_ + static_cast<uint64_t>(product >> 64), top_);
  }

 private:
  // Within these bounds no product overflows, and its upper half is the result.
  static constexpr uint64_t kFastRate = 1ull << (kRateShift + 1), kFastTicks = 1ull << 61;

  __attribute__((noinline)) uint64_t look_up(uint64_t time) {
    const auto& source = map_->source;
    if (time < source[0]) {
      const uint64_t back = scale(source[0] - time, map_->before);
      return back < map_->target[0] ? map_->target[0] - back : 0;
    }
    if (time - first_ >= width_)
      stand_at(static_cast<size_t>(std::upper_bound(source.begin(), source.end(), time) -
                                   source.begin()) -
               1);
    return std::min(base_ + scale(time - first_, here_), top_);
  }

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
    reach_ = here_ < kFastRate ? std::min(width_, kFastTicks) : 0;
    doubled_ = here_ << (63 - kRateShift);
  }

  const ClockMap* map_;
  uint64_t first_, width_, base_, here_,
      top_;                   // of the piece of the last time: the next is mostly there too
  uint64_t reach_, doubled_;  // how far the fast way goes, and its rate
};

}  // namespace cutaway
