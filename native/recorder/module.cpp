// The Python module cutaway._recorder; src/cutaway/_recorder.pyi describes it.
#include <errno.h>

#include "intercept/frame_layout.h"
#include "memory/heap.h"
#include "recorder/operations.h"
#include "stamp.h"
#include "trace/codec.h"

namespace cutaway {

// Defined in native/intercept; without it in the build there is nothing to add.
__attribute__((weak)) int add_intercept(PyObject*) { return 0; }

// Likewise in native/frameworks.
__attribute__((weak)) int add_frameworks(PyObject*) { return 0; }

bool iterations_are_the_users = false;

namespace {

PyObject* start(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {
      "folder",         "name",      "role",     "program",         "call_sites",
      "max_bytes",      "sample_hz", "stack_hz", "calibrate_share", "after_iterations",
      "for_iterations", "window_s",  "keep_s",   "memory",          "extra",
      nullptr};
  const char *folder, *name = "", *role = "", *program = "", *extra = "";
  int call_sites = 1, memory = 1;
  unsigned long long max_bytes = 0, after = 0, lasting = 0;
  Options o;
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "s|$ssspKdddKKddps:start", const_cast<char**>(keywords), &folder, &name,
          &role, &program, &call_sites, &max_bytes, &o.sample_hz, &o.stack_hz, &o.calibrate_share,
          &after, &lasting, &o.window_s, &o.keep_s, &memory, &extra))
    return nullptr;
  if (recorder.recording) {
    PyErr_SetString(PyExc_RuntimeError,
                    "this process is already being recorded; call stop() first");
    return nullptr;
  }
  o.folder = folder;
  o.name = name;
  o.role = role;
  o.program = program;
  o.extra = extra;
  o.call_sites = call_sites != 0;
  o.memory = memory != 0;
  o.max_bytes = max_bytes;
  o.after_iterations = after;
  o.for_iterations = lasting;
  if (const int error = start_session(o)) {
    errno = error;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder);
  }
  Py_RETURN_NONE;
}

PyObject* stop(PyObject*, PyObject*) {
  stop_session();
  Py_RETURN_NONE;
}

PyObject* recording(PyObject*, PyObject*) {
  return PyBool_FromLong(recorder.recording && !recorder.paused);
}

PyObject* active(PyObject*, PyObject*) {
  return PyBool_FromLong(recorder.recording || start_in_child());
}

PyObject* leave_children(PyObject*, PyObject* yes) {
  recorder.leave_children = PyObject_IsTrue(yes) == 1;
  Py_RETURN_NONE;
}

PyObject* leave_thread(PyObject*, PyObject*) {
  left_alone = true;
  Py_RETURN_NONE;
}

PyObject* pause_now(PyObject*, PyObject* args) {
  unsigned int reason = kAskedFor;
  if (!PyArg_ParseTuple(args, "|I:pause", &reason)) return nullptr;
  if (reason < 1 || reason > 5)
    return PyErr_Format(PyExc_ValueError, "no such reason: %u; use 1 to 5", reason);
  pause(reason);
  Py_RETURN_NONE;
}

PyObject* resume_now(PyObject*, PyObject* args) {
  unsigned int reason = kAskedFor;
  if (!PyArg_ParseTuple(args, "|I:resume", &reason)) return nullptr;
  if (reason < 1 || reason > 5)
    return PyErr_Format(PyExc_ValueError, "no such reason: %u; use 1 to 5", reason);
  resume(reason);
  Py_RETURN_NONE;
}

PyObject* folder(PyObject*, PyObject*) {
  if (!recorder.recording) Py_RETURN_NONE;
  return PyUnicode_DecodeFSDefault(recorder.process_folder.c_str());
}

PyObject* log_entry(PyObject*, PyObject* args) {
  const char *kind, *fields = "";
  if (!PyArg_ParseTuple(args, "s|s:log", &kind, &fields)) return nullptr;
  std::string inside = fields;
  if (!inside.empty() && inside.front() == '{' && inside.back() == '}')
    inside = inside.substr(1, inside.size() - 2);
  if (recorder.recording)
    recorder.log.line("\"k\":" + json_text(kind, strlen(kind)) +
                      (inside.empty() ? "" : "," + inside));
  Py_RETURN_NONE;
}

