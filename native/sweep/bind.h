// What the files of the Python face share.
#pragma once
#include <nanobind/nanobind.h>

#include "sweep/arrays.h"
#include "sweep/events.h"

namespace cutaway {

void bind_reader(nanobind::module_& m);
void bind_devices(nanobind::module_& m);
void bind_sweep(nanobind::module_& m);
void bind_keep(nanobind::module_& m);

ClockMap clock_map(nanobind::handle columns);
std::vector<Source> sources_of(const ProcessFiles& files, const Input<uint8_t>& bytes);

}  // namespace cutaway
