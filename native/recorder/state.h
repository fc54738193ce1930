// The recorder's own state, seen only inside native/recorder. Three rules keep it simple:
//   1. Records are written with the GIL held, so whoever holds the GIL may also touch another
//   thread's buffer
//      (pause, resume, stop). Order of locks: the GIL, then `lock`; nobody asks for the GIL under
//      `lock`.
//   2. `lock` guards the list of threads. It is held for pointer moves only, never across a
//   blocking system
//      call, because the background thread that takes it runs at the lowest priority.
//   3. A ThreadState is freed by the background thread (or by its own thread when there is none).
#pragma once
#include <Python.h>
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <string>
#include <vector>

#include "recorder/log.h"
#include "recorder/recorder.h"
#include "recorder/segment.h"
#include "recorder/shared.h"

namespace cutaway {

enum PauseReason : uint32_t {
  kCalibration = 1,
  kWindow = 2,
  kAskedFor = 3,
  kSizeLimit = 4,
  kDiskFull = 5
};

struct Options {
  std::string folder, name, role, program, extra;
  bool call_sites = true, memory = true;
  uint64_t max_bytes = 0;
  double sample_hz = 10;
  double stack_hz = 0;
  double calibrate_share = 0;
  uint64_t after_iterations = 0, for_iterations = 0;
  double window_s = 0, keep_s = 0;
};

// An operation that is open on a thread.
struct OpenOperation {
  uint32_t name;
  uint32_t
      depth;  // of Python's stack where it was opened; kAutomatic if a framework hook opened it
};
constexpr uint32_t kAutomatic = ~0u;
inline uint32_t why_of(const OpenOperation& o) {
  return o.depth == kAutomatic ? kByFramework : kAnnotated;
}

// An asyncio task that was switched out with operations
// open. Weakly held: watching must not keep a task alive.
struct SuspendedTask {
  PyObject* task;  // identity only
  PyObject* weak;
  std::vector<OpenOperation> operations;
};

struct ThreadState : Thread {
  std::atomic<uint32_t> session{0};  // of the recorder, 0: none yet
  uint32_t id = 0;
  uint32_t seq = 0;
  pid_t tid = 0;
  Watched<const PyThreadState*> python{nullptr};  // for the sampler, which reads it without the GIL
  unsigned long ident = 0;
  uint64_t attached = 0;  // ticks
  Watched<Segment*> segment{nullptr};
  std::atomic<Segment*> next{nullptr};  // prepared by the background thread
  std::atomic<uint64_t> wish{0};        // bytes the next segment should have; 0: none wanted
  uint64_t opened_ns = 0;               // when the segment was taken into use
  uint32_t phase = 0;
  std::vector<OpenOperation> operations;
  std::vector<SuspendedTask> tasks;  // asyncio tasks that wait inside an operation
  // What had been written as open when recording paused, so that resuming writes only the
  // difference.
  bool paused = false;
  Record *paused_cursor = nullptr, *paused_end = nullptr;
  uint32_t paused_phase = 0;
  std::vector<uint32_t> paused_calls, paused_operations;
  uint64_t paused_steps = 0, paused_iterations = 0;
  ThreadState* link = nullptr;
};

struct Recorder {
  Options options;
  std::string process_folder;
  OwnFile folder, events, pulses;
  Log log;
  Shared shared;

  std::atomic<uint32_t> session{
      0};  // counts up with each start; buffers of an older one are not written to
  std::atomic<bool> recording{false};
  std::atomic<uint32_t> paused{
      0};  // bit mask of PauseReason; no event is written while it is not 0
  std::atomic<uint64_t> outside_since{
      0};  // CLOCK_MONOTONIC ns when a pause other than calibration began
  std::atomic<uint64_t> device_bytes{0};  // written by an accelerator's collector
  bool forked = false;                    // a child that has not written anything yet
  bool leave_children = false;            // a child forked now is about to become another program
  bool failed = false;                    // could not start; do not try again in this process

  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t events_lock =
      PTHREAD_MUTEX_INITIALIZER;  // for the length of one append to events.bin
  std::vector<ThreadState*> threads;
  std::vector<ThreadState*> dead;
  std::atomic<uint32_t> next_thread{0};

