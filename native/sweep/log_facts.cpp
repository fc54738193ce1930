#include "sweep/log_facts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sweep/blocks.h"
#include "sweep/tables.h"
#include "trace/crc.h"

namespace cutaway {

namespace {

constexpr size_t kPiece = 1 << 20;          // bytes read at once, and the longest line
constexpr uint64_t kSlack = 3600000000000;  // ns by which a record may lie outside all anchors
constexpr uint32_t kMostEnvironments = 1 << 20;

struct Hinted {
  const char* word;
  uint8_t hint;
};
// By the last part of a function's name.
constexpr Hinted kFunctions[] = {
    {"__setitem__", kStores},
    {"index_put_", kStores},
    {"index_copy_", kStores},
    {"scatter_", kStores},
    {"copy_", kStores},
    {"linear", kIsNetwork},
    {"conv1d", kIsNetwork},
    {"conv2d", kIsNetwork},
    {"conv3d", kIsNetwork},
    {"embedding", kIsNetwork},
    {"scaled_dot_product_attention", kIsNetwork},
    {"lstm", kIsNetwork},
    {"gru", kIsNetwork},
    {"block_until_ready", kAwaits},
    {"batched_block_until_ready", kAwaits},
    {"__buffer__", kAwaits},
    {"__array__", kAwaits},
    {"_value", kAwaits},
    {"_single_device_array_to_np_array_did_copy", kAwaits},
};
// By what a compiled function holds.
constexpr Hinted kCompiledHolds[] = {
    {"network", kIsNetwork}, {"update", kIsUpdate}, {"step", kIsPhysics}, {"program", kIsProgram}};

template <size_t N>
uint8_t look_up(const Hinted (&table)[N], const std::string& word) {
  for (const Hinted& row : table)
    if (word == row.word) return row.hint;
  return 0;
}

uint64_t rate(std::pair<uint64_t, uint64_t> a, std::pair<uint64_t, uint64_t> b) {
  const auto ns = static_cast<unsigned __int128>(b.second - a.second) << kRateShift;
  const uint64_t ticks = b.first - a.first;
  // A time on a nanosecond is not cut to the one before.
  const unsigned __int128 up = (ns + ticks - 1) / ticks;
  return up >> 63 ? (1ull << 63) - 1 : static_cast<uint64_t>(up);
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

// A JSON string without its quotes.
std::string unescaped(const std::string& raw) {
  std::string out;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out += raw[i];
      continue;
    }
    const char c = raw[++i];
    if (c != 'u') {
      out += c == 'n'   ? '\n'
             : c == 't' ? '\t'
             : c == 'r' ? '\r'
             : c == 'b' ? '\b'
             : c == 'f' ? '\f'
                        : c;
      continue;
    }
    auto four = [&](size_t at) {
      return at + 4 <= raw.size()
                 ? static_cast<uint32_t>(strtoul(raw.substr(at, 4).c_str(), nullptr, 16))
                 : 0;
    };
    uint32_t code = four(i + 1);
    i += 4;
    if (code >= 0xd800 && code < 0xdc00 && i + 6 < raw.size() && raw[i + 1] == '\\') {
      code = 0x10000 + ((code - 0xd800) << 10) + (four(i + 3) - 0xdc00);
      i += 6;
    }
    append_utf8(out, code);
  }
  return out;
}

// Where a JSON value that begins at `i` ends.
size_t value_end(const std::string& s, size_t i) {
  int depth = 0;
  bool quoted = false;
  for (; i < s.size(); ++i) {
    const char c = s[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (!depth--) return i;
    } else if (c == ',' && !depth) {
      return i;
    }
  }
  return i;
}

}  // namespace

ClockMap map_through(std::vector<std::pair<uint64_t, uint64_t>> points) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second < b.second : a.first < b.first;
  });
  std::vector<std::pair<uint64_t, uint64_t>> kept;
  for (const auto& p : points)
    if (p.first >> 63 == 0 && p.second >> 63 == 0 && (kept.empty() || p.first > kept.back().first))
      kept.push_back(p);
  ClockMap map;
  if (kept.empty()) kept.push_back({0, 0});
  map.before = kept.size() > 1 ? rate(kept.front(), kept.back()) : 1ull << kRateShift;
  for (size_t i = 0; i < kept.size(); ++i) {
    map.source.push_back(kept[i].first);
    map.target.push_back(kept[i].second);
    map.rate.push_back(i + 1 < kept.size() ? rate(kept[i], kept[i + 1]) : map.before);
  }
  return map;
}

// The fields of one line, as far as they are asked for.
struct LogFacts::Line {
  std::vector<std::pair<std::string, std::string>> fields;  // strings keep their quotes

  explicit Line(const std::string& json) {
    size_t i = json.find('{') + 1;
    while (i && i < json.size() && json[i] != '}') {
      const size_t key = json.find('"', i),
                   end = key == std::string::npos ? key : json.find('"', key + 1);
      const size_t colon = end == std::string::npos ? end : json.find(':', end);
      if (colon == std::string::npos) return;
      size_t from = colon + 1;
      while (from < json.size() && json[from] == ' ') ++from;
      const size_t until = value_end(json, from);
      fields.emplace_back(json.substr(key + 1, end - key - 1), json.substr(from, until - from));
      i = until + (until < json.size() && json[until] == ',');
    }
  }

