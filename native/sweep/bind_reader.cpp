// The reader of records as Python classes: Process (what a process's records need) and Reader (one
// thread).
#include <nanobind/stl/array.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/reader.h"

namespace nb = nanobind;

namespace cutaway {

// For each Clock the columns source, target, rate and the rate before the first point.
ClockMap clock_map(nb::handle columns) {
  auto map = nb::cast<nb::tuple>(columns);
  ClockMap out{values(nb::cast<Input<uint64_t>>(map[0])), values(nb::cast<Input<uint64_t>>(map[1])),
               values(nb::cast<Input<uint64_t>>(map[2])), nb::cast<uint64_t>(map[3])};
  if (out.source.empty() || out.source.size() != out.target.size() ||
      out.source.size() != out.rate.size())
    throw nb::value_error("a clock map has columns of one length, at least 1");
  return out;
}

std::vector<Source> sources_of(const ProcessFiles& files, const Input<uint8_t>& bytes) {
  auto list = structures<Source>(bytes);
  for (const Source& s : list)
    if (s.file >= files.paths.size()) throw nb::index_error("no such file");
  return list;
}

namespace {

// What the log says (src/cutaway/trace/hints.py): layers and hints by call id, ids of the names
// that the rule gives, which environments are not trained on.
using LogFacts =
    std::tuple<Input<uint8_t>, Input<uint8_t>, std::array<uint32_t, kRuleNames>, Input<uint8_t>>;

NamingFacts naming_of(const LogFacts& facts) {
  const auto& [layers, hints, names, untrained] = facts;
  NamingFacts naming{names[0], names[1], names[2], names[3], names[4], names[5],
                     names[6], names[7], names[8], names[9], {},       {}};
  naming.hints = values(hints);
  naming.untrained = values(untrained);
  return naming;
}

std::shared_ptr<ProcessFiles> make_process(std::vector<std::string> paths, const LogFacts& facts,
                                           nb::list clocks, uint64_t first, uint64_t last,
                                           Input<uint8_t> samples) {
  auto p = std::make_shared<ProcessFiles>();
  p->layers = values(std::get<0>(facts));
  p->naming = naming_of(facts);
  p->paths = std::move(paths);
  for (nb::handle columns : clocks) p->clocks.push_back(clock_map(columns));
  if (p->clocks.empty()) throw nb::value_error("a process needs a clock map");
  p->first = first;
  p->last = last;
  p->samples = sources_of(*p, samples);
  return p;
}

Bytes read(Reader& reader, size_t room, uint64_t since, uint32_t kinds) {
  std::vector<Row> rows;
  {
    nb::gil_scoped_release release;
    rows = reader.read(room, since, kinds);
  }
  return bytes_of(rows);
}

}  // namespace

void bind_reader(nb::module_& m) {
  nb::class_<ProcessFiles>(m, "Process")
      .def(nb::new_(&make_process), nb::arg("files"), nb::arg("facts"), nb::arg("clocks"),
           nb::arg("first"), nb::arg("last"), nb::arg("samples"));
  nb::class_<Reader>(m, "Reader")
      .def(
          "__init__",
          [](Reader* self, std::shared_ptr<ProcessFiles> process, Input<uint8_t> sources) {
            auto list = sources_of(*process, sources);
            new (self) Reader(std::move(process), std::move(list));
          },
          nb::arg("process"), nb::arg("sources"))
      .def(
          "follow",
          [](Reader& self, std::shared_ptr<ProcessFiles> process, Input<uint8_t> sources) {
            auto list = sources_of(*process, sources);
            self.follow(std::move(process), std::move(list));
          },
          nb::arg("process"), nb::arg("sources"))
      .def("read", &read, nb::arg("room"), nb::arg("since"), nb::arg("kinds"));
}

}  // namespace cutaway
