// Built-ins that may block. Only what really blocked is recorded: a lock that
// was free, or a pipe that was full of data, is work of the calling layer.
// What was waited for is looked up afterwards, so that the look-up does not count as waiting.
#include <sys/wait.h>
#include <unistd.h>

#include "intercept/feeds.h"
#include "intercept/sites.h"
#include "intercept/waited.h"

namespace cutaway {
namespace {

constexpr uint64_t kShortNs = 2000;  // did not block
constexpr uint64_t kLongNs = 20000;  // worth a system call to learn who was waited for

struct Limits {
  uint64_t short_ticks, long_ticks;
};

Limits limits_at(double ticks_per_ns) {
  return {static_cast<uint64_t>(kShortNs * ticks_per_ns),
          static_cast<uint64_t>(kLongNs * ticks_per_ns)};
}

// Ticks since this module was loaded against nanoseconds since then: exact enough long before the
// first wait.
Limits limits() {
  static const uint64_t first_ns = monotonic(), first_ticks = ticks();
  static Limits known = limits_at(ticks_per_second() ? ticks_per_second() / 1e9 : 2);
  static bool settled = ticks_per_second() != 0;
  if (!settled) {
    const uint64_t ns = monotonic() - first_ns;
    if (ns > 1000000) {
      const double rate = static_cast<double>(ticks() - first_ticks) / static_cast<double>(ns);
      known = limits_at(rate);
      settled = ns > 100000000;
    }
  }
  return known;
}

// Exceptions of the waiting call must survive the look-up.
class KeepException {
 public:
  KeepException() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~KeepException() { PyErr_Restore(type_, value_, trace_); }

 private:
  PyObject *type_, *value_, *trace_;
};

struct Call {
  uint32_t index;
  WaitOn on;
  Convention convention;
  Word a, b, c, d, e;
  Word result;
  int waker;  // the thread that released the lock waited for; 0 if not known
};

PyObject* first_argument(const Call& call) {  // borrowed, or null
  switch (call.convention) {
    case Convention::kOne:
      return reinterpret_cast<PyObject*>(call.b);
    case Convention::kTuple: {
      auto* tuple = reinterpret_cast<PyObject*>(call.b);
      return PyTuple_GET_SIZE(tuple) > 0 ? PyTuple_GET_ITEM(tuple, 0) : nullptr;
    }
    case Convention::kFast:
      return PyVectorcall_NARGS(call.c) > 0 ? *reinterpret_cast<PyObject**>(call.b) : nullptr;
    case Convention::kMethod:
      return PyVectorcall_NARGS(call.d) > 0 ? *reinterpret_cast<PyObject**>(call.c) : nullptr;
    default:
      return nullptr;
  }
}

bool leaves_child(const Call& call) {  // waitid(…, options) with WNOWAIT
  if (call.convention != Convention::kFast || PyVectorcall_NARGS(call.c) != 3) return false;
  const long options = PyLong_AsLong(reinterpret_cast<PyObject* const*>(call.b)[2]);
  PyErr_Clear();
  return options > 0 && (options & WNOWAIT);
}

// Of an int, something with fileno(), or [(fd, event), …], or ([…], […], […]).
int descriptor_of(PyObject* object) {
  if (object == nullptr) return -1;
  for (int level = 0; level < 3 && (PyList_Check(object) || PyTuple_Check(object)); ++level) {
    PyObject* first = nullptr;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object) && first == nullptr; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(object, i);
      const bool empty = PyList_Check(item) && PyList_GET_SIZE(item) == 0;
      if (!empty) first = item;
    }
    if (first == nullptr) return -1;
    object = first;
  }
  const int fd = PyObject_AsFileDescriptor(object);
  if (fd < 0) PyErr_Clear();
  return fd;
}

// An observer in Python names what its library waited for.
Waited waited_as_told(const Call& call) {
  Waited waited;
  PyObject* given = arguments(call.convention, call.a, call.b, call.c, call.d, call.e);
  PyObject* told = given ? PyObject_CallOneArg(describe(call.index).observer, given) : nullptr;
  if (told && PyUnicode_Check(told)) {
    if (const char* text = PyUnicode_AsUTF8(told)) waited.on = text;
    waited.identity = std::hash<std::string>()(waited.on);
  }
  if (PyErr_Occurred()) PyErr_Clear();
  Py_XDECREF(told);
  Py_XDECREF(given);
  return waited;
}

Waited look_at_queue(PyObject* queue) {
  Waited waited;
  waited.on = "queue:" + std::to_string(getpid()) + ":" +
              std::to_string(reinterpret_cast<uintptr_t>(queue));
  return waited;
}

Waited waited_for(const Call& call, bool fresh) {
  switch (call.on) {
    case WaitOn::kFdArgument:
      return waited_descriptor(descriptor_of(first_argument(call)), fresh);
    case WaitOn::kFdSelf:
      return waited_descriptor(descriptor_of(reinterpret_cast<PyObject*>(call.a)), fresh);
    case WaitOn::kReady:
      return waited_descriptor(descriptor_of(reinterpret_cast<PyObject*>(call.result)), fresh);
    case WaitOn::kPid:
      return waited_process(reinterpret_cast<PyObject*>(call.result), first_argument(call));
    case WaitOn::kSemaphore:
      return waited_semaphore(reinterpret_cast<PyObject*>(call.a));
    case WaitOn::kObject:
    case WaitOn::kQueue:
      return waited_thread(call.waker);
    case WaitOn::kTold:
      return fresh ? waited_as_told(call) : Waited();
    case WaitOn::kNothing:
      break;
  }
  return {};
}