  std::string text(const char* name) const {
    for (const auto& [key, value] : fields)
      if (key == name && value.size() >= 2 && value.front() == '"')
        return unescaped(value.substr(1, value.size() - 2));
    return {};
  }
  uint64_t number(const char* name, uint64_t otherwise = 0) const {
    for (const auto& [key, value] : fields)
      if (key == name && !value.empty() && value[0] >= '0' && value[0] <= '9')
        return strtoull(value.c_str(), nullptr, 10);
    return otherwise;
  }
};

void LogFacts::refresh() {
  const File file(path_);
  if (!file.ok()) return;
  std::string piece;
  for (;;) {
    piece.resize(kPiece);
    piece.resize(file.read(piece.data(), kPiece, read_));
    if (piece.empty()) return;
    read_ += piece.size();
    rest_ += piece;
    size_t at = 0;
    for (size_t end; (end = rest_.find('\n', at)) != std::string::npos; at = end + 1)
      take(rest_.substr(at, end - at));
    rest_.erase(0, at);
    if (rest_.size() > kPiece) {
      rest_.clear();
      read_ = file.next_data(read_);
    }
  }
}

// Eight hex digits of CRC-32C, a space, the JSON text.
void LogFacts::take(const std::string& text) {
  static const char* const kinds[] = {"call",     "name",        "anchor",
                                      "compiled", "environment", "samples"};
  if (text.size() < 16 || text[8] != ' ') return;
  const size_t begins = text.find("\"k\"");
  if (begins == std::string::npos) return;
  const size_t quote = text.find('"', begins + 3);
  const size_t end = quote == std::string::npos ? quote : text.find('"', quote + 1);
  if (end == std::string::npos) return;
  const std::string kind = text.substr(quote + 1, end - quote - 1);
  if (std::none_of(std::begin(kinds), std::end(kinds), [&](const char* k) { return kind == k; }))
    return;
  char crc[9];
  snprintf(crc, sizeof crc, "%08x", crc32c(text.data() + 9, text.size() - 9));
  if (text.compare(0, 8, crc) != 0) return;
  const Line line(text.substr(9));
  const uint64_t id = line.number("id", UINT64_MAX);
  if (kind == "call") take_call(line);
  if (kind == "name" && id <= kMaxId) names_[line.text("s")] = static_cast<uint32_t>(id);
  if (kind == "anchor" && line.number("ticks"))
    anchors_.emplace_back(line.number("ticks"), line.number("mono"));
  if (kind == "environment" && id < kMostEnvironments)
    environments_[static_cast<uint32_t>(id)] = line.number("intervals");
  if (kind == "samples")
    sample_stream_ = static_cast<uint32_t>(line.number("stream", sample_stream_));
  if (kind == "compiled") {  // of several functions with one name the one that says most counts
    uint8_t& hint = compiled_[line.text("function")];
    hint = std::max(hint, look_up(kCompiledHolds, line.text("holds")));
  }
}

void LogFacts::take_call(const Line& line) {
  const uint64_t id = line.number("id", UINT64_MAX);
  if (id > kMaxId) return;
  if (id >= calls_.size()) calls_.resize(id + 1, Call{{}, kPython, 0});
  const std::string layer = line.text("layer"), function = line.text("fn");
  Call call{function, kPython, look_up(kFunctions, function.substr(function.rfind('.') + 1))};
  for (uint8_t i = 0; i < kLayers; ++i)
    if (layer == kLayerNames[i]) call.layer = i;
  calls_[id] = std::move(call);
}

uint8_t LogFacts::hint_of(const Call& call) const {
  if (call.layer == kSimulator) return kIsPhysics;
  if (call.layer == kWait) return kBlocks;
  const auto compiled = compiled_.find(call.function);
  return compiled != compiled_.end() ? compiled->second : call.hint;
}

void LogFacts::describe(ProcessFiles& files) const {
  auto name = [&](const char* text) {
    const auto found = names_.find(text);
    return found == names_.end() ? 0 : found->second;
  };
  NamingFacts& naming = files.naming;
  naming = {name("simulation"),
            name("inference"),
            name("backpropagation"),
            name("replay"),
            name("evaluation"),
            name("training program"),
            name("compile"),
            {},
            {}};
  files.layers.clear();
  for (const Call& call : calls_) {
    files.layers.push_back(call.layer);
    naming.hints.push_back(hint_of(call));
  }
  // An environment that was stepped in less than half as many
  // stretches between updates as another is not trained on.
  uint64_t most = 0;
  for (const auto& [number, intervals] : environments_) most = std::max(most, intervals);
  naming.environments.resize(environments_.empty() ? 1 : environments_.rbegin()->first + 1);
  for (const auto& [number, intervals] : environments_)
    naming.environments[number] = 2 * intervals < most && most > 3;
  if (anchors_.empty()) return;
  const auto [low, high] =
      std::minmax_element(anchors_.begin(), anchors_.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  files.first = low->second > kSlack ? low->second - kSlack : 0;
  files.last = high->second + kSlack;
}

bool LogFacts::clock(ClockMap& map) const {
  if (anchors_.size() < 2) return false;
  map = map_through(anchors_);
  return true;
}

}  // namespace cutaway
