#include "sweep/sweep.h"

#include <algorithm>
#include <queue>

namespace cutaway {

// The next boundary of one timeline. At one instant threads come first, so that an API call made
// there finds the operation that begins there; device work comes last.
struct ProcessSweep::Head {
  uint64_t time;
  enum : uint8_t { kLeader, kSamples, kThread, kApi, kDevice };
  uint8_t rank;
  uint32_t index;
  bool operator<(const Head& o) const {
    if (time != o.time) return time < o.time;
    return rank != o.rank ? rank < o.rank : index < o.index;
  }
  bool operator>(const Head& o) const { return o < *this; }
};

uint32_t ProcessSweep::add_thread(uint32_t id, std::unique_ptr<Events> events) {
  if (knows(id)) {
    attach(*threads[thread_of_[id]], std::move(events));
    return thread_of_[id];
  }
  auto t = std::make_unique<SweepThread>();
  t->index = static_cast<uint32_t>(threads.size());
  t->events = std::move(events);
  if (id <= kMaxId) {
    if (id >= thread_of_.size()) thread_of_.resize(id + 1, kNoCell);
    thread_of_[id] = t->index;
  }
  threads.push_back(std::move(t));
  return threads.back()->index;
}

void ProcessSweep::set_device_work(std::unique_ptr<Spans<ApiCall>::Feed> api,
                                   std::unique_ptr<Spans<Work>::Feed> work,
                                   std::vector<std::vector<uint32_t>> stream_threads) {
  api_.feed(std::move(api));
  work_.feed(std::move(work));
  stream_busy_.resize(stream_threads.size());
  stream_threads_ = std::move(stream_threads);
  if (!loaded_ && !keeps_) return;
  // Another thread may have used a stream for the first time since the last look.
  std::vector<uint32_t> busy(threads.size());
  for (size_t stream = 0; stream < stream_threads_.size(); ++stream)
    for (const uint32_t t : stream_threads_[stream]) busy[t] += stream_busy_[stream] > 0;
  if (std::all_of(threads.begin(), threads.end(),
                  [&](const auto& t) { return t->busy == busy[t->index]; }))
    return;
  if (loaded_ && crossed_ != reached_) settle_past();
  if (reached_ >= edge_) cross_edges(reached_);
  for (auto& t : threads) {
    advance(*t, reached_);
    t->busy = busy[t->index];
    settle(*t, reached_);
  }
}

std::vector<uint32_t> ProcessSweep::number_streams(const std::vector<uint64_t>& streams) {
  std::vector<uint32_t> out;
  for (const uint64_t stream : streams) {
    const auto known = std::find(stream_keys_.begin(), stream_keys_.end(), stream);
    out.push_back(static_cast<uint32_t>(known - stream_keys_.begin()));
    if (known == stream_keys_.end()) stream_keys_.push_back(stream);
  }
  return out;
}

// Where a timeline goes on; at UINT64_MAX if nothing of it is left.
ProcessSweep::Head ProcessSweep::head_of(uint8_t rank, uint32_t index) const {
  uint64_t time = UINT64_MAX;
  if (rank == Head::kLeader) time = leader_.next_time();
  if (rank == Head::kSamples && sample_) time = sample_->time;
  if (rank == Head::kThread) {
    const SweepThread& t = *threads[index];
    if (t.event) time = t.in_leaf ? t.event->end : t.event->time;
  }
  if (rank == Head::kApi) time = api_.next_time();
  if (rank == Head::kDevice) time = work_.next_time();
  return {time, rank, index};
}

std::vector<ProcessSweep::Head> ProcessSweep::next_heads() {
  std::vector<Head> heads;
  if (samples_ && !sample_) sample_ = samples_->next();
  for (auto& t : threads) {
    if (!t->event && t->events && !(t->event = t->events->next())) rest(*t);
    heads.push_back(head_of(Head::kThread, t->index));
  }
  for (const uint8_t rank : {Head::kLeader, Head::kSamples, Head::kApi, Head::kDevice})
    heads.push_back(head_of(rank, 0));
  return heads;
}

uint64_t ProcessSweep::next_time() {
  const auto heads = next_heads();
  return std::min_element(heads.begin(), heads.end())->time;
}

void ProcessSweep::run(uint64_t until) {
  until_ = until;
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads(std::greater<Head>(),
                                                                         next_heads());
  while (heads.top().time < until_) {
    Head head = heads.top();
    heads.pop();
    if (head.time >= edge_) cross_edges(head.time);
    const Head limit = std::min(heads.top(), Head{std::min(until_, edge_), Head::kLeader, 0});
    do {
      step(head, limit);
      head = head_of(head.rank, head.index);
    } while (head < limit);
    heads.push(head);
  }
  paint();
}

// Before anything happens at `time`: every thread gets the time up to each edge of a bin on the
// way.
void ProcessSweep::cross_edges(uint64_t time) {
  for (Lanes& lanes : lanes_) lanes.make_room(time);
  for (;;) {
    edge_ = UINT64_MAX;
    for (const Lanes& lanes : lanes_) edge_ = std::min(edge_, lanes.edge_after(crossed_));
    if (time < edge_) return;
    for (auto& t : threads) advance(*t, edge_);
    paint();
    crossed_ = edge_;
  }
}

// What was added to the cells since the last edge lies in one bin of each lane.
void ProcessSweep::paint() {
  for (uint32_t at = 0; !lanes_.empty() && at < cells.size(); ++at) {
    const uint64_t ns = cells[at].ns - cells[at].painted;
    for (size_t i = 0; ns && i < lanes_.size(); ++i)
      if (lanes_[i].holds(crossed_)) lanes_[i].add_within(lane_of(at, i), crossed_, ns);
    cells[at].painted += ns;
  }
}

void ProcessSweep::step(const Head& head, const Head& limit) {
  switch (head.rank) {
    case Head::kLeader:
      return step_leader();
    case Head::kSamples:
      take_sample(*sample_);
      sample_ = samples_->next();
      return;
    case Head::kThread:
      return step_thread(*threads[head.index], limit);
    case Head::kApi:
      return step_api();
    default:
      return step_work();
  }
}

// Goes on with one thread for as long as nothing else has an earlier boundary.
void ProcessSweep::step_thread(SweepThread& t, const Head& limit) {
  do {
    if (t.in_leaf) {
      exit_call(t, id_of(t.event->tag), t.event->end);
      t.in_leaf = false;
      next_event(t);
    } else if (kind_of(t.event->tag) != kCall) {
      apply(t, *t.event);
      next_event(t);
    } else if (!pass_calls(t, limit.time)) {
      enter_call(t, id_of(t.event->tag), t.event->time);
      t.in_leaf = true;
    }
  } while (t.event &&
           Head{t.in_leaf ? t.event->end : t.event->time, Head::kThread, t.index} < limit);
}

void ProcessSweep::step_api() {
  if (api_.end_is_next()) return end_api(api_.end());
  const auto [call, number] = api_.begin();
  SweepThread& t = *threads[call.thread];
  note_cpu(call.start, call.end);
  advance(t, call.start);
  devices.launch(call, call.operation ? call.operation : operation_of(t));
  if (t.cell != kNoCell) ++cells[t.cell].api_calls_made;
  ++t.made.api_calls;
  if (!t.active) enter_context(t);
  const uint32_t site =
      site_of(t, kApiCall + call.name, t.api.empty() ? t.layer : uint8_t{kAcceleratorApi});
  ++sites[site].count;
  if (t.api.empty()) conditions.hold_of(kOfApi, true, call.start);
  t.api.push_back({number, call.name, site});
  t.sync += call.flags & 1;
  settle(t, call.start);
  if (t.cell != kNoCell) ++cells[t.cell].api_calls;
}

void ProcessSweep::end_api(const Spans<ApiCall>::Begun& ended) {
  const ApiCall& call = ended.span;
  SweepThread& t = *threads[call.thread];
  advance(t, call.end);
  t.api.erase(std::find_if(t.api.begin(), t.api.end(),
                           [&ended](const OpenApi& open) { return open.number == ended.number; }));
  if (t.api.empty()) conditions.hold_of(kOfApi, false, call.end);
  t.sync -= call.flags & 1;
  settle(t, call.end);
}

void ProcessSweep::step_work() {
  const bool ends = work_.end_is_next();
  const Work work = ends ? work_.end().span : work_.begin().span;
  const uint64_t time = ends ? work.end : work.start;
  ends ? devices.end(work) : devices.begin(work);
  if (work.stream == kNoStream) return;
  uint32_t& depth = stream_busy_[work.stream];
  depth += ends ? -1 : 1;
  if (depth != (ends ? 0 : 1)) return;
  busy_ += ends ? -1 : 1;
  conditions.had.hold(kHadDevice, !ends, time);
  conditions.hold_of(kOfDevice, !ends, time);
  const bool process_changed = busy_ == (ends ? 0 : 1);
  if (process_changed)
    for (auto& t : threads) advance(*t, time);
  for (const uint32_t i : stream_threads_[work.stream]) {
    SweepThread& t = *threads[i];
    advance(t, time);
    t.busy += ends ? -1 : 1;
    settle(t, time);
  }
  if (process_changed)
    for (auto& t : threads) settle(*t, time);
}

}  // namespace cutaway
