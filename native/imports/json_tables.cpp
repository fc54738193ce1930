#include "imports/json_tables.h"

#include <cstring>

namespace cutaway::imports {

int64_t Interner::intern(std::string_view text) {
  if (text.empty()) return 0;
  auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  bytes_ += text.size() + 64;
  if (bytes_ > limit_)
    throw ParseError("it holds more distinct names than the memory limit allows");
  texts_.emplace_back(text);
  const int64_t id = static_cast<int64_t>(texts_.size()) - 1;
  ids_.emplace(texts_.back(), id);
  return id;
}

bool parse_integer(std::string_view text, int64_t* out) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty()) return false;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(value, 10u, &value) ||
        __builtin_add_overflow(value, unsigned(c - '0'), &value)) {
      return false;
    }
  }
  // Handles and hashes use all 64 bits; they keep their
  // bits. The one pattern that means "missing" is refused.
  if (negative && value > uint64_t(INT64_MAX)) return false;
  *out = negative ? -int64_t(value) : int64_t(value);
  return *out != kMissing;
}

// Exact: digits are shifted, never converted to a
// floating-point number. Digits below a thousandth are cut off.
bool parse_thousandths(std::string_view text, int64_t* out) {
  const bool negative = !text.empty() && text[0] == '-';
  size_t i = negative || (!text.empty() && text[0] == '+') ? 1 : 0;
  char digits[160];
  int count = 0, point = -1;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      if (point >= 0) return false;
      point = count;
    } else if (text[i] < '0' || text[i] > '9' || count == int(sizeof digits)) {
      return false;
    } else {
      digits[count++] = text[i];
    }
  }
  if (!count) return false;
  if (point < 0) point = count;
  if (i < text.size()) {
    std::string_view exponent = text.substr(i + 1);
    if (!exponent.empty() && exponent[0] == '+') exponent.remove_prefix(1);
    int64_t shift;
    if (!parse_integer(exponent, &shift) || shift > 100 || shift < -100) return false;
    point += int(shift);
  }
  int64_t value = 0;
  for (int k = 0; k < point + 3; ++k) {
    const int digit = k < count ? digits[k] - '0' : 0;
    if (__builtin_mul_overflow(value, int64_t(10), &value) ||
        __builtin_add_overflow(value, digit, &value)) {
      return false;
    }
  }
  *out = negative ? -value : value;
  return true;
}

static void put_utf8(std::string* out, uint32_t c) {
  if (c < 0x80) {
    *out += char(c);
  } else if (c < 0x800) {
    *out += {char(0xc0 | c >> 6), char(0x80 | (c & 63))};
  } else if (c < 0x10000) {
    *out += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
  } else {
    *out += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 63)), char(0x80 | (c >> 6 & 63)),
             char(0x80 | (c & 63))};
  }
}

static bool hex4(std::string_view s, uint32_t* out) {
  if (s.size() < 4) return false;
  uint32_t v = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = s[i];
    const int digit = c >= '0' && c <= '9'                 ? c - '0'
                      : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                           : -1;
    if (digit < 0) return false;
    v = v << 4 | uint32_t(digit);
  }
  *out = v;
  return true;
}

// A string that was cut at the limit may end inside an escape; what cannot be decoded becomes
// U+FFFD.
std::string unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out += raw[i];
      continue;
    }
    const char c = raw[++i];
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    if (const char* at = static_cast<const char*>(std::memchr(from, c, 5))) {
      out += to[at - from];
    } else if (c != 'u') {
      out += c;
    } else {
      uint32_t unit, low;
      if (!hex4(raw.substr(i + 1), &unit)) {
        put_utf8(&out, 0xfffd);
        continue;
      }
      i += 4;
      if (unit >= 0xd800 && unit < 0xdc00 && raw.substr(i + 1, 2) == "\\u" &&
          hex4(raw.substr(i + 3), &low) && low >= 0xdc00 && low < 0xe000) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        i += 6;
      }
      put_utf8(&out, unit >= 0xd800 && unit < 0xe000 ? 0xfffd : unit);
    }
  }
  return out;
}

uint32_t JsonTables::child(uint32_t node, std::string_view key) {
  if (!node) return 0;
  for (const auto& [name, id] : nodes_[node].children) {
    if (name.size() == key.size() && !std::memcmp(name.data(), key.data(), key.size())) return id;
  }
  return 0;
}

uint32_t JsonTables::make_path(uint32_t from, const std::vector<std::string>& path) {
  for (const std::string& key : path) {
    uint32_t next = key == "[]" ? nodes_[from].any : child(from, key);
    if (!next) {
      next = uint32_t(nodes_.size());
      nodes_.emplace_back();
      if (key == "[]") {
        nodes_[from].any = next;
      } else {
        nodes_[from].children.emplace_back(key, next);
      }
    }
    from = next;
  }
  return from;
}

