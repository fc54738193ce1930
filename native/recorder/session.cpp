// Start and stop of a recording in this process, and what a fork does to it.
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "intercept/frame_layout.h"
#include "memory/heap.h"
#include "recorder/meters.h"
#include "recorder/sampler.h"
#include "recorder/state.h"

namespace cutaway {

Recorder& recorder = *new Recorder();

namespace {

uint64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000ull + static_cast<uint64_t>(t.tv_nsec);
}

// When the kernel started this process, in its own unit: tells a reused pid from the one before.
unsigned long long os_start() {
  char text[1024] = {};
  FILE* f = fopen("/proc/self/stat", "re");
  if (!f) return 0;
  const size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  const char* p = n ? strrchr(text, ')') : nullptr;
  unsigned long long start = 0;
  for (int field = 2; p && field < 22; ++field) p = strchr(p + 1, ' ');
  if (p) sscanf(p, "%llu", &start);
  return start;
}

std::string quoted(const std::string& text) { return json_text(text.data(), text.size()); }

std::string process_fields(const Options& o) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
#if defined(__x86_64__)
  const char* clock = "tsc";
#elif defined(__aarch64__)
  const char* clock = "cntvct";
#else
  const char* clock = "monotonic";
#endif
  std::string out = "\"k\":\"process\",\"pid\":" + std::to_string(getpid()) +
                    ",\"ppid\":" + std::to_string(getppid()) +
                    ",\"os_start\":" + std::to_string(os_start()) + ",\"name\":" + quoted(o.name) +
                    ",\"role\":" + quoted(o.role) + ",\"program\":" + quoted(o.program) +
                    ",\"python\":\"" PY_VERSION "\",\"host\":" + quoted(host) + ",\"clock\":\"" +
                    clock + "\",\"t\":" + std::to_string(recorder.started_ns);
  if (ticks_per_second()) out += ",\"hz\":" + std::to_string(ticks_per_second());
  if (!o.extra.empty()) out += "," + o.extra;
  return out;
}

int open_folder(const Options& o) {
  if (mkdir(o.folder.c_str(), 0700) != 0 && errno != EEXIST) return errno;
  char name[64];
  snprintf(name, sizeof name, "/p%d-%llx", getpid(),
           static_cast<unsigned long long>(clock_ns(CLOCK_REALTIME)));
  recorder.process_folder = o.folder + name;
  if (mkdir(recorder.process_folder.c_str(), 0700) != 0) return errno;
  if (!recorder.folder.open(recorder.process_folder, O_RDONLY | O_DIRECTORY)) return errno;
  if (!recorder.log.open(recorder.process_folder)) return errno;
  return recorder.events.open(recorder.process_folder + "/events.bin", O_CREAT | O_RDWR | O_APPEND)
             ? 0
             : errno;
}

void close_files() {
  recorder.log.close();
  recorder.events.close();
  recorder.pulses.close();
  recorder.folder.close();
}

void reset_counters() {
  recorder.next_thread = 0;
  recorder.files = 0;
  recorder.paused = 0;
  recorder.outside_since = 0;
  recorder.device_bytes = 0;
  recorder.give_up_next = 0;
  recorder.write_error = 0;
  recorder.waiting_bytes = 0;
  recorder.stopping = false;
  recorder.iterations = recorder.steps = 0;
  recorder.events_packed = recorder.bytes_packed = recorder.live_bytes = 0;
  recorder.own_cpu_ns = recorder.own_cpu_before = recorder.sampler_cpu_ns = recorder.stack_samples =
      0;
  recorder.window_from = 0;
  calibrate_reset();
}

// A call that is open where the recording begins is taken to begin with it.
void start_open_calls() {
  for (ThreadState* t : recorder.threads) {
    t->written = 0;
    start_open_calls_at(t, recorder.life_from);
  }
}

void before_fork() {
  lock_hooks();
  lock_names();
  pthread_mutex_lock(&recorder.lock);
}

void after_fork_in_parent() {
  pthread_mutex_unlock(&recorder.lock);
  unlock_names();
  unlock_hooks();
}

// Nothing of the parent's may be written to: its buffers are shared memory, its files are open here
// as well.
void after_fork_in_child() {
  pthread_mutex_init(&recorder.lock, nullptr);
  pthread_mutex_init(&recorder.events_lock, nullptr);
  unlock_names();
  unlock_hooks();
  recorder.background_runs = false;
  forget_heap_after_fork();
  forget_sampler_after_fork();
  forget_threads_after_fork();
  if (recorder.recording) {
    close_files();
    recorder.shared.close();
    recorder.forked = !recorder.leave_children;
    begin_new_calls();
    recorder.started_ns = monotonic_ns();
    recorder.life_from = ticks();
    start_open_calls();
  }
  recorder.recording = false;
}

