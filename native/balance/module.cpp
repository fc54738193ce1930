#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "balance/simulation.h"
#include "stamp.h"

namespace nb = nanobind;
using cutaway::balance::Line;
using cutaway::balance::Result;
using cutaway::balance::Service;
using cutaway::balance::Simulation;
using cutaway::balance::System;

NB_MODULE(_simulate, m) {
  if (cutaway::check_stamp("_simulate") != 0) throw nb::python_error();
  nb::class_<Service>(m, "Service")
      .def(
          "__init__", [](Service* s, double mean, double cv) { new (s) Service{mean, cv}; }, nb::arg("mean"),
          nb::arg("cv") = 0.0)
      .def_ro("mean", &Service::mean)
      .def_ro("cv", &Service::cv);
  nb::class_<Line>(m, "Line")
      .def(
          "__init__", [](Line* line, double a, double b) { new (line) Line{a, b}; }, nb::arg("a"),
          nb::arg("b"))
      .def("__call__", &Line::operator(), nb::arg("n"));
#define FIELD(name) .def_rw(#name, &System::name)
  nb::class_<System>(m, "System")
      .def(nb::init<>()) FIELD(actors) FIELD(envs_per_actor) FIELD(threads) FIELD(cores) FIELD(smt_yield)
          FIELD(turbo) FIELD(wake) FIELD(foreign) FIELD(env_step) FIELD(actor_overhead) FIELD(host)
              FIELD(reply) FIELD(after) FIELD(device) FIELD(inference_cv) FIELD(batch) FIELD(timeout)
                  FIELD(latency) FIELD(train_host) FIELD(train_device) FIELD(steps_per_train) FIELD(slice)
                      FIELD(unroll) FIELD(queue) FIELD(device_on_cpu);
#undef FIELD
#define FIELD(name) .def_ro(#name, &Result::name)
  nb::class_<Result>(m, "Result") FIELD(steps_per_s) FIELD(cpu_busy) FIELD(device_busy) FIELD(server_busy)
      FIELD(mean_batch) FIELD(wait_cpu) FIELD(wait_inference) FIELD(train_per_s) FIELD(queue_full);
#undef FIELD
  m.def(
      "simulate",
      [](const System& system, uint64_t seed, int64_t warmup_steps, int64_t steps) {
        if (system.actors < 1 || system.envs_per_actor < 1 || system.threads < 1 || system.cores < 1 ||
            system.cores > system.threads || system.batch < 1)
          throw nb::value_error(
              "actors, environments, cores, threads and batch are at least 1, cores at most threads");
        nb::gil_scoped_release release;
        return Simulation(system, seed).run(warmup_steps, steps);
      },
      nb::arg("system"), nb::arg("seed") = 1, nb::arg("warmup_steps") = 2000, nb::arg("steps") = 20000);
}
