// The Python interface of this folder: used by cutaway.record.layers, not by users.
#include "intercept/locations.h"
#include "intercept/operators.h"
#include "intercept/patch.h"
#include "intercept/sites.h"
#include "intercept/sized.h"
#include "intercept/slots.h"
#include "recorder/state.h"

namespace cutaway {
namespace {

PyObject* yes_or_no(bool yes) { return Py_NewRef(yes ? Py_True : Py_False); }

WaitOn wait_on(const char* word) {
  const std::string w = word;
  if (w == "fd") return WaitOn::kFdArgument;
  if (w == "self") return WaitOn::kFdSelf;
  if (w == "ready") return WaitOn::kReady;
  if (w == "pid") return WaitOn::kPid;
  if (w == "semaphore") return WaitOn::kSemaphore;
  if (w == "object") return WaitOn::kObject;
  if (w == "queue") return WaitOn::kQueue;
  return WaitOn::kNothing;
}

PyObject* patch(PyObject*, PyObject* args) {
  PyObject* object;
  const char *name, *layer;
  if (!PyArg_ParseTuple(args, "Oss:patch", &object, &name, &layer)) return nullptr;
  return yes_or_no(patch_object(object, Role::kPlain, WaitOn::kNothing, {name, layer, nullptr}));
}

PyObject* patch_wait(PyObject*, PyObject* args) {
  PyObject *object, *on;
  const char *name, *layer = "wait";
  int feeds = 0;
  if (!PyArg_ParseTuple(args, "OsO|sp:patch_wait", &object, &name, &on, &layer, &feeds))
    return nullptr;
  if (!PyUnicode_Check(on))
    return yes_or_no(
        patch_object(object, Role::kWait, WaitOn::kTold, {name, layer, Py_NewRef(on)}));
  const char* word = PyUnicode_AsUTF8(on);
  if (!word) return nullptr;
  return yes_or_no(
      patch_object(object, Role::kWait, wait_on(word), {name, layer, nullptr}, feeds != 0));
}

PyObject* patch_feed(PyObject*, PyObject* args) {
  PyObject* object;
  const char* on;
  if (!PyArg_ParseTuple(args, "Os:patch_feed", &object, &on)) return nullptr;
  return yes_or_no(patch_object(object, Role::kFeed, wait_on(on), {"", "", nullptr}));
}

PyObject* patch_sized(PyObject*, PyObject* args) {
  PyObject* object;
  const char *name, *layer;
  unsigned char least;
  if (!PyArg_ParseTuple(args, "Ossb:patch_sized", &object, &name, &layer, &least)) return nullptr;
  return yes_or_no(
      patch_object(object, Role::kSized, WaitOn::kNothing, {name, layer, nullptr}, least));
}

PyObject* patch_arrays(PyObject*, PyObject* args) {
  PyObject *type, *names;
  const char *name, *layer;
  unsigned char least;
  if (!PyArg_ParseTuple(args, "O!ssbO:patch_arrays", &PyType_Type, &type, &name, &layer, &least,
                        &names))
    return nullptr;
  set_array_type(reinterpret_cast<PyTypeObject*>(type));
  return PyLong_FromLong(patch_slots(reinterpret_cast<PyTypeObject*>(type), names,
                                     {name, layer, nullptr}, Role::kSubscript, least));
}

PyObject* patch_watched(PyObject*, PyObject* args) {
  PyObject *object, *observer;
  const char *name, *layer;
  if (!PyArg_ParseTuple(args, "OssO:patch_watched", &object, &name, &layer, &observer))
    return nullptr;
  Py_INCREF(observer);
  return yes_or_no(patch_object(object, Role::kWatched, WaitOn::kNothing, {name, layer, observer}));
}

PyObject* patch_awaited(PyObject*, PyObject* args) {
  PyObject *object, *observer;
  const char *name, *layer;
  if (!PyArg_ParseTuple(args, "OssO:patch_awaited", &object, &name, &layer, &observer))
    return nullptr;
  Py_INCREF(observer);
  return yes_or_no(patch_object(object, Role::kAwaited, WaitOn::kNothing, {name, layer, observer}));
}

PyObject* patch_apply(PyObject*, PyObject* args) {
  PyObject* object;
  const char *name, *layer;
  if (!PyArg_ParseTuple(args, "Oss:patch_apply", &object, &name, &layer)) return nullptr;
  return yes_or_no(patch_object(object, Role::kApply, WaitOn::kNothing, {name, layer, nullptr}));
}

PyObject* patch_one_of_many(PyObject*, PyObject* args) {
  PyObject* object;
  const char *name, *layer;
  if (!PyArg_ParseTuple(args, "Oss:patch_one_of_many", &object, &name, &layer)) return nullptr;
  return yes_or_no(patch_shared(object, {name, layer, nullptr}));
}

PyObject* patch_operator(PyObject*, PyObject* args) {
  PyObject *object, *namer = nullptr;
  const char *name, *layer;
  unsigned char position = 0;
  if (!PyArg_ParseTuple(args, "Oss|bO:patch_operator", &object, &name, &layer, &position, &namer))
    return nullptr;
  const uint8_t named = namer ? position + 1 : 0;
  return yes_or_no(patch_object(object, Role::kOperator, WaitOn::kNothing,
                                {name, layer, Py_XNewRef(namer)}, named));
}

PyObject* library(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (text == nullptr) return nullptr;
  add_library(text);
  Py_RETURN_NONE;
}

PyObject* patch_python(PyObject*, PyObject* function) {
  return yes_or_no(patch_callback(function));
}

PyObject* patch_type(PyObject*, PyObject* args) {
  PyObject *type, *names = Py_None;
  const char *name, *layer;
  int built_in = 0;
  if (!PyArg_ParseTuple(args, "O!ss|Op:patch_type", &PyType_Type, &type, &name, &layer, &names,
                        &built_in))
    return nullptr;
  return PyLong_FromLong(patch_slots(reinterpret_cast<PyTypeObject*>(type),
                                     names == Py_None ? nullptr : names, {name, layer, nullptr},
                                     Role::kPlain, 0, built_in));
}

PyObject* restore_all(PyObject*, PyObject*) {
  restore();
  Py_RETURN_NONE;
}

PyObject* interception(PyObject*, PyObject*) {
  return Py_BuildValue("{s:n,s:I,s:I}", "locations", static_cast<Py_ssize_t>(locations()),
                       "refused", refused(), "sites", sites_known());
}

void arm_as_asked() {
  static uint32_t last = 0;
  const uint32_t now = log_number();
  if (now != last) forget_calls();
  last = now;
  sites_wanted = recorder.options.call_sites && cutaway_frames_unknown() == nullptr;
  arm();
}

PyMethodDef methods[] = {
    {"patch", patch, METH_VARARGS,
     "patch(object, name, layer) -> bool\n\nRecord the calls of a native callable or getter in "
     "place."},
    {"patch_type", patch_type, METH_VARARGS,
     "patch_type(type, name, layer, slots=None, built_in=False) -> int\n\nRecord the native slots "
     "of a type, by "
     "dunder "
     "name."},
    {"gave", gave, METH_O,
     "gave(queue)\n\nThis thread has put something into a queue of this process."},
    {"took", took, METH_O,
     "took(queue)\n\nThis thread has taken something out of a queue of this process."},
    {"patch_wait", patch_wait, METH_VARARGS,
     "patch_wait(object, name, on, layer='wait', feeds=False) -> bool\n\nRecord a built-in when it "
     "takes "
     "more than 2 us; on: fd, self, ready, pid, semaphore, object, '', or a function that is given "
     "the "
     "arguments and tells."},
    {"patch_feed", patch_feed, METH_VARARGS,
     "patch_feed(object, on) -> bool\n\nA built-in that ends the waits of others; on: semaphore, "
     "object."},
    {"patch_sized", patch_sized, METH_VARARGS,
     "patch_sized(object, name, layer, least) -> bool\n\nAs patch, for calls given arrays of "
     "2**least "
     "elements or more."},
    {"patch_arrays", patch_arrays, METH_VARARGS,
     "patch_arrays(type, name, layer, least, slots) -> int\n\nThe type of arrays; record "
     "subscripts of "
     "large ones with arrays."},
    {"patch_watched", patch_watched, METH_VARARGS,
     "patch_watched(object, name, layer, observer) -> bool\n\nAs patch; then observer(arguments, "
     "result) "
     "after each."},
    {"patch_awaited", patch_awaited, METH_VARARGS,
     "patch_awaited(object, name, layer, observer) -> bool\n\nAs patch; observer(arguments, None) "
     "before "
     "each call."},
    {"patch_apply", patch_apply, METH_VARARGS,
     "patch_apply(object, name, layer) -> bool\n\nAs patch, for a class method that calls "
     "cls.forward back."},
    {"patch_one_of_many", patch_one_of_many, METH_VARARGS,
     "patch_one_of_many(object, name, layer) -> bool\n\nAs patch, for many short-lived objects of "
     "one kind."},
    {"patch_operator", patch_operator, METH_VARARGS,
     "patch_operator(object, name, layer, position=0, namer=None) -> bool\n\nAs patch, for what a "
     "library "
     "written in Python calls; namer(argument at position) names the call."},
    {"library", library, METH_O,
     "library(path)\n\nFiles whose paths begin so are no call sites of operators: their callers "
     "are."},
    {"compiled_updates", compiled_updates, METH_O,
     "compiled_updates(function) -> bool\n\nEach call of it changes the weights. None: the one "
     "that runs, if "
     "it is "
     "seen."},
    {"running_compiled", running_compiled, METH_NOARGS,
     "running_compiled() -> object\n\nThe compiled function that this thread runs, if it is seen, "
     "or None."},
    {"patch_callback", patch_python, METH_O,
     "patch_callback(function) -> bool\n\nA Python function that native code calls: layer python "
     "while it "
     "runs."},
    {"restore", restore_all, METH_NOARGS, "restore()\n\nPut every exchanged pointer back."},
    {"interception", interception, METH_NOARGS,
     "interception() -> dict\n\nHow much is intercepted."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_intercept(PyObject* module) {
  set_switch(arm_as_asked, disarm);
  return PyModule_AddFunctions(module, methods);
}

}  // namespace cutaway
