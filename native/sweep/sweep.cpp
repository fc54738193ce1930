#include "sweep/sweep.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace cutaway {

// The next boundary of one timeline. At one instant threads come first, so that an API call made there finds
// the operation that begins there; device work comes last.
struct Sweep::Head {
  uint64_t time;
  uint8_t rank;  // 0 thread, 1 API, 2 device
  uint32_t index;
  bool operator<(const Head& o) const { return time != o.time ? time < o.time : rank < o.rank; }
  bool operator>(const Head& o) const { return o < *this; }
};

namespace {

template <typename T>
std::vector<uint32_t> by_end(const std::vector<T>& spans) {
  std::vector<uint32_t> order(spans.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return spans[a].end < spans[b].end; });
  return order;
}

// Time of the next boundary of spans ordered by start, or UINT64_MAX.
template <typename T>
uint64_t next_boundary(const std::vector<T>& spans, const std::vector<uint32_t>& ends, size_t started,
                       size_t ended) {
  if (ended == ends.size()) return UINT64_MAX;
  const uint64_t end = spans[ends[ended]].end;
  return started < spans.size() ? std::min(end, spans[started].start) : end;
}

// True if the next boundary is an end. What ends at an instant ends before anything starts there, except that
// nothing ends before it has started.
template <typename T>
bool end_is_next(const std::vector<T>& spans, const std::vector<uint32_t>& ends, size_t started,
                 size_t ended) {
  const T& first = spans[ends[ended]];
  return started == spans.size() || (first.end <= spans[started].start && first.start < first.end) ||
         first.end < spans[started].start;
}

}  // namespace

uint32_t Sweep::add_process(SweepProcess&& process) {
  processes.push_back(std::make_unique<SweepProcess>(std::move(process)));
  return static_cast<uint32_t>(processes.size() - 1);
}

uint32_t Sweep::add_thread(uint32_t process, uint32_t id, std::vector<Source> sources) {
  auto t = std::make_unique<SweepThread>();
  t->process = process;
  t->index = static_cast<uint32_t>(threads.size());
  SweepProcess& p = *processes.at(process);
  t->files = p.files.get();
  if (!sources.empty()) t->events = open_events(p.files, std::move(sources));
  p.threads.push_back(t->index);
  if (id <= kMaxId) {
    if (id >= p.thread_of.size()) p.thread_of.resize(id + 1, kNoCell);
    p.thread_of[id] = t->index;
  }
  threads.push_back(std::move(t));
  return threads.back()->index;
}

void Sweep::add_samples(uint32_t process, std::vector<Source> sources) {
  auto t = std::make_unique<SweepThread>();
  t->process = process;
  t->index = kSampleStream + static_cast<uint32_t>(sample_streams.size());
  SweepProcess& p = *processes.at(process);
  t->events = open_events(p.files, std::move(sources));
  sample_streams.push_back(std::move(t));
}

SweepThread& Sweep::stream(uint32_t index) {
  return index < kSampleStream ? *threads[index] : *sample_streams[index - kSampleStream];
}

void Sweep::set_device_work(uint32_t process, std::vector<ApiCall> api, std::vector<Work> work,
                            std::vector<std::vector<uint32_t>> stream_threads) {
  SweepProcess& p = *processes.at(process);
  p.api = std::move(api);
  p.api_by_end = by_end(p.api);
  p.api_operation.assign(p.api.size(), 0);
  p.api_site.assign(p.api.size(), kNoCell);
  p.work = std::move(work);
  p.work_by_end = by_end(p.work);
  p.stream_busy.assign(stream_threads.size(), 0);
  p.stream_threads = std::move(stream_threads);
}

void Sweep::slice_by(Slicing slicing, uint64_t origin, uint64_t width, uint32_t count) {
  slicing_ = slicing;
  bin_origin_ = origin;
  bin_width_ = std::max<uint64_t>(width, 1);
  bin_count_ = count;
}