PyObject* note(PyObject*, PyObject* args) {
  const char* text;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "s#:note", &text, &size)) return nullptr;
  if (recorder.recording)
    recorder.log.line("\"k\":\"note\",\"text\":" + json_text(text, static_cast<size_t>(size)));
  Py_RETURN_NONE;
}

PyObject* set_process(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"name", "role", nullptr};
  const char *name = nullptr, *role = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zz:set_process", const_cast<char**>(keywords),
                                   &name, &role))
    return nullptr;
  std::string fields = "\"k\":\"rename\"";
  if (name) fields += ",\"name\":" + json_text(name, strlen(name));
  if (role) fields += ",\"role\":" + json_text(role, strlen(role));
  if (name) recorder.options.name = name;
  if (role) recorder.options.role = role;
  if (recorder.recording) recorder.log.line(fields);
  Py_RETURN_NONE;
}

PyObject* thread_name(PyObject*, PyObject* args) {
  const char* name;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "s#:thread_name", &name, &size)) return nullptr;
  ThreadState* t = this_thread();
  if (t && recorder.recording && t->session == recorder.session)
    recorder.log.line("\"k\":\"thread\",\"id\":" + std::to_string(t->id) +
                      ",\"tid\":" + std::to_string(t->tid) +
                      ",\"name\":" + json_text(name, static_cast<size_t>(size)) +
                      ",\"t\":" + std::to_string(monotonic_ns()));
  Py_RETURN_NONE;
}

PyObject* stats(PyObject*, PyObject*) {
  const Recorder& r = recorder;
  size_t threads;
  {
    Locked locked;
    threads = r.threads.size();
  }
  return Py_BuildValue(
      "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:L,s:K,s:I}", "events", r.events_packed.load(),
      "bytes", r.bytes_packed.load(), "live_bytes", r.live_bytes.load(), "log_bytes", r.log.bytes(),
      "log_lost", r.log.lost(), "iterations", r.iterations.load(), "steps", r.steps.load(),
      "own_cpu_ns", r.own_cpu_ns.load(), "sampler_cpu_ns", r.sampler_cpu_ns.load(), "stack_samples",
      r.stack_samples.load(), "heap_bytes", static_cast<long long>(heap.kept_bytes), "heap_samples",
      heap.samples.load(), "threads", static_cast<unsigned int>(threads));
}

// For benchmarks: what sampling allocations costs beside everything else.
PyObject* hook_memory(PyObject*, PyObject* wanted) {
  if (heap.on) switch_heap_hooks(wanted == Py_True);
  Py_RETURN_NONE;
}

PyObject* iteration(PyObject*, PyObject*) {
  iterations_are_the_users = true;
  if (ThreadState* t = this_thread()) count_iteration(t);
  Py_RETURN_NONE;
}

PyObject* step(PyObject*, PyObject* const* args, Py_ssize_t n) {
  long steps = 1;
  if (n > 0) steps = PyLong_AsLong(args[0]);
  if (steps == -1 && PyErr_Occurred()) return nullptr;
  ThreadState* t = steps > 0 ? this_thread() : nullptr;
  if (t) count_steps(t, static_cast<uint64_t>(steps));
  Py_RETURN_NONE;
}

PyObject* pack_records(PyObject*, PyObject* data) {
  Py_buffer view;
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) return nullptr;
  std::vector<Record> records(static_cast<size_t>(view.len) / sizeof(Record));
  if (!records.empty()) memcpy(records.data(), view.buf, records.size() * sizeof(Record));
  PyBuffer_Release(&view);
  std::vector<uint8_t> out;
  pack(records.data(), records.size(), out);
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(out.data()),
                                   static_cast<Py_ssize_t>(out.size()));
}

PyObject* unpack_records(PyObject*, PyObject* args) {
  Py_buffer view;
  unsigned int count;
  if (!PyArg_ParseTuple(args, "y*I:unpack_records", &view, &count)) return nullptr;
  std::string out;
  unpack(static_cast<const uint8_t*>(view.buf), static_cast<size_t>(view.len), count,
         [&](const Record& r) { out.append(reinterpret_cast<const char*>(&r), sizeof r); });
  PyBuffer_Release(&view);
  return PyBytes_FromStringAndSize(out.data(), static_cast<Py_ssize_t>(out.size()));
}

