// The list of exchanged pointers. Arming and disarming is a loop over it, under the GIL: nobody
// reads such a pointer without holding it.
#pragma once
#include "intercept/intercept.h"

namespace cutaway {

// Exchanges *where for `replacement` while armed. The memory at `where` must stay valid for ever
// (the caller holds a reference to what contains it). One that `stays` is exchanged while recording
// pauses, too. Returns false if this location is already in the list.
bool add_location(void** where, void* replacement, bool stays = false);
bool is_known_location(void** where);

// Another replacement for all locations that have this one; false if there are none. Weak ones
// stay.
bool move_locations(void* from, void* to);

// The same for the vectorcall pointer of an object that may die: only a weak reference is held.
bool add_weak_location(PyObject* object, void* replacement);

// The slot at `offset` in a type's own structure (see
// slots.cpp); subclasses made while armed inherit the thunk.
void remember_slot(PyTypeObject* type, size_t slot, void* original, void* replacement);

// This object's pointer stays exchanged while recording pauses: what it does must be noticed then,
// too.
void stay_in_pause(PyObject* object);
bool stays_in_pause(PyObject* object);

void arm();
void disarm();
void restore();  // disarm, then also take the thunks out of subclasses that were made meanwhile
size_t locations();

vectorcallfunc* vectorcall_of(PyObject* object);  // null if it has none
void set_vectorcall(PyObject* object, vectorcallfunc function);

}  // namespace cutaway
