#include "sweep/slices.h"

#include <algorithm>

namespace cutaway {

void Slices::iterate(uint32_t number, uint64_t began, uint64_t time) {
  if (keeps_) passes.limit(timeline_.pauses, timeline_.paused_since());
  passes.iterations.push_back({number, 1, began, steps, time, 0});
  iteration_ = number;
  const bool becomes_steady = start_up_.begin_iteration(number, time);
  const Slicing slicing = timeline_.ledger.slicing;
  if (becomes_steady) {
    devices_.enter(1, time);
    begin_steady(time);
  }
  if (slicing == kByIteration && !over_) timeline_.enter_slice(number, time);
  if (slicing == kByStart && becomes_steady) timeline_.enter_slice(1, time);
  drawing_.count_iteration(time);
  if (slicing != kByStart || !start_up_.over_since) return;
  timeline_.advance_all(time);
  slowest.mark(number, time, steps, timeline_.ledger.cells, timeline_.ledger.contexts);
  if (began != time) slowest.forget();
}

void Slices::begin_steady(uint64_t time) {
  if (!timeline_.conditions.had.parted[0]) steps_startup = steps;
  timeline_.conditions.split(0, time);
}

void Slices::add_steps(uint64_t n, uint64_t from, uint64_t time) {
  steps += n;
  drawing_.count_steps(from, time, n);
}

// Iterations that began in it left no mark. Where the program makes steps, a unit ends with one:
// iterations began before theirs; else it ends where an iteration begins.
void Slices::take_in_pause(SweepThread& t, uint32_t iterations, uint32_t in_pause, uint64_t time) {
  const bool known = t.paused && t.pause_reason == kCalibrationPause && start_up_.iterations &&
                     iterations <= kMostUnmarked - unmarked_;
  const uint64_t from = t.paused_since, before = steps;
  timeline_.resume(t, time);
  for (uint64_t i = 0; known && i < iterations; ++i) {
    const uint64_t at = in_pause ? i : i + 1;
    steps = before + in_pause * at / iterations;
    const auto began = from + static_cast<uint64_t>(static_cast<double>(time - from) *
                                                    (static_cast<double>(at) / iterations));
    iterate(iteration_ + 1, began, time);
  }
  unmarked_ += known ? iterations : 0;
  steps = before;
  add_steps(in_pause, from ? from : time, time);
}

void Slices::decide(bool startup) {
  devices_.decide(startup);
  const auto slice_of = [startup](uint32_t slice) {
    return slice != kUndecided ? slice : startup ? 0u : 1u;
  };
  slowest.follow(timeline_.regroup(slice_of));
  if (startup || !timeline_.conditions.had.parted[2]) return;
  timeline_.conditions.end_startup_with_first_work();
  steps_startup = steps_first_;
}

// One that has no iterations (a worker) follows the process that had a second one first.
void Slices::take_mark(const LeaderMark& mark) {
  switch (mark.what) {
    case LeaderMark::kEndsOwn:
    case LeaderMark::kEndsRun:
      return end_steady(mark);
    case LeaderMark::kFirstWork:
      return begin_work(mark.time);
    case LeaderMark::kEnters:
      break;
  }
  devices_.enter(1, mark.time);
  if (start_up_.iterations && !everyone_follows_) return;
  begin_steady(mark.time);
  timeline_.enter_slice(mark.slice, mark.time);
}

void Slices::begin_work(uint64_t time) {
  if (!start_up_.over_since) devices_.enter(kUndecided, time);
  if (timeline_.slice()) return;
  steps_first_ = steps;
  timeline_.conditions.split(2, time);
  timeline_.enter_slice(kUndecided, time);
}

// What never became steady has no end of that either.
void Slices::end_steady(const LeaderMark& mark) {
  const bool of_run = mark.what == LeaderMark::kEndsRun;
  if (of_run) devices_.enter(kShutDown, mark.time);
  const bool follows_run = !start_up_.iterations;
  if (of_run != follows_run || !timeline_.conditions.had.parted[0]) return;
  over_ = true;
  timeline_.conditions.split(1, mark.time);
  const bool by_start = timeline_.ledger.slicing == kByStart;
  timeline_.enter_slice(by_start ? kShutDown : kNoIteration, mark.time);
}

}  // namespace cutaway
