#include "imports/xplane.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

namespace cutaway::imports {
namespace {

struct Field {
  uint32_t number;
  uint8_t wire;
  uint64_t value;          // varint and fixed
  std::string_view bytes;  // length-delimited
};

class Message {
 public:
  explicit Message(std::string_view data) : p_(data.data()), end_(data.data() + data.size()) {}

  bool next(Field* field) {
    if (p_ == end_) return false;
    const uint64_t key = varint();
    field->number = uint32_t(key >> 3);
    field->wire = key & 7;
    if (!field->number || key >> 32) broken();
    switch (field->wire) {
      case 0:
        field->value = varint();
        return true;
      case 1:
        field->value = fixed(8);
        return true;
      case 2: {
        const uint64_t size = varint();
        if (size > uint64_t(end_ - p_)) broken();
        field->bytes = {p_, size_t(size)};
        p_ += size;
        return true;
      }
      case 5:
        field->value = fixed(4);
        return true;
      default:
        broken();
    }
  }

 private:
  [[noreturn]] static void broken() { throw ParseError("it is cut off or no protobuf"); }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (p_ == end_) broken();
      const uint8_t byte = uint8_t(*p_++);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) return value;
    }
    broken();
  }

  uint64_t fixed(int size) {
    if (end_ - p_ < size) broken();
    uint64_t value = 0;
    for (int i = 0; i < size; ++i) value |= uint64_t(uint8_t(p_[i])) << (8 * i);
    p_ += size;
    return value;
  }

  const char *p_, *end_;
};

using Names = std::unordered_map<int64_t, std::string_view>;

// An entry of map<int64, Metadata>: key 1, value 2; the metadata has id 1 and name 2 in both cases.
// That of an event may carry statistics that hold for all events of its kind.
void read_metadata(std::string_view entry, Names* names, Names* whole = nullptr) {
  int64_t id = 0;
  std::string_view name;
  Field f, g;
  for (Message m(entry); m.next(&f);) {
    if (f.number == 1 && f.wire == 0) id = int64_t(f.value);
    if (f.number != 2 || f.wire != 2) continue;
    if (whole) (*whole)[id] = f.bytes;
    for (Message value(f.bytes); value.next(&g);) {
      if (g.number == 2 && g.wire == 2) name = g.bytes;
    }
  }
  (*names)[id] = name;
}

// A double as a whole number; peaks of devices are doubles.
int64_t rounded(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return std::abs(value) < 9e18 ? std::llround(value) : kMissing;
}

class PlaneReader {
 public:
  PlaneReader(const std::vector<XStatistic>& wanted, Interner* strings)
      : wanted_(wanted), strings_(strings) {}

  XPlane read(std::string_view data) {
    Field f;
    std::string_view name;
    for (Message m(data);
         m.next(&f);) {  // names first: lines may come before the metadata they refer to
      if (f.wire != 2) continue;
      if (f.number == 2) name = f.bytes;
      if (f.number == 4) read_metadata(f.bytes, &events_, &kinds_);
      if (f.number == 5) read_metadata(f.bytes, &statistics_);
    }
    plane_.name = text(name);
    plane_.stats.resize(wanted_.size());
    plane_.plane_stats.assign(wanted_.size(), kMissing);
    row_.resize(wanted_.size());
    for (Message m(data); m.next(&f);) {
      if (f.wire != 2) continue;
      if (f.number == 3) read_line(f.bytes);
      if (f.number == 6) read_statistic(f.bytes, &plane_.plane_stats);
    }
    return std::move(plane_);
  }

 private:
  int64_t text(std::string_view s) { return strings_->intern(s.substr(0, 4096)); }

  void read_line(std::string_view data) {
    XLine line{0, 0, 0, 0};
    std::string_view name, display;
    Field f;
    for (Message m(data); m.next(&f);) {
      if (f.number == 1 && f.wire == 0) line.id = int64_t(f.value);
      if (f.number == 10 && f.wire == 0) line.display_id = int64_t(f.value);
      if (f.number == 3 && f.wire == 0) line.timestamp_ns = int64_t(f.value);
      if (f.number == 2 && f.wire == 2) name = f.bytes;
      if (f.number == 11 && f.wire == 2) display = f.bytes;
      if (f.number == 4 && f.wire == 2) read_event(f.bytes);
    }
    line.name = text(display.empty() ? name : display);
    plane_.lines.push_back(line);
  }

