// What the sweep adds up: cells, call sites, operations, iterations, pauses.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sweep/dense.h"

namespace cutaway {

enum Layer : uint8_t {
  kPython = 0,
  kSimulator = 1,
  kBackend = 2,
  kAcceleratorApi = 3,
  kWait = 4,
  kLayers = 5
};

constexpr uint32_t kApiCall = 1u << 24;  // a "call" of this size and above is an API name

// Who a thread is being, apart from layer and resource.
struct ContextKey {
  uint32_t thread, phase, operation, slice;
  bool operator==(const ContextKey& o) const {
    return thread == o.thread && phase == o.phase && operation == o.operation && slice == o.slice;
  }
  uint64_t hash() const {
    return mix(mix(uint64_t{thread} << 32 | operation) ^ (uint64_t{phase} << 32 | slice));
  }
};

constexpr uint32_t kNoCell = UINT32_MAX;

// Which cell belongs to each (layer, blocked, device of the thread busy, any device of the process busy).
struct Context {
  uint32_t cells[kLayers << 3];
  Context() { std::fill(std::begin(cells), std::end(cells), kNoCell); }
};

// Time, and the events that happened there by where their cost falls: calibration subtracts these.
struct Cell {
  uint32_t context = 0, state = 0;
  uint64_t ns = 0;
  uint64_t calls = 0;       // calls that began in this cell (their cost inside the interval)
  uint64_t calls_made = 0;  // calls made from this cell (their cost outside the interval)
  uint64_t operations = 0;  // operations that began in this cell
  uint64_t operations_made = 0;
  uint64_t api_calls = 0;
  uint64_t api_calls_made = 0;
};

struct SiteKey {
  uint32_t context, call;  // call: id, or kApiCall + name id
  uint8_t from;            // layer the call was made from
  uint64_t packed() const { return uint64_t{context} << 32 | uint64_t{from} << 28 | call; }
  bool operator==(const SiteKey& o) const { return packed() == o.packed(); }
  uint64_t hash() const { return mix(packed()); }
};

struct Site {
  uint64_t count = 0, ns = 0;  // ns: while this call was the innermost
};

struct OperationKey {
  uint32_t process, operation, slice;
  bool operator==(const OperationKey& o) const {
    return process == o.process && operation == o.operation && slice == o.slice;
  }
  uint64_t hash() const { return mix(mix(uint64_t{process} << 32 | operation) ^ slice); }
};

// Durations: exact while there are few, then a histogram with 64 steps in each power of two (error below 1
// %).
class Durations {
 public:
  void add(uint64_t ns) {
    ++count;
    total += ns;
    if (few_.size() < kFew && many_.empty()) {
      few_.push_back(ns);
      return;
    }
    if (many_.empty()) {
      many_.resize(64 * kSteps);
      for (const uint64_t v : few_) ++many_[step_of(v)];
      few_ = {};
    }
    ++many_[step_of(ns)];
  }

  uint64_t quantile(double q) {
    const auto rank = static_cast<uint64_t>(q * static_cast<double>(count - 1) + 0.5);
    if (many_.empty()) {
      std::sort(few_.begin(), few_.end());
      return few_.empty() ? 0 : few_[rank];
    }
    uint64_t seen = 0;
    for (size_t i = 0; i < many_.size(); ++i)
      if ((seen += many_[i]) > rank) return middle_of(i);
    return 0;
  }

  uint64_t count = 0, total = 0;

 private:
  static constexpr size_t kFew = 512, kSteps = 64;

  static size_t step_of(uint64_t v) {
    if (v < kSteps) return v;
    const unsigned top = 63 - static_cast<unsigned>(__builtin_clzll(v));
    return (top - 5) * kSteps + (v >> (top - 6) & (kSteps - 1));
  }
  static uint64_t middle_of(size_t i) {
    if (i < kSteps) return i;
    const unsigned top = static_cast<unsigned>(i / kSteps) + 5;
    const uint64_t low = (kSteps + i % kSteps) << (top - 6);
    return low + (1ull << (top - 6)) / 2;
  }

  std::vector<uint64_t> few_;
  std::vector<uint32_t> many_;
};

struct Iteration {
  uint32_t process, number;
  uint64_t time, steps;  // environment steps of the process up to then
};

struct Pause {
  uint32_t thread, reason;
  uint64_t start, end;
};

// Time by which of a few conditions hold, each held by any number of parties.
template <int N>
struct Overlap {
  uint64_t ns[1 << N] = {};
  uint64_t startup[1 << N] = {};  // what of it lay before the split
  bool parted = false;
  uint64_t last = 0;
  uint32_t holders[N] = {};
  uint32_t mask = 0;

  void hold(int what, bool on, uint64_t time) {
    holders[what] += on ? 1 : -1;
    if ((holders[what] > 0) == (mask >> what & 1)) return;
    ns[mask] += time - last;
    last = time;
    mask ^= 1u << what;
  }

  // The start-up ends here, if it has not ended yet.
  void split(uint64_t time) {
    if (parted) return;
    parted = true;
    ns[mask] += time - last;
    last = time;
    std::copy(std::begin(ns), std::end(ns), startup);
  }

  // The same as to hold `bits` from start to end while nothing else changes.
  void pulse(uint32_t bits, uint64_t start, uint64_t end) {
    ns[mask] += start - last;
    ns[mask | bits] += end - start;
    last = end;
  }
};

}  // namespace cutaway
