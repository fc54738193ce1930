#include "intercept/identity.h"

#include <algorithm>
#include <unordered_map>

#include "intercept/intercept.h"

namespace cutaway {
namespace {

PyTypeObject* const kTypes[] = {&PyCFunction_Type, &PyCMethod_Type};

hashfunc hash_before[2];
richcmpfunc compare_before[2];
bool kept = false;

uint32_t number_of(Native function) {
  static const auto& numbers = *[] {
    auto* map = new std::unordered_map<Native, uint32_t>;
    for (uint32_t i = 0; i < kMaxTargets; ++i) map->emplace(thunk(i), i);
    return map;
  }();
  static const Native lowest = std::min_element(numbers.begin(), numbers.end())->first;
  static const Native highest = std::max_element(numbers.begin(), numbers.end())->first;
  if (function < lowest || function > highest) return 0;
  const auto found = numbers.find(function);
  return found == numbers.end() ? 0 : found->second;
}

// The function the object was made with.
void* original_function(PyObject* object) {
  const auto function =
      reinterpret_cast<Native>(reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_meth);
  const uint32_t number = number_of(function);
  return reinterpret_cast<void*>(number ? targets[number].original : function);
}

Py_hash_t hash_pointer(void* pointer) {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_HashPointer(pointer);
#else
  return _Py_HashPointer(pointer);
#endif
}

// As in the interpreter (meth_hash), which never returns -1 either.
Py_hash_t hash(PyObject* object) {
  const Py_hash_t self = hash_pointer(reinterpret_cast<PyCFunctionObject*>(object)->m_self);
  const Py_hash_t both = self ^ hash_pointer(original_function(object));
  return both == -1 ? -2 : both;
}

PyObject* compare(PyObject* a, PyObject* b, int operation) {
  const bool known = PyCFunction_Check(a) && PyCFunction_Check(b);
  if ((operation != Py_EQ && operation != Py_NE) || !known) Py_RETURN_NOTIMPLEMENTED;
  const bool same = reinterpret_cast<PyCFunctionObject*>(a)->m_self ==
                        reinterpret_cast<PyCFunctionObject*>(b)->m_self &&
                    original_function(a) == original_function(b);
  return Py_NewRef(same == (operation == Py_EQ) ? Py_True : Py_False);
}

}  // namespace

void keep_identity() {
  if (kept) return;
  kept = true;
  for (int i = 0; i < 2; ++i) {
    hash_before[i] = kTypes[i]->tp_hash;
    compare_before[i] = kTypes[i]->tp_richcompare;
    kTypes[i]->tp_hash = hash;
    kTypes[i]->tp_richcompare = compare;
  }
}

void give_up_identity() {
  if (!kept) return;
  kept = false;
  for (int i = 0; i < 2; ++i) {
    kTypes[i]->tp_hash = hash_before[i];
    kTypes[i]->tp_richcompare = compare_before[i];
  }
}

}  // namespace cutaway
