#include "intercept/sized.h"

namespace cutaway {
namespace {

constexpr Py_ssize_t kMostItems = 8;  // of a list of arrays that are looked at

bool is_picked(PyObject* key) {
  return is_array(key) || (key != nullptr && PyList_CheckExact(key));
}

struct alignas(32) Subscript {  // both in one cache line
  Native original;
  PyTypeObject *number, *slice;
  uint32_t index;
};
alignas(64) Subscript subscripts[2];

template <int Sets>
CUTAWAY_HOT Word subscript(Word a, Word b, Word c, Word d, Word e) {
  const Subscript& s = subscripts[Sets];
  const PyTypeObject* key = Py_TYPE(reinterpret_cast<PyObject*>(b));
  if (__builtin_expect(key == s.number || key == s.slice, 1)) return s.original(a, b, c, d, e);
  return hook_special(a, b, c, d, e, s.index);
}

}  // namespace

Native subscript_of_arrays(Native original, bool sets, uint32_t index) {
  subscripts[sets] = {original, &PyLong_Type, &PySlice_Type, index};
  return sets ? subscript<1> : subscript<0>;
}

PyTypeObject* array_type = nullptr;

void set_array_type(PyTypeObject* type) {
  Py_XINCREF(type);
  Py_XDECREF(array_type);
  array_type = type;
}

Py_ssize_t sequence_size(PyObject* sequence) {
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(sequence);
  PyObject* first = length > 0 ? PySequence_Fast_GET_ITEM(sequence, 0) : nullptr;
  if (!is_array(first))
    return is_sequence(first) ? length * PySequence_Fast_GET_SIZE(first) : length;
  Py_ssize_t size = 0;
  for (Py_ssize_t i = 0; i < length && i < kMostItems; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence, i);
    if (is_array(item)) size += array_size(item);
  }
  return length > kMostItems ? size * length / kMostItems : size;
}

bool picks_elements(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return is_picked(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (is_picked(PyTuple_GET_ITEM(key, i))) return true;
  return false;
}

}  // namespace cutaway
