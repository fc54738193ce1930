// What each kind of record does to the state of its thread, and where its time goes then.
#include <algorithm>

#include "sweep/sweep.h"

namespace cutaway {

namespace {
constexpr uint32_t kOfUnits =
    1u << kCpuTime | 1u << kPause | 1u << kResume | 1u << kStep | 1u << kIteration;

// Of a cell, while the thread is in a call of this layer and no device is busy.
constexpr uint8_t state_of(uint8_t layer) {
  return static_cast<uint8_t>(layer << 3 | int{layer == kWait} << 2);
}
}  // namespace

void ProcessSweep::apply(SweepThread& t, const Event& e) {
  const uint32_t id = id_of(e.tag);
  const Kind kind = kind_of(e.tag);
  if (kind == kSample) return;
  if (!t.alive && kind != kEnd) begin(t, e.time);
  if (kOfUnits >> kind & 1) t.units.note(e.tag, e.value, t.made);
  switch (kind) {
    case kEnter:
      return enter_call(t, id, e.time);
    case kExit:
      return exit_call(t, id, e.time);
    case kOpEnter:
      return enter_operation(t, id, e.value, e.time);
    case kOpExit: {
      size_t at = t.operations.size();
      while (at && t.operations[at - 1].name != id) --at;
      if (!at) {
        ++t.unmatched;
        return;
      }
      return exit_operation(t, at - 1, e.time);
    }
    case kPhase:
      advance(t, e.time);
      t.phase = id;
      return enter_context(t);
    case kIteration:
      ++t.iterations;
      return iterate(e.value, e.time, e.time);
    case kStep:
      return add_steps(e.value, e.time);
    case kPause:
      return pause(t, id, e.time);
    case kResume:
      return take_in_pause(t, id, e.value, e.time);
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
void ProcessSweep::take_sample(const Event& e) {
  if (kind_of(e.tag) != kSample) return;
  const uint32_t thread = id_of(e.tag);
  const uint32_t index = thread < thread_of_.size() ? thread_of_[thread] : kNoCell;
  if (index == kNoCell || !threads[index]->active) return;
  const SweepThread& t = *threads[index];
  uint32_t call = t.calls.empty() ? kNoCell : t.calls.back().call;
  if (!t.api.empty()) call = kApiCall + t.api.back().name;
  ++samples[samples.find_or_add({t.context, call, frame_of(e.value), t.layer, doing_of(e.value)})];
}

// Calls with nothing inside them while nothing else happens in the process: the common case,
// without the detour over general states. What cannot change from one to the next is looked at
// once. False if there was none.
bool ProcessSweep::pass_calls(SweepThread& t, uint64_t limit) {
  if (!t.active || !t.alive || !t.api.empty() || t.layer == kWait || conditions.notes_changes)
    return false;
  const uint32_t busy = cells[t.cell].state & 3;
  uint64_t inside[kLayers] = {}, last_of[kLayers] = {}, last = t.last, all = 0, all_inside = 0;
  const Event* e = t.event;
  for (; e && kind_of(e->tag) == kCall && e->end < limit; e = t.events->next()) {
    const RecentSite& leaf = look_up_site(t, id_of(e->tag), t.layer);
    const uint64_t ns = e->end - e->time;
    Cell& cell = cells[cell_of(t.context, leaf.state | busy)];
    cell.ns += ns;
    ++cell.calls;
    Site& site = sites[leaf.site];
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
  if (t.site != kNoCell) sites[t.site].ns += outside;
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
  if (!e) rest(t);
  return true;
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
  if (frontier == UINT64_MAX && t.alive) finish(t, std::max(t.read_until, t.last));
}

void ProcessSweep::enter_call(SweepThread& t, uint32_t call, uint64_t time) {
  if (!t.alive) begin(t, time);
  advance(t, time);
  const uint8_t layer = files_->layer_of(call);
  const bool recorded = call < kBlockedCall;  // one that samples found cost nothing
  if (recorded && t.cell != kNoCell) ++cells[t.cell].calls_made;
  t.made.calls += recorded;
  const uint32_t site = site_of(t, call, t.calls.empty() ? uint8_t{kPython} : t.calls.back().layer);
  ++sites[site].count;
  t.calls.push_back({call, layer, site});
  if (layer == kBackend) note_cpu(time, time);
  if (!t.open_of[layer]++) {
    if (layer == kBackend) conditions.hold_of(kOfBackend, true, time);
    if (layer == kPython) conditions.hold_of(kOfPython, true, time);
  }
  settle_call(t, time);
  if (recorded && t.cell != kNoCell) ++cells[t.cell].calls;
}

void ProcessSweep::exit_call(SweepThread& t, uint32_t call, uint64_t time) {
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
  if (!--t.open_of[layer]) {
    if (layer == kBackend) conditions.hold_of(kOfBackend, false, time);
    if (layer == kPython) conditions.hold_of(kOfPython, false, time);
  }
  settle_call(t, time);
}

// What only the analysis says costs nothing at run time; the mark of a network costs what an
// operation does.
void ProcessSweep::apply_mark(SweepThread& t, const Event& e) {
  const bool changes = id_of(e.tag) == kWhy && !t.operations.empty();
  const bool costs = id_of(e.tag) == kNetworkBegins || (changes && e.value == kByFramework);
  advance(t, e.time);
  t.made.operations += costs;
  if (costs && t.cell != kNoCell) {
    ++cells[t.cell].operations_made;
    ++cells[t.cell].operations;
  }
  if (!changes) return;
  t.operations.back().why = e.value;
  enter_context(t);
}

void ProcessSweep::enter_operation(SweepThread& t, uint32_t name, uint32_t why, uint64_t time) {
  const bool recorded = why <= kByFramework;
  advance(t, time);
  if (recorded && t.cell != kNoCell) ++cells[t.cell].operations_made;
  if (t.operations.empty()) {
    ++with_operations_;
    sum_with_operations_ += t.index;
  }
  t.carries = true;
  t.made.operations += recorded;
  t.operations.push_back({name, t.slice, why, time, t.paused_ns, t.made});
  enter_context(t);
  if (t.cell == kNoCell) return;
  cells[t.cell].begun += why != kAwaitsUpdate;
  cells[t.cell].operations += recorded;
}

void ProcessSweep::exit_operation(SweepThread& t, size_t at, uint64_t time) {
  advance(t, time);
  const OpenOp op = t.operations[at];
  t.operations.erase(t.operations.begin() + static_cast<std::ptrdiff_t>(at));
  const uint64_t paused =
      t.paused_ns - op.paused + (t.paused ? time - std::max(t.paused_since, op.start) : 0);
  Durations& all = operations[operations.find_or_add({op.name, op.slice})];
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

void ProcessSweep::begin(SweepThread& t, uint64_t time) {
  advance(t, time);
  t.alive = true;
  settle(t, time);
}

// The end of a traced life: what is still open ends here.
void ProcessSweep::finish(SweepThread& t, uint64_t time) {
  if (t.paused) resume(t, time);
  while (!t.calls.empty()) exit_call(t, t.calls.back().call, time);
  while (!t.operations.empty()) exit_operation(t, t.operations.size() - 1, time);
  advance(t, time);
  t.alive = false;
  settle(t, time);
}

void ProcessSweep::pause(SweepThread& t, uint32_t reason, uint64_t time) {
  if (t.paused) return;
  slowest.forget();
  advance(t, time);
  t.paused = true;
  t.paused_since = time;
  t.pause_reason = reason;
  settle(t, time);
}

void ProcessSweep::resume(SweepThread& t, uint64_t time) {
  if (!t.paused) return;
  advance(t, time);
  t.paused = false;
  t.paused_ns += time - t.paused_since;
  passes.pauses.push_back({t.index, t.pause_reason, t.paused_since, time});
  settle(t, time);
}

// Adds the time since the last boundary to where the thread has been.
void ProcessSweep::advance(SweepThread& t, uint64_t time) {
  if (t.cell != kNoCell) {
    const uint64_t ns = time - t.last;
    cells[t.cell].ns += ns;
    if (t.site != kNoCell) sites[t.site].ns += ns;
    t.traced_ns += ns;
  }
  t.last = time;
}

// Follows a change of phase, operation or slice.
void ProcessSweep::enter_context(SweepThread& t) {
  const OpenOp* op = t.operations.empty() ? nullptr : &t.operations.back();
  t.context =
      contexts.find_or_add({t.index, t.phase, op ? op->name : 0, t.slice, op ? op->why : 0});
  if (t.cell != kNoCell) t.cell = cell_of(t.context, cells[t.cell].state);
}

// Finds the cell for the state the thread is in now. A thread whose own records do not cover this
// instant (one that only the accelerator's library knows) counts while it is inside an API call.
void ProcessSweep::settle(SweepThread& t, uint64_t time) {
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
  t.cell = cell_of(t.context, state);
  t.site = in_api ? t.api.back().site : t.calls.empty() ? kNoCell : t.calls.back().site;
}

// The same after a call was entered or left: nothing but the layer can have changed.
void ProcessSweep::settle_call(SweepThread& t, uint64_t time) {
  if (!t.active || !t.api.empty()) return settle(t, time);
  t.layer = t.calls.empty() ? uint8_t{kPython} : t.calls.back().layer;
  set_executing(t, t.layer != kWait, time);
  t.cell = cell_of(t.context, state_of(t.layer) | (cells[t.cell].state & 3));
  t.site = t.calls.empty() ? kNoCell : t.calls.back().site;
}

void ProcessSweep::set_executing(SweepThread& t, bool executing, uint64_t time) {
  if (executing == t.executing) return;
  conditions.had.hold(kHadExecuting, executing, time);
  conditions.hold_of(kOfExecuting, executing, time);
  t.executing = executing;
}

uint32_t ProcessSweep::lane_of(uint32_t cell, size_t lanes) {
  Cell& c = cells[cell];
  if (c.lanes[lanes] == kNoCell) {
    const ContextKey& who = contexts.entries()[c.context].key;
    c.lanes[lanes] = lanes_[lanes].row({who.thread, who.operation, c.state});
  }
  return c.lanes[lanes];
}

uint32_t ProcessSweep::cell_of(uint32_t context, uint32_t state) {
  const uint32_t at = contexts[context].cells[state];
  return __builtin_expect(at == kNoCell, 0) ? add_cell(context, state) : at;
}

uint32_t ProcessSweep::add_cell(uint32_t context, uint32_t state) {
  const auto at = static_cast<uint32_t>(cells.size());
  contexts[context].cells[state] = at;
  cells.push_back({});
  cells.back().context = context;
  cells.back().state = state;
  return at;
}

// Call sites are kept for the whole run and its start-up only; one for each iteration would be too
// many. What was looked for last is found without a search.
const ProcessSweep::RecentSite& ProcessSweep::look_up_site(const SweepThread& t, uint32_t call,
                                                           uint8_t from) {
  const SiteKey key{slicing_ == kByStart ? t.context : 0, call, from};
  RecentSite& recent =
      recent_sites_[(call ^ (key.context << 4 | from) * 0x9e3779b1u >> 16) % kRecentSites];
  if (__builtin_expect(recent.key != key.packed(), 0)) find_site(recent, key);
  return recent;
}

void ProcessSweep::find_site(RecentSite& recent, const SiteKey& key) {
  const uint8_t layer = files_->layer_of(key.call);
  recent = {key.packed(), sites.find_or_add(key), layer, state_of(layer)};
}

uint32_t ProcessSweep::site_of(const SweepThread& t, uint32_t call, uint8_t from) {
  return look_up_site(t, call, from).site;
}

// The innermost operation; a thread that carries none of its own (autograd's, say) works for the
// one thread of its process that is inside an operation, if it is just one.
uint32_t ProcessSweep::operation_of(const SweepThread& t) const {
  if (!t.operations.empty()) return t.operations.back().name;
  if (t.carries || with_operations_ != 1) return 0;
  return threads[sum_with_operations_]->operations.back().name;
}

}  // namespace cutaway
