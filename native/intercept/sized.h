// Calls that are worth a record only when they are given large arrays. Small ones pass with a look
// at their arguments, no clock is read: NumPy is called hundreds of times in a step, almost always
// with a few numbers.
#pragma once
#include "intercept/intercept.h"

namespace cutaway {

// The beginning of NumPy's PyArrayObject: part of its ABI, the same in all releases of 1.x and 2.x.
struct Array {
  PyObject_HEAD char* data;
  int dimensions;
  Py_ssize_t* shape;
};

extern PyTypeObject* array_type;          // numpy.ndarray
void set_array_type(PyTypeObject* type);  // null until NumPy is there

// An array or one of a direct subclass (memmap, matrix; classes of Python): cheaper than to walk
// all bases of a number. The flags of a type have been read lately, its base has not.
inline bool is_array(PyObject* object) {
  if (object == nullptr) return false;
  const PyTypeObject* type = Py_TYPE(object);
  return type == array_type ||
         ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_base == array_type);
}

inline Py_ssize_t array_size(PyObject* object) {
  const auto* array = reinterpret_cast<const Array*>(object);
  Py_ssize_t size = 1;
  for (int i = 0; i < array->dimensions; ++i) size *= array->shape[i];
  return size;
}

inline bool is_sequence(PyObject* object) {
  return object != nullptr && (PyList_CheckExact(object) || PyTuple_CheckExact(object));
}

Py_ssize_t sequence_size(PyObject* sequence);  // of the array that would be made of it

// An array indexed with an array copies element by element; a slice is only a view.
bool picks_elements(PyObject* key);

// Stands in for the function that reads (or sets) what an array has at a key. Arrays are indexed
// with a number or a slice far more often than anything else is called: those pass with the fewest
// cache lines.
Native subscript_of_arrays(Native original, bool sets, uint32_t index);

// Whether a call is given an array of at least 2^least elements, or a list that makes one.
inline bool is_large(const Target& target, Word a, Word b, Word c, Word d) {
  const Py_ssize_t least = Py_ssize_t{1} << target.least;
  auto* self = reinterpret_cast<PyObject*>(a);
  if (target.role == Role::kSubscript)
    return array_size(self) >= least && picks_elements(reinterpret_cast<PyObject*>(b));
  if (is_array(self) && array_size(self) >= least) return true;
  const auto* given = reinterpret_cast<PyObject* const*>(b);
  Py_ssize_t count = 1;
  if (target.convention == Convention::kFast || target.convention == Convention::kVectorcall) {
    count = PyVectorcall_NARGS(c);
  } else if (target.convention == Convention::kOne) {
    given = reinterpret_cast<PyObject* const*>(&b);
  } else if (target.convention == Convention::kTuple) {
    count = PyTuple_GET_SIZE(reinterpret_cast<PyObject*>(b));
    given = reinterpret_cast<PyTupleObject*>(b)->ob_item;
  } else if (target.convention == Convention::kMethod) {
    given = reinterpret_cast<PyObject* const*>(c);
    count = PyVectorcall_NARGS(d);
  } else {
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Py_ssize_t size = is_array(given[i])      ? array_size(given[i])
                            : is_sequence(given[i]) ? sequence_size(given[i])
                                                    : 0;
    if (size >= least) return true;
  }
  return false;
}

}  // namespace cutaway
