// Interned names and calls. Ids live as long as the process; each recording writes them into its
// own log.
#include <pthread.h>
#include <stdio.h>

#include <deque>
#include <unordered_map>

#include "recorder/state.h"

namespace cutaway {

namespace {

// A program that keeps inventing names must not fill the memory.
constexpr uint32_t kMostNames = 1000000;

pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
std::unordered_map<std::string, uint32_t>& ids() {
  static auto* table = new std::unordered_map<std::string, uint32_t>();
  return *table;
}
std::deque<std::string>& names() {
  static auto* table = new std::deque<std::string>();  // id 0 is no name; the first has id 1
  return *table;
}
uint32_t calls_before =
    0;  // ids up to this one belong to an earlier log; the hooks do not use them any more
std::deque<std::string>& calls() {
  static auto* table = new std::deque<std::string>();
  return *table;
}

std::string name_fields(uint32_t id, const std::string& name) {
  return "\"k\":\"name\",\"id\":" + std::to_string(id) +
         ",\"s\":" + json_text(name.data(), name.size());
}

std::string call_fields(uint32_t id, const std::string& fields) {
  return "\"k\":\"call\",\"id\":" + std::to_string(id) + "," + fields;
}

uint32_t add_name(const std::string& name) {
  names().push_back(name);
  const auto id = static_cast<uint32_t>(names().size());
  ids().emplace(name, id);
  if (recorder.recording) recorder.log.line(name_fields(id, name));
  return id;
}

}  // namespace

std::string json_text(const char* utf8, size_t size) {
  std::string out = "\"";
  for (const char* p = utf8; p < utf8 + size; ++p) {
    const auto c = static_cast<unsigned char>(*p);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += *p;
    } else if (c < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += *p;
    }
  }
  return out + "\"";
}

uint32_t intern_name(const char* utf8, size_t size) {
  std::string name(utf8, size);
  pthread_mutex_lock(&names_lock);
  auto found = ids().find(name);
  uint32_t id;
  if (found != ids().end()) {
    id = found->second;
  } else if (names().size() < kMostNames) {
    id = add_name(name);
  } else {
    static const uint32_t more = add_name("(more names)");
    id = more;
  }
  pthread_mutex_unlock(&names_lock);
  return id;
}

uint32_t intern_call(const char* json_fields) {
  pthread_mutex_lock(&names_lock);
  if (calls().size() < kMaxId) calls().push_back(json_fields);
  const auto id = static_cast<uint32_t>(calls().size());
  if (recorder.recording) recorder.log.line(call_fields(id, calls().back()));
  pthread_mutex_unlock(&names_lock);
  return id;
}

void lock_names() { pthread_mutex_lock(&names_lock); }
void unlock_names() { pthread_mutex_unlock(&names_lock); }

void begin_new_calls() { calls_before = static_cast<uint32_t>(calls().size()); }

uint32_t log_number() { return recorder.session; }

// Calls that were open when the recording began keep the ids they had.
void log_open_calls(const Thread* t) {
  for (uint32_t i = 0; i < t->depth && i < kMaxOpen; ++i) {
    const uint32_t id = t->open[i].call;
    if (id && id <= calls_before) recorder.log.line(call_fields(id, calls()[id - 1]));
  }
}

void log_all_names() {
  std::string many;
  uint32_t id = 0;
  const auto add = [&](const std::string& fields) {
    many += Log::checked(fields);
    if (many.size() < 1 << 16) return;
    recorder.log.lines(many);
    many.clear();
  };
  pthread_mutex_lock(&names_lock);
  for (const std::string& name : names()) add(name_fields(++id, name));
  id = 0;
  for (const std::string& fields : calls())
    if (++id > calls_before) add(call_fields(id, fields));
  pthread_mutex_unlock(&names_lock);
  recorder.log.lines(many);
}

}  // namespace cutaway
