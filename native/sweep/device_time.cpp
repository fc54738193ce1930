#include "sweep/device_time.h"

#include <algorithm>
#include <queue>

namespace cutaway {

namespace {

// The device records of a process in order, each with the operation that launched it.
class Launched {
 public:
  explicit Launched(const DeviceSource& of) : of_(of), work_(of.records->records()) {}

  bool next() {
    if (!work_->next(record)) return false;
    operation = read_ < of_.works ? of_.operations[read_] : kUnattributed;
    ++read_;
    return true;
  }

  DeviceRecord record{};
  uint32_t operation = 0;

 private:
  const DeviceSource& of_;
  std::unique_ptr<Spans<DeviceRecord>::Feed> work_;
  size_t read_ = 0;
};

// Work that keeps a device busy, of all processes in order of start.
template <typename Take>
void for_each_work(const std::vector<DeviceSource>& of, Take take) {
  std::vector<std::unique_ptr<Launched>> all;
  using Head = std::pair<uint64_t, uint32_t>;  // start, process
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads;
  for (uint32_t i = 0; i < of.size(); ++i) {
    all.push_back(std::make_unique<Launched>(of[i]));
    if (all[i]->next()) heads.push({all[i]->record.start, i});
  }
  while (!heads.empty()) {
    const uint32_t process = heads.top().second;
    heads.pop();
    const Head limit = heads.empty() ? Head{UINT64_MAX, UINT32_MAX} : heads.top();
    Launched& own = *all[process];
    bool more = true;
    while (more && Head{own.record.start, process} <= limit) {
      if (keeps_busy(own.record)) take(process, own);
      more = own.next();
    }
    if (more) heads.push({own.record.start, process});
  }
}

uint32_t title_of(const std::vector<std::pair<uint32_t, uint32_t>>& titles, uint32_t operation) {
  auto at = std::lower_bound(titles.begin(), titles.end(), std::pair{operation, 0u});
  if (at->first != operation)
    at = std::lower_bound(titles.begin(), titles.end(), std::pair{kUnknown, 0u});
  return at->second;
}

// What is new of the time of a piece of work goes into the bins; they are reached in order.
void spread(Busy& busy, uint64_t from, uint64_t to, const std::vector<uint64_t>& edges) {
  for (; busy.at + 1 < edges.size(); ++busy.at) {
    const uint64_t a = std::max(from, edges[busy.at]), b = std::min(to, edges[busy.at + 1]);
    if (a < b) busy.bins[busy.at] += static_cast<int64_t>(b - a);
    if (to <= edges[busy.at + 1]) return;
  }
}

void add(BusyTable& table, const BusyQuery& query, uint32_t process, const Launched& work) {
  const DeviceRecord& r = work.record;
  BusyKey key{};
  if (query.by & BusyQuery::kProcess) key.process = process;
  if (query.by & BusyQuery::kDevice) key.device = r.device;
  if (query.by & BusyQuery::kOperation)
    key.operation = title_of(query.titles[process], work.operation);
  if (query.by & BusyQuery::kKind) key.kind = r.kind;
  Busy& busy = table[table.find_or_add(key)];
  if (busy.bins.empty() && query.instants.size() > 1) busy.bins.resize(query.instants.size() - 1);
  const uint64_t from = std::max(r.start, busy.until);
  if (r.end <= from) return;
  busy.until = r.end;
  busy.ns += r.end - from;
  spread(busy, from, r.end, query.instants);
}

}  // namespace

std::vector<BusyTable> busy_tables(const std::vector<DeviceSource>& of,
                                   const std::vector<BusyQuery>& queries) {
  std::vector<BusyTable> tables(queries.size());
  for_each_work(of, [&](uint32_t process, const Launched& work) {
    for (size_t i = 0; i < queries.size(); ++i) add(tables[i], queries[i], process, work);
  });
  return tables;
}

UseTable use_of_devices(const std::vector<DeviceSource>& of, uint64_t first, uint64_t end) {
  UseTable table;
  for_each_work(of, [&](uint32_t, const Launched& work) {
    const DeviceRecord& r = work.record;
    DeviceUse& use = table[table.find_or_add({r.device})];
    const uint64_t from = std::max({r.start, use.until, first}), to = std::min(r.end, end);
    if (from < to) use.ns += to - from;
    use.until = std::max(use.until, r.end);
    if (is_kernel(r)) use.kernels.touch(first, end, r.start, r.end);
  });
  return table;
}

}  // namespace cutaway
