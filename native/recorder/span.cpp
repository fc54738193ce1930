// Span: a function with an operation around it. It stands in for the function wherever Python
// looks: it binds as a method, and names, code, signature, pickling and isinstance are the
// function's.
#include <Python.h>
#include <structmember.h>

#include "frameworks/rules.h"
#include "recorder/operations.h"

namespace cutaway {

namespace {

struct Span {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  PyObject* weak;
  Rule rule;
  bool automatic;  // a framework's: the rule decides; else the user's own: always opened
};

Span* span_of(PyObject* o) { return reinterpret_cast<Span*>(o); }

Entered enter_span(const Span* span, ThreadState* t, PyObject* first) {
  if (span->automatic) return enter(span->rule, t, first, python_depth());
  // The body of the function lies one deeper than the call.
  enter_operation(t, span->rule.name, python_depth() + 1);
  return {true, true, false, false};
}

PyObject* call_span(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  const Span* span = span_of(self);
  ThreadState* t = this_thread();
  PyObject* first = PyVectorcall_NARGS(nargsf) ? args[0] : nullptr;
  const Entered entered = t ? enter_span(span, t, first) : Entered{};
  if (!entered.counts) return PyObject_Vectorcall(span->function, args, nargsf, names);
  // The program may drop the span while it runs.
  Py_INCREF(self);
  Py_XINCREF(first);
  PyObject* result = PyObject_Vectorcall(span->function, args, nargsf, names);
  leave(span->rule, entered, t, first, result);
  Py_XDECREF(first);
  Py_DECREF(self);
  return result;
}

PyObject* bind_span(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* span_reduce(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(span_of(self)->function, "__qualname__");
}

PyObject* span_self(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyMethodDef span_methods[] = {{"__reduce__", span_reduce, METH_NOARGS, nullptr},
                              {"__reduce_ex__", span_reduce, METH_O, nullptr},
                              {"__copy__", span_self, METH_NOARGS, nullptr},
                              {"__deepcopy__", span_self, METH_O, nullptr},
                              {}};

PyObject* span_wrapped(PyObject* self, void*) { return Py_NewRef(span_of(self)->function); }
PyObject* span_class(PyObject* self, void*) {
  return PyObject_GetAttrString(span_of(self)->function, "__class__");
}

PyGetSetDef span_getset[] = {{"__wrapped__", span_wrapped, nullptr, nullptr, nullptr},
                             {"__class__", span_class, nullptr, nullptr, nullptr},
                             {}};

bool is_own(PyObject* name) {
  for (const char* own : {"__wrapped__", "__class__", "__reduce__", "__reduce_ex__", "__copy__",
                          "__deepcopy__", "__get__", "__call__"})
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) return true;
  return false;
}

PyObject* span_getattr(PyObject* self, PyObject* name) {
  return is_own(name) ? PyObject_GenericGetAttr(self, name)
                      : PyObject_GetAttr(span_of(self)->function, name);
}

int span_setattr(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(span_of(self)->function, name, value);
}

PyObject* span_repr(PyObject* self) { return PyObject_Repr(span_of(self)->function); }

int span_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(span_of(self)->function);
  return visit_rule(span_of(self)->rule, visit, arg);
}

int span_clear(PyObject* self) {
  clear_rule(&span_of(self)->rule);
  return 0;
}

void span_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (span_of(self)->weak) PyObject_ClearWeakRefs(self);
  clear_rule(&span_of(self)->rule);
  Py_CLEAR(span_of(self)->function);
  PyObject_GC_Del(self);
}

PyObject* span_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  PyObject* function = nullptr;
  Rule rule;
  PyObject* made =
      read_rule(args, kwargs, &rule, &function) == 0 ? make_span(function, 0, true) : nullptr;
  if (made) {
    span_of(made)->rule = rule;
  } else {
    clear_rule(&rule);
  }
  return made;
}

void swap_rules(Span* span, Rule* rule) {
  const Rule old = span->rule;
  span->rule = *rule;
  *rule = old;
}

}  // namespace

// A class keeps the span it has, and so do the bound methods that the program holds on to.
PyObject* change_rule(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject* span = nullptr;
  Rule rule;
  int status = read_rule(args, kwargs, &rule, &span);
  if (status == 0 && Py_TYPE(span) != &SpanType) {
    PyErr_SetString(PyExc_TypeError, "change_rule wants a Span");
    status = -1;
  }
  if (status == 0) swap_rules(span_of(span), &rule);
  clear_rule(&rule);
  if (status < 0) return nullptr;
  Py_RETURN_NONE;
}

PyTypeObject SpanType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* make_span(PyObject* function, uint32_t name, bool automatic) {
  Span* span = PyObject_GC_New(Span, &SpanType);
  if (!span) return nullptr;
  span->call = call_span;
  span->function = Py_NewRef(function);
  span->weak = nullptr;
  span->rule = Rule();
  span->rule.name = name;
  span->automatic = automatic;
  PyObject_GC_Track(span);
  return reinterpret_cast<PyObject*>(span);
}

bool ready_span() {
  PyTypeObject& type = SpanType;
  type.tp_name = "cutaway._recorder.Span";
  type.tp_basicsize = sizeof(Span);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                  Py_TPFLAGS_METHOD_DESCRIPTOR;
  type.tp_vectorcall_offset = offsetof(Span, call);
  type.tp_weaklistoffset = offsetof(Span, weak);
  type.tp_call = PyVectorcall_Call;
  type.tp_descr_get = bind_span;
  type.tp_getattro = span_getattr;
  type.tp_setattro = span_setattr;
  type.tp_repr = span_repr;
  type.tp_traverse = span_traverse;
  type.tp_clear = span_clear;
  type.tp_dealloc = span_dealloc;
  type.tp_methods = span_methods;
  type.tp_getset = span_getset;
  type.tp_new = span_new;
  return PyType_Ready(&type) == 0;
}

}  // namespace cutaway
