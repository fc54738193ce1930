// What the device work of a process adds up to. Fed by the sweep in order of time, so it is the
// same whether the records are still there or were given back (`--keep`).
#pragma once
#include <cstring>
#include <deque>
#include <vector>

#include "sweep/archive.h"
#include "sweep/device_queue.h"
#include "sweep/device_records.h"
#include "sweep/launches.h"
#include "sweep/periods.h"

namespace cutaway {

constexpr uint32_t kNobody = UINT32_MAX;

// A row of `kernels()` and of `launched_work()`. `operation`: kNobody if the launch was not
// recorded.
struct TotalKey {
  uint32_t slice, device, stream, operation, name, kind, grid[3], block[3], registers, shared, api,
      thread;
  bool operator==(const TotalKey& o) const { return memcmp(this, &o, sizeof o) == 0; }
  uint64_t hash() const;
};

struct KernelSums {
  uint64_t count = 0, ns = 0, bytes = 0, launched = 0, queue = 0;
  int64_t launch_ns = 0;  // from the ends of the calls

  void add(const KernelSums& o);
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
  // Where launches are known from. Work waits for its own if that is still to come.
  Launches& launches() { return launches_; }
  // Operations of the first so many pieces of work are not asked for any more.
  void forget_operations(uint64_t works);
  void finish();  // nothing more will come

  bool sound() const;
  template <class A>
  void members(A& a) {
    a(kernels, unions, devices, operations, slice_, origin_, first_, steady_, over_, queues_, told_,
      wanted_, launches_saved_, untold_saved_);
  }
  void before_save();
  void after_load();

  Dense<TotalKey, KernelSums> kernels;
  Dense<UnionKey, Union> unions;
  Dense<DeviceNumber, DeviceBusy> devices;
  std::vector<uint32_t> operations;  // that launched each piece of work, in order of start

 private:
  struct Untold {
    Work work;
    uint32_t slice;
  };
  struct StreamKey {
    uint64_t n;
    bool operator==(const StreamKey& o) const { return n == o.n; }
    uint64_t hash() const { return mix(n); }
  };

  bool waits() const;
  void tell(bool all);
  void add(const Untold& untold, const Launch* launch);
  void join(const Untold& untold, uint32_t device, uint32_t operation);
  void wait(const DeviceRecord& work, const Launch& launch, uint32_t row);
  void leave_queue(const DeviceQueue::Waiting& waiting);
  void decide_kernels(uint32_t undecided);
  void decide_unions(bool startup, uint32_t undecided);
  void decide_devices(bool startup, uint32_t undecided);

  uint32_t slice_ = 0;
  uint64_t origin_ = 0, first_ = UINT64_MAX, steady_ = UINT64_MAX, over_ = UINT64_MAX;
  Dense<StreamKey, DeviceQueue> queues_;
  Launches launches_;
  std::deque<Untold> untold_;  // in order of start: the operation of the first is not known yet
  uint64_t told_ = 0, wanted_ = 0;  // pieces of work; those before `wanted_` have no operation here
  std::vector<Launch> launches_saved_;
  std::vector<Untold> untold_saved_;
};

}  // namespace cutaway
