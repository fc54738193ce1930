// The Python face of cutaway._sweep; src/cutaway/_sweep.pyi is its typed description.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "stamp.h"
#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/blocks.h"
#include "sweep/overlap.h"

namespace nb = nanobind;
using namespace cutaway;

namespace {

uint32_t crc_of(nb::bytes data, uint32_t before) {
  return crc32c(data.c_str(), data.size(), before);
}

Bytes pack_records(Input<uint8_t> records) {
  std::vector<uint8_t> out;
  pack(reinterpret_cast<const Record*>(records.data()), records.size() / sizeof(Record), out);
  return to_numpy(std::move(out));
}

std::tuple<Bytes, uint64_t, uint64_t> scan(const std::string& path, bool chunked, uint64_t start) {
  Scan found = scan_blocks(path, chunked, start);
  return {bytes_of(found.sources), found.damaged, found.damaged_bytes};
}

const Source& source_in(const Input<uint8_t>& bytes) {
  if (bytes.size() != sizeof(Source)) throw nb::value_error("expected exactly one source");
  return *reinterpret_cast<const Source*>(bytes.data());
}

std::tuple<Bytes, bool> decode(const std::string& path, Input<uint8_t> source) {
  std::vector<uint8_t> scratch;
  std::vector<Record> out;
  const bool whole = read_records(File(path), source_in(source), scratch, out);
  return {bytes_of(out), whole};
}

// The payloads of several blocks, one after the other, and how many were damaged.
std::tuple<Bytes, uint64_t> payloads(const std::string& path, Input<uint8_t> sources) {
  const File file(path);
  std::vector<uint8_t> out, one;
  uint64_t damaged = 0;
  const auto* first = reinterpret_cast<const Source*>(sources.data());
  const Source* last = first + sources.size() / sizeof(Source);
  uint64_t total = 0;
  for (const Source* s = first; s < last; ++s) total += s->bytes;
  out.reserve(std::min(total, file.size()));
  for (const Source* s = first; s < last; ++s) {
    if (!read_payload(file, *s, one)) {
      ++damaged;
    } else {
      out.insert(out.end(), one.begin(), one.end());
    }
  }
  return {to_numpy(std::move(out)), damaged};
}

Array<uint64_t> map_times(Input<uint64_t> times, nb::tuple columns) {
  const ClockMap map = clock_map(columns);
  ClockWalk clock(map);
  std::vector<uint64_t> out(times.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = clock.to_ns(times.data()[i]);
  return to_numpy(std::move(out));
}

std::vector<Interval> intervals_in(const Input<int64_t>& flat) {
  std::vector<Interval> out(flat.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) out[i] = {flat.data()[2 * i], flat.data()[2 * i + 1]};
  return out;
}

std::vector<std::tuple<std::vector<uint32_t>, int64_t>> overlap_of(
    std::vector<Input<int64_t>> categories) {
  std::vector<std::vector<Interval>> lists;
  for (const auto& flat : categories) lists.push_back(intervals_in(flat));
  std::vector<std::tuple<std::vector<uint32_t>, int64_t>> out;
  for (SetTime& row : overlap(std::move(lists))) out.emplace_back(std::move(row.members), row.time);
  return out;
}

Bytes flatten_of(Input<int64_t> flat) { return bytes_of(flatten(intervals_in(flat))); }

}  // namespace

NB_MODULE(_sweep, m) {
  if (check_stamp("_sweep") != 0) throw nb::python_error();
  m.def("crc32c", &crc_of, nb::arg("data"), nb::arg("before") = 0);
  m.def("pack", &pack_records, nb::arg("records"));
  m.def("scan", &scan, nb::arg("path"), nb::arg("chunked"), nb::arg("start") = 0);
  m.def("decode", &decode, nb::arg("path"), nb::arg("source"));
  m.def("payloads", &payloads, nb::arg("path"), nb::arg("sources"));
  m.def("to_ns", &map_times, nb::arg("times"), nb::arg("clock"));
  m.def("overlap", &overlap_of, nb::arg("categories"));
  m.def("flatten", &flatten_of, nb::arg("intervals"));
  bind_reader(m);
  bind_devices(m);
  bind_sweep(m);
  bind_keep(m);
  bind_live(m);
}
