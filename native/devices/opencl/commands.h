// What a command of an OpenCL queue becomes: remembered when it is enqueued,
// written when its event completes, which may be on another thread, in
// another order and after the operation that enqueued it has ended.
#pragma once
#include <string>

#include "devices/opencl/dispatch.h"
#include "trace/format.h"

namespace cutaway::opencl {

extern Dispatch target;  // the next layer, or the driver

// One API call of this thread, written when the object dies.
class Call {
 public:
  explicit Call(const char* name, bool synchronises = false);
  ~Call();
  uint64_t correlation() const { return record_.correlation; }
  uint32_t operation() const { return record_.operation; }
  uint64_t start() const { return record_.start; }

 private:
  const char* name_;
  ApiRecord record_{};
};

struct Work {
  DeviceKind kind;
  uint8_t
      detail;  // CUpti_ActivityMemcpyKind: 1 host to device, 2 device to host, 8 device to device
  uint64_t bytes;
  std::string name;
  uint32_t grid[3], block[3];
};

void learn_queue(cl_command_queue queue, cl_device_id device);

// Watches `event`, which the command `work` signals; `ours` if the program did not ask for it.
void follow(const Work& work, const Call& call, cl_command_queue queue, cl_event event, bool ours);

}  // namespace cutaway::opencl
