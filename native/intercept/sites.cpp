#include "intercept/sites.h"

#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace cutaway {

CachedCall cached_calls[kCachedCalls];
bool sites_wanted = true;

namespace {

constexpr size_t kMaxSites = 1 << 16;  // beyond it calls are recorded without their site
constexpr size_t kMaxWaits = 1 << 14;

struct Key {
  uint64_t place;
  Word identity;
  bool operator==(const Key& o) const { return place == o.place && identity == o.identity; }
};
struct KeyHash {
  size_t operator()(const Key& k) const {
    return (k.place ^ k.identity * 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull;
  }
};

// Never destroyed: hooks run until the very end of the process.
auto& known = *new std::unordered_map<Key, uint32_t, KeyHash>;
auto& by_fields = *new std::unordered_map<std::string, uint32_t>;
auto& waits = *new std::unordered_map<Key, uint32_t, KeyHash>;
auto& wait_fields = *new std::unordered_map<uint32_t, std::string>;
auto& shared_names = *new std::unordered_map<Word, std::string>;
auto& held_codes = *new std::unordered_set<PyObject*>;

void append_json(std::string& out, const char* name, const std::string& text) {
  out += out.empty() ? "\"" : ",\"";
  out += name;
  out += "\":\"";
  for (const char ch : text) {
    if (ch == '"' || ch == '\\') {
      out += '\\';
      out += ch;
    } else if (static_cast<unsigned char>(ch) < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\u%04x", ch);
      out += escaped;
    } else {
      out += ch;
    }
  }
  out += '"';
}

std::string utf8(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return "";
  const char* s = PyUnicode_AsUTF8(text);
  if (s == nullptr) PyErr_Clear();
  return s ? s : "";
}

std::string utf8_attribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  std::string text = utf8(value);
  Py_XDECREF(value);
  return text;
}

// The code object must outlive the table: its address is the key.
void hold(PyObject* code) {
  if (held_codes.insert(code).second) Py_INCREF(code);
}

// By attributes: how a code object lies in memory changes from one Python to the next.
void append_site(std::string& fields, PyObject* code, int line) {
  hold(code);
#if PY_VERSION_HEX >= 0x030b0000
  const char* const function = "co_qualname";
#else
  const char* const function = "co_name";
#endif
  append_json(fields, "file", utf8_attribute(code, "co_filename"));
  fields += ",\"line\":" + std::to_string(line < 0 ? 0 : line);
  append_json(fields, "func", utf8_attribute(code, function));
}

int first_line(PyObject* code) {
  PyObject* line = PyObject_GetAttrString(code, "co_firstlineno");
  const long number = line ? PyLong_AsLong(line) : 0;
  if (line == nullptr || number < 0) PyErr_Clear();
  Py_XDECREF(line);
  return static_cast<int>(number);
}

int line_of(const Frame* frame, PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030c0000
  (void)code;
  auto* theirs = reinterpret_cast<struct _PyInterpreterFrame*>(const_cast<Frame*>(frame));
  return PyUnstable_InterpreterFrame_GetLine(theirs);
#elif PY_VERSION_HEX >= 0x030b0000
  return PyCode_Addr2Line(code, static_cast<int>(instruction_of(frame) - code->co_code_adaptive));
#else
  return PyCode_Addr2Line(code, 2 * frame->f_lasti);
#endif
}

// The code that holds an instruction of a running frame, and its line; null if no Python runs.
PyCodeObject* running_code(const char* instruction, int* line) {
  for (const Frame* frame = running_frame(); frame != nullptr; frame = caller_of(frame)) {
    PyCodeObject* code = code_of(frame);
    if (code == nullptr || instruction_of(frame) != instruction) continue;
    *line = line_of(frame, code);
    return code;
  }
  return nullptr;
}

std::string name_of(const Target& target, const Description& description, Word identity) {
  const auto found = shared_names.find(identity);
  if (found != shared_names.end()) return found->second;
  const bool complete =
      description.name.back() == ')';  // the function inside it is known by another name
  if (target.role != Role::kCompiled || complete) return description.name;
  const std::string own = utf8_attribute(reinterpret_cast<PyObject*>(identity), "__name__");
  return own.empty() ? description.name : description.name + "(" + own + ")";
}

std::string fields_of(uint32_t index, const char* instruction, Word identity) {
  const Description& description = describe(index);
  std::string fields;
  append_json(fields, "layer", description.layer);
  if (targets[index].role == Role::kCallback) {
    auto* code = reinterpret_cast<PyObject*>(identity);
    append_json(fields, "fn", utf8_attribute(code, "co_name"));
    append_site(fields, code, first_line(code));
    return fields;
  }
  append_json(fields, "fn", name_of(targets[index], description, identity));
  int line = 0;
  PyCodeObject* code = instruction ? running_code(instruction, &line) : nullptr;
  if (code != nullptr) {
    append_site(fields, reinterpret_cast<PyObject*>(code), line);
  } else {
    fields += ",\"file\":\"\",\"line\":0,\"func\":\"\"";
  }
  return fields;
}

// A specialised instruction calls from another address than the general one it replaced: same site,
// same id.
uint32_t intern_fields(uint32_t index, const std::string& fields) {
  uint32_t& call = by_fields[fields];
  if (call == 0) call = intern_call(fields.c_str());
  if (targets[index].role == Role::kWait) wait_fields[call] = fields;
  return call;
}

}  // namespace

