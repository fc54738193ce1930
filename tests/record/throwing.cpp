// throws() lets a C++ exception out of a function that Python
// calls; catches(f) calls f's C function and catches it.
#include <Python.h>

#include <stdexcept>
static PyObject* throws(PyObject*, PyObject*) { throw std::runtime_error("thrown in native code"); }
static PyObject* works(PyObject*, PyObject*) { Py_RETURN_NONE; }
static PyObject* catches(PyObject*, PyObject* f) {
  try {
    return PyCFunction_GET_FUNCTION(f)(PyCFunction_GET_SELF(f), nullptr);
  } catch (const std::runtime_error& error) {
    return PyUnicode_FromString(error.what());
  }
}
static PyMethodDef methods[] = {{"throws", throws, METH_NOARGS, nullptr},
                                {"works", works, METH_NOARGS, nullptr},
                                {"catches", catches, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "throwing", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_throwing() { return PyModule_Create(&definition); }
