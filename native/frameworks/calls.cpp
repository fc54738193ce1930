// An operation around `instance(...)` for all instances of a class and its
// subclasses (torch.nn.Module), by the type's call slot. No Python attribute
// changes, so tracing, scripting and compiling see the class as it was.
#include <vector>

#include "frameworks/rules.h"
#include "intercept/thunks.h"
#include "recorder/weak.h"

namespace cutaway {

namespace {

Rule* rule = nullptr;  // one class family is enough
ternaryfunc original = nullptr;
std::vector<PyObject*>& covered() {
  static auto* list = new std::vector<PyObject*>();  // weak references: classes come and go
  return *list;
}

// Up to 3.11, Python counts the way through a type's call slot as one more call.
uint32_t caller_depth() {
#if PY_VERSION_HEX >= 0x030c0000
  return python_depth();
#else
  return python_depth() - 1;
#endif
}

// Most modules are called by others, and pass with the fewest cache lines.
CUTAWAY_HOT PyObject* covered_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (hidden(*rule)) return original(self, args, kwargs);
  ThreadState* t = this_thread();
  const Entered entered = t ? enter(*rule, t, self, caller_depth()) : Entered{};
  PyObject* result = original(self, args, kwargs);
  if (entered.counts) leave(*rule, entered, t, self, result);
  return result;
}

// A class that fills the slot in some other way, and classes below it, keep their own.
int cover(PyTypeObject* type) {
  if (type->tp_call == original) {
    PyObject* reference = PyWeakref_NewRef(reinterpret_cast<PyObject*>(type), nullptr);
    if (!reference) return -1;
    covered().push_back(reference);
    type->tp_call = covered_call;
  }
  PyObject* below =
      PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", type);
  if (!below) return -1;
  int status = 0;
  for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(below); ++i)
    status = cover(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(below, i)));
  Py_DECREF(below);
  return status;
}

}  // namespace

PyObject* cover_calls(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject* cls = nullptr;
  auto* wanted = new Rule();
  if (read_rule(args, kwargs, wanted, &cls) < 0) {
    clear_rule(wanted);
    delete wanted;
    return nullptr;
  }
  if (!PyType_Check(cls) || !reinterpret_cast<PyTypeObject*>(cls)->tp_call || !covered().empty()) {
    clear_rule(wanted);
    delete wanted;
    PyErr_SetString(PyExc_TypeError,
                    "cover_calls wants one class with callable instances at a time");
    return nullptr;
  }
  if (rule) clear_rule(rule);
  delete rule;
  rule = wanted;
  original = reinterpret_cast<PyTypeObject*>(cls)->tp_call;
  if (cover(reinterpret_cast<PyTypeObject*>(cls)) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* cover_calls_of(PyObject*, PyObject* cls) {
  if (rule && !covered().empty() && PyType_Check(cls) &&
      cover(reinterpret_cast<PyTypeObject*>(cls)) < 0)
    return nullptr;
  Py_RETURN_NONE;
}

PyObject* uncover_calls(PyObject*, PyObject*) {
  for (PyObject* reference : covered()) {
    if (auto* type = reinterpret_cast<PyTypeObject*>(strong(reference))) {
      if (type->tp_call == covered_call) type->tp_call = original;
      Py_DECREF(type);
    }
    Py_DECREF(reference);
  }
  covered().clear();
  Py_RETURN_NONE;
}

}  // namespace cutaway
