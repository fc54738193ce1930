// What the sweep adds up: cells, call sites, operations, iterations, pauses.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sweep/dense.h"
#include "trace/format.h"

namespace cutaway {

// What else the time of a thread is divided by.
enum Slicing : uint8_t {
  kByStart = 0,      // 0 start-up, 1 steady: from the second iteration on, 2 shut-down
  kByIteration = 1,  // the number of the process's iteration, 0 before the first; kNoIteration:
                     // shut-down
};

constexpr uint32_t kShutDown = 2, kNoIteration = UINT32_MAX;
// In the past of a run without a second iteration, after its first work: start-up if one comes,
// else steady.
constexpr uint32_t kUndecided = 3;

// What a thread is doing, apart from layer and resource.
struct ContextKey {
  uint32_t thread, phase, operation, slice, why;
  bool operator==(const ContextKey& o) const {
    return thread == o.thread && phase == o.phase && operation == o.operation && slice == o.slice &&
           why == o.why;
  }
  uint64_t hash() const {
    return mix(mix(uint64_t{thread} << 32 | operation) ^ (uint64_t{phase} << 32 | slice) ^
               uint64_t{why} << 56);
  }
};

constexpr uint32_t kNoCell = UINT32_MAX;

// Which cell belongs to each (layer, blocked, device of the thread busy, any device of the process
// busy).
struct Context {
  uint32_t cells[kLayers << 3];
  Context() { std::fill(std::begin(cells), std::end(cells), kNoCell); }
};

constexpr int kMostLanes = 3;

// Time, and the events that happened there by where their cost falls: calibration subtracts these.
struct Cell {
  uint32_t context = 0, state = 0;
  uint32_t lanes[kMostLanes] = {kNoCell, kNoCell, kNoCell};  // rows of bins
  uint64_t painted = 0;                                      // of the time, what is in the bins
  uint64_t ns = 0;
  uint64_t calls = 0;       // calls that began in this cell (their cost inside the interval)
  uint64_t calls_made = 0;  // calls made from this cell (their cost outside the interval)
  uint64_t operations = 0;  // operations that began in this cell
  uint64_t operations_made = 0;
  uint64_t begun =
      0;  // operations that began in this cell, those that the analysis named among them
  uint64_t api_calls = 0;
  uint64_t api_calls_made = 0;
  double variance = 0;  // of its time, in ns², where samples decided what belongs to it