size_t JsonTables::add_table(
    const std::vector<std::vector<std::string>>& rows,
    const std::vector<std::pair<std::vector<std::string>, Cell>>& columns) {
  if (nodes_.size() == 1) nodes_.emplace_back();  // 0 is "not wanted", 1 the root
  const uint32_t table = uint32_t(tables.size());
  tables.emplace_back();
  for (const auto& column : columns) tables.back().columns.push_back({column.second, {}});
  for (const auto& path : rows) {
    const uint32_t row = make_path(1, path);
    nodes_[row].table = int32_t(table);
    for (size_t i = 0; i < columns.size(); ++i) {
      Node& node = nodes_[make_path(row, columns[i].first)];
      node.cell = columns[i].second;
      node.column = uint32_t(i);
      node.cell_table = table;
    }
  }
  return table;
}

void JsonTables::fail(const std::string& what) const {
  throw ParseError(what + " at byte " + std::to_string(offset_));
}

void JsonTables::begin(bool object) {
  if (stack_.size() >= limits_.depth)
    fail("it is nested deeper than " + std::to_string(limits_.depth) + " levels");
  const int32_t table = object && value_node_ ? nodes_[value_node_].table : -1;
  if (table >= 0) start_row(&tables[size_t(table)]);
  if (nodes_[value_node_].cell == Cell::kRaw) {
    raw_node_ = value_node_;
    raw_depth_ = stack_.size();
  }
  stack_.push_back({object, value_node_, 0, table});
  state_ = object ? State::kFirstKey : State::kFirstValue;
  if (!object) next_value();
}

void JsonTables::next_value() {
  Frame& top = stack_.back();
  if (top.object) return;
  value_node_ = 0;
  if (!top.node) return;
  const Node& node = nodes_[top.node];
  value_node_ = node.any;
  if (!value_node_ && !node.children.empty() && top.index < 10) {
    const char digit = char('0' + top.index);
    value_node_ = child(top.node, {&digit, 1});
  }
  ++top.index;
}

void JsonTables::end(bool object) {
  if (stack_.empty() || stack_.back().object != object) fail("a bracket does not match");
  const int32_t table = stack_.back().table;
  stack_.pop_back();
  if (table >= 0) finish_row(&tables[size_t(table)]);
  after_value();
}

void JsonTables::start_row(Table* t) {
  t->row.resize(t->columns.size());
  for (size_t i = 0; i < t->row.size(); ++i) {
    const Cell cell = t->columns[i].cell;
    t->row[i] = cell == Cell::kText || cell == Cell::kRaw ? 0 : kMissing;
  }
}

void JsonTables::finish_row(Table* t) {
  for (size_t i = 0; i < t->columns.size(); ++i) t->columns[i].values.push_back(t->row[i]);
}

void JsonTables::store_row(int32_t table, std::string_view text) {
  Table& t = tables[size_t(table)];
  start_row(&t);
  size_t outer = stack_.size() - 1;  // the frame of the row's own array
  while (outer > 0 && stack_[outer - 1].object) --outer;
  for (size_t i = 0; i < t.columns.size(); ++i) {
    if (t.columns[i].cell == Cell::kText) t.row[i] = strings.intern(text);
    if (t.columns[i].cell == Cell::kOuter)
      t.row[i] = outer ? int64_t(stack_[outer - 1].index) - 1 : kMissing;
  }
  finish_row(&t);
}

void JsonTables::keep_raw(const char* from, const char* to) {
  const size_t room = limits_.raw + 1 - raw_.size();  // one more says that it is too long
  raw_.append(from, size_t(to - from) < room ? size_t(to - from) : room);
}

void JsonTables::store_raw() {
  const Node& node = nodes_[raw_node_];
  const bool fits = raw_.size() <= limits_.raw;
  tables[node.cell_table].row[node.column] = fits ? strings.intern(raw_) : 0;
  clipped += !fits;
  raw_.clear();
  raw_node_ = 0;
}

void JsonTables::store(std::string_view text, bool quoted) {
  if (!value_node_) return;
  Node& node = nodes_[value_node_];
  if (node.table >= 0) return store_row(node.table, text);
  if (node.cell == Cell::kNone || node.cell == Cell::kRaw) return;
  int64_t& cell = tables[node.cell_table].row[node.column];
  bool fine = true;
  if (node.cell == Cell::kText) {
    if (text != node.last) {
      node.last_id = strings.intern(text);
      node.last = text;
    }
    cell = node.last_id;
  } else if (node.cell == Cell::kInt) {
    fine = parse_integer(text, &cell);
  } else {
    fine = !quoted && parse_thousandths(text, &cell);
  }
  if (!fine) {
    cell = kMissing;
    ++wrong;
  }
}

