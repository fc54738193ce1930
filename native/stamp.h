// The version a native module was built for. Beside Python files of another version it refuses to
// be imported, in one sentence: layouts and calls would not fit.
#pragma once
#include <Python.h>

#include <cstring>

#include "trace/vocabulary.h"

namespace cutaway {

// 0, or -1 with an ImportError set.
inline int check_stamp(const char* module) {
  PyObject* python = PyImport_ImportModule("cutaway.version");
  PyObject* version = python ? PyObject_GetAttrString(python, "__version__") : nullptr;
  Py_XDECREF(python);
  const char* text = version ? PyUnicode_AsUTF8(version) : nullptr;
  const bool same = text && strcmp(text, kVersion) == 0;
  if (text && !same)
    PyErr_Format(
        PyExc_ImportError,
        "cutaway.%s was built for version %s, but the Python files beside it are of version %s; "
        "install Cutaway again with pip install --force-reinstall",
        module, kVersion, text);
  Py_XDECREF(version);
  return same ? 0 : -1;
}

}  // namespace cutaway
