// What the sweep of a process adds up: time and events by cell, by call site, by operation, and
// what samples found. Who adds it is not known here.
#pragma once
#include <array>
#include <functional>
#include <vector>

#include "sweep/events.h"
#include "sweep/tables.h"

namespace cutaway {

class Ledger {
 public:
  // Where a call belongs that is made from a layer. `state`: of a cell, while the thread is in this
  // call and no device is busy.
  struct RecentSite {
    uint64_t key = UINT64_MAX;
    uint32_t site = 0;
    uint8_t layer = 0, state = 0;
  };

  uint32_t cell_of(uint32_t context, uint32_t state) {
    const uint32_t at = contexts[context].cells[state];
    return __builtin_expect(at == kNoCell, 0) ? add_cell(context, state) : at;
  }
  const RecentSite& site_of(const ProcessFiles& files, uint32_t context, uint32_t call,
                            uint8_t from) {
    const SiteKey key{slicing == kByStart ? context : 0, call, from};
    RecentSite& recent =
        recent_sites_[(call ^ (key.context << 4 | from) * 0x9e3779b1u >> 16) % kRecentSites];
    if (__builtin_expect(recent.key != key.packed(), 0)) find_site(files, recent, key);
    return recent;
  }

  // Tables with other slices: what is the same then is put together. Returns where everything is.
  struct Moved {
    std::vector<uint32_t> contexts, cells, sites;
  };
  Moved regroup(const std::function<uint32_t(uint32_t)>& slice_of);

  void divide_by_samples();  // once, before the tables are read out (divide.cpp)

  // `threads`, `rows`: how many there are; no position may lead beyond.
  bool sound(size_t threads, size_t rows) const;
  template <class A>
  void members(A& a) {
    a(contexts, cells, sites, operations, samples);
  }

  Slicing slicing = kByStart;
  Dense<ContextKey, Context> contexts;
  std::vector<Cell> cells;
  // Of the whole run and its parts only; one for each iteration would be too many.
  Dense<SiteKey, Site> sites;
  Dense<OperationKey, Durations> operations;
  Dense<SampleKey, uint64_t> samples;

 private:
  static constexpr size_t kRecentSites = 2048;
  struct Asleep;

  __attribute__((noinline)) uint32_t add_cell(uint32_t context, uint32_t state);
  __attribute__((noinline)) void find_site(const ProcessFiles& files, RecentSite& recent,
                                           const SiteKey& key);
  std::vector<uint32_t> regroup_contexts(const std::function<uint32_t(uint32_t)>& slice_of);
  std::vector<uint32_t> regroup_cells(const std::vector<uint32_t>& context_at);
  std::vector<uint32_t> regroup_sites(const std::vector<uint32_t>& context_at);
  uint32_t whole_of(uint32_t context);
  uint32_t sleeper(uint32_t context, uint32_t call);
  void divide(uint32_t cell, const Asleep& asleep);

  std::array<RecentSite, kRecentSites> recent_sites_;  // found without a search
};

// Of a cell, while the thread is in a call of this layer and no device is busy.
constexpr uint8_t state_of(uint8_t layer) {
  return static_cast<uint8_t>(layer << 3 | int{layer == kWait} << 2);
}

}  // namespace cutaway