void Sweep::run() {
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads;
  std::vector<size_t> api_started(processes.size()), api_ended(processes.size());
  std::vector<size_t> work_started(processes.size()), work_ended(processes.size());
  for (auto& t : sample_streams)
    if ((t->event = t->events->next())) heads.push({t->event->time, 0, t->index});
  for (auto& t : threads) {
    t->event = t->events ? t->events->next() : nullptr;
    if (t->event) heads.push({t->event->time, 0, t->index});
  }
  for (uint32_t i = 0; i < processes.size(); ++i) {
    if (!processes[i]->api.empty()) heads.push({processes[i]->api[0].start, 1, i});
    if (!processes[i]->work.empty()) heads.push({processes[i]->work[0].start, 2, i});
  }
  while (!heads.empty()) {
    Head head = heads.top();
    heads.pop();
    const Head limit = heads.empty() ? Head{UINT64_MAX, 3, 0} : heads.top();
    if (head.rank == 0) {
      SweepThread& t = stream(head.index);
      step_thread(t, limit);
      if (t.event) heads.push({t.in_leaf ? t.event->end : t.event->time, 0, head.index});
    } else {
      SweepProcess& p = *processes[head.index];
      const bool api = head.rank == 1;
      size_t& started = (api ? api_started : work_started)[head.index];
      size_t& ended = (api ? api_ended : work_ended)[head.index];
      do {
        api ? step_api(p, started, ended) : step_work(p, started, ended);
        head.time = api ? next_boundary(p.api, p.api_by_end, started, ended)
                        : next_boundary(p.work, p.work_by_end, started, ended);
      } while (head.time != UINT64_MAX && head < limit);
      if (head.time != UINT64_MAX) heads.push(head);
    }
  }
}

// Goes on with one thread for as long as nothing else has an earlier boundary.
void Sweep::step_thread(SweepThread& t, const Head& limit) {
  do {
    if (t.index >= kSampleStream) {  // it is no thread: whatever else stands there says nothing
      const Event& e = *t.event;
      if (kind_of(e.tag) == kSample) take_sample(*processes[t.process], id_of(e.tag), e.value);
      t.event = t.events->next();
    } else if (t.in_leaf) {
      const uint64_t end = t.event->end;
      exit_call(t, id_of(t.event->tag), end);
      t.in_leaf = false;
      next_event(t, end);
    } else if (kind_of(t.event->tag) != kCall) {
      const uint64_t end = t.event->end;
      apply(t, *t.event);
      next_event(t, end);
    } else if (!pass_calls(t, limit.time)) {
      enter_call(t, id_of(t.event->tag), t.event->time);
      t.in_leaf = true;
    }
  } while (t.event && Head{t.in_leaf ? t.event->end : t.event->time, 0, t.index} < limit);
}

void Sweep::step_api(SweepProcess& p, size_t& started, size_t& ended) {
  if (end_is_next(p.api, p.api_by_end, started, ended)) {
    const uint32_t i = p.api_by_end[ended++];
    SweepThread& t = *threads[p.api[i].thread];
    advance(t, p.api[i].end);
    t.api.erase(std::next(std::find(t.api.rbegin(), t.api.rend(), i)).base());
    if (t.api.empty()) of.hold(kOfApi, false, p.api[i].end);
    t.sync -= p.api[i].flags & 1;
    settle(t, p.api[i].end);
    return;
  }
  const auto i = static_cast<uint32_t>(started++);
  const ApiCall& call = p.api[i];
  SweepThread& t = *threads[call.thread];
  note_cpu(call.start, call.end);
  advance(t, call.start);
  p.api_operation[i] = call.operation ? call.operation : operation_of(t);
  if (t.cell != kNoCell) ++cells[t.cell].api_calls_made;
  ++t.made.api_calls;
  if (!t.active) enter_context(t);
  p.api_site[i] = site_of(t, kApiCall + call.name, t.api.empty() ? t.layer : uint8_t{kAcceleratorApi});
  ++sites[p.api_site[i]].count;
  if (t.api.empty()) of.hold(kOfApi, true, call.start);
  t.api.push_back(i);
  t.sync += call.flags & 1;
  settle(t, call.start);
  if (t.cell != kNoCell) ++cells[t.cell].api_calls;
}

void Sweep::step_work(SweepProcess& p, size_t& started, size_t& ended) {
  const bool ends = end_is_next(p.work, p.work_by_end, started, ended);
  const Work& work = p.work[ends ? p.work_by_end[ended++] : started++];
  const uint64_t time = ends ? work.end : work.start;
  uint32_t& depth = p.stream_busy[work.stream];
  depth += ends ? -1 : 1;
  if (depth != (ends ? 0 : 1)) return;
  p.busy += ends ? -1 : 1;
  p.had.hold(kHadDevice, !ends, time);
  of.hold(kOfDevice, !ends, time);
  const bool process_changed = p.busy == (ends ? 0 : 1);
  if (process_changed)
    for (const uint32_t i : p.threads) advance(*threads[i], time);
  for (const uint32_t i : p.stream_threads[work.stream]) {
    SweepThread& t = *threads[i];
    advance(t, time);
    t.busy += ends ? -1 : 1;
    settle(t, time);
  }
  if (process_changed)
    for (const uint32_t i : p.threads) settle(*threads[i], time);
}

}  // namespace cutaway