void JsonTables::begin_string(bool key) {
  key_ = key;
  keep_ = (key ? stack_.back().node : value_node_) != 0;  // text that nobody wants is not copied
  escaped_ = false;
  token_.clear();
  token_size_ = 0;
  state_ = State::kString;
}

void JsonTables::end_string() {
  if (keep_ && token_size_ > token_.size()) ++clipped;
  if (escaped_) token_ = unescape(token_);
  if (key_) {
    value_node_ = child(stack_.back().node, token_);
    state_ = State::kColon;
  } else {
    store(token_, true);
    after_value();
  }
}

void JsonTables::end_word() {
  const char c = token_.empty() ? 0 : token_[0];
  const bool number = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
  static const char* const words[] = {"true", "false", "null", "NaN", "nan", "Infinity", "inf"};
  bool known = number;
  for (const char* word : words) known = known || token_ == word;
  if (!known) fail("a word that is no JSON value");
  if (token_ != "null") store(token_, false);
  after_value();
}

// The next quote or backslash. Looked for in short windows: a string of nothing but backslashes
// must not be searched to its end for a quote at each of them.
static const char* end_of_run(const char* p, const char* end) {
  while (p != end) {
    const size_t window = size_t(end - p) < 256 ? size_t(end - p) : 256;
    const char* quote = static_cast<const char*>(std::memchr(p, '"', window));
    const char* stop = quote ? quote : p + window;
    if (const void* escape = std::memchr(p, '\\', size_t(stop - p)))
      return static_cast<const char*>(escape);
    if (quote) return quote;
    p = stop;
  }
  return end;
}

const char* JsonTables::in_string(const char* p, const char* end) {
  const char* q = end_of_run(p, end);
  if (keep_) {
    const size_t run = size_t(q - p), room = limits_.text - token_.size();
    token_size_ += run;
    token_.append(p, run < room ? run : room);
  }
  if (q == end) return q;
  if (*q == '"') {
    end_string();
  } else {
    escaped_ = true;
    state_ = State::kEscape;
  }
  return q + 1;
}

const char* JsonTables::in_word(const char* p, const char* end) {
  while (p != end) {
    const char c = *p;
    const bool part = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' ||
                      c == '+' || c == '.';
    if (!part) {
      end_word();
      return p;
    }
    if (token_.size() >= limits_.number) fail("a number is too long");
    token_ += c;
    ++p;
  }
  return p;
}

void JsonTables::expect_value(char c) {
  if (c == '{' || c == '[') return begin(c == '{');
  if (stack_.empty()) fail("it does not begin like a JSON document");
  if (c == '"') return begin_string(false);
  token_.assign(1, c);
  state_ = State::kWord;
  const bool fine = (c >= '0' && c <= '9') || c == '-' || ((c | 32) >= 'a' && (c | 32) <= 'z');
  if (!fine) fail("a value is missing");
}

void JsonTables::structural(char c) {
  switch (state_) {
    case State::kFirstValue:
      if (c == ']') return end(false);
      return expect_value(c);
    case State::kValue:
      return expect_value(c);
    case State::kFirstKey:
      if (c == '}') return end(true);
      [[fallthrough]];
    case State::kKey:
      if (c != '"') fail("a key is missing");
      return begin_string(true);
    case State::kColon:
      if (c != ':') fail("a colon is missing");
      state_ = State::kValue;
      return;
    case State::kAfter:
      if (c == '}' || c == ']') return end(c == '}');
      if (c != ',') fail("a comma is missing");
      state_ = stack_.back().object ? State::kKey : State::kValue;
      return next_value();
    default:
      fail("something follows the end of the document");
  }
}

void JsonTables::feed(const char* data, size_t size) {
  const char *p = data, *end = data + size, *raw = data;
  const uint64_t base = offset_;
  while (p != end) {
    offset_ = base + uint64_t(p - data);
    switch (state_) {
      case State::kString:
        p = in_string(p, end);
        break;
      case State::kEscape:
        token_size_ += 2;
        if (keep_ && token_.size() + 2 <= limits_.text) token_ += {'\\', *p};
        state_ = State::kString;
        ++p;
        break;
      case State::kWord:
        p = in_word(p, end);
        break;
      default:
        while (p != end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) ++p;
        if (p == end) break;
        offset_ = base + uint64_t(p - data);
        const bool within = raw_node_ != 0;
        structural(*p++);
        if (!raw_node_) break;
        if (!within) raw = p - 1;
        if (stack_.size() > raw_depth_) break;
        keep_raw(raw, p);
        store_raw();
    }
  }
  if (raw_node_) keep_raw(raw, end);
  offset_ = base + size;
}

void JsonTables::finish() {
  if (state_ != State::kDone) fail("it ends in the middle");
}

}  // namespace cutaway::imports
