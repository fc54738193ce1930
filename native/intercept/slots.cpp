#include "intercept/slots.h"

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "intercept/locations.h"
#include "intercept/patch.h"
#include "intercept/sized.h"

namespace cutaway {
namespace {

enum class Suite { kType, kNumber, kSequence, kMapping, kBuffer };

struct Slot {
  const char* name;
  Suite suite;
  size_t offset;
};

#define TYPE(field, name) {name, Suite::kType, offsetof(PyTypeObject, field)}
#define NUMBER(field, name) {name, Suite::kNumber, offsetof(PyNumberMethods, field)}
#define SEQUENCE(field, name) {name, Suite::kSequence, offsetof(PySequenceMethods, field)}
#define MAPPING(field, name) {name, Suite::kMapping, offsetof(PyMappingMethods, field)}

// Not here: attribute access, allocation, garbage collection,
// buffers. They are the object's, not the library's work.
const Slot kSlots[] = {
    TYPE(tp_call, "__call__"),
    TYPE(tp_new, "__new__"),
    TYPE(tp_init, "__init__"),
    TYPE(tp_repr, "__repr__"),
    TYPE(tp_str, "__str__"),
    TYPE(tp_hash, "__hash__"),
    TYPE(tp_richcompare, "__eq__"),
    TYPE(tp_iter, "__iter__"),
    TYPE(tp_iternext, "__next__"),
    NUMBER(nb_add, "__add__"),
    NUMBER(nb_subtract, "__sub__"),
    NUMBER(nb_multiply, "__mul__"),
    NUMBER(nb_remainder, "__mod__"),
    NUMBER(nb_divmod, "__divmod__"),
    NUMBER(nb_power, "__pow__"),
    NUMBER(nb_negative, "__neg__"),
    NUMBER(nb_positive, "__pos__"),
    NUMBER(nb_absolute, "__abs__"),
    NUMBER(nb_bool, "__bool__"),
    NUMBER(nb_invert, "__invert__"),
    NUMBER(nb_lshift, "__lshift__"),
    NUMBER(nb_rshift, "__rshift__"),
    NUMBER(nb_and, "__and__"),
    NUMBER(nb_xor, "__xor__"),
    NUMBER(nb_or, "__or__"),
    NUMBER(nb_int, "__int__"),
    NUMBER(nb_float, "__float__"),
    NUMBER(nb_inplace_add, "__iadd__"),
    NUMBER(nb_inplace_subtract, "__isub__"),
    NUMBER(nb_inplace_multiply, "__imul__"),
    NUMBER(nb_inplace_remainder, "__imod__"),
    NUMBER(nb_inplace_power, "__ipow__"),
    NUMBER(nb_inplace_lshift, "__ilshift__"),
    NUMBER(nb_inplace_rshift, "__irshift__"),
    NUMBER(nb_inplace_and, "__iand__"),
    NUMBER(nb_inplace_xor, "__ixor__"),
    NUMBER(nb_inplace_or, "__ior__"),
    NUMBER(nb_floor_divide, "__floordiv__"),
    NUMBER(nb_true_divide, "__truediv__"),
    NUMBER(nb_inplace_floor_divide, "__ifloordiv__"),
    NUMBER(nb_inplace_true_divide, "__itruediv__"),
    NUMBER(nb_index, "__index__"),
    NUMBER(nb_matrix_multiply, "__matmul__"),
    NUMBER(nb_inplace_matrix_multiply, "__imatmul__"),
    SEQUENCE(sq_length, "__len__"),
    SEQUENCE(sq_concat, "__concat__"),
    SEQUENCE(sq_repeat, "__repeat__"),
    SEQUENCE(sq_item, "__getitem__"),
    SEQUENCE(sq_ass_item, "__setitem__"),
    SEQUENCE(sq_contains, "__contains__"),
    SEQUENCE(sq_inplace_concat, "__iconcat__"),
    SEQUENCE(sq_inplace_repeat, "__irepeat__"),
    MAPPING(mp_length, "__len__"),
    MAPPING(mp_subscript, "__getitem__"),
    MAPPING(mp_ass_subscript, "__setitem__"),
    {"__buffer__", Suite::kBuffer, offsetof(PyBufferProcs, bf_getbuffer)},
};

void** place_of(PyTypeObject* type, const Slot& slot) {
  char* base = nullptr;
  switch (slot.suite) {
    case Suite::kType:
      base = reinterpret_cast<char*>(type);
      break;
    case Suite::kNumber:
      base = reinterpret_cast<char*>(type->tp_as_number);
      break;
    case Suite::kSequence:
      base = reinterpret_cast<char*>(type->tp_as_sequence);
      break;
    case Suite::kMapping:
      base = reinterpret_cast<char*>(type->tp_as_mapping);
      break;
    case Suite::kBuffer:
      base = reinterpret_cast<char*>(type->tp_as_buffer);
      break;
  }
  return base ? reinterpret_cast<void**>(base + slot.offset) : nullptr;
}

template <class F>
void for_each_subclass(PyTypeObject* type, const F& f) {
  PyObject* list =
      PyObject_CallMethod(reinterpret_cast<PyObject*>(type), "__subclasses__", nullptr);
  if (list == nullptr) {
    PyErr_Clear();
    return;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    auto* subclass = reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(list, i));
    if (f(subclass)) for_each_subclass(subclass, f);
  }
  Py_DECREF(list);
}

// `Tensor.__getitem__` called by name goes through a wrapper that has its own copy of the pointer.
void patch_wrappers(PyTypeObject* type, void* original, void* replacement) {
#if PY_VERSION_HEX >= 0x030c0000
  PyObject* dict = PyType_GetDict(type);
#else
  PyObject* dict = Py_XNewRef(type->tp_dict);
#endif
  if (dict == nullptr) return;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (!Py_IS_TYPE(value, &PyWrapperDescr_Type)) continue;
    void** where = &reinterpret_cast<PyWrapperDescrObject*>(value)->d_wrapped;
    if (*where == original && add_location(where, replacement)) Py_INCREF(value);
  }
  Py_DECREF(dict);
}