  void add(const Cell& o) {
    painted += o.painted;
    ns += o.ns;
    calls += o.calls;
    calls_made += o.calls_made;
    operations += o.operations;
    operations_made += o.operations_made;
    begun += o.begun;
    api_calls += o.api_calls;
    api_calls_made += o.api_calls_made;
  }
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

// Where a sample found its thread: who it was being, in which call (kNoCell: in Python), on which
// stack, and whether it ran.
struct SampleKey {
  uint32_t context, call, frame;
  uint8_t layer;
  Doing doing;
  bool operator==(const SampleKey& o) const {
    return context == o.context && call == o.call && frame == o.frame && layer == o.layer &&
           doing == o.doing;
  }
  uint64_t hash() const {
    return mix(mix(uint64_t{context} << 32 | frame) ^ (uint64_t{call} << 16 | doing << 8 | layer));
  }
};

struct OperationKey {
  uint32_t operation, slice;
  bool operator==(const OperationKey& o) const {
    return operation == o.operation && slice == o.slice;
  }
  uint64_t hash() const { return mix(uint64_t{slice} << 32 | operation); }
};

// Events that cost time, counted as the cells do.
struct EventCounts {
  uint64_t calls = 0, operations = 0, api_calls = 0;
  void add(const EventCounts& later, const EventCounts& earlier) {
    calls += later.calls - earlier.calls;
    operations += later.operations - earlier.operations;
    api_calls += later.api_calls - earlier.api_calls;
  }
};

// Durations: exact while there are few, then a histogram
// with 64 steps in each power of two (error below 1 %).
class Durations {
 public:
  void add(uint64_t ns) {
    ++count;
    sum += ns;
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

  // As if those had been added here one by one.
  void add(const Durations& o) {
    count += o.count;
    sum += o.sum;
    total += o.total;
    outer += o.outer;
    inside.add(o.inside, {});
    if (many_.empty() && o.many_.empty() && few_.size() + o.few_.size() <= kFew) {
      few_.insert(few_.end(), o.few_.begin(), o.few_.end());
      return;
    }
    many_.resize(64 * kSteps);
    for (const std::vector<uint64_t>* values : {&std::as_const(few_), &o.few_})
      for (const uint64_t v : *values) ++many_[step_of(v)];
    few_ = {};
    for (size_t i = 0; i < o.many_.size(); ++i) many_[i] += o.many_[i];
  }

  // Between two values as far as the rank lies between theirs: the median of an even number is the
  // mean of the two in the middle.
  uint64_t quantile(double q) const {
    if (!count) return 0;
    std::vector<uint64_t> few = few_;
    std::sort(few.begin(), few.end());
    const double rank = q * static_cast<double>(count - 1);
    const auto low = static_cast<uint64_t>(rank);
    const uint64_t a = value_at(few, low), b = value_at(few, std::min(low + 1, count - 1));
    return a + static_cast<uint64_t>(
                   (rank - static_cast<double>(low)) * static_cast<double>(b - a) + 0.5);
  }

  template <class A>
  void members(A& a) {
    a(count, sum, total, outer, inside, few_, many_);
  }
  bool sound() const {
    return few_.size() <= kFew && (many_.empty() || many_.size() == 64 * kSteps);
  }

  uint64_t count = 0, sum = 0;
  uint64_t total = 0;  // of those that are not inside one of the same name
  uint64_t outer = 0;  // how many these are and were recorded
  EventCounts inside;  // what was recorded within these

 private:
  static constexpr size_t kFew = 512, kSteps = 64;

  uint64_t value_at(const std::vector<uint64_t>& few, uint64_t rank) const {
    if (many_.empty()) return few[rank];
    uint64_t seen = 0;
    for (size_t i = 0; i < many_.size(); ++i)
      if ((seen += many_[i]) > rank) return middle_of(i);
    return 0;
  }
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

// One iteration, or in the past of a long run several that follow each other: the first of them.
struct Iteration {
  uint32_t number, count;
  uint64_t time, steps;  // environment steps of the process up to then
  uint64_t known;        // when its mark came: at the end of the pause if it began in one
  uint64_t paused;       // what of it lay in pauses that are not listed any more
};

// A note of the thread's CPU time, with what had happened on the thread by then: calibration makes
// units of work from these (src/cutaway/calibration/estimate.py).
struct UnitMark {
  uint64_t cpu_ns, steps, calls, operations;
  uint32_t iterations, pauses;  // `pauses`: and resumptions
  uint32_t value, id;  // of the record before it among those that say something about units
  uint8_t before;      // its kind
  uint8_t reason;      // of the last pause
};

class UnitMarks {
 public:
  void note(uint32_t tag, uint32_t value, const EventCounts& made) {
    const Kind kind = kind_of(tag);
    if (kind == kIteration && now_.before == kCpuTime && !all.empty())
      all.pop_back();  // that bounds no unit
    now_.steps += kind == kStep ? value : 0;
    now_.iterations += kind == kIteration;
    now_.pauses += kind == kPause || kind == kResume;
    if (kind == kPause) now_.reason = static_cast<uint8_t>(std::min<uint32_t>(id_of(tag), 255));
    if (kind == kCpuTime && all.size() < kMost) {
      now_.cpu_ns = uint64_t{id_of(tag)} << 32 | value;
      now_.calls = made.calls;
      now_.operations = made.operations;
      all.push_back(now_);
    }
    now_.before = kind;
    now_.value = value;
    now_.id = id_of(tag);
  }

  template <class A>
  void members(A& a) {
    a(all, now_);
  }

  std::vector<UnitMark> all;

 private:
  static constexpr size_t kMost = 1 << 18;  // more would not make the estimate better
  UnitMark now_{};
};

struct Pause {
  uint32_t thread, reason;
  uint64_t start, end;
};

// Time by which of a few conditions hold, each held by any number of parties.
template <int N>
struct Overlap {
  uint64_t ns[1 << N] = {};
  uint64_t before[3][1 << N] =
      {};  // what of it lay before the steady state, before its end, before the first work
  bool parted[3] = {};
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

  // Start-up (0), the steady state (1), or the time before the first work (2) ends here, if it has
  // not ended yet.
  void split(int part, uint64_t time) {
    if (parted[part]) return;
    parted[part] = true;
    ns[mask] += time - last;
    last = time;
    std::copy(std::begin(ns), std::end(ns), before[part]);
  }

  // The run has no second iteration: its start-up ended with the first work.
  void end_startup_with_first_work() {
    parted[0] = parted[2];
    std::copy(std::begin(before[2]), std::end(before[2]), before[0]);
  }

  // Of the whole time, what lay in start-up (0) or in shut-down (1).
  uint64_t of_part(int part, size_t at) const {
    return !parted[part] ? 0 : part ? ns[at] - before[1][at] : before[0][at];
  }

  // Some of the time that is added to the present state, at its next change, belonged to another
  // one.
  void move(uint32_t flipped, uint64_t time) {
    ns[mask] -= time;
    ns[mask ^ flipped] += time;
  }
};

}  // namespace cutaway
