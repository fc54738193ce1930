// Finding the function pointer in each kind of Python object, and exchanging it.
#pragma once
#include "intercept/intercept.h"

namespace cutaway {

// True if `object` is now intercepted; false if it is of no kind known here, is intercepted
// already, or all thunks are taken. Never leaves an exception.
bool patch_object(PyObject* object, Role role, WaitOn on, Description description,
                  uint8_t least = 0);

// `object` is one of many with one native function (jitted functions, torch operators): they share
// a thunk.
bool patch_shared(PyObject* object, Description description);

// A Python function that native code will call; calls from
// Python code may stay unseen, being in layer python anyway.
bool patch_callback(PyObject* function);

// Gives a target one of the hot thunks as well, if it can be moved and there is one left. What
// points to its cold one (a bound method that was made before) goes on as it did.
void promote(uint32_t index);

bool lies_in_python(const void* function);  // in the interpreter itself
uint32_t refused();                         // objects left alone because all thunks were taken

}  // namespace cutaway
