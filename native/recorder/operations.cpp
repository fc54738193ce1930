// cutaway.operation and cutaway.phase. An operation object is made once for each name and never
// freed; it holds no state of its own (the stack is the thread's), so it can be entered again, from
// any thread.
#include "recorder/operations.h"

#include <structmember.h>

namespace cutaway {

namespace {

// Gate: the bound __enter__ or __exit__ of one operation,
// made in advance and called without any argument handling.
struct Gate {
  PyObject_HEAD vectorcallfunc call;
  uint32_t name;
};

struct Operation {
  PyObject_HEAD uint32_t name;
  PyObject* text;
  PyObject* enter;
  PyObject* exit;
};

struct Phase {
  PyObject_HEAD uint32_t before;
};

PyObject* enter_gate(PyObject* self, PyObject* const*, size_t, PyObject*) {
  if (ThreadState* t = this_thread())
    enter_operation(t, reinterpret_cast<Gate*>(self)->name, python_depth());
  Py_RETURN_NONE;
}

PyObject* exit_gate(PyObject* self, PyObject* const*, size_t, PyObject*) {
  Thread* t = current;
  if (t && recorder.recording) exit_operation(state_of(t), reinterpret_cast<Gate*>(self)->name);
  Py_RETURN_FALSE;
}

PyObject* new_gate(uint32_t name, vectorcallfunc call) {
  Gate* gate = PyObject_New(Gate, &GateType);
  if (!gate) return nullptr;
  gate->call = call;
  gate->name = name;
  return reinterpret_cast<PyObject*>(gate);
}

PyObject* new_operation(PyObject* text) {
  Operation* op = PyObject_New(Operation, &OperationType);
  if (!op) return nullptr;
  op->name = name_id(text);
  op->text = Py_NewRef(text);
  op->enter = new_gate(op->name, enter_gate);
  op->exit = new_gate(op->name, exit_gate);
  return reinterpret_cast<PyObject*>(op);
}

PyObject* by_name;  // dict: str → Operation

// Names are nearly always literals, so the object itself is looked up before its text.
struct Recent {
  PyObject *text, *operation;
};
Recent recent[256];

Recent& recent_for(PyObject* text) { return recent[reinterpret_cast<uintptr_t>(text) >> 5 & 255]; }

PyObject* look_up(PyObject* text) {
  PyObject* known = PyDict_GetItemWithError(by_name, text);
  if (!known && !PyErr_Occurred()) {
    PyObject* made = new_operation(text);
    if (made && PyDict_SetItem(by_name, text, made) == 0) known = made;
    Py_XDECREF(made);
  }
  if (!known) return nullptr;
  Recent& slot = recent_for(text);
  PyObject* old = slot.text;
  slot = {Py_NewRef(text), known};
  Py_XDECREF(old);
  return known;
}

// Coroutines and generators run piecewise: a Python helper enters the operation only while they do.
PyObject* decorate(PyObject* self, PyObject* args, PyObject*) {
  PyObject* function;
  if (!PyArg_ParseTuple(args, "O:operation", &function)) return nullptr;
  if (PyFunction_Check(function)) {
    const int flags = reinterpret_cast<PyCodeObject*>(PyFunction_GetCode(function))->co_flags;
    if (flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
      PyObject* helper = PyImport_ImportModule("cutaway.record.operations");
      if (!helper) return nullptr;
      PyObject* out = PyObject_CallMethod(helper, "piecewise", "OO", self, function);
      Py_DECREF(helper);
      return out;
    }
  }
  return make_span(function, reinterpret_cast<Operation*>(self)->name, false);
}

PyObject* operation_repr(PyObject* self) {
  return PyUnicode_FromFormat("cutaway.operation(%R)", reinterpret_cast<Operation*>(self)->text);
}

PyObject* operation_reduce(PyObject* self, PyObject*) {
  PyObject* module = PyImport_ImportModule("cutaway._recorder");
  PyObject* make = module ? PyObject_GetAttrString(module, "operation") : nullptr;
  PyObject* out =
      make ? Py_BuildValue("O(O)", make, reinterpret_cast<Operation*>(self)->text) : nullptr;
  Py_XDECREF(make);
  Py_XDECREF(module);
  return out;
}

PyMethodDef operation_methods[] = {{"__reduce__", operation_reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef operation_members[] = {
    {const_cast<char*>("name"), T_OBJECT, offsetof(Operation, text), READONLY, nullptr}, {}};

// What `with` finds as __enter__ and __exit__: a descriptor that hands out the gate.
struct GateSlot {
  PyObject_HEAD Py_ssize_t offset;
};

PyObject* gate_of(PyObject* self, PyObject* object, PyObject*) {
  if (!object || Py_TYPE(object) != &OperationType) return Py_NewRef(self);
  const Py_ssize_t offset = reinterpret_cast<GateSlot*>(self)->offset;
  return Py_NewRef(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset));
}

PyTypeObject GateSlotType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool add_gate_slot(const char* name, Py_ssize_t offset) {
  GateSlot* slot = PyObject_New(GateSlot, &GateSlotType);
  if (!slot) return false;
  slot->offset = offset;
  const bool fine =
      PyDict_SetItemString(OperationType.tp_dict, name, reinterpret_cast<PyObject*>(slot)) == 0;
  Py_DECREF(slot);
  return fine;
}

void write_phase(uint32_t name) {
  ThreadState* t = this_thread();
  if (!t) return;
  mark(t, ticks(), 0, make_tag(kPhase, name));
  t->phase = name;
  if (const cutaway_phase_hook hook = phase_hook.look()) hook(name);
}

PyObject* phase_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* phase_exit(PyObject* self, PyObject*) {
  write_phase(reinterpret_cast<Phase*>(self)->before);
  Py_RETURN_FALSE;
}

PyMethodDef phase_methods[] = {{"__enter__", phase_enter, METH_NOARGS, nullptr},
                               {"__exit__", phase_exit, METH_VARARGS, nullptr},
                               {}};

void free_object(PyObject* self) { PyObject_Free(self); }

void name_type(PyTypeObject& type, const char* name, size_t size) {
  type.tp_name = name;
  type.tp_basicsize = static_cast<Py_ssize_t>(size);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_dealloc = free_object;
}

}  // namespace

PyTypeObject OperationType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject GateType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject PhaseType = {PyVarObject_HEAD_INIT(nullptr, 0)};

void intern_built_in_names() {
  for (const char* name : kOperations) intern_name(name, strlen(name));
}

uint32_t name_id(PyObject* text) {
  Py_ssize_t size;
  if (const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size))
    return intern_name(utf8, static_cast<size_t>(size));
  PyErr_Clear();
  PyObject* bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
  if (!bytes) {
    PyErr_Clear();
    return intern_name("(unnamed)", 9);
  }
  const uint32_t id =
      intern_name(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
  Py_DECREF(bytes);
  return id;
}

// Closes the topmost open one of this name. One that is not open (it was entered before the
// recording, or in the parent of a fork) leaves no record.
void exit_operation(ThreadState* t, uint32_t name) {
  auto& open = t->operations;
  size_t i = open.size();
  while (i && open[i - 1].name != name) --i;
  if (i == 0) return;
  mark(t, ticks(), 0, make_tag(kOpExit, name));
  open.erase(open.begin() + static_cast<ptrdiff_t>(i) - 1);
  const cutaway_operation_hook hook = operation_hook.look();
  if (__builtin_expect(hook != nullptr, 0)) hook(name, 0);
}

bool automatic_may_open(const ThreadState* t, uint32_t name, uint32_t depth) {
  for (const OpenOperation& o : t->operations) {
    if (o.name == name) return false;
    if (o.depth != kAutomatic && o.name <= kBuiltInNames) return false;
  }
  if (t->operations.empty()) return true;
  const OpenOperation& innermost = t->operations.back();
  return innermost.depth == kAutomatic || innermost.depth != depth;
}

void count_steps(ThreadState* t, uint64_t n) {
  recorder.steps += n;
  if (recorder.paused) {
    t->paused_steps += n;
  } else {
    mark(t, ticks(), static_cast<uint32_t>(n), make_tag(kStep, 0));
  }
  window_at_mark();
  calibrate_at_unit(t, true);
}

void count_iteration(ThreadState* t) {
  const uint64_t number = ++recorder.iterations;
  window_before_iteration(number);
  if (!recorder.paused) {
    // Asking for CPU time enters the kernel, where a busy machine may give the core to another:
    // what comes after the mark is the hook's that made it (namer.cpp).
    const uint64_t now = ticks(), cpu = thread_cpu_ns();
    mark(t, now, static_cast<uint32_t>(cpu),
         make_tag(kCpuTime, static_cast<uint32_t>(cpu >> 32) & kMaxId));
    mark(t, now, static_cast<uint32_t>(number), make_tag(kIteration, 0));
  } else if (!iterate_in_pause(t, static_cast<uint32_t>(number))) {
    ++t->paused_iterations;
  }
  calibrate_at_unit(t, false);
}

PyObject* operation_of(PyObject*, PyObject* name) {
  const Recent& slot = recent_for(name);
  if (__builtin_expect(slot.text == name, 1)) return Py_NewRef(slot.operation);
  if (PyUnicode_CheckExact(name)) return Py_XNewRef(look_up(name));
  PyObject* text = PyObject_Str(name);
  if (!text) return nullptr;
  PyObject* found = Py_XNewRef(look_up(text));
  Py_DECREF(text);
  return found;
}

bool is_operation(PyObject* o) { return Py_TYPE(o) == &OperationType; }
uint32_t operation_id(PyObject* o) { return reinterpret_cast<Operation*>(o)->name; }

PyObject* set_phase(PyObject*, PyObject* name) {
  uint32_t id = 0;
  if (name != Py_None) {
    PyObject* text = PyObject_Str(name);
    if (!text) return nullptr;
    if (PyUnicode_GetLength(text)) id = name_id(text);
    Py_DECREF(text);
  }
  Phase* phase = PyObject_New(Phase, &PhaseType);
  if (!phase) return nullptr;
  phase->before = current ? state_of(current)->phase : 0;
  write_phase(id);
  return reinterpret_cast<PyObject*>(phase);
}

bool ready_operations() {
  name_type(GateType, "cutaway._recorder.Gate", sizeof(Gate));
  GateType.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  GateType.tp_vectorcall_offset = offsetof(Gate, call);
  GateType.tp_call = PyVectorcall_Call;
  name_type(GateSlotType, "cutaway._recorder.GateSlot", sizeof(GateSlot));
  GateSlotType.tp_descr_get = gate_of;
  name_type(OperationType, "cutaway._recorder.Operation", sizeof(Operation));
  OperationType.tp_call = decorate;
  OperationType.tp_repr = operation_repr;
  OperationType.tp_methods = operation_methods;
  OperationType.tp_members = operation_members;
  name_type(PhaseType, "cutaway._recorder.Phase", sizeof(Phase));
  PhaseType.tp_methods = phase_methods;
  by_name = PyDict_New();
  intern_built_in_names();
  return by_name && PyType_Ready(&GateType) == 0 && PyType_Ready(&GateSlotType) == 0 &&
         PyType_Ready(&OperationType) == 0 && PyType_Ready(&PhaseType) == 0 &&
         add_gate_slot("__enter__", offsetof(Operation, enter)) &&
         add_gate_slot("__exit__", offsetof(Operation, exit));
}

}  // namespace cutaway