// Decides whether the open call is kept with a more precise id, kept unchanged, or dropped.
bool settle(Thread* t, uint32_t depth, uint64_t duration, const Call& call) {
  const Limits limit = limits();
  if (duration < limit.short_ticks) return false;
  if (call.on == WaitOn::kNothing) return true;
  KeepException keep;
  const bool is_long = duration >= limit.long_ticks;
  const Waited waited = waited_for(call, is_long);
  if (waited.is_file) return false;
  if (is_long && !waited.on.empty()) {
    t->open[depth].call =
        call_waiting_on(t->open[depth].call, waited.identity, waited.on, waited.peer);
  }
  return true;
}

Waited look_at_descriptor(PyObject* given) { return waited_descriptor(descriptor_of(given), true); }

// Bytes that a call wrote or read; 1 for what is counted one by one.
uint32_t amount_of(const Call& call, Way way) {
  const auto result = reinterpret_cast<PyObject*>(call.result);
  if (call.on == WaitOn::kSemaphore) return way == Way::kFeeds || result == Py_True;
  if (call.on == WaitOn::kQueue) return 1;
  if (result == nullptr) return 0;
  if (PyBytes_Check(result)) return static_cast<uint32_t>(PyBytes_GET_SIZE(result));
  if (PyLong_Check(result)) return static_cast<uint32_t>(PyLong_AsUnsignedLongMask(result));
  PyObject* data =
      way == Way::kFeeds && result == Py_None ? first_argument(call) : nullptr;  // sendall
  Py_buffer view;
  if (data == nullptr || PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) return 0;
  const auto size = static_cast<uint32_t>(view.len);
  PyBuffer_Release(&view);
  return size;
}

// What the call gives to others or takes from them: bytes of a pipe, a semaphore, something in a
// queue.
void exchange(Thread* t, uint64_t time, const Call& call, Way way) {
  const auto self = reinterpret_cast<PyObject*>(call.a);
  const bool descriptor = call.on == WaitOn::kFdArgument || call.on == WaitOn::kFdSelf;
  if (!descriptor && call.on != WaitOn::kSemaphore && call.on != WaitOn::kQueue) return;
  PyObject* const given = call.on == WaitOn::kFdArgument ? first_argument(call) : self;
  if (given == nullptr) return;
  KeepException keep;
  const auto look = descriptor                      ? look_at_descriptor
                    : call.on == WaitOn::kSemaphore ? waited_semaphore
                                                    : look_at_queue;
  const uint32_t channel = channel_of(given, way, look);
  if (channel) note(t, time, way, channel, amount_of(call, way));
  PyErr_Clear();
}

// Others may go on before a write returns, so it counts from when it began. It is still open, and
// must not be written as such because of that.
void exchange_in_call(Thread* t, uint64_t start, const Call& call) {
  --t->depth;
  exchange(t, start, call, Way::kFeeds);
  ++t->depth;
}

void exchange_with_queue(PyObject* queue, Way way) {
  Thread* t = recording_thread();
  if (t == nullptr) return;
  KeepException keep;
  note(t, ticks(), way, channel_of(queue, way, look_at_queue), 1);
}

}  // namespace

PyObject* gave(PyObject*, PyObject* queue) {
  exchange_with_queue(queue, Way::kFeeds);
  Py_RETURN_NONE;
}

PyObject* took(PyObject*, PyObject* queue) {
  exchange_with_queue(queue, Way::kTakes);
  Py_RETURN_NONE;
}

Word hook_feed(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  const Target& target = targets[index];
  const Call call{index, target.on, target.convention, a, b, c, d, e, 0, 0};
  if (Thread* t = recording_thread()) {
    if (call.on == WaitOn::kObject || call.on == WaitOn::kQueue)
      wake(reinterpret_cast<PyObject*>(a), call.on == WaitOn::kObject);
    if (call.on != WaitOn::kObject) exchange(t, ticks(), call, Way::kFeeds);
  }
  return target.original(a, b, c, d, e);
}

Word hook_wait(Word a, Word b, Word c, Word d, Word e, uint32_t index) {
  const Target& target = targets[index];
  Thread* t = recording_thread();
  if (t == nullptr) return target.original(a, b, c, d, e);
  const uint32_t call_id = find_call(target, index);
  const uint32_t depth = t->depth;
  const uint64_t start = ticks();
  enter_call(t, start, call_id);
  const bool locks = target.on == WaitOn::kObject || target.on == WaitOn::kQueue;
  const int place = locks ? begin_wait(reinterpret_cast<PyObject*>(a)) : -1;
  const Word result =
      target.original(a, b, c, d, e);  // C functions of the interpreter: nothing is thrown
  const int waker = locks ? end_wait(place) : 0;
  uint64_t end = ticks();
  if (current != t) return result;
  const Call call{index, target.on, target.convention, a, b, c, d, e, result, waker};
  if (target.on == WaitOn::kPid && result != 0) {
    KeepException keep;
    log_child(reinterpret_cast<PyObject*>(result), leaves_child(call));
  }
  const bool written = t->written > depth || t->depth != depth + 1 || depth >= kMaxOpen;
  if (target.least && result != 0 && !written) exchange_in_call(t, start, call);
  const bool settled = written || settle(t, depth, end - start, call);
  // An observer in Python may make recorded calls, or let another thread resume the recording: then
  // this call is written as entered, by the name it had, and ends after them.
  const bool entered = !written && t->written > depth;
  if (entered) {
    t->open[depth].call = call_id;
    end = ticks();
  }
  if (settled || entered) {
    exit_call(t, end);
  } else {
    --t->depth;
  }
  if (waker && target.on == WaitOn::kObject) note_woken(t, end);
  if (!target.least && result != 0) exchange(t, end, call, Way::kTakes);
  return result;
}

}  // namespace cutaway
