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
  if (timeline.knows(id)) {
    const uint32_t index = timeline.index_of(id);
    past.attach(*timeline.threads[index], std::move(events));
    return index;
  }
  SweepThread& t = timeline.add_thread(id);
  t.events = std::move(events);
  return t.index;
}

// Another thread may have used a stream for the first time since a past was folded.
void ProcessSweep::set_device_work(std::unique_ptr<Spans<ApiCall>::Feed> api,
                                   std::unique_ptr<Spans<Work>::Feed> work,
                                   std::vector<std::vector<uint32_t>> stream_threads) {
  api_.feed(std::move(api));
  work_.feed(std::move(work));
  std::vector<uint32_t> busy;
  const bool changed = timeline.set_streams(std::move(stream_threads), busy);
  if (!changed || !past.is_kept()) return;
  past.settle();
  if (past.reached() >= drawing.edge()) drawing.cross_edges(past.reached());
  timeline.set_busy(busy, past.reached());
}

void ProcessSweep::follow_leader(std::vector<LeaderMark> marks, bool even_with_iterations) {
  slices.follow_leader(std::move(marks), even_with_iterations);
  slices.leader.skip_to(past.reached());
}

void ProcessSweep::end_steady(uint64_t own, uint64_t run) {
  slices.leader.end_steady(own, run);
  slices.leader.skip_to(past.reached());
}

void ProcessSweep::draw(std::vector<Lanes> lanes) {
  past.settle();
  past.is_loaded() ? drawing.redraw(std::move(lanes)) : drawing.draw(std::move(lanes));
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
  if (rank == Head::kLeader) time = slices.leader.next_time();
  if (rank == Head::kSamples && sample_) time = sample_->time;
  if (rank == Head::kThread) {
    const SweepThread& t = *timeline.threads[index];
    if (t.event) time = t.in_leaf ? t.event->end : t.event->time;
  }
  if (rank == Head::kApi) time = api_.next_time();
  if (rank == Head::kDevice) time = work_.next_time();
  return {time, rank, index};
}

std::vector<ProcessSweep::Head> ProcessSweep::next_heads() {
  std::vector<Head> heads;
  if (samples_ && !sample_) sample_ = samples_->next();
  for (auto& t : timeline.threads) {
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
    if (head.time >= drawing.edge()) drawing.cross_edges(head.time);
    const Head stop{std::min(until_, drawing.edge()), Head::kLeader, 0};
    const Head limit = std::min(heads.top(), stop);
    do {
      step(head, limit);
      head = head_of(head.rank, head.index);
    } while (head < limit);
    heads.push(head);
  }
  drawing.paint();
}

void ProcessSweep::step(const Head& head, const Head& limit) {
  switch (head.rank) {
    case Head::kLeader:
      return slices.take_mark(slices.leader.take());
    case Head::kSamples:
      timeline.take_sample(*sample_);
      sample_ = samples_->next();
      return;
    case Head::kThread:
      return step_thread(*timeline.threads[head.index], limit);
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
      timeline.exit_call(t, id_of(t.event->tag), t.event->end);
      t.in_leaf = false;
      next_event(t);
    } else if (kind_of(t.event->tag) != kCall) {
      apply(t, *t.event);
      next_event(t);
    } else if (timeline.pass_calls(t, limit.time)) {
      if (!t.event) rest(t);
    } else {
      timeline.enter_call(t, id_of(t.event->tag), t.event->time);
      t.in_leaf = true;
    }
  } while (t.event &&
           Head{t.in_leaf ? t.event->end : t.event->time, Head::kThread, t.index} < limit);
}

void ProcessSweep::apply(SweepThread& t, const Event& e) {
  if (!timeline.meet(t, e)) return;
  switch (kind_of(e.tag)) {
    case kIteration:
      ++t.iterations;
      return slices.iterate(e.value, e.time, e.time);
    case kStep:
      return slices.add_steps(e.value, e.time, e.time);
    case kPause:
      if (!t.paused) slices.slowest.forget();
      return timeline.pause(t, id_of(e.tag), e.time);
    case kResume:
      return slices.take_in_pause(t, id_of(e.tag), e.value, e.time);
    default:
      return timeline.apply(t, e);
  }
}

void ProcessSweep::next_event(SweepThread& t) {
  t.read_until = t.event->end;
  t.event = t.events->next();
  if (!t.event) rest(t);
}

// At the end of what is known of a thread: it has ended, or more will come.
void ProcessSweep::rest(SweepThread& t) {
  const uint64_t frontier = t.events->frontier();
  until_ = std::min(until_, frontier);
  if (frontier == UINT64_MAX && t.alive && !goes_on)
    timeline.finish(t, std::max(t.read_until, t.last));
}

void ProcessSweep::step_api() {
  if (api_.end_is_next()) {
    const auto ended = api_.end();
    return timeline.end_api(ended.span, ended.number);
  }
  const auto [call, number] = api_.begin();
  devices.launch(call, timeline.begin_api(call, number));
}

void ProcessSweep::step_work() {
  const bool ends = work_.end_is_next();
  const Work work = ends ? work_.end().span : work_.begin().span;
  ends ? devices.end(work) : devices.begin(work);
  if (work.stream == kNoStream) return;
  timeline.change_stream(work.stream, ends, ends ? work.end : work.start);
}

}  // namespace cutaway
