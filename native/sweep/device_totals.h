// Device work of a process as totals: what the tables about devices say of a run that keeps only
// its last stretch in full. Fed by the sweep in order of time. The same figures from single records
// are made by src/cutaway/analysis/kernels.py and utilisation.py; tests/trace/test_keep.py compares
// the two.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "sweep/archive.h"
#include "sweep/device_records.h"

namespace cutaway {

constexpr uint32_t kNobody = UINT32_MAX;

// A row of `kernels()` and of `launched()`. `operation`: kNobody if the launch was not recorded.
struct TotalKey {
  uint32_t slice, device, stream, operation, name, kind, grid[3], block[3], registers, shared, api,
      thread;
  bool operator==(const TotalKey& o) const { return memcmp(this, &o, sizeof o) == 0; }
  uint64_t hash() const;
};

struct KernelSums {
  uint64_t count = 0, ns = 0, bytes = 0, launched = 0, queue = 0;
  int64_t launch_ns = 0;
};

// How many pieces of work wait on a stream when another one is launched: launched before, and not
// started.
class Queue {
 public:
  struct Waiting {
    uint64_t launched, started, reach;  // `reach`: the latest start up to here
    uint32_t row;
    int32_t length;
  };
  // Those that are told of in order of their start. Returns what nothing can change any more.
  void add(uint64_t launched, uint64_t started, uint32_t row);
  bool is_full() const { return waiting.size() > kMost; }

  template <class A>
  void members(A& a) {
    a(waiting);
  }
  std::vector<Waiting> waiting;  // by launch

 private:
  static constexpr size_t kMost = 1 << 13;
};

// Parts of the run by which work is divided that began in them. The first four are slices of the
// sweep.
enum WorkPart : uint32_t { kBeforeSteady = 4, kWholeRun = 5, kWorkParts };
constexpr uint32_t kAnyKind = 255;

struct UnionKey {
  uint32_t device, operation, kind, part;
  bool operator==(const UnionKey& o) const {
    return device == o.device && operation == o.operation && kind == o.kind && part == o.part;
  }
  uint64_t hash() const {
    return mix(mix(uint64_t{device} << 32 | operation) ^ (uint64_t{kind} << 8 | part));
  }
};

struct Union {  // of intervals that come in order of their start
  uint64_t end = 0, ns = 0, count = 0;
  void add(uint64_t from, uint64_t to) {
    if (to > std::max(from, end)) ns += to - std::max(from, end);
    end = std::max(end, to);
    ++count;
  }
};

// Periods in which a kernel ran, as nvidia-smi counts them.
struct Periods {
  static constexpr std::array<uint64_t, 2> kLengths = {1000000000 / 6, 1000000000};
  uint64_t count[2] = {}, next[2] = {};  // `next`: the first that may not be counted yet
  void touch(uint64_t origin, uint64_t until, uint64_t from, uint64_t to);
};

struct DeviceBusy {
  enum { kAll, kBeforeFirst, kSinceFirst, kStartup, kSteadyState, kTracked };
  uint32_t depth = 0, kernels = 0;
  uint64_t since = 0, kernel_since = 0;
  uint64_t ns[4] = {};  // by slice
  Periods periods[kTracked];
};

class DeviceTotals {
 public:
  void launch(const ApiCall& call, uint32_t operation);
  void begin(const Work& work);
  void end(const Work& work);
  // A slice begins: what runs is divided there. `first`: it is the first work of a run without
  // iterations.
  void enter(uint32_t slice, uint64_t time);
  void decide(bool startup);  // see ProcessSweep::decide
  void set_origin(uint64_t origin) { origin_ = origin; }
  // Work waits for its launch if that is still to come.
  void expect(std::function<bool(uint64_t)> expected) { expected_ = std::move(expected); }
  void finish();  // nothing more will come

  bool sound() const;
  template <class A>
  void members(A& a) {
    a(kernels, unions, devices, slice_, origin_, first_, steady_, over_, queues_, launches_saved_,
      untold_saved_);
  }
  void before_save();
  void after_load();

  Dense<TotalKey, KernelSums> kernels;
  Dense<UnionKey, Union> unions;
  struct Number {
    uint32_t n;
    bool operator==(const Number& o) const { return n == o.n; }
    uint64_t hash() const { return mix(n); }
  };
  Dense<Number, DeviceBusy> devices;

 private:
  struct Launch {
    uint64_t correlation, start, end;
    uint32_t thread, name, operation;
  };
  struct Untold {
    Work work;
    uint32_t slice;
  };
  struct StreamKey {
    uint64_t n;
    bool operator==(const StreamKey& o) const { return n == o.n; }
    uint64_t hash() const { return mix(n); }
  };
  static constexpr size_t kMostLaunches = 1 << 15;

  void tell(bool all);
  void add(const Untold& untold, const Launch* launch);
  void leave_queue(const Queue::Waiting& waiting);

  uint32_t slice_ = 0;
  uint64_t origin_ = 0, first_ = UINT64_MAX, steady_ = UINT64_MAX, over_ = UINT64_MAX;
  Dense<StreamKey, Queue> queues_;
  std::unordered_map<uint64_t, Launch> launches_;
  std::deque<uint64_t> launched_;  // correlations, oldest first
  std::deque<Untold> untold_;      // in order of start: the operation of the first is not known yet
  std::vector<Launch> launches_saved_;
  std::vector<Untold> untold_saved_;
  std::function<bool(uint64_t)> expected_;
};

}  // namespace cutaway
