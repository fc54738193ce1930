// cutaway._imports: what the readers of foreign traces need at native speed. Everything arrives and
// leaves as NumPy columns; which records mean what is decided in src/cutaway/trace/imports/.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "imports/json_tables.h"
#include "imports/nest.h"
#include "imports/xplane.h"
#include "stamp.h"

namespace nb = nanobind;
using namespace cutaway::imports;

template <typename T>
static nb::object to_array(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

static Cell cell_of(const std::string& kind) {
  if (kind == "text") return Cell::kText;
  if (kind == "int") return Cell::kInt;
  if (kind == "micro") return Cell::kMicro;
  if (kind == "raw") return Cell::kRaw;
  if (kind == "outer") return Cell::kOuter;
  throw nb::value_error("a column is text, int, micro, raw or outer");
}

// Names are bytes of unknown encoding; they become text here, with a mark where they are no UTF-8.
static nb::list texts_from(const Interner& strings, size_t first) {
  nb::list out;
  for (size_t i = first; i < strings.size(); ++i) {
    const std::string& s = strings.text(i);
    out.append(nb::steal(PyUnicode_DecodeUTF8(s.data(), Py_ssize_t(s.size()), "replace")));
  }
  return out;
}

struct PyTables {
  JsonTables parser;
  size_t told = 0;

  PyTables(size_t depth, size_t text, size_t strings) : parser(Limits{depth, text, 128, strings}) {}

  size_t add_table(const std::vector<std::vector<std::string>>& rows,
                   const std::vector<std::pair<std::vector<std::string>, std::string>>& columns) {
    std::vector<std::pair<std::vector<std::string>, Cell>> cells;
    for (const auto& [path, kind] : columns) cells.emplace_back(path, cell_of(kind));
    return parser.add_table(rows, cells);
  }

  void feed(nb::bytes data) {
    const char* p = data.c_str();
    const size_t n = data.size();
    nb::gil_scoped_release release;
    parser.feed(p, n);
  }

  nb::list take(size_t table) {
    nb::list out;
    for (Column& column : parser.tables.at(table).columns) {
      out.append(to_array(std::exchange(column.values, {})));
    }
    return out;
  }

  nb::list take_strings() {
    nb::list out = texts_from(parser.strings, told);
    told = parser.strings.size();
    return out;
  }

  size_t rows(size_t table) const {
    const Table& t = parser.tables.at(table);
    return t.columns.empty() ? 0 : t.columns[0].values.size();
  }
};

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static nb::dict py_nest(In<int64_t> start, In<int64_t> end, In<uint8_t> item, In<uint32_t> name) {
  const size_t n = start.shape(0);
  if (end.shape(0) != n || item.shape(0) != n || name.shape(0) != n)
    throw nb::value_error("columns differ in length");
  for (size_t i = 0; i < n; ++i) {
    if (item.data()[i] > 4 || end.data()[i] < start.data()[i])
      throw nb::value_error("an event is not well formed");
  }
  Nested nested;
  {
    nb::gil_scoped_release release;
    nested = nest({start.data(), end.data(), item.data(), name.data(), n});
  }
  nb::list lanes;
  for (Lane& lane : nested.lanes) {
    lanes.append(nb::make_tuple(to_array(std::move(lane.time)), to_array(std::move(lane.value)),
                                to_array(std::move(lane.kind)), to_array(std::move(lane.id))));
  }
  nb::dict out;
  out["lanes"] = lanes;
  out["function"] = to_array(std::move(nested.function));
  out["site"] = to_array(std::move(nested.site));
  out["operation"] = to_array(std::move(nested.operation));
  out["dropped"] = nested.dropped;
  return out;
}

static nb::list line_list(const XPlane& plane) {
  nb::list lines;
  for (const XLine& line : plane.lines) {
    lines.append(nb::make_tuple(line.id, line.display_id, line.timestamp_ns, line.name));
  }
  return lines;
}

static nb::tuple py_xspace(
    nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> data,
    const std::vector<std::pair<std::string, bool>>& wanted, size_t string_bytes) {
  std::vector<XStatistic> statistics;
  for (const auto& [name, text] : wanted) statistics.push_back({name, text});
  Interner strings(string_bytes);
  auto planes =
      read_xspace(reinterpret_cast<const char*>(data.data()), data.shape(0), statistics, &strings);
  nb::list out;
  for (XPlane& plane : planes) {
    nb::dict d;
    d["name"] = plane.name;
    d["lines"] = line_list(plane);
    d["line"] = to_array(std::move(plane.line));
    d["event"] = to_array(std::move(plane.event_name));
    d["offset_ps"] = to_array(std::move(plane.offset_ps));
    d["duration_ps"] = to_array(std::move(plane.duration_ps));
    nb::list stats;
    for (auto& column : plane.stats) stats.append(to_array(std::move(column)));
    d["stats"] = stats;
    d["plane_stats"] = to_array(std::move(plane.plane_stats));
    out.append(d);
  }
  return nb::make_tuple(out, texts_from(strings, 0));
}

NB_MODULE(_imports, m) {
  if (cutaway::check_stamp("_imports") != 0) throw nb::python_error();
  nb::exception<ParseError>(m, "ParseError");
  m.attr("MISSING") = kMissing;
  m.attr("NOWHERE") = Nested::kNowhere;
  nb::class_<PyTables>(m, "JsonTables")
      .def(nb::init<size_t, size_t, size_t>(), nb::arg("depth"), nb::arg("text"),
           nb::arg("strings"))
      .def("add_table", &PyTables::add_table, nb::arg("rows"), nb::arg("columns"))
      .def("feed", &PyTables::feed)
      .def("finish", [](PyTables& t) { t.parser.finish(); })
      .def("take", &PyTables::take)
      .def("take_strings", &PyTables::take_strings)
      .def("rows", &PyTables::rows)
      .def_prop_ro("wrong", [](const PyTables& t) { return t.parser.wrong; })
      .def_prop_ro("clipped", [](const PyTables& t) { return t.parser.clipped; });
  m.def("nest", &py_nest, nb::arg("start"), nb::arg("end"), nb::arg("item"), nb::arg("name"));
  m.def("read_xspace", &py_xspace, nb::arg("data"), nb::arg("wanted"), nb::arg("string_bytes"));
}
