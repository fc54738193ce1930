#include "sweep/device_tables.h"

#include <algorithm>
#include <map>
#include <queue>

namespace cutaway {

namespace {

// The device records of a process in order, each with the call that launched it.
class Launched {
 public:
  Launched(const DeviceSource& of, bool with_calls)
      : of_(of), work_(of.records->records()), groups_(of.records->correlations) {
    if (!with_calls) return;
    calls_ = of.records->api(of.callers);
    for (const auto& entry : groups_.entries())
      open_.push_back({entry.value.calls, entry.value.works, {}});
  }

  bool next() {
    if (!work_->next(record)) return false;
    call = nullptr;
    if (calls_ && keeps_busy(record)) find_call();
    operation = record.operation ? record.operation : call ? call->operation : kUnattributed;
    return true;
  }

  DeviceRecord record{};
  const ApiCall* call = nullptr;  // null: not known
  uint32_t operation = 0;         // that launched it

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Calls and work whose ids differ in their last bits only: how many are to come, and the calls by
  // these bits.
  struct Open {
    uint32_t calls, works;
    std::vector<ApiCall> made;
  };

  Open* group_of(uint64_t correlation) {
    const uint32_t at = correlation ? groups_.find(group_key(correlation)) : groups_.kNowhere;
    return at == groups_.kNowhere ? nullptr : &open_[at];
  }

  void find_call() {
    if (done_) std::vector<ApiCall>().swap(std::exchange(done_, nullptr)->made);
    Open* group = group_of(record.correlation);
    if (!group) return;
    while (group->calls && read_call()) {
    }
    if (!group->made.empty()) {
      const ApiCall& made = group->made[record.correlation % kCorrelationGroup];
      if (made.thread != kNone) call = &made;
    }
    if (group->works && !--group->works) done_ = group;
  }

  // Of calls with the same id the first counts.
  bool read_call() {
    ApiCall made;
    if (!calls_->next(made)) return false;
    const size_t number = read_++;
    Open* group = group_of(made.correlation);
    if (!group || !group->calls) return true;
    --group->calls;
    if (!group->works) return true;
    if (group->made.empty()) group->made.resize(kCorrelationGroup, {0, 0, 0, kNone, 0, 0, 0});
    ApiCall& first = group->made[made.correlation % kCorrelationGroup];
    if (first.thread != kNone) return true;
    first = made;
    first.operation = number < of_.calls ? of_.operations[number] : 0;
    return true;
  }

  const DeviceSource& of_;
  std::unique_ptr<Spans<DeviceRecord>::Feed> work_;
  std::unique_ptr<Spans<ApiCall>::Feed> calls_;
  const decltype(DeviceRecords::correlations)& groups_;
  std::vector<Open> open_;
  Open* done_ = nullptr;  // nothing of it is to come
  size_t read_ = 0;       // calls
};

template <typename Take>
void for_each_work(const std::vector<DeviceSource>& of, bool with_calls, Take take) {
  std::vector<std::unique_ptr<Launched>> all;
  using Head = std::pair<uint64_t, uint32_t>;  // start, process
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads;
  for (uint32_t i = 0; i < of.size(); ++i) {
    all.push_back(of[i].records->works ? std::make_unique<Launched>(of[i], with_calls) : nullptr);
    if (all[i] && all[i]->next()) heads.push({all[i]->record.start, i});
  }
  while (!heads.empty()) {
    const uint32_t process = heads.top().second;
    heads.pop();
    const Head limit = heads.empty() ? Head{UINT64_MAX, UINT32_MAX} : heads.top();
    Launched& own = *all[process];
    bool more = true;
    while (more && Head{own.record.start, process} <= limit) {
      take(process, own);
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
  if (r.kind > 31 || !(query.kinds >> r.kind & 1) || r.start < query.first || r.start >= query.end)
    return;
  BusyKey key{};
  if (query.by & BusyQuery::kProcess) key.process = process;
  if (query.by & BusyQuery::kDevice) key.device = r.device;
  if (query.by & BusyQuery::kOperation)
    key.operation = title_of(query.titles[process], work.operation);
  if (query.by & BusyQuery::kKind) key.kind = r.kind;
  Busy& busy = table[table.find_or_add(key)];
  if (!busy.count++ && query.instants.size() > 1) busy.bins.resize(query.instants.size() - 1);
  const uint64_t from = std::max(r.start, busy.until);
  if (r.end <= from) return;
  busy.until = r.end;
  busy.ns += r.end - from;
  spread(busy, from, r.end, query.instants);
}

KernelKey key_of(uint32_t process, const Launched& work) {
  const DeviceRecord& r = work.record;
  const uint64_t shared = uint64_t{r.shared_static} + r.shared_dynamic;
  return {{process, work.call ? work.call->thread : UINT32_MAX, work.call ? work.call->name : 0,
           work.operation, r.device, r.stream, r.name, r.kind, r.grid[0], r.grid[1], r.grid[2],
           r.block[0], r.block[1], r.block[2], r.registers,
           static_cast<uint32_t>(std::min<uint64_t>(shared, UINT32_MAX))}};
}

// What a stream was given: when it was launched and started, and its row.
struct Given {
  uint64_t launched, started;
  uint32_t row;
};

void add_queues(KernelTable& table, std::vector<Given>& given, uint32_t no_row) {
  std::vector<uint64_t> launched;
  for (const Given& g : given) launched.push_back(g.launched);
  std::sort(launched.begin(), launched.end());
  for (const Given& g : given) {
    if (g.row == no_row) continue;
    const auto before =
        std::lower_bound(launched.begin(), launched.end(), g.launched) - launched.begin();
    const auto started =
        std::upper_bound(given.begin(), given.end(), g.launched,
                         [](uint64_t time, const Given& other) { return time < other.started; }) -
        given.begin();
    table[g.row].queue += std::max<int64_t>(before - started, 0);
  }
}

}  // namespace

std::vector<BusyTable> busy_tables(const std::vector<DeviceSource>& of,
                                   const std::vector<BusyQuery>& queries) {
  std::vector<BusyTable> tables(queries.size());
  const bool with_calls = std::any_of(queries.begin(), queries.end(), [](const BusyQuery& q) {
    return q.by & BusyQuery::kOperation;
  });
  for_each_work(of, with_calls, [&](uint32_t process, const Launched& work) {
    for (size_t i = 0; i < queries.size(); ++i) add(tables[i], queries[i], process, work);
  });
  return tables;
}

KernelTable kernel_table(const std::vector<DeviceSource>& of, uint64_t first, uint64_t end,
                         bool with_queue) {
  KernelTable table;
  std::map<std::array<uint32_t, 3>, std::vector<Given>> streams;
  for_each_work(of, true, [&](uint32_t process, const Launched& work) {
    const DeviceRecord& r = work.record;
    if (!keeps_busy(r)) return;
    uint32_t row = table.kNowhere;
    if (r.start >= first && r.start < end) {
      row = table.find_or_add(key_of(process, work));
      Kernel& kernel = table[row];
      ++kernel.count;
      kernel.ns += r.end - r.start;
      kernel.bytes += r.bytes;
      kernel.launched += work.call != nullptr;
      if (work.call) kernel.launch_ns += static_cast<int64_t>(r.start - work.call->end);
    }
    if (with_queue && work.call)
      streams[{process, r.device, r.stream}].push_back({work.call->start, r.start, row});
  });
  for (auto& [stream, given] : streams) add_queues(table, given, table.kNowhere);
  return table;
}

}  // namespace cutaway
