// The life of a thread's buffer: attach, refill, the thread's end, and fork.
#include <Python.h>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "recorder/state.h"

namespace cutaway {

__thread Thread* current = nullptr;
__thread bool left_alone = false;

namespace {

pthread_key_t exit_key;
pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;

void on_thread_exit(void* p) {
  auto* t = static_cast<ThreadState*>(p);
  current = nullptr;
  bool free_now = false;
  {
    Locked locked;
    auto& all = recorder.threads;
    all.erase(std::remove(all.begin(), all.end(), t), all.end());
    if (recorder.recording && t->session == recorder.session) end_thread(t, ticks());
    if (recorder.background_runs) {
      recorder.dead.push_back(t);
    } else {
      free_now = true;
    }
  }
  if (!free_now) return;
  if (Segment* spare = t->next.exchange(nullptr)) remove_segment(recorder.folder.fd(), spare);
  delete t;
}

void make_exit_key() { pthread_key_create(&exit_key, on_thread_exit); }

// The Thread object of this thread, borrowed: in threading._active, or in _limbo while it is being
// started.
PyObject* thread_object(PyObject* threading) {
  PyObject* found = nullptr;
  PyObject* ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
  PyObject* active = PyObject_GetAttrString(threading, "_active");
  if (ident && active && PyDict_Check(active)) found = PyDict_GetItemWithError(active, ident);
  PyObject* limbo = PyObject_GetAttrString(threading, "_limbo");
  PyObject *thread, *same;
  Py_ssize_t place = 0;
  while (!found && ident && limbo && PyDict_Check(limbo) &&
         PyDict_Next(limbo, &place, &thread, &same)) {
    PyObject* theirs = PyObject_GetAttrString(thread, "_ident");
    if (theirs && PyObject_RichCompareBool(theirs, ident, Py_EQ) == 1) found = thread;
    Py_XDECREF(theirs);
  }
  Py_XDECREF(limbo);
  Py_XDECREF(active);
  Py_XDECREF(ident);
  return found;
}

// The name Python gave this thread, or else the kernel's.
std::string thread_name_now(pid_t tid) {
  std::string name;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* threading = modules ? PyDict_GetItemString(modules, "threading") : nullptr;
  PyObject* thread = threading ? thread_object(threading) : nullptr;
  PyObject* text = thread ? PyObject_GetAttrString(thread, "_name") : nullptr;
  const char* utf8 = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (utf8) name = utf8;
  Py_XDECREF(text);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
  if (name.empty() && tid == getpid()) return "MainThread";
  if (name.empty()) {
    char path[64], comm[32] = {};
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
    if (FILE* f = fopen(path, "re")) {
      if (fgets(comm, sizeof comm, f)) name = comm;
      fclose(f);
    }
    while (!name.empty() && name.back() == '\n') name.pop_back();
  }
  return name;
}

void log_thread(const ThreadState* t) {
  const std::string name = thread_name_now(t->tid);
  recorder.log.line("\"k\":\"thread\",\"id\":" + std::to_string(t->id) + ",\"tid\":" +
                    std::to_string(t->tid) + ",\"name\":" + json_text(name.data(), name.size()) +
                    ",\"t\":" + std::to_string(monotonic_ns()));
}

void use(ThreadState* t, Segment* segment) {
  segment->seq = segment->head()->seq = t->seq++;
  t->segment.publish(segment);
  t->opened_ns = monotonic_ns();
  t->cursor = segment->first();
  // Half-way, refill asks the background thread for the next one.
  t->end = segment->first() + (segment->limit() - segment->first()) / 2;
}

// A thread that filled its segment quickly gets a larger one.
size_t next_size(const ThreadState* t) {
  const size_t size = t->segment->size;
  const bool quick = monotonic_ns() - t->opened_ns < 250000000;
  const uint64_t most = recorder.options.max_bytes / 16;
  if (!quick || size >= kLargestSegment || (most && 4 * size > most)) return size;
  return std::min<size_t>(4 * size, kLargestSegment);
}

Segment* new_segment(const ThreadState* t, size_t size) {
  Segment* segment = make_segment(recorder.folder.fd(), t->id, recorder.files++, size);
  if (segment) recorder.live_bytes += size;
  return segment;
}

bool next_segment(ThreadState* t) {
  Segment* segment = t->next.exchange(nullptr);
  if (!segment) {
    t->wish = 0;
    segment = new_segment(t, next_size(t));
  }
  if (!segment) return false;
  Segment* full = t->segment;
  if (recorder.waiting_bytes < kMostWaiting) {
    seal(t);
    full = nullptr;
  }
  use(t, segment);
  if (full) pack_here(full);
  return true;
}

}  // namespace

Thread* attach() {
  if (left_alone) return nullptr;
  if (!recorder.recording && !start_in_child()) return nullptr;
  if (current) return current;
  pthread_once(&exit_key_once, make_exit_key);
  auto* t = new ThreadState();
  t->cursor = t->end = nullptr;
  t->depth = t->written = 0;
  t->spin = 0;
  t->tid = static_cast<pid_t>(syscall(SYS_gettid));
  t->python = PyThreadState_Get();
  t->ident = PyThread_get_thread_ident();
  pthread_setspecific(exit_key, t);
  {
    Locked locked;
    recorder.threads.push_back(t);
  }
  current = t;
  t->attached = ticks();
  if (!recorder.paused) begin_thread(t);
  return t;
}

// Called when the cursor has reached the end: of half the
// segment, of all of it, or because nothing may be written.
bool refill(Thread* thread) {
  ThreadState* t = state_of(thread);
  if (!recorder.recording && !start_in_child()) return false;
  if (recorder.paused) return false;
  if (t->session != recorder.session || !t->segment) {
    begin_thread(t);
    return t->cursor != t->end;
  }
  if (recorder.options.max_bytes &&
      recorder.shared.bytes(bytes_so_far()) > recorder.options.max_bytes) {
    give_up(kSizeLimit, 0);
    return false;
  }
  if (recorder.write_error) {
    give_up(kDiskFull, recorder.write_error);
    return false;
  }
  if (t->end < t->segment->limit()) {
    t->end = t->segment->limit();
    if (!t->next) {
      t->wish = next_size(t);
      ring();
    }
    return true;
  }
  if (next_segment(t)) return true;
  give_up(kDiskFull, errno);
  return false;
}

// First event of this thread in this recording. What is open already is written as if it began
// here.
void begin_thread(ThreadState* t) {
  t->spin = debug_spin;
  t->paused = false;
  t->paused_steps = t->paused_iterations = 0;  // of the time before it
  t->id = recorder.next_thread++;
  t->seq = 0;
  t->segment = nullptr;
  t->cursor = t->end = nullptr;
  t->session = recorder.session
                   .load();  // last: the sampler and the pulses now take the thread by its new id
  Segment* segment = new_segment(t, kFirstSegment);
  if (!segment) {
    give_up(kDiskFull, errno);
    return;
  }
  log_thread(t);
  use(t, segment);
  const uint64_t from = t->attached > recorder.life_from ? t->attached : recorder.life_from;
  append(t, from, 0, make_tag(kBegin, 0));
  write_stack(t, from);
}

void exit_call_slowly(Thread* t, uint64_t end) {
  const uint32_t depth = --t->depth;
  if (depth >= kMaxOpen) return;
  const Open o = t->open[depth];
  if (t->written > depth) {
    t->written = depth;
    append(t, end, 0, make_tag(kExit, o.call));
    return;
  }
  if (t->written < depth) write_enters(t);
  const uint64_t duration = end - o.start;
  if (duration >> 32) {
    append(t, o.start, 0, make_tag(kEnter, o.call));
    append(t, end, 0, make_tag(kExit, o.call));
    return;
  }
  append(t, o.start, static_cast<uint32_t>(duration), make_tag(kCall, o.call));
}

void write_enters(Thread* t) {
  const uint32_t open = t->depth < kMaxOpen ? t->depth : kMaxOpen;
  while (t->written < open) {
    if (t->cursor == t->end && !refill(t)) return;
    const uint32_t next = t->written;
    const Open& o = t->open[next];
    t->written = next + 1;
    append(t, o.start, 0, make_tag(kEnter, o.call));
  }
  t->written = t->depth;
}

void seal(ThreadState* t) {
  Segment* segment = t->segment;
  t->segment = nullptr;
  t->cursor = t->end = nullptr;
  if (segment) hand_over(segment);
}

void hand_over(Segment* segment) {
  recorder.waiting_bytes += segment->size;
  segment->link = recorder.full.load();
  while (!recorder.full.compare_exchange_weak(segment->link, segment)) {
  }
  ring();
}

void end_thread(ThreadState* t, uint64_t time) {
  if (t->segment && !t->paused && !recorder.paused) {
    t->end = t->segment->last();  // the reserve is for this
    if (t->cursor != t->end) append(t, time, 0, make_tag(kEnd, 0));
  }
  seal(t);
}

// In the child only the forking thread lives on; its calls
// may still be open, so its state is kept, unbuffered.
void forget_threads_after_fork() {
  for (ThreadState* t : recorder.threads) {
    for (Segment* mapped : {static_cast<Segment*>(t->segment), t->next.exchange(nullptr)}) {
      if (mapped) unmap_segment(mapped);
      delete mapped;
    }
    t->segment = nullptr;
    t->cursor = t->end = nullptr;
    t->session = 0;
    t->paused = false;
    if (t != current) delete t;
  }
  recorder.threads.clear();
  recorder.dead.clear();
  recorder.full = nullptr;
  if (!current) return;
  ThreadState* t = state_of(current);
  t->tid = static_cast<pid_t>(syscall(SYS_gettid));
  t->operations
      .clear();  // they are the parent's; a block left in the child as well is not recorded
  t->phase = 0;
  recorder.threads.push_back(t);
}

}  // namespace cutaway
