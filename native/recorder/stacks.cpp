#include "recorder/stacks.h"

#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "recorder/recorder.h"

namespace cutaway {

int CodeText::line_at(int64_t offset) const {
  const auto after =
      std::upper_bound(lines.begin(), lines.end(), offset,
                       [](int64_t at, const auto& piece) { return at < piece.first; });
  return after == lines.begin() ? identity.first_line : std::prev(after)->second;
}

#if !CUTAWAY_KNOWS_FRAMES

bool Stacks::read(const PyThreadState*, unsigned long, std::vector<Place>*) { return false; }
bool Stacks::look_up(const RawFrame*, size_t, std::vector<Place>*) { return false; }
bool stacks_can_be_read() { return false; }

#else

namespace {

constexpr uint32_t kUnit = 2;  // bytes of an instruction, in every Python supported
constexpr size_t kMaxFrames = 256, kMaxChunk = 64 << 10, kMaxText = 4096, kMaxTable = 1 << 20;
#if PY_VERSION_HEX >= 0x030b0000
constexpr size_t kCodeHead = offsetof(PyCodeObject, co_code_adaptive);
#else
constexpr size_t kCodeHead = sizeof(PyCodeObject);
#endif

bool peek(const void* from, void* to, size_t size) {
  iovec local = {to, size}, remote = {const_cast<void*>(from), size};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c >= 0xd800 && c < 0xe000) {
    out += '?';  // half of a surrogate pair is not valid text
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18 & 7));
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

std::string peek_text(const PyObject* text) {
  PyASCIIObject head;
  if (!text || !peek(text, &head, sizeof head)) return "";
  if (Py_TYPE(&head) != &PyUnicode_Type || !head.state.compact || head.length < 0) return "";
  const size_t kind = head.state.kind;
  const size_t length = std::min(static_cast<size_t>(head.length), kMaxText);
  if (kind != 1 && kind != 2 && kind != 4) return "";
  std::vector<unsigned char> data(length * kind);
  const size_t skip = head.state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject);
  if (!data.empty() && !peek(reinterpret_cast<const char*>(text) + skip, data.data(), data.size()))
    return "";
  std::string out;
  for (size_t i = 0; i < length; ++i) {
    uint32_t c = 0;
    memcpy(&c, &data[i * kind], kind);
    append_utf8(out, c);
  }
  return out;
}

std::vector<unsigned char> peek_bytes(const PyObject* bytes) {
  PyBytesObject head;
  constexpr size_t skip = offsetof(PyBytesObject, ob_sval);
  if (!bytes || !peek(bytes, &head, skip) || Py_TYPE(&head) != &PyBytes_Type) return {};
  const Py_ssize_t size = Py_SIZE(&head);
  if (size <= 0 || static_cast<size_t>(size) > kMaxTable) return {};
  std::vector<unsigned char> out(static_cast<size_t>(size));
  if (!peek(reinterpret_cast<const char*>(bytes) + skip, out.data(), out.size())) out.clear();
  return out;
}

using Lines = std::vector<std::pair<uint32_t, int> >;

#if PY_VERSION_HEX >= 0x030b0000
// The location table of 3.11 and later (Objects/locations.md of CPython): entries of one head byte,
// with the high bit set, and what its kind needs.
Lines read_lines(const std::vector<unsigned char>& table, int line) {
  Lines lines;
  uint32_t at = 0;
  for (size_t i = 0; i < table.size();) {
    const unsigned kind = table[i] >> 3 & 15, length = (table[i] & 7) + 1u;
    size_t j = i + 1;
    if (kind == 13 || kind == 14) {  // the line's change is a signed varint
      uint32_t value = 0;
      for (unsigned shift = 0; j < table.size() && shift < 30; shift += 6) {
        value |= (table[j] & 63u) << shift;
        if (!(table[j++] & 64)) break;
      }
      line += value & 1 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);
    } else if (kind >= 10 && kind <= 12) {
      line += static_cast<int>(kind) - 10;
    }
    if (kind != 15)
      lines.emplace_back(at, line);  // 15: no place in the source; that of before is near
    at += length * kUnit;
    while (j < table.size() && !(table[j] & 128)) ++j;
    i = j;
  }
  return lines;
}
#else
// 3.10: pairs (bytes of instructions, change of line); −128: no line.
Lines read_lines(const std::vector<unsigned char>& table, int line) {
  Lines lines;
  uint32_t at = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto change = static_cast<signed char>(table[i + 1]);
    if (change != -128) {
      line += change;
      lines.emplace_back(at, line);
    }
    at += table[i];
  }
  return lines;
}
#endif

}  // namespace

bool Stacks::read(const PyThreadState* state, unsigned long ident, std::vector<Place>* places) {
  places->clear();
  return state && frames(state, ident) && places_of_frames(places);
}

bool Stacks::look_up(const RawFrame* frames, size_t count, std::vector<Place>* places) {
  places->clear();
  frames_.assign(frames, frames + count);
  if (places_of_frames(places)) return true;
  places->clear();
  std::vector<Place> one;
  for (size_t i = count; i-- > 0;) {
    frames_.assign(1, frames[i]);
    one.clear();
    if (places_of_frames(&one)) places->push_back(one.front());
  }
  return !places->empty();
}

