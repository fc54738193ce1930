// What was waited for, under a name that is the same in every process of the run.
#pragma once
#include <Python.h>

#include <string>

namespace cutaway {

struct Waited {
  // "pipe:123", "socket:456", "tcp:HOST:PORT>HOST:PORT",
  // "pid:789", "sem:/mp-abc", "thread:TID"; empty if unknown
  std::string on;
  std::string
      peer;  // the other end of a socket: "socket:457", or the addresses the other way round
  uint64_t identity = 0;  // of `on`, for interning
  bool is_file = false;   // a regular file: reading it does not count as waiting
};

uint64_t monotonic();

Waited waited_descriptor(int fd, bool fresh);  // fresh: look again even if this descriptor is known
Waited waited_process(PyObject* result, PyObject* asked);
Waited waited_semaphore(PyObject* semaphore);
Waited waited_thread(int tid);
// The result of waitpid or a relative: logs the end of a child, once. `stays`: it can be waited for
// again.
void log_child(PyObject* result, bool stays);

}  // namespace cutaway