#if PY_VERSION_HEX >= 0x030c0000
// From 3.12 on Python warns when a process with several threads forks. Ours must not be the one it
// warns of.
PyObject* rest_before_fork(PyObject*, PyObject*) {
  rest_sampler();
  rest_background();
  Py_RETURN_NONE;
}

int go_on(void*) {
  if (recorder.recording && !recorder.background_runs) start_background(true);
  if (recorder.recording) start_sampler();
  return 0;
}

// Not at once: 3.13.0 counts the threads only after these hooks.
PyObject* go_on_after_fork(PyObject*, PyObject*) {
  if (Py_AddPendingCall(go_on, nullptr) != 0) go_on(nullptr);
  Py_RETURN_NONE;
}

void watch_python_forks() {
  static bool done = false;
  if (done) return;
  done = true;
  static PyMethodDef rest = {"rest_before_fork", rest_before_fork, METH_NOARGS, nullptr};
  static PyMethodDef go_on = {"go_on_after_fork", go_on_after_fork, METH_NOARGS, nullptr};
  PyObject* os = PyImport_ImportModule("os");
  PyObject* watch = os ? PyObject_GetAttrString(os, "register_at_fork") : nullptr;
  PyObject* none = PyTuple_New(0);
  PyObject* hooks = Py_BuildValue("{s:N,s:N}", "before", PyCFunction_New(&rest, nullptr),
                                  "after_in_parent", PyCFunction_New(&go_on, nullptr));
  Py_XDECREF(watch && none && hooks ? PyObject_Call(watch, none, hooks) : nullptr);
  Py_XDECREF(hooks);
  Py_XDECREF(none);
  Py_XDECREF(watch);
  Py_XDECREF(os);
  PyErr_Clear();
}
#else
void watch_python_forks() {}
#endif

void watch_forks() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once,
               [] { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
}

int begin(const Options& options) {
  reset_counters();
  recorder.options = options;
  if (const int error = open_folder(options)) {
    close_files();
    return error;
  }
  watch_forks();
  watch_python_forks();
  recorder.log.line(process_fields(options));
  if (const char* why = cutaway_frames_unknown())
    recorder.log.line("\"k\":\"note\",\"text\":" + json_text(why, strlen(why)));
  log_all_names();
  {
    Locked locked;
    for (const ThreadState* t : recorder.threads) log_open_calls(t);
  }
  write_anchor();
  window_start(recorder.shared.open(options.folder));
  if (!start_background(false)) {
    close_files();
    return EAGAIN;
  }
  ++recorder.session;
  recorder.recording = true;
  arm_hooks_if(recorder.paused == 0);
  attach();
  start_sampler();
  return 0;
}

}  // namespace

uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
uint64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

int start_session(const Options& options) {
  recorder.forked = recorder.failed = false;
  recorder.started_ns = monotonic_ns();
  recorder.life_from = ticks();
  begin_new_calls();
  {
    Locked locked;
    start_open_calls();
  }
  return begin(options);
}

bool start_in_child() {
  if (!recorder.forked || recorder.failed) return false;
  recorder.forked = false;
  recorder.failed = begin(Options(recorder.options)) != 0;
  return !recorder.failed;
}

void stop_session() {
  if (!recorder.recording) {
    recorder.forked = false;
    return;
  }
  arm_hooks_if(false);
  stop_sampler();
  if (heap.on) stop_heap();
  {
    Locked locked;
    for (ThreadState* t : recorder.threads) {
      if (t->session == recorder.session) end_thread(t, ticks());
      t->operations.clear();  // a block that is left after the end is not known any more
      t->phase = 0;
    }
    recorder.recording = false;
  }
  recorder.stopping = true;
  if (!recorder.background_runs) start_background(true);
  PyThreadState* state = PyEval_SaveThread();
  ring();
  if (recorder.background_runs) pthread_join(recorder.background, nullptr);
  PyEval_RestoreThread(state);
  {
    Locked locked;
    recorder.background_runs = false;
    for (ThreadState* t : recorder.threads)
      if (Segment* spare = t->next.exchange(nullptr)) remove_segment(recorder.folder.fd(), spare);
    for (ThreadState* t : recorder.dead) delete t;
    recorder.dead.clear();
  }
  unlinkat(recorder.folder.fd(), "pulse.bin", 0);  // nobody is in the middle of anything
  close_files();
  recorder.shared.close();
}

}  // namespace cutaway
