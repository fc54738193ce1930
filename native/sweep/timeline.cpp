// What each kind of record does to the state of its thread, and where its time goes then.
#include <algorithm>

#include "sweep/sweep.h"

namespace cutaway {

void Sweep::apply(SweepThread& t, const Event& e) {
  const uint32_t id = id_of(e.tag);
  const Kind kind = kind_of(e.tag);
  if (kind == kSample) return;
  if (!t.alive && kind != kEnd) begin(t, e.time);
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
      enter_context(t);
      return settle(t, e.time);
    case kIteration:
      return iterate(t, e.value, e.time, e.time);
    case kStep:
      processes[t.process]->steps += e.value;
      return;
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

// Samples come from a stream of their own, merged by time: the thread is in the state it was sampled in.
void Sweep::take_sample(const SweepProcess& p, uint32_t thread, uint32_t frame) {
  const uint32_t index = thread < p.thread_of.size() ? p.thread_of[thread] : kNoCell;
  if (index == kNoCell || !threads[index]->active) return;
  const SweepThread& t = *threads[index];
  uint32_t call = t.calls.empty() ? kNoCell : t.calls.back().call;
  if (!t.api.empty()) call = kApiCall + p.api[t.api.back()].name;
  ++samples[samples.find_or_add({t.context, call, frame, t.layer})];
}

// Calls with nothing inside them while nothing else happens anywhere: the common case, without the detour
// over general states. What cannot change from one to the next is looked at once. False if there was none.
bool Sweep::pass_calls(SweepThread& t, uint64_t limit) {
  if (!t.alive || t.paused || !t.api.empty() || t.layer == kWait || t.cell == kNoCell) return false;
  if (slicing_ == kByBin) limit = std::min(limit, bin_end(t.slice));
  constexpr uint32_t kOfLayer[] = {1u << kOfPython, 0, 1u << kOfBackend, 0, 0, 0};
  const uint32_t busy = cells[t.cell].state & 7;
  const uint32_t* known = contexts[t.context].cells;
  uint64_t cpu_from = cpu_first, cpu_until = cpu_last;
  uint64_t made = 0, outside = 0, last = t.last;
  const Event* e = t.event;
  while (e && kind_of(e->tag) == kCall && e->end < limit) {
    const uint32_t call = id_of(e->tag);
    const uint8_t layer = t.layer_of(call);
    if (layer == kWait) break;
    const uint64_t inside = e->end - e->time;
    const uint32_t state = uint32_t{layer} << 3 | busy;
    Cell& cell = cells[known[state] != kNoCell ? known[state] : cell_of(t.context, state)];
    cell.ns += inside;
    ++cell.calls;
    Site& site = sites[site_of(t, call, t.layer)];
    site.ns += inside;
    ++site.count;
    of.pulse(kOfLayer[layer], e->time, e->end);
    cpu_from = std::min(cpu_from, layer == kBackend ? e->time : UINT64_MAX);
    cpu_until = std::max(cpu_until, layer == kBackend ? e->end : 0);
    outside += e->time - last;
    last = e->end;
    ++made;
    e = t.events->next();
  }
  if (!made) return false;
  cpu_first = cpu_from;
  cpu_last = cpu_until;
  cells[t.cell].ns += outside;
  cells[t.cell].calls_made += made;
  t.made.calls += made;
  if (t.site != kNoCell) sites[t.site].ns += outside;
  t.traced_ns += last - t.last;
  t.last = last;
  t.event = e;
  if (!e) finish(t, last);
  return true;
}

void Sweep::next_event(SweepThread& t, uint64_t time) {
  t.event = t.events->next();
  if (!t.event && t.alive) finish(t, time);
}

void Sweep::enter_call(SweepThread& t, uint32_t call, uint64_t time) {
  if (!t.alive) begin(t, time);
  advance(t, time);
  const uint8_t layer = t.layer_of(call);
  if (t.cell != kNoCell) ++cells[t.cell].calls_made;
  ++t.made.calls;
  const uint32_t site = site_of(t, call, t.calls.empty() ? uint8_t{kPython} : t.calls.back().layer);
  ++sites[site].count;
  t.calls.push_back({call, layer, site});
  if (layer == kBackend) note_cpu(time, time);
  if (!t.open_of[layer]++) {
    if (layer == kBackend) of.hold(kOfBackend, true, time);
    if (layer == kPython) of.hold(kOfPython, true, time);
  }
  settle(t, time);
  if (t.cell != kNoCell) ++cells[t.cell].calls;
}

void Sweep::exit_call(SweepThread& t, uint32_t call, uint64_t time) {
  size_t at = t.calls.size();
  while (at && t.calls[at - 1].call != call) --at;
  if (!at) {
    ++t.unmatched;
    return;
  }
  advance(t, time);
  const uint8_t layer = t.calls[at - 1].layer;
  t.calls.erase(t.calls.begin() + static_cast<std::ptrdiff_t>(at - 1));
  if (layer == kBackend) note_cpu(time, time);
  if (!--t.open_of[layer]) {
    if (layer == kBackend) of.hold(kOfBackend, false, time);
    if (layer == kPython) of.hold(kOfPython, false, time);
  }
  settle(t, time);
}

// What only the analysis says costs nothing at run time; the mark of a network costs what an operation does.
void Sweep::apply_mark(SweepThread& t, const Event& e) {
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
  settle(t, e.time);
}

void Sweep::enter_operation(SweepThread& t, uint32_t name, uint32_t why, uint64_t time) {
  const bool recorded = why <= kByFramework;
  advance(t, time);
  if (recorded && t.cell != kNoCell) ++cells[t.cell].operations_made;
  if (t.operations.empty()) {
    ++processes[t.process]->with_operations;
    processes[t.process]->sum_with_operations += t.index;
  }
  t.carries = true;
  t.made.operations += recorded;
  t.operations.push_back({name, t.slice, why, time, t.paused_ns, t.made});
  enter_context(t);
  settle(t, time);
  if (t.cell == kNoCell) return;
  ++cells[t.cell].begun;
  cells[t.cell].operations += recorded;
}

void Sweep::exit_operation(SweepThread& t, size_t at, uint64_t time) {
  advance(t, time);
  const OpenOp op = t.operations[at];
  t.operations.erase(t.operations.begin() + static_cast<std::ptrdiff_t>(at));
  const uint64_t paused =
      t.paused_ns - op.paused + (t.paused ? time - std::max(t.paused_since, op.start) : 0);
  Durations& all = operations[operations.find_or_add({t.process, op.name, op.slice})];
  all.add(time - op.start - paused);
  if (std::none_of(t.operations.begin(), t.operations.begin() + static_cast<std::ptrdiff_t>(at),
                   [&](const OpenOp& o) { return o.name == op.name; })) {
    all.total += time - op.start - paused;
    all.outer += op.why <= kByFramework;
    all.inside.add(t.made, op.before);
  }
  if (t.operations.empty()) {
    --processes[t.process]->with_operations;
    processes[t.process]->sum_with_operations -= t.index;
  }
  enter_context(t);
  settle(t, time);
}

// A process is in its start-up until its second iteration begins. One that has no iterations (a worker)
// follows the first process that had one.
void Sweep::iterate(SweepThread& t, uint32_t number, uint64_t began, uint64_t time) {
  SweepProcess& p = *processes[t.process];
  iterations.push_back({t.process, number, began, p.steps});
  ++p.marks;
  p.iteration = number;
  if (leader_ == kNobody) leader_ = t.process;
  const bool becomes_steady = !p.steady && (p.marks > 1 || number > 2);
  p.steady |= becomes_steady;
  if (becomes_steady) end_startup(p, leader_ == t.process, time);
  if (slicing_ == kByBin || (slicing_ == kByStart && !becomes_steady)) return;
  const uint32_t slice = slicing_ == kByStart ? 1 : number;
  set_slice(p, slice, time);
  if (leader_ != t.process) return;
  for (auto& other : processes)
    if (!other->marks) set_slice(*other, slice, time);
}

void Sweep::end_startup(SweepProcess& p, bool leads, uint64_t time) {
  p.had.split(time);
  if (!leads) return;
  steady_ns = time;
  of.split(time);
  for (auto& other : processes)
    if (!other->marks) other->had.split(time);
}

void Sweep::set_slice(SweepProcess& p, uint32_t slice, uint64_t time) {
  p.slice = slice;
  for (const uint32_t i : p.threads) {
    SweepThread& t = *threads[i];
    advance(t, time);
    t.slice = slice;
    enter_context(t);
    settle(t, time);
  }
}

void Sweep::begin(SweepThread& t, uint64_t time) {
  advance(t, time);
  t.alive = true;
  settle(t, time);
}

// Slice 0 is before the first bin, the one behind the last bin is all that comes after it.
uint32_t Sweep::slice_at(const SweepThread& t, uint64_t time) const {
  if (slicing_ != kByBin) return processes[t.process]->slice;
  if (time < bin_origin_) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((time - bin_origin_) / bin_width_, bin_count_)) + 1;
}

uint64_t Sweep::bin_end(uint32_t slice) const {
  return slice > bin_count_ ? UINT64_MAX : bin_origin_ + slice * bin_width_;
}

// The end of a traced life: what is still open ends here.
void Sweep::finish(SweepThread& t, uint64_t time) {
  if (t.paused) resume(t, time);
  while (!t.calls.empty()) exit_call(t, t.calls.back().call, time);
  while (!t.operations.empty()) exit_operation(t, t.operations.size() - 1, time);
  advance(t, time);
  t.alive = false;
  settle(t, time);
}

void Sweep::pause(SweepThread& t, uint32_t reason, uint64_t time) {
  if (t.paused) return;
  advance(t, time);
  t.paused = true;
  t.paused_since = time;
  t.pause_reason = reason;
  settle(t, time);
}

// The unit that calibration left out ends here. Iterations that began in it left no mark. Where the program
// makes steps, a unit ends with one: iterations began before theirs; else it ends where an iteration begins.
void Sweep::take_in_pause(SweepThread& t, uint32_t iterations, uint32_t steps, uint64_t time) {
  SweepProcess& p = *processes[t.process];
  const bool known =
      t.paused && t.pause_reason == kCalibrationPause && p.marks && iterations <= kMostUnmarked - p.unmarked;
  const uint64_t from = t.paused_since, before = p.steps;
  resume(t, time);
  for (uint64_t i = 0; known && i < iterations; ++i) {
    const uint64_t at = steps ? i : i + 1;
    p.steps = before + steps * at / iterations;
    const auto began = from + static_cast<uint64_t>(static_cast<double>(time - from) *
                                                    (static_cast<double>(at) / iterations));
    iterate(t, p.iteration + 1, began, time);
  }
  p.unmarked += known ? iterations : 0;
  p.steps = before + steps;
}

void Sweep::resume(SweepThread& t, uint64_t time) {
  if (!t.paused) return;
  advance(t, time);
  t.paused = false;
  t.paused_ns += time - t.paused_since;
  pauses.push_back({t.index, t.pause_reason, t.paused_since, time});
  settle(t, time);
}

// Adds the time since the last boundary to where the thread has been.
void Sweep::advance(SweepThread& t, uint64_t time) {
  if (t.cell == kNoCell) {
    t.last = time;
    return;
  }
  if (slicing_ == kByBin) {
    for (;;) {
      const uint64_t edge = bin_end(t.slice);
      if (edge >= time) break;
      cells[t.cell].ns += edge - t.last;
      t.traced_ns += edge - t.last;
      t.last = edge;
      ++t.slice;
      const uint32_t state = cells[t.cell].state;
      enter_context(t);
      t.cell = cell_of(t.context, state);
    }
  }
  const uint64_t ns = time - t.last;
  cells[t.cell].ns += ns;
  if (t.site != kNoCell) sites[t.site].ns += ns;
  t.traced_ns += ns;
  t.last = time;
}

void Sweep::enter_context(SweepThread& t) {
  const OpenOp* op = t.operations.empty() ? nullptr : &t.operations.back();
  t.context = contexts.find_or_add({t.index, t.phase, op ? op->name : 0, t.slice, op ? op->why : 0});
}

// Finds the cell for the state the thread is in now. A thread whose own records do not cover this instant
// (one that only the accelerator's library knows) counts while it is inside an API call.
void Sweep::settle(SweepThread& t, uint64_t time) {
  const bool in_api = !t.api.empty();
  const bool active = !t.paused && (t.alive || in_api);
  if (active && !t.active) {
    if (!t.seen) t.first = time;
    t.seen = true;
    t.slice = slice_at(t, time);
    enter_context(t);
  }
  if (!active && t.active) t.end = std::max(t.end, time);
  t.layer = t.calls.empty() ? uint8_t{kPython} : t.calls.back().layer;
  const uint8_t layer = in_api ? uint8_t{kAcceleratorApi} : t.layer;
  const bool blocked = in_api ? t.sync > 0 : layer == kWait;
  SweepProcess& p = *processes[t.process];
  if (active != t.active) p.had.hold(kHadThread, active, time);
  t.active = active;
  const bool executing = active && !blocked;
  if (executing != t.executing) {
    p.had.hold(kHadExecuting, executing, time);
    of.hold(kOfExecuting, executing, time);
    t.executing = executing;
  }
  if (!active) {
    t.cell = t.site = kNoCell;
    return;
  }
  const uint32_t state =
      uint32_t{layer} << 3 | uint32_t{blocked} << 2 | uint32_t{t.busy > 0} << 1 | uint32_t{p.busy > 0};
  t.cell = cell_of(t.context, state);
  t.site = in_api ? p.api_site[t.api.back()] : t.calls.empty() ? kNoCell : t.calls.back().site;
}

uint32_t Sweep::cell_of(uint32_t context, uint32_t state) {
  uint32_t& at = contexts[context].cells[state];
  if (at == kNoCell) {
    at = static_cast<uint32_t>(cells.size());
    cells.push_back({});
    cells.back().context = context;
    cells.back().state = state;
  }
  return at;
}

// Call sites are kept for the whole run and its start-up only; one for each bin or iteration would be too
// many.
uint32_t Sweep::site_of(const SweepThread& t, uint32_t call, uint8_t from) {
  return sites.find_or_add({slicing_ == kByStart ? t.context : 0, call, from});
}

// The innermost operation; a thread that carries none of its own (autograd's, say) works for the one thread
// of its process that is inside an operation, if it is just one.
uint32_t Sweep::operation_of(const SweepThread& t) const {
  if (!t.operations.empty()) return t.operations.back().name;
  const SweepProcess& p = *processes[t.process];
  if (t.carries || p.with_operations != 1) return 0;
  return threads[p.sum_with_operations]->operations.back().name;
}

}  // namespace cutaway
