// Compiled on its own when Python is newer than those we know: whether the structures that calls
// are recorded in are still there. If not, CMake says so in one sentence instead of an error for
// each place they are used.
#include <Python.h>

#include <cstddef>

static_assert(sizeof(PyCFunctionObject::m_ml) + sizeof(PyCFunctionObject::m_self) != 0,
              "functions");
static_assert(sizeof(PyMethodDescrObject::d_method) != 0, "methods");
static_assert(sizeof(PyGetSetDescrObject::d_getset) != 0, "attributes");
static_assert(sizeof(PyWrapperDescrObject::d_wrapped) != 0, "slots called by name");
static_assert(offsetof(PyTypeObject, tp_vectorcall_offset) != 0, "vectorcall");
static_assert(offsetof(PyTypeObject, tp_call) != 0, "types");
static_assert(offsetof(PyCodeObject, co_filename) != 0, "code");