// Looking up names may run Python and let other threads in, so no table is held across it.
uint32_t find_call_slowly(uint32_t index, const char* instruction, Word identity) {
  PyObject *type, *value, *trace;  // a slot or a wait may be entered with an exception set
  PyErr_Fetch(&type, &value, &trace);
  const uint64_t place = reinterpret_cast<uint64_t>(instruction) << 16 | index;
  const auto found = known.find({place, identity});
  uint32_t call = found != known.end() ? found->second : 0;
  if (call == 0) {
    const bool full = known.size() >= kMaxSites;
    if (!full || targets[index].siteless == 0) {
      call = intern_fields(index, fields_of(index, full ? nullptr : instruction, identity));
      (full ? targets[index].siteless : known[{place, identity}]) = call;
    } else {
      call = targets[index].siteless;
    }
  }
  const uint32_t tag = static_cast<uint32_t>(identity >> 4);
  cached_call(place, tag) = {place, tag, call};
  PyErr_Restore(type, value, trace);
  return call;
}

uint32_t find_call_elsewhere(uint32_t index, const char* instruction) {
  const uint32_t call = find_call_at(index, instruction, 0);
  targets[index].site =
      instruction || !sites_wanted ? instruction : kNowhere;  // null means without a site
  return targets[index].called = call;
}

uint32_t call_waiting_on(uint32_t call, uint64_t identity, const std::string& on,
                         const std::string& peer) {
  const auto found = waits.find({call, identity});
  if (found != waits.end()) return found->second;
  const auto base = wait_fields.find(call);
  if (base == wait_fields.end() || waits.size() >= kMaxWaits) return call;
  std::string fields = base->second;
  append_json(fields, "on", on);
  if (!peer.empty()) append_json(fields, "peer", peer);
  return waits[{call, identity}] = intern_call(fields.c_str());
}

void name_shared(Word identity, std::string name) { shared_names[identity] = std::move(name); }
bool has_name(Word identity) { return shared_names.count(identity) != 0; }

// Code objects stay held: an address must never mean two things.
void forget_calls() {
  memset(cached_calls, 0, sizeof cached_calls);
  for (Target& target : targets) {
    target.site = kNowhere;
    target.siteless = 0;
  }
  known.clear();
  by_fields.clear();
  waits.clear();
  wait_fields.clear();
}

uint32_t sites_known() { return static_cast<uint32_t>(by_fields.size()); }

}  // namespace cutaway
