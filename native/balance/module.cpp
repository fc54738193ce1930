#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "balance/replay.h"
#include "balance/simulation.h"
#include "stamp.h"

namespace nb = nanobind;
using namespace cutaway::balance;

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

Replayed replay(Column<uint8_t> kinds, Column<uint32_t> whats, Column<double> amounts,
                Column<int64_t> first, Column<int32_t> process, Column<double> factors,
                std::vector<double> channels, int leader, const Cpu& cpu) {
  const int threads = static_cast<int>(process.size());
  Program p{kinds.data(),
            whats.data(),
            amounts.data(),
            first.data(),
            process.data(),
            factors.data(),
            std::move(channels),
            threads,
            0,
            leader};
  const size_t items = kinds.size();
  bool fine = whats.size() == items && amounts.size() == items &&
              first.size() == size_t(threads) + 1 && leader >= 0 && leader < threads &&
              cpu.cores >= 1 && cpu.cores <= cpu.threads && p.first[0] == 0 &&
              p.first[threads] == static_cast<int64_t>(items);
  for (int t = 0; fine && t < threads; ++t) {
    fine = p.first[t] <= p.first[t + 1] && p.process[t] >= 0;
    p.processes = std::max(p.processes, p.process[t] + 1);
  }
  for (size_t i = 0; fine && i < items; ++i) {
    const bool timed = p.kinds[i] <= kDelay || p.kinds[i] == kEach;
    const size_t known = timed ? factors.size() : p.channels.size();
    fine = p.kinds[i] == kPass || (p.kinds[i] <= kAnswer && p.whats[i] < known);
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
         double wake) {
        new (self) Cpu{threads, cores, smt_yield, 1.0, wake, 0, slice, granularity};
      },
      nb::arg("threads"), nb::arg("cores"), nb::arg("smt_yield") = 1.0, nb::arg("slice") = 3e-3,
      nb::arg("granularity") = 0.7e-3, nb::arg("wake") = 0.0);
  nb::class_<Replayed>(m, "Replayed")
      .def_ro("passes", &Replayed::passes)
      .def_ro("busy", &Replayed::busy)
      .def_ro("asked", &Replayed::asked)
      .def_ro("end", &Replayed::end)
      .def_ro("forced", &Replayed::forced);
  m.def("replay", &replay, nb::arg("kinds"), nb::arg("whats"), nb::arg("amounts"), nb::arg("first"),
        nb::arg("process"), nb::arg("factors"), nb::arg("channels"), nb::arg("leader"),
        nb::arg("cpu"));
  nb::class_<Service>(m, "Service")
      .def(
          "__init__", [](Service* s, double mean, double cv) { new (s) Service{mean, cv}; },
          nb::arg("mean"), nb::arg("cv") = 0.0)
      .def_ro("mean", &Service::mean)
      .def_ro("cv", &Service::cv);
  nb::class_<Line>(m, "Line")
      .def(
          "__init__", [](Line* line, double a, double b) { new (line) Line{a, b}; }, nb::arg("a"),
          nb::arg("b"))
      .def("__call__", &Line::operator(), nb::arg("n"));
#define FIELD(name) .def_rw(#name, &System::name)
  nb::class_<System>(m, "System")
      .def(nb::init<>()) FIELD(actors) FIELD(envs_per_actor) FIELD(threads) FIELD(cores)
          FIELD(smt_yield) FIELD(turbo) FIELD(wake) FIELD(foreign) FIELD(env_step)
              FIELD(actor_overhead) FIELD(host) FIELD(reply) FIELD(after) FIELD(device)
                  FIELD(inference_cv) FIELD(batch) FIELD(timeout) FIELD(latency) FIELD(train_host)
                      FIELD(train_device) FIELD(steps_per_train) FIELD(slice) FIELD(unroll)
                          FIELD(queue) FIELD(device_on_cpu);
#undef FIELD
#define FIELD(name) .def_ro(#name, &Result::name)
  nb::class_<Result>(m, "Result") FIELD(steps_per_s) FIELD(cpu_busy) FIELD(device_busy)
      FIELD(server_busy) FIELD(mean_batch) FIELD(wait_cpu) FIELD(wait_inference) FIELD(train_per_s)
          FIELD(queue_full);
#undef FIELD
  m.def(
      "simulate",
      [](const System& system, uint64_t seed, int64_t warmup_steps, int64_t steps) {
        if (system.actors < 1 || system.envs_per_actor < 1 || system.threads < 1 ||
            system.cores < 1 || system.cores > system.threads || system.batch < 1)
          throw nb::value_error(
              "actors, environments, cores, threads and batch are at least 1, cores at most "
              "threads");
        nb::gil_scoped_release release;
        return Simulation(system, seed).run(warmup_steps, steps);
      },
      nb::arg("system"), nb::arg("seed") = 1, nb::arg("warmup_steps") = 2000,
      nb::arg("steps") = 20000);
}
