// A push parser that turns selected parts of a JSON document into integer columns, a chunk at a
// time. What is kept is described by paths; everything else is checked for its grammar and skipped,
// so memory depends on the number of rows, never on the size of the document or of a string in it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cutaway::imports {

constexpr int64_t kMissing = INT64_MIN;

struct ParseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Limits {
  size_t depth = 64;            // nesting of the document
  size_t text = 4096;           // bytes kept of a string; the rest is cut off
  size_t number = 128;          // characters of a number
  size_t strings = 256u << 20;  // bytes of all distinct strings together
  size_t raw = 1u << 20;  // bytes of an array or object kept as JSON; a longer one is left out
};

// Texts are numbered from 1 in order of first appearance; 0 is the empty text.
class Interner {
 public:
  explicit Interner(size_t limit) : limit_(limit) { texts_.emplace_back(); }
  int64_t intern(std::string_view text);
  size_t size() const { return texts_.size(); }
  const std::string& text(size_t id) const { return texts_[id]; }

 private:
  size_t limit_, bytes_ = 0;
  std::deque<std::string> texts_;  // a deque never moves its elements: the views below stay valid
  std::unordered_map<std::string_view, int64_t> ids_;
};

enum class Cell : uint8_t {
  kNone,
  kText,   // string, number or word, interned as text
  kInt,    // integer; also accepted in quotes
  kMicro,  // decimal number of thousandths: 12.345 becomes 12345, exactly
  kRaw,    // array or object, its JSON interned as text
  kOuter,  // for a row that is a plain value: position of the element of the array around the row's
           // own array
};

struct Column {
  Cell cell;
  std::vector<int64_t> values;
};

struct Table {
  std::vector<Column> columns;
  std::vector<int64_t> row;  // the row being read
};

class JsonTables {
 public:
  explicit JsonTables(Limits limits) : limits_(limits), strings(limits.strings) {
    nodes_.emplace_back();
  }

  // A path is a list of keys; "[]" stands for any element of an array and "0", "1" … for a certain
  // one.
  size_t add_table(const std::vector<std::vector<std::string>>& rows,
                   const std::vector<std::pair<std::vector<std::string>, Cell>>& columns);
  void feed(const char* data, size_t size);
  void finish();

  uint64_t position() const { return offset_; }
  uint64_t wrong = 0;    // cells whose value was not of the column's kind; left out
  uint64_t clipped = 0;  // strings cut at the limit, and arrays and objects left out

 private:
  struct Node {
    std::vector<std::pair<std::string, uint32_t>> children;
    uint32_t any = 0;  // child for any element of an array
    int32_t table = -1;
    Cell cell = Cell::kNone;
    uint32_t column = 0;
    uint32_t cell_table = 0;
    std::string last;  // most texts are the one before them: category, process, thread …
    int64_t last_id = 0;
  };
  struct Frame {
    bool object;
    uint32_t node;   // 0: nothing below is wanted
    uint32_t index;  // next element of an array
    int32_t table;   // row to finish at the end, or -1
  };
  enum class State : uint8_t {
    kValue,
    kFirstValue,
    kFirstKey,
    kKey,
    kColon,
    kAfter,
    kString,
    kEscape,
    kWord,
    kDone
  };

  uint32_t child(uint32_t node, std::string_view key);
  uint32_t make_path(uint32_t from, const std::vector<std::string>& path);
  [[noreturn]] void fail(const std::string& what) const;
  void begin(bool object);
  void end(bool object);
  void begin_string(bool key);
  void end_string();
  void end_word();
  void store(std::string_view text, bool quoted);
  void start_row(Table* table);
  void finish_row(Table* table);
  void store_row(int32_t table, std::string_view text);
  void keep_raw(const char* from, const char* to);
  void store_raw();
  void after_value() { state_ = stack_.empty() ? State::kDone : State::kAfter; }
  void next_value();
  const char* in_string(const char* p, const char* end);
  const char* in_word(const char* p, const char* end);
  void structural(char c);
  void expect_value(char c);

  Limits limits_;
  std::vector<Node> nodes_;
  std::vector<Frame> stack_;
  State state_ = State::kValue;
  bool key_ = false, keep_ = false, escaped_ = false;
  uint32_t value_node_ = 1;  // node of the value that comes next; 1 is the root, 0 is "not wanted"
  std::string token_;
  size_t token_size_ = 0;
  uint64_t offset_ = 0;
  uint32_t raw_node_ = 0;  // what is being kept as it is, if anything, and where it ends
  size_t raw_depth_ = 0;
  std::string raw_;

 public:
  Interner strings;
  std::vector<Table> tables;
};

bool parse_integer(std::string_view text, int64_t* out);
bool parse_thousandths(std::string_view text, int64_t* out);
std::string unescape(std::string_view raw);

}  // namespace cutaway::imports
