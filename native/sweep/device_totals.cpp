#include "sweep/device_totals.h"

#include <algorithm>

#include "sweep/tables.h"

namespace cutaway {

namespace {

TotalKey key_of(const DeviceRecord& r, uint32_t slice, uint32_t operation, const Launch* launch) {
  TotalKey key{};
  key.slice = slice;
  key.device = r.device;
  key.stream = r.stream;
  key.operation = operation;
  key.name = r.name;
  key.kind = r.kind;
  std::copy(std::begin(r.grid), std::end(r.grid), key.grid);
  std::copy(std::begin(r.block), std::end(r.block), key.block);
  key.registers = r.registers;
  const uint64_t shared = uint64_t{r.shared_static} + r.shared_dynamic;
  key.shared = static_cast<uint32_t>(std::min<uint64_t>(shared, UINT32_MAX));
  key.api = launch ? launch->name : 0;
  key.thread = launch ? launch->thread : kNobody;
  return key;
}

}  // namespace

uint64_t TotalKey::hash() const {
  uint64_t found = 0;
  uint64_t words[sizeof(TotalKey) / 8];
  memcpy(words, this, sizeof words);
  for (const uint64_t word : words) found = mix(found ^ word);
  return found;
}

void KernelSums::add(const KernelSums& o) {
  count += o.count;
  ns += o.ns;
  bytes += o.bytes;
  launched += o.launched;
  queue += o.queue;
  launch_ns += o.launch_ns;
}

void DeviceTotals::launch(const ApiCall& call, uint32_t operation) {
  launches_.add({call.correlation, call.start, call.end, call.thread, call.name, operation});
  if (!untold_.empty()) tell(false);
}

void DeviceTotals::begin(const Work& work) {
  untold_.push_back({work, slice_});
  tell(false);
  if (work.stream == kNoStream) return;
  DeviceBusy& device = devices[devices.find_or_add({work.record.device})];
  if (!device.depth++) device.since = work.start;
  if (is_kernel(work.record) && !device.kernels++) device.kernel_since = work.start;
}

void DeviceTotals::end(const Work& work) {
  if (work.stream == kNoStream) return;
  DeviceBusy& device = devices[devices.find_or_add({work.record.device})];
  if (!--device.depth) device.ns[slice_] += work.end - device.since;
  if (!is_kernel(work.record) || --device.kernels) return;
  const auto touch = [&](int which, uint64_t from, uint64_t until) {
    if (from != UINT64_MAX) device.periods[which].touch(from, until, device.kernel_since, work.end);
  };
  touch(DeviceBusy::kAll, origin_, UINT64_MAX);
  touch(DeviceBusy::kBeforeFirst, origin_, std::min(first_, steady_));
  touch(DeviceBusy::kSinceFirst, first_, over_);
  touch(DeviceBusy::kStartup, origin_, steady_);
  touch(DeviceBusy::kSteadyState, steady_, over_);
}

// What never became steady has no end of that either.
void DeviceTotals::enter(uint32_t slice, uint64_t time) {
  if (slice_ == slice || (slice == kShutDown && steady_ == UINT64_MAX)) return;
  for (auto& entry : devices.entries()) {
    DeviceBusy& device = entry.value;
    if (!device.depth) continue;
    device.ns[slice_] += time - device.since;
    device.since = time;
  }
  (slice == kUndecided ? first_ : slice == kShutDown ? over_ : steady_) = time;
  slice_ = slice;
}

bool DeviceTotals::waits() const {
  if (launches_.forgets() && untold_.size() > Launches::kMost) return false;
  return launches_.is_to_come(untold_.front().work.record.correlation);
}

void DeviceTotals::tell(bool all) {
  for (; !untold_.empty(); untold_.pop_front()) {
    if (!all && waits()) return;
    const DeviceRecord& next = untold_.front().work.record;
    add(untold_.front(), launches_.find(next.correlation));
    launches_.took(next);
  }
}

void DeviceTotals::add(const Untold& untold, const Launch* launch) {
  const DeviceRecord& r = untold.work.record;
  const uint32_t operation = r.operation ? r.operation : launch ? launch->operation : kNobody;
  if (told_++ >= wanted_) operations.push_back(operation);
  if (untold.work.stream == kNoStream) return join(untold, kNobody, 0);
  join(untold, r.device, operation);
  const uint32_t row = kernels.find_or_add(key_of(r, untold.slice, operation, launch));
  KernelSums& sums = kernels[row];
  ++sums.count;
  sums.ns += r.end - r.start;
  sums.bytes += r.bytes;
  if (!launch) return;
  ++sums.launched;
  sums.launch_ns += static_cast<int64_t>(r.start - launch->end);
  wait(r, *launch, row);
}

void DeviceTotals::join(const Untold& untold, uint32_t device, uint32_t operation) {
  const DeviceRecord& r = untold.work.record;
  const auto add = [&](uint32_t kind, uint32_t part) {
    unions[unions.find_or_add({device, operation, kind, part})].add(r.start, r.end);
  };
  for (const uint32_t kind : {uint32_t{r.kind}, kAnyKind}) {
    add(kind, untold.slice);
    add(kind, kWholeRun);
    if (untold.slice == 0 || untold.slice == kUndecided) add(kind, kBeforeSteady);
  }
}

void DeviceTotals::wait(const DeviceRecord& work, const Launch& launch, uint32_t row) {
  DeviceQueue& queue = queues_[queues_.find_or_add({uint64_t{work.device} << 32 | work.stream})];
  queue.add(launch.start, work.start, row);
  if (!queue.is_full()) return;
  const auto half = queue.waiting.begin() + static_cast<std::ptrdiff_t>(queue.waiting.size() / 2);
  std::for_each(queue.waiting.begin(), half, [this](const auto& w) { leave_queue(w); });
  queue.waiting.erase(queue.waiting.begin(), half);
}

void DeviceTotals::leave_queue(const DeviceQueue::Waiting& w) {
  kernels[w.row].queue += static_cast<uint64_t>(std::max(w.length, 0));
}

void DeviceTotals::forget_operations(uint64_t works) {
  wanted_ = works;
  const uint64_t first = told_ - operations.size();
  const auto gone = std::min<uint64_t>(works - std::min(works, first), operations.size());
  operations.erase(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(gone));
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
  decide_kernels(undecided);
  decide_unions(startup, undecided);
  decide_devices(startup, undecided);
  for (auto& untold : untold_)
    if (untold.slice == kUndecided) untold.slice = undecided;
  if (!startup && first_ != UINT64_MAX) steady_ = first_;
  if (slice_ == kUndecided) slice_ = undecided;
}

void DeviceTotals::decide_kernels(uint32_t undecided) {
  std::vector<uint32_t> row_at;
  const auto old = std::exchange(kernels, {}).entries();
  for (auto [key, sums] : old) {
    if (key.slice == kUndecided) key.slice = undecided;
    row_at.push_back(kernels.find_or_add(key));
    kernels[row_at.back()].add(sums);
  }
  for (auto& entry : queues_.entries())
    for (auto& w : entry.value.waiting) w.row = row_at[w.row];
}

// Busy times of two parts do not add up: work of one may reach into the other. So what lies before
// the steady state was joined apart.
void DeviceTotals::decide_unions(bool startup, uint32_t undecided) {
  const auto old = std::exchange(unions, {}).entries();
  for (auto [key, all] : old) {
    if (key.part == (startup ? 0u : uint32_t{kBeforeSteady}) || (startup && key.part == kUndecided))
      continue;
    if (key.part == kBeforeSteady || key.part == kUndecided) key.part = undecided;
    unions[unions.find_or_add(key)] = all;
  }
}

void DeviceTotals::decide_devices(bool startup, uint32_t undecided) {
  for (auto& entry : devices.entries()) {
    DeviceBusy& device = entry.value;
    device.ns[undecided] += std::exchange(device.ns[kUndecided], 0);
    if (startup || first_ == UINT64_MAX) continue;
    device.periods[DeviceBusy::kStartup] = device.periods[DeviceBusy::kBeforeFirst];
    device.periods[DeviceBusy::kSteadyState] = device.periods[DeviceBusy::kSinceFirst];
  }
}

void DeviceTotals::before_save() {
  launches_saved_ = launches_.all();
  untold_saved_.assign(untold_.begin(), untold_.end());
}

void DeviceTotals::after_load() {
  for (const Launch& launch : std::exchange(launches_saved_, {})) launches_.add(launch);
  const auto untold = std::exchange(untold_saved_, {});
  untold_.assign(untold.begin(), untold.end());
}

bool DeviceTotals::sound() const {
  const auto& q = queues_.entries();
  return slice_ <= kUndecided && operations.size() <= told_ &&
         std::all_of(untold_.begin(), untold_.end(),
                     [](const auto& u) { return u.slice <= kUndecided; }) &&
         std::all_of(q.begin(), q.end(), [this](const auto& entry) {
           return std::all_of(entry.value.waiting.begin(), entry.value.waiting.end(),
                              [this](const auto& w) { return w.row < kernels.entries().size(); });
         });
}

}  // namespace cutaway
