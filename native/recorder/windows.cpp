// When to record: windows by iterations or time, and the unrecorded units that calibration compares
// with.
#include <stdlib.h>

#include <cmath>

#include "recorder/state.h"

namespace cutaway {

namespace {

constexpr uint64_t kOverdue = 20000000000;  // ns
constexpr uint64_t kShortestUnit =
    5000000;  // ns; switching costs some 20 µs, which must not be felt

constexpr uint32_t kFirstUnits = 10;  // always recorded: a short run is recorded as a whole

struct Calibration {
  ThreadState* driver;  // the first thread that marks steps or iterations decides for the process
  bool has_steps, off;
  Watched<uint64_t> unit_from;  // ns; the background thread looks at it
  uint64_t off_cpu_ns;          // thread CPU time when the unrecorded unit began
  uint64_t random;
  uint32_t units;
};
Calibration calibration;

double next_random() {
  uint64_t x = calibration.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  calibration.random = x;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

void write_cpu(ThreadState* t, uint64_t cpu_ns) {
  mark(t, ticks(), static_cast<uint32_t>(cpu_ns),
       make_tag(kCpuTime, static_cast<uint32_t>(cpu_ns >> 32) & kMaxId));
}

// CPU time is read after the hooks are out and before they
// are back, so that switching is not part of the unit.
void leave_out() {
  calibration.off = true;
  pause(kCalibration);
  calibration.off_cpu_ns = thread_cpu_ns();
}

void take_in(ThreadState* t) {
  const uint64_t cpu_ns = thread_cpu_ns();
  resume(kCalibration);
  write_cpu(t, calibration.off_cpu_ns);
  write_cpu(t, cpu_ns);
}

}  // namespace

void window_start(bool first_process) {
  const Options& o = recorder.options;
  if (first_process && o.after_iterations) recorder.shared.set_window(kWindowNotYet);
  const WindowState window = recorder.shared.window();
  if (window != kWindowOpen) recorder.paused |= 1u << kWindow;
  note_outside();
  if (first_process && window == kWindowOpen) recorder.window_from = recorder.started_ns;
}

// The background thread asks for a pending call, but the main thread runs that only after it took
// the GIL anew, which a program in pure Python may never do.
void window_at_mark() {
  const bool open = recorder.shared.window() == kWindowOpen;
  const bool paused = recorder.paused >> kWindow & 1;
  if (!open && !paused) pause(kWindow);
  if (open && paused) resume(kWindow);
}

// Iteration `number` (from 1) is about to begin.
void window_before_iteration(uint64_t number) {
  const Options& o = recorder.options;
  window_at_mark();
  if (o.for_iterations && number == o.after_iterations + o.for_iterations + 1) {
    recorder.shared.set_window(kWindowOver);
    pause(kWindow);
  } else if (o.after_iterations && number == o.after_iterations + 1) {
    recorder.shared.set_window(kWindowOpen);
    recorder.window_from = monotonic_ns();
    resume(kWindow);
  } else if (number == 1 && o.window_s > 0 && recorder.window_from) {
    // A timed window counts from here: the start-up may have taken longer than all of it.
    recorder.window_from = monotonic_ns();
    recorder.shared.set_window(kWindowOpen);
    resume(kWindow);
  }
}

// After the last step of a program there may be a long rest, which must not stay unrecorded.
bool calibration_overdue() {
  return (recorder.paused >> kCalibration & 1) && monotonic_ns() - calibration.unit_from > kOverdue;
}

uint32_t debug_spin = 0;

void calibrate_reset() {
  calibration = {};
  calibration.random = ticks() | 1;
  const char* spin = getenv("CUTAWAY_DEBUG_SPIN_NS");
  debug_spin = 0;
  if (!spin) return;
  const uint64_t from = monotonic_ns(), ticks_from = ticks();
  while (monotonic_ns() < from + 1000000) {
  }
  debug_spin = static_cast<uint32_t>(strtoull(spin, nullptr, 10) * (ticks() - ticks_from) /
                                     (monotonic_ns() - from));
}

// At the end of a unit of work: a step where the program has steps, else an
// iteration; several of them if they are short. Record: CpuTime [Pause … Resume
// CpuTime CpuTime] CpuTime …; the two in the middle bound the unrecorded unit.
void calibrate_at_unit(ThreadState* t, bool is_step) {
  Calibration& c = calibration;
  const double share = recorder.options.calibrate_share;
  if (share <= 0 || !recorder.recording || (recorder.paused & ~(1u << kCalibration))) return;
  const uint64_t now = monotonic_ns();
  if (!c.driver || now - c.unit_from > kOverdue) c.driver = t;
  if (c.driver != t) return;
  c.has_steps |= is_step;
  if (c.has_steps != is_step) return;
  if (c.unit_from && now - c.unit_from < kShortestUnit) return;
  c.unit_from = now;
  if (c.off && (recorder.paused >> kCalibration & 1)) take_in(t);
  c.off = false;
  write_cpu(t, thread_cpu_ns());
  if (++c.units > kFirstUnits && next_random() < share) leave_out();
}

}  // namespace cutaway