  std::atomic<Segment*> full{
      nullptr};  // a stack: pushed by anyone, emptied by the background thread
  std::atomic<uint64_t> waiting_bytes{0};  // of the segments in it
  std::atomic<uint32_t> bell{0};           // futex the background thread sleeps on
  std::atomic<bool> stopping{false};
  std::atomic<bool> resting{false};  // the background thread shall end, for a moment
  pthread_t background{};
  std::atomic<bool> background_runs{false};
  std::atomic<int> write_error{0};  // errno of a failed write of the background thread

  std::atomic<uint64_t> iterations{0}, steps{0}, events_packed{0}, bytes_packed{0}, live_bytes{0};
  std::atomic<uint64_t> own_cpu_ns{0},
      own_cpu_before{0};  // of the background thread; of those before it
  std::atomic<uint64_t> sampler_cpu_ns{0}, stack_samples{0};
  std::atomic<int64_t> anonymous_bytes{0};  // resident, without files and shared memory
  std::atomic<int> sampler_tid{0};
  std::atomic<uint32_t> files{0};  // numbers the live segments
  uint64_t started_ns = 0;
  std::atomic<uint64_t> window_from{0};  // monotonic ns when a timed window opened
  uint64_t life_from =
      0;  // ticks; no traced life begins before: start of the session or the last resume
  bool switching = false;     // inside pause or resume
  uint32_t give_up_next = 0;  // a reason to stop that came up meanwhile
};

extern Recorder&
    recorder;  // never destroyed: the background thread may still run while the process exits

struct Locked {
  Locked() { pthread_mutex_lock(&recorder.lock); }
  ~Locked() { pthread_mutex_unlock(&recorder.lock); }
};

inline ThreadState* state_of(Thread* t) { return static_cast<ThreadState*>(t); }

uint64_t monotonic_ns();
uint64_t thread_cpu_ns();

// session.cpp
int start_session(const Options& options);  // 0 or errno
void stop_session();    // needs the GIL, releases it while the background thread finishes
bool start_in_child();  // after a fork, at the first event

// threads.cpp
void begin_thread(ThreadState* t);
void seal(ThreadState* t);  // hands the segment over to the background thread
void hand_over(Segment* segment);
void end_thread(ThreadState* t, uint64_t time);
void forget_threads_after_fork();

// pause.cpp; all need the GIL
void pause(uint32_t reason);
void resume(uint32_t reason);
void pause_thread(ThreadState* t, uint32_t reason);
// Writes the beginning of an iteration inside a pause of calibration, after the steps before it.
// False if there is no room; it is counted then and its place is estimated by the reader.
bool iterate_in_pause(ThreadState* t, uint32_t number);
void write_stack(ThreadState* t, uint64_t time);
void start_open_calls_at(ThreadState* t,
                         uint64_t time);   // those that began earlier and are not written
void note_outside();                       // after every change of `paused`
void give_up(uint32_t reason, int error);  // pauses for good and says why
void arm_hooks_if(bool on);
int pause_when_python_runs(void* reason);  // for Py_AddPendingCall
int resume_when_python_runs(void* reason);

// lease.cpp
void look_at_lease();                            // from the background thread, now and then
PyObject* set_lease(PyObject*, PyObject* args);  // described in _recorder.pyi

// background.cpp
// Memory and disk that full segments may take until they are packed. Beyond that a thread packs its
// own.
constexpr uint64_t kMostWaiting = 64 << 20;
void pack_here(Segment* segment);
bool start_background(bool goes_on);  // where the last one came to rest
void rest_background();  // ends the thread; what it had to do is done when it is started again
void ring();
uint64_t
bytes_so_far();  // on disk, with live segments at a third: so much is left when they are packed

// windows.cpp; called at each mark of a unit of work
void window_start(bool first_process);
void window_at_mark();
void window_before_iteration(uint64_t number);
void calibrate_at_unit(ThreadState* t, bool is_step);
void calibrate_reset();
extern uint32_t debug_spin;  // of new threads
bool calibration_overdue();  // a unit has been left out for so long that its end seems to have been
                             // missed

// names.cpp
void log_all_names();
void log_open_calls(const Thread* t);
void lock_names();  // around a fork
void unlock_names();
void begin_new_calls();  // a new log begins: at start and in the child of a fork
std::string json_text(const char* utf8, size_t size);

}  // namespace cutaway
