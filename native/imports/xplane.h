// Reads an XSpace protobuf (the *.xplane.pb of JAX and TensorFlow) into columns. A small reader of
// the protobuf wire format: bounds-checked, no recursion beyond the fixed depth of the schema.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "imports/json_tables.h"

namespace cutaway::imports {

struct XLine {
  int64_t id, display_id, timestamp_ns;
  int64_t name;  // interned
};

struct XPlane {
  int64_t name;  // interned
  std::vector<XLine> lines;
  // One entry an event. `stats` holds one column for each wanted statistic: a number, or an
  // interned text.
  std::vector<int64_t> line, event_name, offset_ps, duration_ps;
  std::vector<std::vector<int64_t>> stats;
  std::vector<int64_t> plane_stats;  // the wanted statistics of the plane itself
};

struct XStatistic {
  std::string name;
  bool text;
};

std::vector<XPlane> read_xspace(const char* data, size_t size,
                                const std::vector<XStatistic>& wanted, Interner* strings);

}  // namespace cutaway::imports
