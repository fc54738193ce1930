// Calls that are worth a record only when they are given large arrays. Small ones pass with a look at their
// arguments, no clock is read: NumPy is called hundreds of times in a step, almost always with a few numbers.
#include "intercept/sized.h"

namespace cutaway {
namespace {

// The beginning of NumPy's PyArrayObject: part of its ABI, the same in all releases of 1.x and 2.x.
struct Array {
  PyObject_HEAD char* data;
  int dimensions;
  Py_ssize_t* shape;
};

constexpr Py_ssize_t kMostItems = 8;  // of a list of arrays that are looked at

PyTypeObject* array_type = nullptr;

// An array or one of a direct subclass (memmap, matrix): cheaper than to walk all bases of a number.
inline bool is_array(PyObject* object) {
  return object != nullptr && (Py_TYPE(object) == array_type || Py_TYPE(object)->tp_base == array_type);
}

Py_ssize_t array_size(PyObject* object) {
  const auto* array = reinterpret_cast<const Array*>(object);
  Py_ssize_t size = 1;
  for (int i = 0; i < array->dimensions; ++i) size *= array->shape[i];
  return size;
}

bool is_sequence(PyObject* object) {
  return object != nullptr && (PyList_CheckExact(object) || PyTuple_CheckExact(object));
}

Py_ssize_t size_of(PyObject* object) {
  if (is_array(object)) return array_size(object);
  if (!is_sequence(object)) return 0;
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(object);
  PyObject* first = length > 0 ? PySequence_Fast_GET_ITEM(object, 0) : nullptr;
  if (!is_array(first)) return is_sequence(first) ? length * PySequence_Fast_GET_SIZE(first) : length;
  Py_ssize_t size = 0;
  for (Py_ssize_t i = 0; i < length && i < kMostItems; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(object, i);
    if (is_array(item)) size += array_size(item);
  }
  return length > kMostItems ? size * length / kMostItems : size;
}

bool any_large(PyObject* const* values, Py_ssize_t count, Py_ssize_t least) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (size_of(values[i]) >= least) return true;
  return false;
}

bool picks(PyObject* key) { return is_array(key) || (key != nullptr && PyList_CheckExact(key)); }

// An array indexed with an array copies element by element; a slice is only a view.
bool large_subscript(PyObject* array, PyObject* key, Py_ssize_t least) {
  if (!is_array(array) || array_size(array) < least) return false;
  if (!PyTuple_CheckExact(key)) return picks(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (picks(PyTuple_GET_ITEM(key, i))) return true;
  return false;
}

}  // namespace

void set_array_type(PyTypeObject* type) {
  Py_XINCREF(type);
  Py_XDECREF(array_type);
  array_type = type;
}

bool is_large(const Target& target, Word a, Word b, Word c, Word d) {
  const Py_ssize_t least = Py_ssize_t{1} << target.least;
  auto* self = reinterpret_cast<PyObject*>(a);
  if (target.role == Role::kSubscript) return large_subscript(self, reinterpret_cast<PyObject*>(b), least);
  if (is_array(self) && array_size(self) >= least) return true;
  switch (target.convention) {
    case Convention::kOne:
      return size_of(reinterpret_cast<PyObject*>(b)) >= least;
    case Convention::kTuple: {
      auto* tuple = reinterpret_cast<PyTupleObject*>(b);
      return any_large(tuple->ob_item, PyTuple_GET_SIZE(tuple), least);
    }
    case Convention::kVectorcall:
    case Convention::kFast:
      return any_large(reinterpret_cast<PyObject* const*>(b), PyVectorcall_NARGS(c), least);
    case Convention::kMethod:
      return any_large(reinterpret_cast<PyObject* const*>(c), PyVectorcall_NARGS(d), least);
    default:
      return false;
  }
}

}  // namespace cutaway
