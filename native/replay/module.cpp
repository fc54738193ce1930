#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "replay/replay.h"
#include "stamp.h"

namespace nb = nanobind;
using namespace cutaway::replay;

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

Replayed replay(Column<uint8_t> kinds, Column<uint32_t> whats, Column<double> amounts,
                Column<int64_t> first, Column<int32_t> process, Column<double> factors,
                std::vector<double> channels, int leader, const Cpu& cpu,
                std::vector<uint8_t> batch) {
  const int threads = static_cast<int>(process.size());
  Program p{kinds.data(),   whats.data(),        amounts.data(),   first.data(), process.data(),
            factors.data(), std::move(channels), std::move(batch), threads,      0,
            leader};
  const size_t items = kinds.size();
  bool fine = whats.size() == items && amounts.size() == items &&
              first.size() == size_t(threads) + 1 &&
              (p.batch.empty() || p.batch.size() == size_t(threads)) && leader >= 0 &&
              leader < threads && cpu.cores >= 1 && cpu.cores <= cpu.threads && p.first[0] == 0 &&
              p.first[threads] == static_cast<int64_t>(items);
  for (int t = 0; fine && t < threads; ++t) {
    fine = p.first[t] <= p.first[t + 1] && p.process[t] >= 0;
    p.processes = std::max(p.processes, p.process[t] + 1);
  }
  for (size_t i = 0; fine && i < items; ++i) {
    const bool timed = p.kinds[i] <= kDelay || p.kinds[i] == kEach || p.kinds[i] == kEachDelay;
    const size_t known = timed ? factors.size() : p.channels.size();
    fine = p.kinds[i] == kPass || (p.kinds[i] <= kEachDelay && p.whats[i] < known);
  }
  if (!fine) throw nb::value_error("the items of a replay do not fit together");
  nb::gil_scoped_release release;
  return Replay(p, cpu).run();
}

}  // namespace

NB_MODULE(_simulate, m) {
  if (cutaway::check_stamp("_simulate") != 0) throw nb::python_error();
  nb::class_<Cpu>(m, "Cpu").def(
      "__init__",
      [](Cpu* self, int threads, int cores, double smt_yield, double slice, double granularity,
         double wake, double turbo, double foreign, double poll) {
        new (self) Cpu{threads, cores, smt_yield, turbo, wake, foreign, slice, granularity, poll};
      },
      nb::arg("threads"), nb::arg("cores"), nb::arg("smt_yield") = 1.0, nb::arg("slice") = 3e-3,
      nb::arg("granularity") = 0.7e-3, nb::arg("wake") = 0.0, nb::arg("turbo") = 1.0,
      nb::arg("foreign") = 0.0, nb::arg("poll") = kPoll);
  nb::class_<Replayed>(m, "Replayed")
      .def_ro("passes", &Replayed::passes)
      .def_ro("busy", &Replayed::busy)
      .def_ro("asked", &Replayed::asked)
      .def_ro("end", &Replayed::end)
      .def_ro("cpu", &Replayed::cpu)
      .def_ro("forced", &Replayed::forced);
  m.def("replay", &replay, nb::arg("kinds"), nb::arg("whats"), nb::arg("amounts"), nb::arg("first"),
        nb::arg("process"), nb::arg("factors"), nb::arg("channels"), nb::arg("leader"),
        nb::arg("cpu"), nb::arg("batch") = std::vector<uint8_t>());
}