#if PY_VERSION_HEX >= 0x030b0000
// Most frames lie side by side in one chunk of memory, copied at once: nearly a picture of one
// instant. Those of generators lie elsewhere.
bool Stacks::frames(const PyThreadState* state, unsigned long ident) {
  PyThreadState copy;
  Hint& hint = hints_[state];
#if PY_VERSION_HEX >= 0x030d0000
  struct {
    void* current_frame;
  } inner = {};
  const auto inner_of = [](const PyThreadState& s) { return static_cast<const void*>(&s); };
  constexpr size_t inner_size = 0;
#else
  _PyCFrame inner;
  const auto inner_of = [](const PyThreadState& s) { return static_cast<const void*>(s.cframe); };
  constexpr size_t inner_size = sizeof inner;
#endif
  bool copied = false;
  for (int tries = 0; !copied && tries < 3; ++tries) {
    iovec local[] = {{&copy, sizeof copy}, {&inner, inner_size}, {chunk_.data(), 0}};
    iovec remote[] = {{const_cast<PyThreadState*>(state), sizeof copy},
                      {const_cast<void*>(hint.inner), inner_size},
                      {const_cast<void*>(hint.chunk), hint.size}};
    chunk_.resize(hint.size);
    local[2] = {chunk_.data(), hint.size};
    time = ticks();
    const ssize_t got = process_vm_readv(getpid(), local, 3, remote, 3, 0);
    if (got < static_cast<ssize_t>(sizeof copy) || copy.thread_id != ident) return false;
    const auto* from = reinterpret_cast<const char*>(copy.datastack_chunk);
    const auto* to = reinterpret_cast<const char*>(copy.datastack_top);
    const size_t used = from && to > from ? std::min(static_cast<size_t>(to - from), kMaxChunk) : 0;
    copied = got == static_cast<ssize_t>(sizeof copy + inner_size + hint.size) &&
             from == hint.chunk && used <= hint.size &&
             (inner_size == 0 || inner_of(copy) == hint.inner);
    if (!copied)
      hint = {inner_size ? inner_of(copy) : nullptr, from, std::min(used + 1024, kMaxChunk)};
  }
  if (!copied) return false;
#if PY_VERSION_HEX >= 0x030d0000
  const auto* at = reinterpret_cast<const CutawayFrame*>(copy.current_frame);
#else
  const auto* at = reinterpret_cast<const CutawayFrame*>(inner.current_frame);
#endif
  const auto from = reinterpret_cast<uintptr_t>(hint.chunk);
  frames_.clear();
  while (at && frames_.size() < kMaxFrames) {
    // Whatever is read from a running thread may be torn: `at`
    // can be any number, also one whose end wraps around.
    const uintptr_t offset = reinterpret_cast<uintptr_t>(at) - from;
    CutawayFrame frame;
    if (offset < chunk_.size() && chunk_.size() - offset >= sizeof frame) {
      memcpy(&frame, chunk_.data() + offset, sizeof frame);
    } else if (!peek(at, &frame, sizeof frame)) {
      return false;
    }
    const PyObject* code = cutaway_executable(&frame);
    if (!cutaway_is_entry(&frame) && code != Py_None) frames_.push_back({code, frame.instruction});
    at = frame.previous;
  }
  return true;
}
#else
bool Stacks::frames(const PyThreadState* state, unsigned long ident) {
  PyThreadState copy;
  if (!peek(state, &copy, sizeof copy) || copy.thread_id != ident) return false;
  const PyFrameObject* at = copy.frame;
  time = ticks();
  frames_.clear();
  while (at && frames_.size() < kMaxFrames) {
    PyFrameObject frame;
    constexpr size_t size = offsetof(PyFrameObject, f_blockstack);
    if (!peek(at, &frame, size) || Py_TYPE(&frame) != &PyFrame_Type) return false;
    const auto offset = static_cast<intptr_t>(frame.f_lasti) * intptr_t{kUnit};
    frames_.push_back({frame.f_code, reinterpret_cast<const char*>(offset)});
    at = frame.f_back;
  }
  return true;
}
#endif

// Every code object is looked at again, all in one system
// call: another one may have come to lie at the same address.
bool Stacks::places_of_frames(std::vector<Place>* places) {
  const size_t n = frames_.size();
  heads_.resize(n * kCodeHead);
  iovec local = {heads_.data(), heads_.size()}, remote[kMaxFrames];
  for (size_t i = 0; i < n; ++i) remote[i] = {const_cast<void*>(frames_[i].code), kCodeHead};
  if (n &&
      process_vm_readv(getpid(), &local, 1, remote, n, 0) != static_cast<ssize_t>(heads_.size()))
    return false;
  for (size_t i = n; i-- > 0;) {
    const auto& code = *reinterpret_cast<const PyCodeObject*>(heads_.data() + i * kCodeHead);
    if (Py_TYPE(&code) != &PyCode_Type) return false;
    const uint32_t index = find_code(frames_[i].code, code);
#if PY_VERSION_HEX >= 0x030b0000
    const int64_t offset =
        frames_[i].instruction - (static_cast<const char*>(frames_[i].code) + kCodeHead);
#else
    const auto offset = static_cast<int64_t>(reinterpret_cast<intptr_t>(frames_[i].instruction));
#endif
    places->push_back({index, codes[index].line_at(offset)});
  }
  return true;
}

uint32_t Stacks::find_code(const void* at, const PyCodeObject& code) {
  const CodeText::Identity identity = {code.co_filename, code.co_linetable, code.co_firstlineno};
  const auto found = known_.find(at);
  if (found != known_.end() && codes[found->second].identity == identity) return found->second;
#if PY_VERSION_HEX >= 0x030b0000
  const PyObject* name = code.co_qualname;
#else
  const PyObject* name = code.co_name;
#endif
  codes.push_back({identity, peek_text(code.co_filename), peek_text(name),
                   read_lines(peek_bytes(code.co_linetable), code.co_firstlineno)});
  return known_[at] = static_cast<uint32_t>(codes.size() - 1);
}

bool stacks_can_be_read() {
  int there = 1, here = 0;
  return peek(&there, &here, sizeof here) && here == 1;
}

#endif

}  // namespace cutaway
