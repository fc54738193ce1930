#include "sweep/device_totals.h"

#include <algorithm>

#include "sweep/sweep.h"

namespace cutaway {

uint64_t TotalKey::hash() const {
  uint64_t found = 0;
  uint64_t words[sizeof(TotalKey) / 8];
  memcpy(words, this, sizeof words);
  for (const uint64_t word : words) found = mix(found ^ word);
  return found;
}

// Of two pieces of work each may wait for the other: for one launched before it that starts after
// its launch.
void Queue::add(uint64_t launched, uint64_t started, uint32_t row) {
  Waiting own{launched, started, started, row, started <= launched ? -1 : 0};
  const auto at =
      std::lower_bound(waiting.begin(), waiting.end(), launched,
                       [](const Waiting& w, uint64_t time) { return w.launched < time; });
  for (auto w = at; w != waiting.begin() && std::prev(w)->reach > launched;)
    own.length += (--w)->started > launched;
  for (auto w = at; w != waiting.begin() && std::prev(w)->launched >= started;) --(--w)->length;
  for (auto w = at; w != waiting.end(); ++w) {
    own.length -= w->started <= launched;
    w->length += int{launched < w->launched} - int{started <= w->launched};
  }
  for (auto w = waiting.insert(at, own); w != waiting.end(); ++w)
    w->reach = std::max(w->started, w == waiting.begin() ? 0 : std::prev(w)->reach);
}

void Periods::touch(uint64_t origin, uint64_t until, uint64_t from, uint64_t to) {
  from = std::max(from, origin);
  to = std::min(to, until);
  for (size_t i = 0; i < kLengths.size() && from < to; ++i) {
    const uint64_t first = std::max((from - origin) / kLengths[i], next[i]);
    const uint64_t end = (to - 1 - origin) / kLengths[i] + 1;
    if (end > first) count[i] += end - first;
    next[i] = std::max(next[i], end);
  }
}

void DeviceTotals::launch(const ApiCall& call, uint32_t operation) {
  const Launch launch{call.correlation, call.start, call.end, call.thread, call.name, operation};
  if (!call.correlation || !launches_.emplace(call.correlation, launch).second) return;
  launched_.push_back(call.correlation);
  if (!untold_.empty()) tell(false);
  if (launched_.size() <= kMostLaunches) return;
  launches_.erase(launched_.front());
  launched_.pop_front();
}

void DeviceTotals::begin(const Work& work) {
  untold_.push_back({work, slice_});
  tell(false);
  if (work.stream == kNoStream) return;
  DeviceBusy& device = devices[devices.find_or_add({work.record.device})];
  if (!device.depth++) device.since = work.start;
  const bool kernel = work.record.kind == kKernel || work.record.kind == kCollective;
  if (kernel && !device.kernels++) device.kernel_since = work.start;
}

void DeviceTotals::end(const Work& work) {
  if (work.stream == kNoStream) return;
  DeviceBusy& device = devices[devices.find_or_add({work.record.device})];
  if (!--device.depth) device.ns[slice_] += work.end - device.since;
  const bool kernel = work.record.kind == kKernel || work.record.kind == kCollective;
  if (!kernel || --device.kernels) return;
  const auto touch = [&](int which, uint64_t from, uint64_t until) {
    if (from != UINT64_MAX) device.periods[which].touch(from, until, device.kernel_since, work.end);
  };
  touch(DeviceBusy::kAll, origin_, UINT64_MAX);
  touch(DeviceBusy::kBeforeFirst, origin_, std::min(first_, steady_));
  touch(DeviceBusy::kSinceFirst, first_, over_);
  touch(DeviceBusy::kStartup, origin_, steady_);
  touch(DeviceBusy::kSteadyState, steady_, over_);
}

void DeviceTotals::enter(uint32_t slice, uint64_t time) {
  if (slice_ == slice) return;
  for (auto& entry : devices.entries()) {
    DeviceBusy& device = entry.value;
    if (!device.depth) continue;
    device.ns[slice_] += time - device.since;
    device.since = time;
  }
  (slice == kUndecided ? first_ : slice == kShutDown ? over_ : steady_) = time;
  slice_ = slice;
}

void DeviceTotals::tell(bool all) {
  for (; !untold_.empty(); untold_.pop_front()) {
    const uint64_t correlation = untold_.front().work.record.correlation;
    const auto found = correlation ? launches_.find(correlation) : launches_.end();
    if (found == launches_.end() && !all && correlation && expected_ && expected_(correlation))
      return;
    add(untold_.front(), found == launches_.end() ? nullptr : &found->second);
  }
}

void DeviceTotals::add(const Untold& untold, const Launch* launch) {
  const DeviceRecord& r = untold.work.record;
  const bool counts = untold.work.stream != kNoStream;
  const uint32_t own = r.operation ? r.operation : launch ? launch->operation : kNobody;
  const uint32_t device = counts ? r.device : kNobody, operation = counts ? own : 0;
  const auto join = [&](uint32_t kind, uint32_t part) {
    unions[unions.find_or_add({device, operation, kind, part})].add(r.start, r.end);
  };
  for (const uint32_t kind : {uint32_t{r.kind}, kAnyKind}) {
    join(kind, untold.slice);
    join(kind, kWholeRun);
    if (untold.slice == 0 || untold.slice == kUndecided) join(kind, kBeforeSteady);
  }
  if (!counts) return;
  TotalKey key{untold.slice,
               r.device,
               r.stream,
               own,
               r.name,
               r.kind,
               {},
               {},
               r.registers,
               r.shared_static + r.shared_dynamic,
               launch ? launch->name : 0,
               launch ? launch->thread : kNobody};
  std::copy(std::begin(r.grid), std::end(r.grid), key.grid);
  std::copy(std::begin(r.block), std::end(r.block), key.block);
  const uint32_t row = kernels.find_or_add(key);
  KernelSums& sums = kernels[row];
  ++sums.count;
  sums.ns += r.end - r.start;
  sums.bytes += r.bytes;
  if (!launch) return;
  ++sums.launched;
  sums.launch_ns += static_cast<int64_t>(r.start - launch->end);
  Queue& queue = queues_[queues_.find_or_add({uint64_t{r.device} << 32 | r.stream})];
  queue.add(launch->start, r.start, row);
  if (!queue.is_full()) return;
  const auto half = queue.waiting.begin() + static_cast<std::ptrdiff_t>(queue.waiting.size() / 2);
  std::for_each(queue.waiting.begin(), half, [this](const auto& w) { leave_queue(w); });
  queue.waiting.erase(queue.waiting.begin(), half);
}

void DeviceTotals::leave_queue(const Queue::Waiting& w) {
  kernels[w.row].queue += static_cast<uint64_t>(std::max(w.length, 0));
}

void DeviceTotals::finish() {
  tell(true);
  for (auto& entry : queues_.entries()) {
    for (const auto& w : entry.value.waiting) leave_queue(w);
    entry.value.waiting.clear();
  }
}

void DeviceTotals::decide(bool startup) {
  const uint32_t undecided = startup ? 0 : 1;
  std::vector<uint32_t> row_at;
  const auto old_kernels = std::exchange(kernels, {}).entries();
  for (auto [key, sums] : old_kernels) {
    if (key.slice == kUndecided) key.slice = undecided;
    row_at.push_back(kernels.find_or_add(key));
    KernelSums& to = kernels[row_at.back()];
    to.count += sums.count;
    to.ns += sums.ns;
    to.bytes += sums.bytes;
    to.launched += sums.launched;
    to.queue += sums.queue;
    to.launch_ns += sums.launch_ns;
  }
  for (auto& entry : queues_.entries())
    for (auto& w : entry.value.waiting) w.row = row_at[w.row];
  const auto old_unions = std::exchange(unions, {}).entries();
  for (auto [key, all] : old_unions) {
    if (key.part == (startup ? 0u : uint32_t{kBeforeSteady}) || (startup && key.part == kUndecided))
      continue;
    if (key.part == kBeforeSteady || key.part == kUndecided) key.part = undecided;
    unions[unions.find_or_add(key)] = all;
  }
  for (auto& untold : untold_)
    if (untold.slice == kUndecided) untold.slice = undecided;
  for (auto& entry : devices.entries()) {
    DeviceBusy& device = entry.value;
    device.ns[undecided] += std::exchange(device.ns[kUndecided], 0);
    if (startup || first_ == UINT64_MAX) continue;
    device.periods[DeviceBusy::kStartup] = device.periods[DeviceBusy::kBeforeFirst];
    device.periods[DeviceBusy::kSteadyState] = device.periods[DeviceBusy::kSinceFirst];
  }
  if (!startup && first_ != UINT64_MAX) steady_ = first_;
  if (slice_ == kUndecided) slice_ = undecided;
}

void DeviceTotals::before_save() {
  launches_saved_.clear();
  for (const uint64_t correlation : launched_) launches_saved_.push_back(launches_.at(correlation));
  untold_saved_.assign(untold_.begin(), untold_.end());
}

void DeviceTotals::after_load() {
  for (const Launch& launch : std::exchange(launches_saved_, {}))
    if (launches_.emplace(launch.correlation, launch).second)
      launched_.push_back(launch.correlation);
  const auto untold = std::exchange(untold_saved_, {});
  untold_.assign(untold.begin(), untold.end());
}

bool DeviceTotals::sound() const {
  const auto& q = queues_.entries();
  return slice_ <= kUndecided &&
         std::all_of(untold_.begin(), untold_.end(),
                     [](const auto& u) { return u.slice <= kUndecided; }) &&
         std::all_of(q.begin(), q.end(), [this](const auto& entry) {
           return std::all_of(entry.value.waiting.begin(), entry.value.waiting.end(),
                              [this](const auto& w) { return w.row < kernels.entries().size(); });
         });
}

}  // namespace cutaway
