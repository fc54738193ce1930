// Notices classes that have one of a few methods, as soon as they are made: every `class` statement
// calls builtins.__build_class__. Any other class costs two look-ups in its dictionary.
#include "frameworks/rules.h"

namespace cutaway {

namespace {

PyObject* original = nullptr;  // Python's own
PyObject* replacement = nullptr;
PyObject* names = nullptr;     // tuple of str
PyObject* callback = nullptr;  // None: not asked for

bool is_of_interest(PyObject* made) {
  if (!PyType_Check(made)) return false;
  PyObject* members = reinterpret_cast<PyTypeObject*>(made)->tp_dict;
  for (Py_ssize_t i = 0; members && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_GetItemWithError(members, PyTuple_GET_ITEM(names, i))) return true;
  PyErr_Clear();
  return false;
}

// The class must be created even if our hook fails.
void tell(PyObject* made) {
  PyObject* told = PyObject_CallOneArg(callback, made);
  if (!told) {
    PyErr_Clear();
    recorder.log.line("\"k\":\"note\",\"text\":\"a class could not be looked at\"");
  }
  Py_XDECREF(told);
}

PyObject* build_class(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  PyObject* made = PyObject_Vectorcall(original, args, static_cast<size_t>(count), keywords);
  if (made && callback && callback != Py_None && is_of_interest(made)) tell(made);
  return made;
}

PyMethodDef definition = {"__build_class__",
                          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(build_class)),
                          METH_FASTCALL | METH_KEYWORDS, nullptr};

int put(PyObject* function) {
  return PyDict_SetItemString(PyEval_GetBuiltins(), "__build_class__", function);
}

int take_place() {
  if (replacement) return 0;
  original = Py_XNewRef(PyDict_GetItemString(PyEval_GetBuiltins(), "__build_class__"));
  if (original) replacement = PyCFunction_New(&definition, nullptr);
  return replacement ? put(replacement) : -1;
}

// If another hook was installed after ours, it keeps calling us, and we only pass the call on.
void give_back() {
  if (PyDict_GetItemString(PyEval_GetBuiltins(), "__build_class__") != replacement) return;
  if (put(original) < 0) PyErr_Clear();
  Py_CLEAR(replacement);
  Py_CLEAR(original);
}

}  // namespace

PyObject* watch_classes(PyObject*, PyObject* args) {
  PyObject *wanted, *told;
  if (!PyArg_ParseTuple(args, "O!O:watch_classes", &PyTuple_Type, &wanted, &told)) return nullptr;
  Py_XSETREF(names, Py_NewRef(wanted));
  Py_XSETREF(callback, Py_NewRef(told));
  if (told == Py_None) {
    if (replacement) give_back();
  } else if (take_place() < 0) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace cutaway
