#pragma once
#include "intercept/intercept.h"

namespace cutaway {

void set_array_type(PyTypeObject* type);  // numpy.ndarray
// Whether a call is given an array of at least 2^least elements, or a list that makes one.
bool is_large(const Target& target, Word a, Word b, Word c, Word d);

}  // namespace cutaway
