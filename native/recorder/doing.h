// Whether a thread runs or sleeps at this moment, from /proc/self/task/TID/syscall: about 2 µs, no
// lock, and nothing that the thread would notice. A thread that sleeps on memory of the
// interpreter's own state waits for the GIL.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "trace/format.h"

namespace cutaway {

class Doings {
 public:
  ~Doings() { forget(); }
  // `thread` is the number by which records know it.
  Doing look(uint32_t thread, pid_t tid);
  // Closes what it holds; also in the child of a fork, whatever the sampler was doing then.
  void forget();

 private:
  static constexpr size_t kMost = 64;  // files held open; threads beyond them share their places
  struct Watched {
    uint32_t thread;
    int fd = -1;
  };
  Watched watched_[kMost];
};

}  // namespace cutaway
