// What the time of a process is divided by: start-up, steady state and shut-down, or its
// iterations.
#include <algorithm>

#include "sweep/sweep.h"

namespace cutaway {

void ProcessSweep::iterate(uint32_t number, uint64_t began, uint64_t time) {
  if (keeps_) passes.limit(paused_since());
  passes.iterations.push_back({number, 1, began, steps, time, 0});
  iteration_ = number;
  const bool becomes_steady = start_up_.begin_iteration(number, time);
  if (becomes_steady) {
    if (!conditions.had.parted[0]) steps_startup = steps;
    devices.enter(1, time);
    conditions.split(0, time);
  }
  if (slicing_ == kByIteration && !over_) set_slice(number, time);
  if (slicing_ == kByStart && becomes_steady) set_slice(1, time);
  if (!lanes_.empty()) lanes_[0].count(lanes_[0].iterations, time, 1);
  if (slicing_ != kByStart || !start_up_.over_since) return;
  for (auto& t : threads) advance(*t, time);
  slowest.mark(number, time, steps, cells, contexts);
  if (began != time) slowest.forget();
}

// Since when a thread is paused that still is.
uint64_t ProcessSweep::paused_since() const {
  uint64_t first = UINT64_MAX;
  for (const auto& t : threads)
    if (t->paused) first = std::min(first, t->paused_since);
  return first;
}

void ProcessSweep::add_steps(uint64_t n, uint64_t time) {
  steps += n;
  if (!lanes_.empty()) lanes_[0].count(lanes_[0].steps, time, n);
}

// The unit that calibration left out ends here. Iterations that began in it left no mark. Where the
// program makes steps, a unit ends with one: iterations began before theirs; else it ends where an
// iteration begins.
void ProcessSweep::take_in_pause(SweepThread& t, uint32_t iterations, uint32_t steps,
                                 uint64_t time) {
  const bool known = t.paused && t.pause_reason == kCalibrationPause && start_up_.iterations &&
                     iterations <= kMostUnmarked - unmarked_;
  const uint64_t from = t.paused_since, before = this->steps;
  resume(t, time);
  for (uint64_t i = 0; known && i < iterations; ++i) {
    const uint64_t at = steps ? i : i + 1;
    this->steps = before + steps * at / iterations;
    const auto began = from + static_cast<uint64_t>(static_cast<double>(time - from) *
                                                    (static_cast<double>(at) / iterations));
    iterate(iteration_ + 1, began, time);
  }
  unmarked_ += known ? iterations : 0;
  this->steps = before;
  add_steps(steps, time);
}

void ProcessSweep::lead(uint64_t first_work, uint64_t steady) {
  std::vector<LeaderMark> marks;
  if (first_work && (!steady || first_work < steady))
    marks.push_back({first_work, kUndecided, LeaderMark::kFirstWork});
  if (steady) marks.push_back({steady, 1, LeaderMark::kEnters});
  follow_leader(std::move(marks));
}

void ProcessSweep::decide(bool startup) {
  if (!loaded_) return;
  devices.decide(startup);
  regroup([startup](uint32_t slice) { return slice != kUndecided ? slice : startup ? 0u : 1u; });
  if (startup || !conditions.had.parted[2]) return;
  conditions.end_startup_with_first_work();
  steps_startup = steps_first_;
}

// Tables with other slices: what is the same then is put together.
void ProcessSweep::regroup(const std::function<uint32_t(uint32_t)>& slice_of) {
  std::vector<uint32_t> context_at, cell_at, site_at;
  const auto moved = [](uint32_t& at, const std::vector<uint32_t>& to) {
    if (at < to.size()) at = to[at];
  };
  const auto old_contexts = std::exchange(contexts, {}).entries();
  for (const auto& entry : old_contexts) {
    ContextKey key = entry.key;
    key.slice = slice_of(key.slice);
    context_at.push_back(contexts.find_or_add(key));
  }
  for (const Cell& cell : std::exchange(cells, {})) {
    cell_at.push_back(cell_of(context_at[cell.context], cell.state));
    cells[cell_at.back()].add(cell);
  }
  const auto old_sites = std::exchange(sites, {}).entries();
  for (const auto& entry : old_sites) {
    site_at.push_back(
        sites.find_or_add({context_at[entry.key.context], entry.key.call, entry.key.from}));
    sites[site_at.back()].count += entry.value.count;
    sites[site_at.back()].ns += entry.value.ns;
  }
  const auto old_samples = std::exchange(samples, {}).entries();
  for (const auto& [key, count] : old_samples)
    samples[samples.find_or_add(
        {context_at[key.context], key.call, key.frame, key.layer, key.doing})] += count;
  const auto old_operations = std::exchange(operations, {}).entries();
  for (const auto& [key, all] : old_operations)
    operations[operations.find_or_add({key.operation, slice_of(key.slice)})].add(all);
  for (auto& t : threads) {
    t->slice = slice_of(t->slice);
    moved(t->context, context_at);
    moved(t->cell, cell_at);
    moved(t->site, site_at);
    for (OpenCall& call : t->calls) moved(call.site, site_at);
    for (OpenApi& call : t->api) moved(call.site, site_at);
    for (OpenOp& op : t->operations) op.slice = slice_of(op.slice);
  }
  slice_ = slice_of(slice_);
  slowest.follow(cell_at);
  recent_sites_ = {};
}

// One that has no iterations (a worker) follows the process that had a second one first.
void ProcessSweep::step_leader() {
  const LeaderMark mark = leader_.take();
  if (mark.what == LeaderMark::kEndsOwn || mark.what == LeaderMark::kEndsRun) {
    if (mark.what == LeaderMark::kEndsRun) devices.enter(kShutDown, mark.time);
    if ((mark.what == LeaderMark::kEndsOwn) == (start_up_.iterations > 0)) shut_down(mark.time);
    return;
  }
  if (mark.what == LeaderMark::kFirstWork) {
    if (!start_up_.over_since) devices.enter(kUndecided, mark.time);
    if (slice_) return;
    steps_first_ = steps;
    conditions.split(2, mark.time);
    return set_slice(kUndecided, mark.time);
  }
  devices.enter(1, mark.time);
  if (start_up_.iterations && !everyone_follows_) return;
  if (!conditions.had.parted[0]) steps_startup = steps;
  conditions.split(0, mark.time);
  set_slice(mark.slice, mark.time);
}

// What never became steady has no end of that either.
void ProcessSweep::shut_down(uint64_t time) {
  if (!conditions.had.parted[0]) return;
  over_ = true;
  conditions.split(1, time);
  set_slice(slicing_ == kByStart ? kShutDown : kNoIteration, time);
}

void ProcessSweep::set_slice(uint32_t slice, uint64_t time) {
  slice_ = slice;
  for (auto& t : threads) {
    advance(*t, time);
    t->slice = slice;
    enter_context(*t);
  }
}

}  // namespace cutaway
