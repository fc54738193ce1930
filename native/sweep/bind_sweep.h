#pragma once
#include <nanobind/nanobind.h>

namespace cutaway {

void bind_sweep(nanobind::module_& m);

}  // namespace cutaway