PyObject* checksum(PyObject*, PyObject* data) {
  Py_buffer view;
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) return nullptr;
  const uint32_t crc = crc32c(view.buf, static_cast<size_t>(view.len));
  PyBuffer_Release(&view);
  return PyLong_FromUnsignedLong(crc);
}

#define KEYWORDS(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f))
PyMethodDef methods[] = {
    {"start", KEYWORDS(start), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"stop", stop, METH_NOARGS, nullptr},
    {"recording", recording, METH_NOARGS, nullptr},
    {"active", active, METH_NOARGS, nullptr},
    {"leave_children", leave_children, METH_O, nullptr},
    {"set_lease", set_lease, METH_VARARGS, nullptr},
    {"leave_thread", leave_thread, METH_NOARGS, nullptr},
    {"pause", pause_now, METH_VARARGS, nullptr},
    {"resume", resume_now, METH_VARARGS, nullptr},
    {"hook_memory", hook_memory, METH_O, nullptr},
    {"folder", folder, METH_NOARGS, nullptr},
    {"log", log_entry, METH_VARARGS, nullptr},
    {"note", note, METH_VARARGS, nullptr},
    {"set_process", KEYWORDS(set_process), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"thread_name", thread_name, METH_VARARGS, nullptr},
    {"stats", stats, METH_NOARGS, nullptr},
    {"operation", operation_of, METH_O, nullptr},
    {"phase", set_phase, METH_O, nullptr},
    {"iteration", iteration, METH_NOARGS, nullptr},
    {"step", KEYWORDS(step), METH_FASTCALL, nullptr},
    {"pack_records", pack_records, METH_O, nullptr},
    {"unpack_records", unpack_records, METH_VARARGS, nullptr},
    {"crc32c", checksum, METH_O, nullptr},
    {}};

// Where this Python cannot be recorded the module is empty but for the reason, in one sentence.
// Everything below it (records, hooks, call ids) relies on one lock that all Python code of the
// process runs under. May run in several interpreters at once.
int fill_refused(PyObject* module, const char* why) {
  static std::atomic<bool> said{false};
  const bool first = !said.exchange(true);
  if (first && recorder.recording)
    recorder.log.line("\"k\":\"note\",\"text\":" + json_text(why, strlen(why)));
  if (PyModule_AddStringConstant(module, "refused", why) != 0) return -1;
  return PyModule_AddObjectRef(module, "first_refusal", first ? Py_True : Py_False);
}

#ifdef Py_GIL_DISABLED
constexpr bool kFreeThreaded = true;
#else
constexpr bool kFreeThreaded = false;
#endif

int fill_module(PyObject* module) {
  if (check_stamp("_recorder") != 0) return -1;
  if (kFreeThreaded)
    return fill_refused(
        module, "a free-threaded Python cannot be recorded; use the ordinary build, with its lock");
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    return fill_refused(
        module, "sub-interpreters are not recorded; run the work to be measured in the main one");
  if (PyModule_AddFunctions(module, methods) != 0) return -1;
  if (PyModule_AddStringConstant(module, "refused", "") != 0) return -1;
  const char* limits = cutaway_frames_unknown();
  if (PyModule_AddStringConstant(module, "limits", limits ? limits : "") != 0) return -1;
  if (!ready_operations() || !ready_span() || !ready_tasks(module)) return -1;
  if (PyModule_AddObject(module, "Span", Py_NewRef(reinterpret_cast<PyObject*>(&SpanType))) != 0)
    return -1;
  if (PyModule_AddObject(module, "Operation",
                         Py_NewRef(reinterpret_cast<PyObject*>(&OperationType))) != 0)
    return -1;
  return add_intercept(module) == 0 ? add_frameworks(module) : -1;
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill_module)},
#if PY_VERSION_HEX >= 0x030c0000
    // Importing is; what fill_module then does is to refuse in our own words.
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},  // else the import would switch the lock on
#endif
    {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "cutaway._recorder", nullptr, 0, nullptr, slots};

}  // namespace
}  // namespace cutaway

PyMODINIT_FUNC PyInit__recorder() { return PyModuleDef_Init(&cutaway::definition); }
