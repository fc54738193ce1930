// Pause and resume, for all threads of the process at once. Everything here holds the GIL (see
// state.h).
#include <Python.h>
#include <errno.h>
#include <string.h>

#include "recorder/operations.h"
#include "recorder/state.h"

namespace cutaway {

namespace {

void (*arm_hooks)() = nullptr;
void (*disarm_hooks)() = nullptr;

void remember(ThreadState* t) {
  t->paused_calls.clear();
  for (uint32_t i = 0; i < t->written && i < kMaxOpen; ++i)
    t->paused_calls.push_back(t->open[i].call);
  t->paused_operations.clear();
  for (const OpenOperation& o : t->operations) t->paused_operations.push_back(o.name);
  t->paused_phase = t->phase;
}

// Writes what was closed and opened meanwhile, at the moment of resuming.
void write_difference(ThreadState* t, uint64_t now) {
  auto& calls = t->paused_calls;
  for (; calls.size() > t->written; calls.pop_back())
    append(t, now, 0, make_tag(kExit, calls.back()));
  auto& before = t->paused_operations;
  size_t same = 0;
  while (same < before.size() && same < t->operations.size() &&
         before[same] == t->operations[same].name)
    ++same;
  for (; before.size() > same; before.pop_back())
    append(t, now, 0, make_tag(kOpExit, before.back()));
  for (; same < t->operations.size(); ++same) {
    const OpenOperation& o = t->operations[same];
    append(t, now, why_of(o), make_tag(kOpEnter, o.name));
  }
  if (t->phase != t->paused_phase) append(t, now, 0, make_tag(kPhase, t->phase));
}

void resume_thread(ThreadState* t) {
  if (t->session != recorder.session || !t->paused) {
    start_open_calls_at(t, recorder.life_from);
    return;
  }
  t->paused = false;
  t->cursor = t->paused_cursor;
  t->end = t->paused_end;
  const uint64_t now = ticks();
  const uint32_t steps =
      t->paused_steps > 0xffffffff ? 0xffffffff : static_cast<uint32_t>(t->paused_steps);
  const uint32_t iterations =
      t->paused_iterations > kMaxId ? kMaxId : static_cast<uint32_t>(t->paused_iterations);
  t->paused_steps = t->paused_iterations = 0;
  start_open_calls_at(t, now);
  append(t, now, steps, make_tag(kResume, iterations));
  write_difference(t, now);
}

}  // namespace

void set_switch(void (*arm)(), void (*disarm)()) {
  arm_hooks = arm;
  disarm_hooks = disarm;
}

void arm_hooks_if(bool on) {
  if (on && arm_hooks) arm_hooks();
  if (!on && disarm_hooks) disarm_hooks();
}

void start_open_calls_at(ThreadState* t, uint64_t time) {
  for (uint32_t i = t->written; i < t->depth && i < kMaxOpen; ++i)
    if (t->open[i].start < time) t->open[i].start = time;
}

// Uses the reserve of the segment: the last words are there even when the disk is full.
void pause_thread(ThreadState* t, uint32_t reason) {
  if (t->session != recorder.session || t->paused || !t->segment) return;
  const Segment* segment = t->segment;
  Record* end = t->end;
  t->end = t->segment->last();
  write_enters(t);
  if (t->segment != segment) end = t->end;
  remember(t);
  if (t->cursor != t->end) append(t, ticks(), 0, make_tag(kPause, reason));
  t->paused = true;
  t->paused_cursor = t->cursor;
  t->paused_end = t->cursor > end ? t->cursor : end;
  t->cursor = t->end = nullptr;
}

bool iterate_in_pause(ThreadState* t, uint32_t number) {
  if (!t->paused || recorder.paused != 1u << kCalibration || t->paused_end - t->paused_cursor < 2)
    return false;
  t->cursor = t->paused_cursor;
  t->end = t->paused_end;
  const uint64_t now = ticks();
  if (t->paused_steps) append(t, now, static_cast<uint32_t>(t->paused_steps), make_tag(kStep, 0));
  append(t, now, number, make_tag(kIteration, 0));
  t->paused_steps = 0;
  t->paused_cursor = t->cursor;
  t->cursor = t->end = nullptr;
  return true;
}

void pause(uint32_t reason) {
  if (recorder.paused == 0 && recorder.recording) {
    arm_hooks_if(false);
    Locked locked;
    recorder.switching = true;
    for (ThreadState* t : recorder.threads) pause_thread(t, reason);
    recorder.switching = false;
  }
  recorder.paused |= 1u << reason;
  note_outside();
}

// Calibration is too short, and a device too far behind its launches, to leave device work out of
// it.
void note_outside() {
  const bool outside = recorder.paused & ~(1u << kCalibration);
  if (!outside) recorder.outside_since = 0;
  if (outside && !recorder.outside_since) recorder.outside_since = monotonic_ns();
}

void resume(uint32_t reason) {
  const uint32_t before = recorder.paused.fetch_and(~(1u << reason));
  // What a device's collector still holds of the time outside is asked for while it can be told
  // apart.
  const cutaway_phase_hook hook = phase_hook.look();
  if (hook && recorder.outside_since && !(recorder.paused & ~(1u << kCalibration))) hook(0);
  note_outside();
  if (before == 0 || recorder.paused != 0 || !recorder.recording) return;
  {
    Locked locked;
    recorder.switching = true;
    recorder.life_from = ticks();
    for (ThreadState* t : recorder.threads) resume_thread(t);
    recorder.switching = false;
  }
  arm_hooks_if(true);
  if (recorder.give_up_next) give_up(recorder.give_up_next, recorder.write_error);
}

void give_up(uint32_t reason, int error) {
  if (recorder.switching) {
    recorder.give_up_next = reason;
    if (error) recorder.write_error = error;
    return;
  }
  recorder.give_up_next = 0;
  if (recorder.paused >> reason & 1) return;
  pause(reason);
  std::string what = "the size limit was reached";
  if (reason == kDiskFull)
    what = error == ENOSPC || error == EDQUOT ? "the disk is full" : strerror(error);
  recorder.log.line("\"k\":\"loss\",\"what\":\"recording stopped: " + what +
                    "\",\"n\":0,\"t\":" + std::to_string(monotonic_ns()));
}

// Operations, phase and calls that are open where a thread's traced life begins.
void write_stack(ThreadState* t, uint64_t now) {
  t->written = 0;
  start_open_calls_at(t, now);
  if (t->phase) append(t, now, 0, make_tag(kPhase, t->phase));
  for (const OpenOperation& o : t->operations)
    append(t, now, why_of(o), make_tag(kOpEnter, o.name));
}

int pause_when_python_runs(void* reason) {
  pause(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(reason)));
  return 0;
}

int resume_when_python_runs(void* reason) {
  resume(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(reason)));
  return 0;
}

}  // namespace cutaway
