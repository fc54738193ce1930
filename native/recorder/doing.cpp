#include "recorder/doing.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/log.h"

extern "C" __attribute__((weak)) char _PyRuntime[];

namespace cutaway {

namespace {

int open_status(pid_t tid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", static_cast<int>(tid));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  return fd < 0 ? fd : move_up(fd);
}

// How much memory the interpreter's state takes, as the symbol table has it. The GIL is a part of
// it: directly before Python 3.12, since then as a part of the main interpreter.
size_t size_of_runtime() {
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (!_PyRuntime || !dladdr1(_PyRuntime, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT))
    return 0;
  return symbol ? symbol->st_size : 0;
}

bool is_in_runtime(uint64_t address) {
  static const size_t size = size_of_runtime();
  return address - reinterpret_cast<uintptr_t>(_PyRuntime) < size;
}

// "running", or the number of a system call and its arguments; −1 for a thread that sleeps outside
// of one.
Doing parse(const char* text) {
  if (strncmp(text, "running", 7) == 0) return kRuns;
  char *end, *from;
  const long call = strtol(text, &end, 10);
  if (end == text || *end != ' ') return kUntold;
  const uint64_t first = strtoull(end, &from, 16);
  if (from == end) return kUntold;
  return call == SYS_futex && is_in_runtime(first) ? kAwaitsGil : kSleeps;
}

Doing read_status(int fd) {
  char text[160];
  const ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
  if (n <= 0) return kUntold;
  text[n] = 0;
  return parse(text);
}

}  // namespace

// What cannot be understood is opened again: the thread may have ended, or somebody closed our
// file.
Doing Doings::look(uint32_t thread, pid_t tid) {
  Watched& watched = watched_[thread % kMost];
  if (watched.fd >= 0 && watched.thread == thread)
    if (const Doing doing = read_status(watched.fd)) return doing;
  if (watched.fd >= 0) close(watched.fd);
  watched = {thread, open_status(tid)};
  return read_status(watched.fd);
}

void Doings::forget() {
  for (Watched& watched : watched_)
    if (watched.fd >= 0) close(watched.fd);
  for (Watched& watched : watched_) watched.fd = -1;
}

}  // namespace cutaway
