// device.bin: API calls and device work. Its blocks are in no order, but few of them overlap in
// time. One look at all of them finds when each begins and who launched on which stream; then they
// are read in order of time, a few in memory at once.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sweep/dense.h"
#include "sweep/events.h"
#include "sweep/spans.h"

namespace cutaway {

struct ApiCall {
  uint64_t start, end, correlation;
  uint32_t thread;  // index into ProcessSweep::threads
  uint32_t name, operation, flags;
};

struct Work {
  uint64_t start, end;
  uint32_t stream;  // dense in the process; kNoStream: keeps no device busy
  DeviceRecord record;
};
constexpr uint32_t kNoStream = UINT32_MAX;

inline bool keeps_busy(const DeviceRecord& r) { return r.kind >= kKernel && r.kind <= kCollective; }
inline bool is_kernel(const DeviceRecord& r) { return r.kind == kKernel || r.kind == kCollective; }
// What tables tell of: it kept a device busy, or the accelerator's library took it for itself.
inline bool is_told(const DeviceRecord& r) { return keeps_busy(r) || r.kind == kOverhead; }

// Correlation ids mostly follow each other, so what is known of them is kept for groups of
// neighbours.
constexpr uint64_t kCorrelationGroup = 64;
struct CorrelationKey {
  uint64_t group;
  bool operator==(const CorrelationKey& o) const { return group == o.group; }
  uint64_t hash() const { return mix(group); }
};
struct DeviceNumber {
  uint32_t n;
  bool operator==(const DeviceNumber& o) const { return n == o.n; }
  uint64_t hash() const { return mix(n); }
};
inline CorrelationKey group_key(uint64_t correlation) { return {correlation / kCorrelationGroup}; }

// Which thread made the call of a correlation id.
class Correlations {
 public:
  bool add(uint64_t correlation, uint32_t thread);  // false: another thread has used it, too
  uint32_t thread_of(uint64_t correlation) const;   // kNobody: no call of it is known

  static constexpr uint32_t kNobody = UINT32_MAX;
  std::map<uint64_t, std::pair<uint64_t, uint32_t>>
      shared;  // by several threads: the earliest call counts

 private:
  struct Made {
    uint32_t thread;
    uint64_t members;
  };
  Dense<CorrelationKey, std::vector<Made>> groups_;
};

// How far the device records of a process are in its totals, and what is needed of those whose
// blocks are gone.
struct DevicePast {
  struct Taken {
    uint64_t offset, count;  // of a block: so many of its records were there
  };
  struct Made {
    uint64_t correlation, start;
    uint32_t thread;
  };
  struct Damage {
    uint32_t stream, clock;
    uint64_t count;  // blocks, and records of times at which the process did not live
  };
  uint64_t until = 0;  // those that were there and begin before are taken
  std::vector<Taken> taken;
  std::vector<uint32_t> threads;
  std::vector<uint64_t> streams;
  struct Launched {
    uint64_t stream;
    uint32_t thread;
  };
  std::vector<Launched> launched;
  std::vector<Made> made;  // the newest calls, in order
  std::vector<Damage> damage;
  uint64_t calls = 0, works = 0, late = 0, end = 0;
  uint64_t begun_calls = 0,
           begun_works = 0;  // that begin at `until` or later and are taken all the same

  template <class A>
  void members(A& a) {
    a(until, taken, threads, streams, launched, made, damage, calls, works, late, end, begun_calls,
      begun_works);
  }
  uint64_t taken_of(const Source& source) const {
    for (const Taken& t : taken)
      if (t.offset == source.offset) return t.count;
    return 0;
  }
};

class DeviceRecords {
 public:
  DeviceRecords(SharedFiles files, std::vector<Source> sources, DevicePast past = {});

  std::vector<uint32_t> threads;  // that made API calls, as the system numbers them
  std::vector<uint64_t> streams;  // device << 32 | stream, ascending
  std::vector<std::pair<uint32_t, uint32_t>>
      launched;                            // positions in `streams` and `threads`, ascending
  uint64_t calls = 0, works = 0, end = 0;  // records, and when the last work ended
  uint64_t late = 0;                       // that came when their time was taken already
  using Damage = DevicePast::Damage;
  std::vector<Damage> damage;
  struct Correlated {
    uint32_t calls = 0, works = 0;  // `works`: what makes a device busy
  };
  Dense<CorrelationKey, Correlated> correlations;  // of all calls

  // In order of start. `thread_of`: the number to give to each of `threads`.
  std::unique_ptr<Spans<ApiCall>::Feed> api(std::vector<uint32_t> thread_of) const;
  // `stream_of`: the number to give to each of `streams`.
  std::unique_ptr<Spans<Work>::Feed> work(std::vector<uint32_t> stream_of) const;
  std::unique_ptr<Spans<DeviceRecord>::Feed> records() const;  // the same, as it was recorded
  bool is_made(uint64_t correlation) const {
    return made_.thread_of(correlation) != Correlations::kNobody;
  }

  // All that begin before `until` are taken now, and the first so many calls and works after that.
  // Blocks of which nothing is left: where their payload begins.
  DevicePast taken(uint64_t until, uint64_t begun_calls, uint64_t begun_works,
                   std::vector<uint64_t>& done) const;

 private:
  template <typename Record, typename Take>
  void look_at(Stream stream, Take take);
  template <typename Record, typename T, typename Make>
  std::unique_ptr<typename Spans<T>::Feed> in_order(Stream stream, uint64_t skip, Make make) const;
  struct Block {
    uint64_t first = UINT64_MAX, last = 0, count = 0, damage = 0,
             late = 0;  // `first`, `last`: starts of what is left
  };

  SharedFiles files_;
  std::vector<Source> sources_;
  std::vector<Block> blocks_;  // of each source
  DevicePast past_;
  Correlations made_;
};

}  // namespace cutaway