bool wanted(PyObject* names, const char* name) {
  if (names == nullptr) return true;
  PyObject* text = PyUnicode_FromString(name);
  const int found = text ? PySequence_Contains(names, text) : -1;
  Py_XDECREF(text);
  if (found < 0) PyErr_Clear();
  return found == 1;
}

void patch_inherited(PyTypeObject* type, const Slot& slot, void* original, void* replacement) {
  for_each_subclass(type, [&](PyTypeObject* subclass) {
    void** where = place_of(subclass, slot);
    if (where == nullptr || *where != original) return false;
    if (add_location(where, replacement)) Py_INCREF(subclass);
    return true;
  });
}

}  // namespace

int patch_slots(PyTypeObject* type, PyObject* names, const Description& description, Role role,
                uint8_t least, bool built_in) {
  int count = 0;
  std::unordered_map<void*, uint32_t> numbers;  // one function may stand in two slots
  for (const Slot& slot : kSlots) {
    void** where = place_of(type, slot);
    if (where == nullptr || *where == nullptr || !wanted(names, slot.name)) continue;
    // A sequence's slots take a bare number where a mapping's take an object, whose size is looked
    // at.
    if (role == Role::kSubscript && slot.suite == Suite::kSequence) continue;
    if (is_known_location(where) || (lies_in_python(*where) && !built_in)) continue;
    // A function of the base class is intercepted there, or not at all.
    void** in_base = type->tp_base ? place_of(type->tp_base, slot) : nullptr;
    if (in_base != nullptr && *in_base == *where) continue;
    void* const original = *where;
    uint32_t& index = numbers[original];
    if (index == 0) {
      Description own = description;
      own.name += std::string(".") + slot.name;
      index =
          new_target(reinterpret_cast<Native>(original), role, Convention::kNone, std::move(own));
      targets[index].least = least;
    }
    if (index == 0) continue;
    const auto function = reinterpret_cast<Native>(original);
    void* const replacement = reinterpret_cast<void*>(
        role == Role::kSubscript
            ? subscript_of_arrays(function, slot.name == std::string("__setitem__"), index)
            : thunk(index));
    patch_wrappers(type, original, replacement);
    patch_inherited(type, slot, original, replacement);
    Py_INCREF(type);
    add_location(where, replacement);
    remember_slot(type, &slot - kSlots, original, replacement);
    ++count;
  }
  return count;
}

void restore_inherited(PyTypeObject* type, size_t slot, void* original, void* replacement) {
  for_each_subclass(type, [&](PyTypeObject* subclass) {
    void** where = place_of(subclass, kSlots[slot]);
    if (where == nullptr) return false;
    if (*where == replacement) *where = original;
    return *where == original;
  });
}

}  // namespace cutaway
