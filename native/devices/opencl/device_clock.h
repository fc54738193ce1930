// Which clock an OpenCL device tells its times in. The standard leaves it open; it is found out by
// comparing the time at which the runtime says a command was queued with the host's clocks around
// the enqueuing call.
#pragma once
#include <time.h>

#include "devices/text.h"
#include "trace/format.h"

namespace cutaway::opencl {

class DeviceClock {
 public:
  // The device said `queued` while the host's CLOCK_MONOTONIC was in [low, high].
  void observe(uint64_t queued, uint64_t low, uint64_t high) {
    if (!known_) identify(queued, low, high);
    if (!foreign_) return;
    const int64_t least = static_cast<int64_t>(low - queued),
                  most = static_cast<int64_t>(high - queued);
    least_ = least > least_ ? least : least_;
    most_ = most < most_ ? most : most_;
    if (least_ > most_) least_ = least, most_ = most;  // the clocks drift: believe the newest
    offset_ = least_ + (most_ - least_) / 2;
  }

  Clock clock() const { return clock_; }
  uint64_t convert(uint64_t time) const { return time + static_cast<uint64_t>(offset_); }

 private:
  void identify(uint64_t queued, uint64_t low, uint64_t high) {
    known_ = true;
    const uint64_t mono = now_ns(CLOCK_MONOTONIC);
    const struct {
      Clock clock;
      clockid_t id;
    } candidates[] = {{kMonotonicRaw, CLOCK_MONOTONIC_RAW},
                      {kMonotonic, CLOCK_MONOTONIC},
                      {kRealtime, CLOCK_REALTIME}};
    uint64_t best = 5000000;  // further off than 5 ms: some other clock
    foreign_ = true;
    for (const auto& candidate : candidates) {
      const uint64_t here = queued - (now_ns(candidate.id) - mono);
      const uint64_t off = here < low ? low - here : here > high ? here - high : 0;
      if (off >= best) continue;
      best = off;
      clock_ = candidate.clock;
      foreign_ = false;
    }
    least_ = static_cast<int64_t>(low - queued);
    most_ = static_cast<int64_t>(high - queued);
  }

  bool known_ = false, foreign_ = false;
  Clock clock_ = kMonotonic;
  int64_t least_ = 0, most_ = 0, offset_ = 0;
};

}  // namespace cutaway::opencl
