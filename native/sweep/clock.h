// Maps a foreign clock to CLOCK_MONOTONIC, piecewise between anchors; the readable twin is trace/clocks.py.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cutaway {

constexpr unsigned kRateShift = 40;

class ClockMap {
 public:
  // `before` is the rate ahead of the first point; there is at least one point.
  ClockMap(std::vector<uint64_t> source, std::vector<uint64_t> target, std::vector<uint64_t> rate,
           uint64_t before)
      : source_(std::move(source)), target_(std::move(target)), rate_(std::move(rate)), before_(before) {
    stand_at(0);
  }

  uint64_t to_ns(uint64_t time) {
    if (__builtin_expect(time - first_ >= width_, 0)) {
      if (time < source_[0]) {
        const uint64_t back = scale(source_[0] - time, before_);
        return back < target_[0] ? target_[0] - back : 0;
      }
      stand_at(static_cast<size_t>(std::upper_bound(source_.begin(), source_.end(), time) - source_.begin()) -
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
    const bool last = i + 1 == source_.size();
    first_ = source_[i];
    width_ = last ? UINT64_MAX - first_ : source_[i + 1] - first_;
    base_ = target_[i];
    here_ = rate_[i];
    top_ = last ? UINT64_MAX : target_[i + 1];
  }

  std::vector<uint64_t> source_, target_, rate_;
  uint64_t before_;
  uint64_t first_, width_, base_, here_, top_;  // of the piece of the last time: the next is mostly there too
};

}  // namespace cutaway
