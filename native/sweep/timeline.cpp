// What each kind of record does to the state of its thread, and where its time goes then.
#include "sweep/timeline.h"

#include <algorithm>

namespace cutaway {

namespace {
constexpr uint32_t kOfUnits =
    1u << kCpuTime | 1u << kPause | 1u << kResume | 1u << kStep | 1u << kIteration;

}  // namespace

SweepThread& Timeline::add_thread(uint32_t id) {
  auto t = std::make_unique<SweepThread>();
  t->index = static_cast<uint32_t>(threads.size());
  if (id <= kMaxId) {
    if (id >= thread_of_.size()) thread_of_.resize(id + 1, kNoCell);
    thread_of_[id] = t->index;
  }
  threads.push_back(std::move(t));
  return *threads.back();
}

bool Timeline::has_records(uint32_t index) const {
  return std::find(thread_of_.begin(), thread_of_.end(), index) != thread_of_.end();
}

bool Timeline::meet(SweepThread& t, const Event& e) {
  const Kind kind = kind_of(e.tag);
  if (kind == kSample) return false;
  if (!t.alive && kind != kEnd) begin(t, e.time);
  if (kOfUnits >> kind & 1) t.units.note(e.tag, e.value, t.made);
  return true;
}

void Timeline::apply(SweepThread& t, const Event& e) {
  const uint32_t id = id_of(e.tag);
  switch (kind_of(e.tag)) {
    case kEnter:
      return enter_call(t, id, e.time);
    case kExit:
      return exit_call(t, id, e.time);
    case kOpEnter:
      return enter_operation(t, id, e.value, e.time);
    case kOpExit:
      return exit_named(t, id, e.time);
    case kPhase:
      advance(t, e.time);
      t.phase = id;
      return enter_context(t);
    case kCpuTime: {
      const uint64_t cpu = uint64_t{id} << 32 | e.value;
      if (!t.cpu_seen) t.cpu_first = cpu;
      t.cpu_seen = true;
      t.cpu_last = cpu;
      return;
    }
    case kMark:
      return apply_mark(t, e);
    case kEnd:
      if (t.alive) finish(t, e.time);
      return;
    default:
      return;
  }
}

// Samples come from a stream of their own, merged by time: the thread is in the state it was
// sampled in.
void Timeline::take_sample(const Event& e) {
  if (kind_of(e.tag) != kSample) return;
  const uint32_t thread = id_of(e.tag);
  const uint32_t index = thread < thread_of_.size() ? thread_of_[thread] : kNoCell;
  if (index == kNoCell || !threads[index]->active) return;
  const SweepThread& t = *threads[index];
  uint32_t call = t.calls.empty() ? kNoCell : t.calls.back().call;
  if (!t.api.empty()) call = kApiCall + t.api.back().name;
  const SampleKey key{t.context, call, frame_of(e.value), t.layer, doing_of(e.value)};
  ++ledger.samples[ledger.samples.find_or_add(key)];
}

// Calls with nothing inside them while nothing else happens in the process: the common case,
// without the detour over general states. What cannot change from one to the next is looked at
// once. False if there was none.
bool Timeline::pass_calls(SweepThread& t, uint64_t limit) {
  if (!t.active || !t.alive || !t.api.empty() || t.layer == kWait || conditions.notes_changes)
    return false;
  std::vector<Cell>& cells = ledger.cells;
  const uint32_t busy = cells[t.cell].state & 3;
  uint64_t inside[kLayers] = {}, last_of[kLayers] = {}, last = t.last, all = 0, all_inside = 0;
  const Event* e = t.event;
  for (; e && kind_of(e->tag) == kCall && e->end < limit; e = t.events->next()) {
    const Ledger::RecentSite& leaf = ledger.site_of(*files, t.context, id_of(e->tag), t.layer);
    const uint64_t ns = e->end - e->time;
    Cell& cell = cells[ledger.cell_of(t.context, leaf.state | busy)];
    cell.ns += ns;
    ++cell.calls;
    Site& site = ledger.sites[leaf.site];
    site.ns += ns;
    ++site.count;
    if (__builtin_expect(e->time < cpu_first, 0) && leaf.layer == kBackend) cpu_first = e->time;
    inside[leaf.layer] += ns;
    all_inside += ns;
    last_of[leaf.layer] = last = e->end;
    ++all;
  }
  if (!all) return false;
  t.event = e;
  cpu_last = std::max(cpu_last, last_of[kBackend]);
  const uint64_t span = last - t.last, outside = span - all_inside;
  cells[t.cell].ns += outside;
  cells[t.cell].calls_made += all;
  if (t.site != kNoCell) ledger.sites[t.site].ns += outside;
  t.made.calls += all;
  t.traced_ns += span;
  const auto not_held = [this](Of what) { return conditions.of.holders[what] ? 0 : 1u << what; };
  conditions.of.move(not_held(kOfPython), inside[kPython]);
  conditions.of.move(not_held(kOfBackend), inside[kBackend]);
  if (conditions.of.holders[kOfExecuting] ==
      1) {  // nobody else in the process: a wait stops its execution
    conditions.of.move(1u << kOfExecuting, inside[kWait]);
    conditions.had.move(1u << kHadExecuting, inside[kWait]);
  }
  t.last = t.read_until = last;
  return true;
}

void Timeline::enter_call(SweepThread& t, uint32_t call, uint64_t time) {
  if (!t.alive) begin(t, time);
  advance(t, time);
  const uint8_t layer = files->layer_of(call);
  const bool recorded = call < kBlockedCall;  // one that samples found cost nothing
  if (recorded && t.cell != kNoCell) ++ledger.cells[t.cell].calls_made;
  t.made.calls += recorded;
  const uint32_t site = site_of(t, call, t.calls.empty() ? uint8_t{kPython} : t.calls.back().layer);
  ++ledger.sites[site].count;
  t.calls.push_back({call, layer, site});
  if (layer == kBackend) note_cpu(time, time);
  if (!t.open_of[layer]++) hold_layer(layer, true, time);
  settle_call(t, time);
  if (recorded && t.cell != kNoCell) ++ledger.cells[t.cell].calls;
}

void Timeline::exit_call(SweepThread& t, uint32_t call, uint64_t time) {
  size_t at = t.calls.size();
  while (at && t.calls[at - 1].call != call) --at;
  if (!at) {
    ++t.unmatched;
    return;
  }
  advance(t, time);
  const uint8_t layer = t.calls[at - 1].layer;
  at == t.calls.size()
      ? t.calls.pop_back()
      : static_cast<void>(t.calls.erase(t.calls.begin() + static_cast<std::ptrdiff_t>(at - 1)));
  if (layer == kBackend) note_cpu(time, time);
  if (!--t.open_of[layer]) hold_layer(layer, false, time);
  settle_call(t, time);
}

void Timeline::hold_layer(uint8_t layer, bool on, uint64_t time) {
  if (layer == kBackend) conditions.hold_of(kOfBackend, on, time);
  if (layer == kPython) conditions.hold_of(kOfPython, on, time);
}

// What only the analysis says costs nothing at run time; the mark of a network costs what an
// operation does.
void Timeline::apply_mark(SweepThread& t, const Event& e) {
  const bool changes = id_of(e.tag) == kWhy && !t.operations.empty();
  const bool costs = id_of(e.tag) == kNetworkBegins || (changes && e.value == kByFramework);
  advance(t, e.time);
  t.made.operations += costs;
  if (costs && t.cell != kNoCell) {
    ++ledger.cells[t.cell].operations_made;
    ++ledger.cells[t.cell].operations;
  }
  if (!changes) return;
  t.operations.back().why = e.value;
  enter_context(t);
}

void Timeline::enter_operation(SweepThread& t, uint32_t name, uint32_t why, uint64_t time) {
  const bool recorded = why <= kByFramework;
  advance(t, time);
  if (recorded && t.cell != kNoCell) ++ledger.cells[t.cell].operations_made;
  if (t.operations.empty()) {
    ++with_operations_;
    sum_with_operations_ += t.index;
  }
  t.carries = true;
  t.made.operations += recorded;
  t.operations.push_back({name, t.slice, why, time, t.paused_ns, t.made});
  enter_context(t);
  if (t.cell == kNoCell) return;
  ledger.cells[t.cell].begun += why != kAwaitsUpdate;
  ledger.cells[t.cell].operations += recorded;
}

void Timeline::exit_named(SweepThread& t, uint32_t name, uint64_t time) {
  size_t at = t.operations.size();
  while (at && t.operations[at - 1].name != name) --at;
  if (at) return exit_operation(t, at - 1, time);
  ++t.unmatched;
}

void Timeline::exit_operation(SweepThread& t, size_t at, uint64_t time) {
  advance(t, time);
  const OpenOp op = t.operations[at];
  t.operations.erase(t.operations.begin() + static_cast<std::ptrdiff_t>(at));
  const uint64_t paused =
      t.paused_ns - op.paused + (t.paused ? time - std::max(t.paused_since, op.start) : 0);
  Durations& all = ledger.operations[ledger.operations.find_or_add({op.name, op.slice})];
  if (op.why != kAwaitsUpdate)
    all.add(time - op.start - paused);  // that goes on with one that is counted
  if (std::none_of(t.operations.begin(), t.operations.begin() + static_cast<std::ptrdiff_t>(at),
                   [&](const OpenOp& o) { return o.name == op.name; })) {
    all.total += time - op.start - paused;
    all.outer += op.why <= kByFramework;
    all.inside.add(t.made, op.before);
  }
  if (t.operations.empty()) {
    --with_operations_;
    sum_with_operations_ -= t.index;
  }
  enter_context(t);
}

void Timeline::begin(SweepThread& t, uint64_t time) {
  advance(t, time);
  t.alive = true;
  settle(t, time);
}

// The end of a traced life: what is still open ends here.
void Timeline::finish(SweepThread& t, uint64_t time) {
  if (t.paused) resume(t, time);
  while (!t.calls.empty()) exit_call(t, t.calls.back().call, time);
  while (!t.operations.empty()) exit_operation(t, t.operations.size() - 1, time);
  advance(t, time);
  t.alive = false;
  settle(t, time);
}

void Timeline::pause(SweepThread& t, uint32_t reason, uint64_t time) {
  if (t.paused) return;
  advance(t, time);
  t.paused = true;
  t.paused_since = time;
  t.pause_reason = reason;
  settle(t, time);
}

void Timeline::resume(SweepThread& t, uint64_t time) {
  if (!t.paused) return;
  advance(t, time);
  t.paused = false;
  t.paused_ns += time - t.paused_since;
  pauses.push_back({t.index, t.pause_reason, t.paused_since, time});
  settle(t, time);
}

// Adds the time since the last boundary to where the thread has been.
void Timeline::advance(SweepThread& t, uint64_t time) {
  if (t.cell != kNoCell) {
    const uint64_t ns = time - t.last;
    ledger.cells[t.cell].ns += ns;
    if (t.site != kNoCell) ledger.sites[t.site].ns += ns;
    t.traced_ns += ns;
  }
  t.last = time;
}

void Timeline::advance_all(uint64_t time) {
  for (auto& t : threads) advance(*t, time);
}

// Follows a change of phase, operation or slice.
void Timeline::enter_context(SweepThread& t) {
  const OpenOp* op = t.operations.empty() ? nullptr : &t.operations.back();
  t.context =
      ledger.contexts.find_or_add({t.index, t.phase, op ? op->name : 0, t.slice, op ? op->why : 0});
  if (t.cell != kNoCell) t.cell = ledger.cell_of(t.context, ledger.cells[t.cell].state);
}

// Finds the cell for the state the thread is in now. A thread whose own records do not cover this
// instant (one that only the accelerator's library knows) counts while it is inside an API call.
void Timeline::settle(SweepThread& t, uint64_t time) {
  const bool in_api = !t.api.empty();
  const bool active = !t.paused && (t.alive || in_api);
  if (active && !t.active) {
    if (!t.seen) t.first = time;
    t.seen = true;
    t.slice = slice_;
    enter_context(t);
  }
  if (!active && t.active) t.end = std::max(t.end, time);
  t.layer = t.calls.empty() ? uint8_t{kPython} : t.calls.back().layer;
  const uint8_t layer = in_api ? uint8_t{kAcceleratorApi} : t.layer;
  const bool blocked = in_api ? t.sync > 0 : layer == kWait;
  if (active != t.active) conditions.had.hold(kHadThread, active, time);
  t.active = active;
  set_executing(t, active && !blocked, time);
  if (!active) {
    t.cell = t.site = kNoCell;
    return;
  }
  const uint32_t state = uint32_t{layer} << 3 | uint32_t{blocked} << 2 | uint32_t{t.busy > 0} << 1 |
                         uint32_t{busy_ > 0};
  t.cell = ledger.cell_of(t.context, state);
  t.site = in_api ? t.api.back().site : t.calls.empty() ? kNoCell : t.calls.back().site;
}

// The same after a call was entered or left: nothing but the layer can have changed.
void Timeline::settle_call(SweepThread& t, uint64_t time) {
  if (!t.active || !t.api.empty()) return settle(t, time);
  t.layer = t.calls.empty() ? uint8_t{kPython} : t.calls.back().layer;
  set_executing(t, t.layer != kWait, time);
  t.cell = ledger.cell_of(t.context, state_of(t.layer) | (ledger.cells[t.cell].state & 3));
  t.site = t.calls.empty() ? kNoCell : t.calls.back().site;
}

void Timeline::set_executing(SweepThread& t, bool executing, uint64_t time) {
  if (executing == t.executing) return;
  conditions.had.hold(kHadExecuting, executing, time);
  conditions.hold_of(kOfExecuting, executing, time);
  t.executing = executing;
}

uint32_t Timeline::site_of(const SweepThread& t, uint32_t call, uint8_t from) {
  return ledger.site_of(*files, t.context, call, from).site;
}

// The innermost operation; a thread that carries none of its own (autograd's, say) works for the
// one thread of its process that is inside an operation, if it is just one.
uint32_t Timeline::operation_of(const SweepThread& t) const {
  if (!t.operations.empty()) return t.operations.back().name;
  if (t.carries || with_operations_ != 1) return 0;
  return threads[sum_with_operations_]->operations.back().name;
}

// All that happens there belongs to another slice from now on.
void Timeline::enter_slice(uint32_t slice, uint64_t time) {
  slice_ = slice;
  for (auto& t : threads) {
    advance(*t, time);
    t->slice = slice;
    enter_context(*t);
  }
}

std::vector<uint32_t> Timeline::regroup(const std::function<uint32_t(uint32_t)>& slice_of) {
  Ledger::Moved to = ledger.regroup(slice_of);
  const auto moved = [](uint32_t& at, const std::vector<uint32_t>& now) {
    if (at < now.size()) at = now[at];
  };
  for (auto& t : threads) {
    t->slice = slice_of(t->slice);
    moved(t->context, to.contexts);
    moved(t->cell, to.cells);
    moved(t->site, to.sites);
    for (OpenCall& call : t->calls) moved(call.site, to.sites);
    for (OpenApi& call : t->api) moved(call.site, to.sites);
    for (OpenOp& op : t->operations) op.slice = slice_of(op.slice);
  }
  slice_ = slice_of(slice_);
  return std::move(to.cells);
}

uint64_t Timeline::paused_since() const {
  uint64_t first = UINT64_MAX;
  for (const auto& t : threads)
    if (t->paused) first = std::min(first, t->paused_since);
  return first;
}

// Nothing that was loaded may lead out of a table.
bool Timeline::sound(size_t rows) const {
  const auto all = [](const auto& values, auto fine) {
    return std::all_of(values.begin(), values.end(), fine);
  };
  return conditions.sound() && ledger.sound(threads.size(), rows) &&
         all(thread_of_, [&](uint32_t t) { return t == kNoCell || t < threads.size(); }) &&
         all(pauses, [&](const Pause& p) { return p.thread < threads.size(); }) &&
         all(threads, [&](const auto& t) { return sound(*t); });
}

bool Timeline::sound(const SweepThread& t) const {
  const size_t sites = ledger.sites.entries().size(), cells = ledger.cells.size();
  const auto below = [](uint32_t at, size_t size) { return at == kNoCell || at < size; };
  const auto call_is_sound = [&](const OpenCall& c) {
    return c.layer < kLayers && t.open_of[c.layer] > 0 && below(c.site, sites);
  };
  return t.layer < kLayers && below(t.cell, cells) && below(t.site, sites) &&
         std::all_of(
             t.api.begin(), t.api.end(), [&](const OpenApi& c) { return c.site < sites; }) &&
         t.active == (t.cell != kNoCell) &&
         (!t.active || t.context < ledger.contexts.entries().size()) &&
         std::all_of(t.calls.begin(), t.calls.end(), call_is_sound);
}

// `depth`: how much work runs on each stream.
bool Timeline::streams_are_sound(const std::vector<uint32_t>& depth) const {
  uint32_t busy = 0;
  for (const uint32_t n : stream_busy_) busy += n > 0;
  return depth == stream_busy_ && busy == busy_;
}

void Timeline::after_load() {
  with_operations_ = sum_with_operations_ = 0;
  for (const auto& t : threads) {
    if (t->operations.empty()) continue;
    ++with_operations_;
    sum_with_operations_ += t->index;
  }
}

}  // namespace cutaway
