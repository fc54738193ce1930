// Which environment is used, so that evaluation can be told from training: by the function it
// happens in, or afterwards by how often an environment was stepped between updates. Needs the GIL.
#pragma once
#include <Python.h>

#include "recorder/state.h"

namespace cutaway {

// Before an outermost step or reset of `environment`. True if it happens in a function that
// evaluates.
bool use_environment(ThreadState* t, PyObject* environment, bool steps);
// Whether the weights were last changed after a step of this environment, or never yet.
bool trained_on(PyObject* environment);
void weights_changed();  // or will be, by what is compiled now
void forget_environments();

}  // namespace cutaway
