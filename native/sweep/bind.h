// What the files of the Python face share.
#pragma once
#include <nanobind/nanobind.h>

#include "sweep/arrays.h"
#include "sweep/run_sweep.h"

namespace cutaway {

void bind_reader(nanobind::module_& m);
void bind_devices(nanobind::module_& m);
void bind_sweep(nanobind::module_& m);
void bind_keep(nanobind::module_& m);
void bind_live(nanobind::module_& m);

// Everything the sweep of a run has found, as columns by table.
nanobind::dict tables_of(RunSweep& run);
nanobind::dict overlap_rows(const Overlap<kOfs>& of);
// What the device work of all processes adds up to, as columns by table.
void add_device_tables(RunSweep& run, nanobind::dict& to);

ClockMap clock_map(nanobind::handle columns);
std::vector<Source> sources_of(const ProcessFiles& files, const Input<uint8_t>& bytes);

// `threads`: for each that made API calls, which it is. Threads that launched on stream i:
// launchers[offsets[i] … offsets[i + 1]). `own`: the number of a thread in its process.
template <typename Own>
void set_devices(ProcessSweep& p, const DeviceRecords& devices, const Input<uint32_t>& threads,
                 const Input<uint32_t>& offsets, const Input<uint32_t>& launchers, Own own) {
  if (threads.size() != devices.threads.size() || offsets.size() != devices.streams.size() + 1)
    throw nanobind::value_error("a number for each thread and each stream");
  std::vector<uint32_t> callers;
  for (size_t i = 0; i < threads.size(); ++i) callers.push_back(own(threads.data()[i]));
  std::vector<uint32_t> numbers = p.number_streams(devices.streams);
  std::vector<std::vector<uint32_t>> streams(p.streams());
  for (size_t i = 0; i < numbers.size(); ++i)
    for (uint32_t k = offsets.data()[i]; k < offsets.data()[i + 1]; ++k) {
      if (k >= launchers.size()) throw nanobind::index_error("no such launcher");
      streams[numbers[i]].push_back(own(launchers.data()[k]));
    }
  p.set_device_work(devices.api(std::move(callers)), devices.work(std::move(numbers)),
                    std::move(streams));
}

}  // namespace cutaway
