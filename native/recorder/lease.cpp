// A recording that another process asked for (`cutaway attach`) ends when its time is over, or when the
// connection to that process closes. The background thread notices; the end itself is Python's, on its main
// thread.
#include <Python.h>
#include <poll.h>

#include <atomic>

#include "recorder/operations.h"
#include "recorder/state.h"

namespace cutaway {

namespace {

struct Lease {
  int fd = -1;
  std::atomic<uint64_t> until{0};  // 0: there is none
  PyObject* on_end = nullptr;
} lease;

int end_lease(void*) {
  PyObject* on_end = lease.on_end;
  lease.on_end = nullptr;
  PyObject* nothing = on_end ? PyObject_CallNoArgs(on_end) : nullptr;
  if (on_end && !nothing) PyErr_WriteUnraisable(on_end);
  Py_XDECREF(nothing);
  Py_XDECREF(on_end);
  return 0;
}

}  // namespace

void look_at_lease() {
  const uint64_t until = lease.until;
  if (!until) return;
  pollfd other_end = {lease.fd, POLLIN, 0};
  if (monotonic_ns() < until && poll(&other_end, 1, 0) <= 0) return;
  if (Py_AddPendingCall(end_lease, nullptr) == 0) lease.until = 0;
}

PyObject* set_lease(PyObject*, PyObject* args) {
  int fd;
  double seconds;
  PyObject* on_end;
  if (!PyArg_ParseTuple(args, "idO:set_lease", &fd, &seconds, &on_end)) return nullptr;
  lease.fd = fd;
  Py_XSETREF(lease.on_end, Py_NewRef(on_end));
  lease.until = monotonic_ns() + static_cast<uint64_t>(seconds * 1e9);
  Py_RETURN_NONE;
}

}  // namespace cutaway
