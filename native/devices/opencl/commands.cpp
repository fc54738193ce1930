#include "devices/opencl/commands.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "devices/host.h"
#include "devices/opencl/device_clock.h"
#include "devices/sink.h"
#include "devices/text.h"

namespace cutaway::opencl {
namespace {

constexpr int kPatienceMs = 200;

struct Queue {
  uint32_t stream;
  uint32_t device;
};

struct Device {
  uint32_t id;
  DeviceClock clock;
  pid_t introduced;
};

// Never destroyed: events complete while the process exits.
struct State {
  std::mutex mutex;
  std::unordered_map<cl_command_queue, Queue> queues;
  std::map<cl_device_id, Device> devices;
  std::map<uint32_t, Device*> by_id;
  uint32_t streams = 0;
  std::atomic<uint64_t> correlation{0};
  std::atomic<int64_t> unfinished{0};
};

State& state() {
  static State* s = new State;
  return *s;
}

std::atomic<uint32_t> forks{0};

// Asking the kernel each time would cost as much as the
// rest of a record; a fork gives the thread a new number.
uint32_t thread_id() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  (void)registered;
  thread_local uint32_t known = 0, known_forks = 0;
  if (!known || known_forks != forks.load(std::memory_order_relaxed)) {
    known = static_cast<uint32_t>(syscall(SYS_gettid));
    known_forks = forks;
  }
  return known;
}

struct Pending {
  DeviceRecord record;
  uint64_t enqueued, returned;  // CLOCK_MONOTONIC around the enqueuing call
};

std::string device_name(cl_device_id device) {
  char name[256] = "";
  target.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, nullptr);
  return name;
}

// Said again in a forked child, whose log knows nothing yet.
void introduce(cl_device_id handle, Device* device) {
  if (device->introduced == getpid()) return;
  device->introduced = getpid();
  cl_uint units = 0;
  target.clGetDeviceInfo(handle, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, nullptr);
  Sink::get().log(R"({"k":"device","id":)" + std::to_string(device->id) + R"(,"name":)" +
                  json_text(device_name(handle)) + R"(,"runtime":"opencl","sms":)" +
                  std::to_string(units) + "}");
}

Queue queue_of(cl_command_queue handle) {
  State& s = state();
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    const auto known = s.queues.find(handle);
    if (known != s.queues.end()) return known->second;
  }
  cl_device_id device = nullptr;  // a queue made by an extension we do not intercept
  target.clGetCommandQueueInfo(handle, CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
  learn_queue(handle, device);
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.queues[handle];
}

bool event_times(cl_event event, cl_ulong* queued, cl_ulong* submitted, cl_ulong* start,
                 cl_ulong* end) {
  const auto ask = [event](cl_profiling_info what, cl_ulong* time) {
    return target.clGetEventProfilingInfo(event, what, sizeof *time, time, nullptr) == CL_SUCCESS;
  };
  return ask(CL_PROFILING_COMMAND_QUEUED, queued) && ask(CL_PROFILING_COMMAND_SUBMIT, submitted) &&
         ask(CL_PROFILING_COMMAND_START, start) && ask(CL_PROFILING_COMMAND_END, end);
}

void write_completed(cl_event event, Pending* pending) {
  cl_ulong queued = 0, submitted = 0, start = 0, end = 0;
  if (!event_times(event, &queued, &submitted, &start, &end)) {
    return Sink::get().lose("device commands without times", 1);
  }
  DeviceRecord& record = pending->record;
  Clock clock;
  {
    State& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    DeviceClock& device = s.by_id[record.device]->clock;
    if (queued) device.observe(queued, pending->enqueued, pending->returned);
    clock = device.clock();
    record.start = start ? device.convert(start) : 0;
    record.end = device.convert(end);
  }
  const cl_ulong wait = start > submitted ? start - submitted : 0;
  record.queued_ns = wait < UINT32_MAX ? static_cast<uint32_t>(wait) : UINT32_MAX;
  Sink::get().write(record, clock);
}

void CL_CALLBACK on_complete(cl_event event, cl_int status, void* data) {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(data));
  --state().unfinished;
  if (status == CL_COMPLETE) {
    write_completed(event, pending.get());
  } else {
    Sink::get().lose("device commands that failed", 1);
  }
  target.clReleaseEvent(event);
}

// A command may have finished while its callback has not
// run yet: the driver's thread that runs it may be late.
void count_unfinished() {
  for (int i = 0; i < kPatienceMs && state().unfinished > 0; ++i) usleep(1000);
  const int64_t unfinished = state().unfinished;
  if (unfinished > 0)
    Sink::get().lose("device commands unfinished at exit", static_cast<uint64_t>(unfinished));
  Sink::get().flush();
}

}  // namespace

Call::Call(const char* name, bool synchronises) : name_(name) {
  record_.correlation = ++state().correlation;
  record_.os_thread = thread_id();
  record_.operation = host().operation();
  record_.flags = synchronises ? 1 : 0;
  record_.start = now_ns(CLOCK_MONOTONIC);
}

Call::~Call() {
  record_.end = now_ns(CLOCK_MONOTONIC);
  record_.name = Sink::get().name(name_);
  Sink::get().write(record_, kMonotonic);
}

void learn_queue(cl_command_queue queue, cl_device_id handle) {
  static const int registered = atexit(count_unfinished);
  (void)registered;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const auto [at, fresh] = s.devices.try_emplace(handle);
  Device& device = at->second;
  if (fresh) {
    device.id = static_cast<uint32_t>(s.devices.size() - 1);
    s.by_id[device.id] = &device;
  }
  introduce(handle, &device);
  s.queues[queue] = {++s.streams, device.id};
}

void follow(const Work& work, const Call& call, cl_command_queue handle, cl_event event,
            bool ours) {
  const Queue queue = queue_of(handle);
  auto pending = std::make_unique<Pending>();
  pending->enqueued = call.start();
  pending->returned = now_ns(CLOCK_MONOTONIC);
  DeviceRecord& record = pending->record;
  record = {};
  record.correlation = call.correlation();
  record.operation = call.operation();
  record.bytes = work.bytes;
  record.name = Sink::get().name(work.name);
  record.device = queue.device;
  record.stream = queue.stream;
  for (int i = 0; i < 3; ++i) record.grid[i] = work.grid[i], record.block[i] = work.block[i];
  record.kind = work.kind;
  record.detail = work.detail;
  if (!ours) target.clRetainEvent(event);
  ++state().unfinished;
  if (target.clSetEventCallback(event, CL_COMPLETE, on_complete, pending.get()) == CL_SUCCESS) {
    pending.release();
    return;
  }
  --state().unfinished;
  target.clReleaseEvent(event);
  Sink::get().lose("device commands without times", 1);
}

}  // namespace cutaway::opencl
