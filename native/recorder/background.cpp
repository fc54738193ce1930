// The background thread: prepares segments, packs full ones, samples the meters, writes the
// anchors. It never takes the GIL and runs at the lowest priority.
#include <Python.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "memory/heap.h"
#include "recorder/links.h"
#include "recorder/meters.h"
#include "recorder/pulse.h"
#include "recorder/state.h"

namespace cutaway {

namespace {

constexpr uint64_t kPatience = 2000000000;  // ns
constexpr uint64_t kManySamples = 3000;     // then one a second, in a run that keeps only its end;
constexpr uint64_t kMostSamples = 30000;    // then one in ten seconds

void wait_for_bell(uint32_t seen, uint64_t until_ns) {
  const uint64_t now = monotonic_ns();
  if (now >= until_ns) return;
  const uint64_t left = until_ns - now;
  timespec timeout = {static_cast<time_t>(left / 1000000000), static_cast<long>(left % 1000000000)};
  syscall(SYS_futex, &recorder.bell, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

void prepare_segments() {
  std::vector<ThreadState*> wishing;
  {
    Locked locked;
    for (ThreadState* t : recorder.threads)
      if (t->wish) wishing.push_back(t);
  }
  for (ThreadState* t : wishing) {
    const size_t size = t->wish.exchange(0);
    if (!size) continue;  // the thread was quicker
    Segment* segment = make_segment(recorder.folder.fd(), t->id, recorder.files++, size);
    if (!segment) continue;  // the thread will hit the same error and report it
    recorder.live_bytes += size;
    t->next = segment;
  }
}

// Oldest first, so that the blocks of a thread stand in events.bin in order.
std::vector<Segment*> take_full() {
  std::vector<Segment*> segments;
  for (Segment* s = recorder.full.exchange(nullptr); s; s = s->link) segments.push_back(s);
  std::reverse(segments.begin(), segments.end());
  return segments;
}

void put_back(Segment* segment) {
  segment->link = recorder.full.load();
  while (!recorder.full.compare_exchange_weak(segment->link, segment)) {
  }
}

// Packs a segment and lets go of its memory; if that fails, its file stays, which readers take,
// too.
void pack_and_unmap(Segment* segment) {
  uint64_t count = 0;
  std::vector<uint8_t> block;
  int error = 0;
  try {
    block = pack_segment(segment, &count);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (!block.empty()) {
    pthread_mutex_lock(&recorder.events_lock);
    const int fd = recorder.events.fd();
    if (fd < 0 || !append_block(fd, block)) error = fd < 0 ? EBADF : errno;
    pthread_mutex_unlock(&recorder.events_lock);
  }
  if (error) {
    recorder.write_error = error;
  } else {
    recorder.events_packed += count;
    recorder.bytes_packed += block.size();
    recorder.live_bytes -= segment->size;
    unlink_segment(recorder.folder.fd(), segment);
  }
  unmap_segment(segment);
}

void pack_one(Segment* segment) {
  recorder.waiting_bytes -= segment->size;
  if (segment->base) pack_and_unmap(segment);
  delete segment;
}

void bury_dead() {
  std::vector<ThreadState*> dead;
  {
    Locked locked;
    dead.swap(recorder.dead);
  }
  for (ThreadState* t : dead) {
    if (Segment* spare = t->next.exchange(nullptr)) {
      recorder.live_bytes -= spare->size;
      remove_segment(recorder.folder.fd(), spare);
    }
    delete t;
  }
}

std::atomic<long> background_tid{0};

void lower_priority() {
  background_tid = syscall(SYS_gettid);
  setpriority(PRIO_PROCESS, static_cast<id_t>(background_tid), 19);
  pthread_setname_np(pthread_self(), "cutaway");
}

void follow_the_window() {
  const WindowState window = recorder.shared.window();
  const bool paused = recorder.paused >> kWindow & 1;
  void* reason = reinterpret_cast<void*>(static_cast<uintptr_t>(kWindow));
  if (window == kWindowOpen && paused) Py_AddPendingCall(resume_when_python_runs, reason);
  if (window != kWindowOpen && !paused) Py_AddPendingCall(pause_when_python_runs, reason);
  if (calibration_overdue())
    Py_AddPendingCall(resume_when_python_runs,
                      reinterpret_cast<void*>(static_cast<uintptr_t>(kCalibration)));
}

void end_timed_window() {
  const double window_s = recorder.options.window_s;
  if (window_s <= 0 || recorder.shared.window() != kWindowOpen || !recorder.window_from) return;
  if (static_cast<double>(monotonic_ns() - recorder.window_from) >= window_s * 1e9)
    recorder.shared.set_window(kWindowOver);
}

// What the thread knows from tick to tick.
struct Beat {
  Meters meters;
  Pulses pulses;
  Links links;
  uint64_t next, number = 1;
};
std::unique_ptr<Beat>
    rested;  // while the thread rests: a program that forks all the time must not starve it

void tick(Beat& beat) {
  const uint64_t every =
      recorder.options.sample_hz >= 1 ? static_cast<uint64_t>(recorder.options.sample_hz) : 1;
  // Meters must not make a run of several days grow.
  const bool keeps = recorder.options.keep_s > 0;
  const uint64_t number = beat.number++;
  const uint64_t rarely = !keeps || number <= kManySamples ? 1
                          : number <= kMostSamples         ? every
                                                           : 10 * every;
  const bool full = number % every == 0;
  if (number % rarely == 0) beat.meters.sample(full);
  beat.pulses.look();
  beat.links.look(full);
  if (full) write_anchor();
  recorder.own_cpu_ns = recorder.own_cpu_before + thread_cpu_ns();
  recorder.shared.tell(beat.meters.process_cpu_ns(), bytes_so_far());
  end_timed_window();
  follow_the_window();
  look_at_lease();
}

void* run(void*) {
  lower_priority();
  heap_thread.inside = true;
  const double hz = recorder.options.sample_hz > 0 ? recorder.options.sample_hz : 1;
  const auto period = static_cast<uint64_t>(1e9 / hz);
  std::unique_ptr<Beat> beat = std::move(rested);
  if (!beat) {
    beat = std::make_unique<Beat>();
    beat->next = monotonic_ns() + period;
  }
  const auto tick_if_due = [&] {
    if (monotonic_ns() < beat->next) return;
    try {
      tick(*beat);
    } catch (const std::bad_alloc&) {
      // The next attempt may find memory again; the program must not end because of this.
    }
    beat->next = std::max(beat->next + period, monotonic_ns() + period / 2);
  };
  while (true) {
    const uint32_t seen = recorder.bell;
    const bool stopping = recorder.stopping;
    prepare_segments();
    for (Segment* segment : take_full()) {
      if (recorder.resting) {
        put_back(segment);
        continue;
      }
      pack_one(segment);
      prepare_segments();
      tick_if_due();
    }
    bury_dead();
    tick_if_due();
    if (recorder.resting || stopping) break;
    wait_for_bell(seen, beat->next);
  }
  if (recorder.resting) {
    rested = std::move(beat);
  } else {
    beat->meters.sample(true);
    write_anchor();
  }
  recorder.own_cpu_ns = recorder.own_cpu_before + thread_cpu_ns();
  return nullptr;
}

}  // namespace

// On a full machine the background thread, at the lowest priority, may be left behind by a thread
// that records millions of events a second. That one then does the work itself, so that neither
// memory nor events are lost. What describes the segment is left to the background thread to free,
// which may be looking at it.
void pack_here(Segment* segment) {
  pack_and_unmap(segment);
  segment->size = 0;
  hand_over(segment);
}

void rest_background() {
  if (!recorder.background_runs) return;
  recorder.resting = true;
  ring();
  pthread_join(recorder.background, nullptr);
  // A joined thread still counts for a moment, and Python counts threads after a fork to warn of
  // it. At the lowest priority that moment may be long on a busy machine.
  const uint64_t until = monotonic_ns() + kPatience;
  for (int i = 0;
       syscall(SYS_tgkill, getpid(), background_tid.load(), 0) == 0 && monotonic_ns() < until; ++i)
    i < 100 ? sched_yield() : usleep(100);
  Locked locked;
  recorder.background_runs = false;
  recorder.own_cpu_before = recorder.own_cpu_ns.load();
}

uint64_t bytes_so_far() {
  return recorder.bytes_packed + recorder.log.bytes() + recorder.live_bytes / 3 +
         recorder.device_bytes;
}

void ring() {
  recorder.bell.fetch_add(1);
  syscall(SYS_futex, &recorder.bell, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool start_background(bool goes_on) {
  recorder.resting = false;
  if (!goes_on) rested.reset();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to the program's own threads
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::max<size_t>(512 << 10, PTHREAD_STACK_MIN));
  recorder.background_runs = pthread_create(&recorder.background, &attributes, run, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return recorder.background_runs;
}

}  // namespace cutaway
