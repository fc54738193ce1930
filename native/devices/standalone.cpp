// A process of a run in which no Python records (`cutaway run ./cpp_trainer`): the folder and log
// that
// `_recorder` would have made, with what the reader needs of it: process, names, anchors, exit.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "devices/host.h"
#include "devices/text.h"
#include "recorder/recorder.h"
#include "trace/crc.h"

namespace cutaway {
namespace {

struct Process {
  std::string folder;
  std::atomic<bool> begun{false};
  std::atomic<int> log{-1};
  std::atomic<uint32_t> names{0};
};

Process& process() {
  static Process* p = new Process;  // never destroyed: callbacks may come while the process exits
  return *p;
}

void append_line(const char* json) {
  const int fd = process().log.load(std::memory_order_relaxed);
  if (fd < 0) return;
  char crc[10];
  snprintf(crc, sizeof crc, "%08x ", crc32c(json, strlen(json)));
  const std::string line = std::string(crc) + json + "\n";
  if (write(fd, line.data(), line.size()) < 0) return;  // a full disk must not disturb the program
}

void append_anchor() {
  char json[160];
  snprintf(json, sizeof json, R"({"k":"anchor","mono":%llu,"real":%llu,"raw":%llu,"ticks":%llu})",
           static_cast<unsigned long long>(now_ns(CLOCK_MONOTONIC)),
           static_cast<unsigned long long>(now_ns(CLOCK_REALTIME)),
           static_cast<unsigned long long>(now_ns(CLOCK_MONOTONIC_RAW)),
           static_cast<unsigned long long>(ticks()));
  append_line(json);
}

void* anchor_every_second(void*) {
  for (;;) {
    sleep(1);
    append_anchor();
  }
}

// Field 22 of /proc/self/stat: start of the process in clock
// ticks since boot. The name in field 2 may hold anything.
std::string os_start() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field.empty() ? "0" : field;
}

std::string program_name() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) return "program";
  path[n] = 0;
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

void introduce(const std::string& start) {
  const std::string program = json_text(program_name());
  std::ostringstream json;
  json << R"({"k":"process","pid":)" << getpid() << R"(,"ppid":)" << getppid() << R"(,"os_start":)"
       << start << R"(,"name":)" << program << R"(,"role":null,"program":)" << program
       << R"(,"python":null,"host":)" << json_text(host_name())
       << R"(,"clock":"monotonic","versions":{},"t":)" << now_ns(CLOCK_MONOTONIC) << "}";
  append_line(json.str().c_str());
  append_anchor();
}

void say_goodbye() {
  append_anchor();
  const std::string json = R"({"k":"exit","t":)" + std::to_string(now_ns(CLOCK_MONOTONIC)) + "}";
  append_line(json.c_str());
}

// The folder may exist already when this program replaced another one of the run with exec.
std::string make_folder(const std::string& path) {
  for (int again = 0; again < 100; ++again) {
    const std::string folder = again ? path + "-" + std::to_string(again) : path;
    if (mkdir(folder.c_str(), 0700) == 0) return folder;
    if (errno != EEXIST) break;
  }
  return "";
}

// CUTAWAY=/path/NAME.cutaway?options, with "%", "?" and "&" of the path written as %25, %3f, %26.
std::string run_folder() {
  const char* text = getenv("CUTAWAY");
  std::string folder;
  for (; text && *text && *text != '?'; ++text) {
    unsigned character;
    const bool escaped = *text == '%' && sscanf(text + 1, "%2x", &character) == 1;
    folder += escaped ? static_cast<char>(character) : *text;
    if (escaped) text += 2;
  }
  return folder;
}

void begin() {
  const std::string run = run_folder();
  if (run.empty()) return;
  const std::string start = os_start();
  Process& p = process();
  p.folder = make_folder(run + "/p" + std::to_string(getpid()) + "-" + start);
  if (p.folder.empty()) return;
  p.names = 0;
  p.log = open((p.folder + "/log.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (p.log < 0) return;
  introduce(start);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, anchor_every_second, nullptr) == 0) pthread_detach(thread);
}

// A child gets its own folder at its first record, not here: most children only call exec.
void leave_parent() {
  const int fd = process().log.exchange(-1);
  if (fd >= 0) close(fd);
  process().begun = false;
}

const char* folder() {
  Process& p = process();
  static const int registered =
      (atexit(say_goodbye), pthread_atfork(nullptr, nullptr, leave_parent));
  (void)registered;
  if (!p.begun.exchange(true)) begin();
  return p.log >= 0 ? p.folder.c_str() : nullptr;
}

uint32_t intern(const char* utf8, size_t size) {
  if (!folder()) return 0;
  const uint32_t id = ++process().names;
  const std::string json = R"({"k":"name","id":)" + std::to_string(id) + R"(,"s":)" +
                           json_text(std::string(utf8, size)) + "}";
  append_line(json.c_str());
  return id;
}

uint64_t never_outside() { return 0; }
void no_bytes(uint64_t) {}
uint32_t no_operation() { return 0; }
void no_operation_hook(cutaway_operation_hook) {}
void no_phase_hook(cutaway_phase_hook) {}

}  // namespace

const Host& standalone_host() {
  static const Host host{folder,      no_operation,      intern,       never_outside, no_bytes,
                         append_line, no_operation_hook, no_phase_hook};
  return host;
}

}  // namespace cutaway
