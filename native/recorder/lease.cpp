// A recording that another process asked for (`cutaway attach`) ends when that process hangs up or
// is gone. The background thread notices; the end itself is Python's, on its main thread.
#include <Python.h>
#include <poll.h>

#include <atomic>

#include "recorder/operations.h"
#include "recorder/state.h"

namespace cutaway {

namespace {

struct Lease {
  int fd = -1;
  std::atomic<bool> open{false};
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
  if (!lease.open) return;
  pollfd other_end = {lease.fd, POLLIN, 0};
  if (poll(&other_end, 1, 0) <= 0) return;
  if (Py_AddPendingCall(end_lease, nullptr) == 0) lease.open = false;
}

PyObject* set_lease(PyObject*, PyObject* args) {
  int fd;
  PyObject* on_end;
  if (!PyArg_ParseTuple(args, "iO:set_lease", &fd, &on_end)) return nullptr;
  lease.fd = fd;
  Py_XSETREF(lease.on_end, Py_NewRef(on_end));
  lease.open = true;
  Py_RETURN_NONE;
}

}  // namespace cutaway
