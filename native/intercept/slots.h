// Operators, subscripts, iteration, construction: functions that stand in a type instead of in an
// object.
#pragma once
#include "intercept/intercept.h"

namespace cutaway {

// Intercepts the native slots of `type` whose names ("__add__", "__getitem__") are in `names` (all,
// if null), and wherever a subclass inherited the same function. Returns how many slots.
int patch_slots(PyTypeObject* type, PyObject* names, const Description& description,
                Role role = Role::kPlain, uint8_t least = 0);

// Puts `original` back where a subclass of `type` still has `replacement`.
void restore_inherited(PyTypeObject* type, size_t slot, void* original, void* replacement);

}  // namespace cutaway
