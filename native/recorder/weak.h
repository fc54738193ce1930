// Weak references, by the call each Python offers.
#pragma once
#include <Python.h>

namespace cutaway {

// What a weak reference refers to: a new reference, or null if it is gone. Leaves no exception set.
inline PyObject* strong(PyObject* reference) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(reference, &object) < 0) PyErr_Clear();
  return object;
#else
  PyObject* object = PyWeakref_GetObject(reference);
  if (object == nullptr) PyErr_Clear();
  return object == nullptr || object == Py_None ? nullptr : Py_NewRef(object);
#endif
}

}  // namespace cutaway
