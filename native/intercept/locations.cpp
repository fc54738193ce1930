#include "intercept/locations.h"

#include <unordered_set>
#include <vector>

#include "intercept/identity.h"
#include "intercept/slots.h"
#include "recorder/weak.h"

namespace cutaway {
namespace {

struct Location {
  void** where;
  void* original;
  void* replacement;
  bool stays;
};

struct WeakLocation {
  PyObject* reference;  // weakref to the object
  void* original;
  void* replacement;
};

struct SlotPatch {
  PyTypeObject* type;
  size_t slot;
  void* original;
  void* replacement;
};

auto& fixed = *new std::vector<Location>;
auto& taken = *new std::unordered_set<void**>;
auto& weak = *new std::vector<WeakLocation>;
auto& staying = *new std::vector<PyObject*>;  // weak references
auto& slot_patches = *new std::vector<SlotPatch>;
size_t prune_at = 256;
bool armed = false;

// Somebody else may have exchanged the pointer too; then it is theirs, and left alone. Python calls
// through these with the GIL, which orders everything; a library that reads one without it sees a
// target that is complete.
inline void exchange(void** where, void* expected, void* value) {
  if (*where == expected) __atomic_store_n(where, value, __ATOMIC_RELEASE);
}

void exchange_weak(const WeakLocation& location, bool on) {
  PyObject* object = strong(location.reference);
  if (object == nullptr) return;
  void* expected = on ? location.original : location.replacement;
  void* value = on ? location.replacement : location.original;
  if (reinterpret_cast<void*>(*vectorcall_of(object)) == expected) {
    set_vectorcall(object, reinterpret_cast<vectorcallfunc>(value));
  }
  Py_DECREF(object);
}

PyObject* referent(PyObject* reference) {  // borrowed; None if it is gone
  PyObject* object = strong(reference);
  Py_XDECREF(object);  // whoever asks holds one
  return object;
}

void prune_dead() {
  std::vector<WeakLocation> alive;
  for (const WeakLocation& location : weak) {
    PyObject* object = strong(location.reference);
    if (object != nullptr) {
      alive.push_back(location);
      Py_DECREF(object);
    } else {
      Py_DECREF(location.reference);
    }
  }
  weak.swap(alive);
  prune_at = 256 + 2 * weak.size();
}

}  // namespace

bool add_location(void** where, void* replacement, bool stays) {
  if (!taken.insert(where).second) return false;
  fixed.push_back({where, *where, replacement, stays});
  if (stays) keep_identity();
  if (armed || stays) exchange(where, fixed.back().original, replacement);
  return true;
}

bool move_locations(void* from, void* to) {
  bool any = false;
  for (Location& l : fixed) {
    if (l.replacement != from) continue;
    l.replacement = to;
    if (armed || l.stays) exchange(l.where, from, to);
    any = true;
  }
  // A subclass may have inherited either.
  for (size_t i = 0, n = slot_patches.size(); any && i < n; ++i) {
    SlotPatch patch = slot_patches[i];
    if (patch.replacement != from) continue;
    patch.replacement = to;
    slot_patches.push_back(patch);
  }
  return any;
}

bool is_known_location(void** where) { return taken.count(where) != 0; }

bool add_weak_location(PyObject* object, void* replacement) {
  vectorcallfunc* where = vectorcall_of(object);
  if (where == nullptr || reinterpret_cast<void*>(*where) == replacement) return false;
  PyObject* reference = PyWeakref_NewRef(object, nullptr);
  if (reference == nullptr) {
    PyErr_Clear();
    return false;
  }
  if (weak.size() >= prune_at) prune_dead();
  weak.push_back({reference, reinterpret_cast<void*>(*where), replacement});
  if (armed) exchange_weak(weak.back(), true);
  return true;
}

void remember_slot(PyTypeObject* type, size_t slot, void* original, void* replacement) {
  slot_patches.push_back({type, slot, original, replacement});
}

void arm() {
  if (armed) return;
  armed = true;
  keep_identity();
  for (const Location& l : fixed) exchange(l.where, l.original, l.replacement);
  for (const WeakLocation& l : weak) exchange_weak(l, true);
}

void disarm() {
  if (!armed) return;
  armed = false;
  for (const Location& l : fixed)
    if (!l.stays) exchange(l.where, l.replacement, l.original);
  for (const WeakLocation& l : weak)
    if (!stays_in_pause(referent(l.reference))) exchange_weak(l, false);
}

void stay_in_pause(PyObject* object) {
  PyObject* reference = stays_in_pause(object) ? nullptr : PyWeakref_NewRef(object, nullptr);
  if (reference) staying.push_back(reference);
  PyErr_Clear();
  for (const WeakLocation& l : weak)
    if (!armed && referent(l.reference) == object) exchange_weak(l, true);
}

bool stays_in_pause(PyObject* object) {
  for (PyObject* reference : staying)
    if (object && referent(reference) == object) return true;
  return false;
}

void restore() {
  for (PyObject* reference : staying) Py_DECREF(reference);
  staying.clear();
  disarm();
  for (const Location& l : fixed) exchange(l.where, l.replacement, l.original);
  for (const WeakLocation& l : weak) exchange_weak(l, false);
  give_up_identity();
  for (const SlotPatch& p : slot_patches)
    restore_inherited(p.type, p.slot, p.original, p.replacement);
}

size_t locations() { return fixed.size() + weak.size(); }

vectorcallfunc* vectorcall_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) || type->tp_vectorcall_offset <= 0)
    return nullptr;
  auto* where = reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(object) +
                                                  type->tp_vectorcall_offset);
  return *where ? where : nullptr;
}

// The interpreter calls Python functions without their pointer once it has specialised for their
// version.
void set_vectorcall(PyObject* object, vectorcallfunc function) {
  if (PyFunction_Check(object)) {
#if PY_VERSION_HEX >= 0x030c0000
    PyFunction_SetVectorcall(reinterpret_cast<PyFunctionObject*>(object), function);
    return;
#elif PY_VERSION_HEX >= 0x030b0000
    reinterpret_cast<PyFunctionObject*>(object)->func_version = 0;
#endif
  }
  *vectorcall_of(object) = function;
}

}  // namespace cutaway
