// What the module's init calls to add the interception functions to `_recorder`.
#pragma once
#include <Python.h>

namespace cutaway {

int add_intercept(PyObject* module);  // 0, or -1 with an exception set

}  // namespace cutaway
