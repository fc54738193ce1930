// Python hashes and compares built-in functions by their C pointer, the very one that is exchanged. Tables keyed by
// them (torch's decompositions and overrides) would lose their entries when the pointers change, so for patched
// functions hash and comparison are made with the original.
#include <algorithm>
#include <unordered_map>

#include "intercept/intercept.h"
#include "intercept/thunks.h"

namespace cutaway {
namespace {

hashfunc hash_before;
richcmpfunc compare_before;
Word lowest, highest;
std::unordered_map<Word, uint32_t>* numbers;

Word address_of(PyObject* function) {
  return reinterpret_cast<Word>(reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_meth);
}

bool is_patched(PyObject* object) {
  return PyCFunction_Check(object) && address_of(object) >= lowest && address_of(object) <= highest;
}

// The function as it is unpatched; a stand-in on the stack that only hash_before and compare_before see.
struct Unpatched {
  explicit Unpatched(PyObject* function) {
    const auto found = numbers->find(address_of(function));
    if (found == numbers->end()) return;
    object = *reinterpret_cast<PyCFunctionObject*>(function);
    method = *object.m_ml;
    method.ml_meth = reinterpret_cast<PyCFunction>(targets[found->second].original);
    object.m_ml = &method;
    seen = reinterpret_cast<PyObject*>(&object);
  }
  PyCFunctionObject object;
  PyMethodDef method;
  PyObject* seen = nullptr;
};

Py_hash_t hash(PyObject* function) {
  if (!is_patched(function)) return hash_before(function);
  const Unpatched original(function);
  return hash_before(original.seen ? original.seen : function);
}

PyObject* compare(PyObject* a, PyObject* b, int how) {
  if (is_patched(a)) {
    const Unpatched original(a);
    return original.seen ? compare(original.seen, b, how) : compare_before(a, b, how);
  }
  if (is_patched(b)) {
    const Unpatched original(b);
    return compare_before(a, original.seen ? original.seen : b, how);
  }
  return compare_before(a, b, how);
}

void number_thunks() {
  numbers = new std::unordered_map<Word, uint32_t>();
  lowest = highest = reinterpret_cast<Word>(thunk(0));
  for (uint32_t i = 0; i < kMaxTargets; ++i) {
    const Word address = reinterpret_cast<Word>(thunk(i));
    numbers->emplace(address, i);
    lowest = std::min(lowest, address);
    highest = std::max(highest, address);
  }
}

}  // namespace

void keep_identity() {
  if (numbers) return;
  number_thunks();
  hash_before = PyCFunction_Type.tp_hash;
  compare_before = PyCFunction_Type.tp_richcompare;
  for (PyTypeObject* type : {&PyCFunction_Type, &PyCMethod_Type}) {
    type->tp_hash = hash;
    type->tp_richcompare = compare;
  }
}

}  // namespace cutaway
