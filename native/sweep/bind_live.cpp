// One thread of a run that is still recording, as a Python class.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/live.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

void make(LiveThread* self, std::shared_ptr<ProcessFiles> files, Input<uint8_t> sources,
          uint64_t width, uint32_t count) {
  if (!width || !count) throw nb::value_error("bins have a width, and there are some");
  auto list = sources_of(*files, sources);
  new (self) LiveThread(files, std::move(list), width, count);
}

void follow(LiveThread& self, std::shared_ptr<ProcessFiles> files, Input<uint8_t> sources) {
  auto list = sources_of(*files, sources);
  nb::gil_scoped_release release;
  self.follow(files, std::move(list));
}

// The time in each bin, one row after the other; which bin is the first, counted from time 0.
nb::dict window(const LiveThread& self) {
  const Lanes& lanes = self.lanes();
  std::vector<uint32_t> operation;
  std::vector<uint8_t> layer;
  std::vector<int64_t> ns;
  for (const auto& entry : lanes.rows.entries()) {
    operation.push_back(entry.key.operation);
    layer.push_back(static_cast<uint8_t>(entry.key.state >> 3));
    ns.insert(ns.end(), entry.value.begin(), entry.value.end());
  }
  nb::dict d;
  d["first"] = lanes.origin() / lanes.width();
  d["operation"] = to_numpy(std::move(operation));
  d["layer"] = to_numpy(std::move(layer));
  d["ns"] = to_numpy(std::move(ns));
  d["steps"] = to_numpy(std::vector<uint64_t>(lanes.steps));
  return d;
}

std::optional<std::pair<uint32_t, uint8_t>> now(const LiveThread& self) {
  const auto state = self.now();
  if (!state) return {};
  return std::pair{state->operation, state->layer};
}

}  // namespace

void bind_live(nb::module_& m) {
  nb::class_<LiveThread>(m, "LiveThread")
      .def("__init__", &make, nb::arg("process"), nb::arg("sources"), nb::arg("width"),
           nb::arg("count"))
      .def("follow", &follow, nb::arg("process"), nb::arg("sources"))
      .def("window", &window)
      .def_prop_ro("now", &now)
      .def_prop_ro("last", [](const LiveThread& self) { return self.thread().last; })
      .def_prop_ro("iteration", &LiveThread::iteration)
      .def_prop_ro("steps", &LiveThread::steps);
}

}  // namespace cutaway
