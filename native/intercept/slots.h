// Operators, subscripts, iteration, construction: functions that stand in a type instead of in an
// object.
#pragma once
#include "intercept/intercept.h"

namespace cutaway {

// Intercepts the native slots of `type` whose names ("__add__", "__getitem__") are in `names` (all,
// if null), and wherever a subclass inherited the same function. Returns how many slots. Functions
// in the interpreter itself are left alone, because other types share them, unless `built_in`: the
// library may have been built into it.
int patch_slots(PyTypeObject* type, PyObject* names, const Description& description,
                Role role = Role::kPlain, uint8_t least = 0, bool built_in = false);

// Puts `original` back where a subclass of `type` still has `replacement`.
void restore_inherited(PyTypeObject* type, size_t slot, void* original, void* replacement);

}  // namespace cutaway