  void read_event(std::string_view data) {
    int64_t metadata = 0, offset = 0, duration = 0;
    Field f;
    for (Message m(data); m.next(&f);) {
      if (f.number == 1 && f.wire == 0) metadata = int64_t(f.value);
    }
    row_ = of_kind(metadata);
    for (Message m(data); m.next(&f);) {
      if (f.number == 2 && f.wire == 0) offset = int64_t(f.value);
      if (f.number == 3 && f.wire == 0) duration = int64_t(f.value);
      if (f.number == 4 && f.wire == 2) read_statistic(f.bytes, &row_);
    }
    plane_.line.push_back(int64_t(plane_.lines.size()));
    plane_.event_name.push_back(event_text(metadata));
    plane_.offset_ps.push_back(offset);
    plane_.duration_ps.push_back(duration);
    for (size_t i = 0; i < wanted_.size(); ++i) plane_.stats[i].push_back(row_[i]);
  }

  // The statistics that all events of a kind share.
  const std::vector<int64_t>& of_kind(int64_t metadata) {
    auto [at, fresh] = shared_.emplace(metadata, std::vector<int64_t>());
    if (!fresh) return at->second;
    at->second.assign(wanted_.size(), kMissing);
    auto kind = kinds_.find(metadata);
    if (kind == kinds_.end()) return at->second;
    Field f;
    for (Message m(kind->second); m.next(&f);) {
      if (f.number == 5 && f.wire == 2) read_statistic(f.bytes, &at->second);
    }
    return at->second;
  }

  int64_t event_text(int64_t metadata) {
    auto [at, fresh] = event_ids_.emplace(metadata, 0);
    if (fresh) {
      auto name = events_.find(metadata);
      if (name != events_.end()) at->second = text(name->second);
    }
    return at->second;
  }

  void read_statistic(std::string_view data, std::vector<int64_t>* row) {
    Field f;
    int64_t metadata = 0, number = kMissing;
    std::string_view string;
    bool reference = false, is_text = false;
    for (Message m(data); m.next(&f);) {
      if (f.number == 1 && f.wire == 0) metadata = int64_t(f.value);
      if ((f.number == 3 || f.number == 4) && f.wire == 0) number = int64_t(f.value);
      if (f.number == 2 && f.wire == 1) number = rounded(f.value);
      if (f.number == 5 && f.wire == 2) string = f.bytes, is_text = true;
      if (f.number == 7 && f.wire == 0) number = int64_t(f.value), reference = true;
    }
    const int column = column_of(metadata);
    if (column < 0) return;
    if (reference) string = statistics_[number], is_text = true;
    if (wanted_[size_t(column)].text == is_text)
      (*row)[size_t(column)] = is_text ? text(string) : number;
  }

  int column_of(int64_t metadata) {
    auto [at, fresh] = columns_.emplace(metadata, -1);
    if (fresh) {
      for (size_t i = 0; i < wanted_.size(); ++i) {
        if (statistics_[metadata] == wanted_[i].name) at->second = int(i);
      }
    }
    return at->second;
  }

  const std::vector<XStatistic>& wanted_;
  Interner* strings_;
  XPlane plane_;
  Names events_, statistics_;
  Names kinds_;  // the whole metadata of an event
  std::unordered_map<int64_t, std::vector<int64_t>> shared_;
  std::unordered_map<int64_t, int64_t> event_ids_;
  std::unordered_map<int64_t, int> columns_;
  std::vector<int64_t> row_;
};

}  // namespace

std::vector<XPlane> read_xspace(const char* data, size_t size,
                                const std::vector<XStatistic>& wanted, Interner* strings) {
  std::vector<XPlane> planes;
  Field f;
  for (Message m({data, size}); m.next(&f);) {
    if (f.number == 1 && f.wire == 2) planes.push_back(PlaneReader(wanted, strings).read(f.bytes));
  }
  return planes;
}

}  // namespace cutaway::imports
