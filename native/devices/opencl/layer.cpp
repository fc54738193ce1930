// An OpenCL layer (OPENCL_LAYERS=…/libcutaway_devices.so): every call below is timed, every queue
// is created with profiling on, every command gets an event. Wrappers are generated from the types
// in Dispatch, so that a call added here is one line.
#include <cstring>
#include <tuple>
#include <vector>

#include "devices/host.h"
#include "devices/opencl/commands.h"
#include "recorder/abi.h"

namespace cutaway::opencl {

Dispatch target;

namespace {

Dispatch layer;

template <auto Member>
struct Entry {
  static inline const char* name = nullptr;
  static inline bool synchronises = false;
};

// A call that puts no work on a device.
template <auto Member, typename Function = void>
struct Plain;
template <typename R, typename... A, R (CL_API_CALL* Dispatch::*Member)(A...)>
struct Plain<Member> {
  static R CL_API_CALL run(A... arguments) {
    const Call call(Entry<Member>::name, Entry<Member>::synchronises);
    return (target.*Member)(arguments...);
  }
};

// A call that does: the caller's event is used, or one of our own in its place.
template <auto Member>
struct Command;
template <typename R, typename... A, R (CL_API_CALL* Dispatch::*Member)(A...)>
struct Command<Member> {
  using Arguments = std::tuple<A...>;
  static inline Work (*describe)(const Arguments&) = nullptr;
  static inline bool (*blocks)(const Arguments&) = nullptr;

  static R CL_API_CALL run(A... values) {
    Arguments arguments(values...);
    cl_event own = nullptr;
    cl_event*& event = std::get<cl_event*>(arguments);
    const bool ours = event == nullptr;
    if (ours) event = &own;
    const Work work = describe(arguments);
    const Call call(Entry<Member>::name, blocks(arguments));
    const R result = std::apply(target.*Member, arguments);
    if (succeeded(result)) follow(work, call, std::get<0>(arguments), *event, ours);
    return result;
  }

  static bool succeeded(cl_int status) { return status == CL_SUCCESS; }
  static bool succeeded(const void* mapped) { return mapped != nullptr; }
};

uint64_t volume(const size_t* region) { return region ? region[0] * region[1] * region[2] : 0; }

std::string kernel_name(cl_kernel kernel) {
  char name[512] = "";
  target.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, nullptr);
  return *name ? name : "kernel";
}

Work describe_kernel(cl_kernel kernel, cl_uint dimensions, const size_t* global,
                     const size_t* local) {
  Work work{kKernel, 0, 0, kernel_name(kernel), {1, 1, 1}, {1, 1, 1}};
  for (cl_uint i = 0; i < dimensions && i < 3 && global; ++i) {
    // Without a local size the runtime chooses: unknown here.
    const size_t size = local && local[i] ? local[i] : 1;
    work.block[i] = static_cast<uint32_t>(size);
    work.grid[i] = static_cast<uint32_t>((global[i] + size - 1) / size);
  }
  return work;
}

Work describe_copy(const char* name, uint8_t direction, uint64_t bytes) {
  return {kMemcpy, direction, bytes, name, {}, {}};
}
Work describe_fill(uint64_t bytes) { return {kMemset, 0, bytes, "fill", {}, {}}; }

cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                          cl_command_queue_properties properties, cl_int* status) {
  const Call call("clCreateCommandQueue");
  auto queue =
      target.clCreateCommandQueue(context, device, properties | CL_QUEUE_PROFILING_ENABLE, status);
  if (!queue) queue = target.clCreateCommandQueue(context, device, properties, status);
  if (queue) learn_queue(queue, device);
  return queue;
}

std::vector<cl_queue_properties> with_profiling(const cl_queue_properties* given) {
  std::vector<cl_queue_properties> properties;
  bool stated = false;
  for (; given && *given; given += 2) {
    const bool flags = given[0] == CL_QUEUE_PROPERTIES;
    // A queue on the device is filled by kernels; it has no events for the host to see.
    const bool extend = flags && !(given[1] & CL_QUEUE_ON_DEVICE);
    properties.push_back(given[0]);
    properties.push_back(extend ? given[1] | CL_QUEUE_PROFILING_ENABLE : given[1]);
    stated |= flags;
  }
  if (!stated) {
    properties.push_back(CL_QUEUE_PROPERTIES);
    properties.push_back(CL_QUEUE_PROFILING_ENABLE);
  }
  properties.push_back(0);
  return properties;
}

cl_command_queue CL_API_CALL create_queue_with(cl_context context, cl_device_id device,
                                               const cl_queue_properties* given, cl_int* status) {
  const Call call("clCreateCommandQueueWithProperties");
  const auto properties = with_profiling(given);
  auto queue =
      target.clCreateCommandQueueWithProperties(context, device, properties.data(), status);
  if (!queue) queue = target.clCreateCommandQueueWithProperties(context, device, given, status);
  if (queue) learn_queue(queue, device);
  return queue;
}

#define PLAIN(function, waits)                                             \
  do {                                                                     \
    Entry<&Dispatch::function>::name = #function;                          \
    Entry<&Dispatch::function>::synchronises = waits;                      \
    if (target.function) layer.function = Plain<&Dispatch::function>::run; \
  } while (0)

// In `what` and `waits`, `arg(n)` is the n-th argument of the call.
#define COMMAND(function, waits, what)                                               \
  do {                                                                               \
    using This = Command<&Dispatch::function>;                                       \
    Entry<&Dispatch::function>::name = #function;                                    \
    This::describe = []([[maybe_unused]] const This::Arguments& arguments) -> Work { \
      return what;                                                                   \
    };                                                                               \
    This::blocks = []([[maybe_unused]] const This::Arguments& arguments) -> bool {   \
      return waits;                                                                  \
    };                                                                               \
    if (target.function) layer.function = This::run;                                 \
  } while (0)
#define arg(n) std::get<n>(arguments)

void wrap_calls() {
  PLAIN(clCreateContext, false);
  PLAIN(clCreateContextFromType, false);
  PLAIN(clCreateBuffer, false);
  PLAIN(clCreateImage, false);
  PLAIN(clReleaseMemObject, false);
  PLAIN(clSVMAlloc, false);
  PLAIN(clSVMFree, false);
  PLAIN(clCreateProgramWithSource, false);
  PLAIN(clBuildProgram, false);
  PLAIN(clCompileProgram, false);
  PLAIN(clLinkProgram, false);
  PLAIN(clCreateKernel, false);
  PLAIN(clSetKernelArg, false);
  PLAIN(clEnqueueMarkerWithWaitList, false);
  PLAIN(clEnqueueBarrierWithWaitList, false);
  PLAIN(clFlush, false);
  PLAIN(clFinish, true);
  PLAIN(clWaitForEvents, true);
}

void wrap_copies() {
  COMMAND(clEnqueueReadBuffer, arg(2), describe_copy("read buffer", 2, arg(4)));
  COMMAND(clEnqueueWriteBuffer, arg(2), describe_copy("write buffer", 1, arg(4)));
  COMMAND(clEnqueueCopyBuffer, false, describe_copy("copy buffer", 8, arg(5)));
  COMMAND(clEnqueueReadBufferRect, arg(2), describe_copy("read buffer", 2, volume(arg(5))));
  COMMAND(clEnqueueWriteBufferRect, arg(2), describe_copy("write buffer", 1, volume(arg(5))));
  COMMAND(clEnqueueCopyBufferRect, false, describe_copy("copy buffer", 8, volume(arg(5))));
  COMMAND(clEnqueueReadImage, arg(2), describe_copy("read image", 2, 0));
  COMMAND(clEnqueueWriteImage, arg(2), describe_copy("write image", 1, 0));
  COMMAND(clEnqueueCopyImage, false, describe_copy("copy image", 8, 0));
  COMMAND(clEnqueueCopyImageToBuffer, false, describe_copy("copy image to buffer", 8, 0));
  COMMAND(clEnqueueCopyBufferToImage, false, describe_copy("copy buffer to image", 8, 0));
  COMMAND(clEnqueueMapBuffer, arg(2), describe_copy("map buffer", 2, arg(5)));
  COMMAND(clEnqueueMapImage, arg(2), describe_copy("map image", 2, 0));
  COMMAND(clEnqueueUnmapMemObject, false, describe_copy("unmap", 1, 0));
  COMMAND(clEnqueueMigrateMemObjects, false, describe_copy("migrate", 8, 0));
  COMMAND(clEnqueueSVMMemcpy, arg(1), describe_copy("copy shared memory", 8, arg(4)));
  COMMAND(clEnqueueSVMMap, arg(1), describe_copy("map shared memory", 2, arg(4)));
  COMMAND(clEnqueueSVMUnmap, false, describe_copy("unmap shared memory", 1, 0));
}

void wrap_work() {
  COMMAND(clEnqueueNDRangeKernel, false, describe_kernel(arg(1), arg(2), arg(4), arg(5)));
  COMMAND(clEnqueueTask, false, describe_kernel(arg(1), 0, nullptr, nullptr));
  COMMAND(clEnqueueNativeKernel, false,
          (Work{kKernel, 0, 0, "native kernel", {1, 1, 1}, {1, 1, 1}}));
  COMMAND(clEnqueueFillBuffer, false, describe_fill(arg(5)));
  COMMAND(clEnqueueFillImage, false, describe_fill(0));
  COMMAND(clEnqueueSVMMemFill, false, describe_fill(arg(4)));
}

}  // namespace
}  // namespace cutaway::opencl

using namespace cutaway::opencl;

CUTAWAY_ABI cl_int CL_API_CALL clGetLayerInfo(cl_uint what, size_t size, void* value,
                                              size_t* size_ret) {
  static const char kName[] = "cutaway";
  static const cl_uint kVersion = kLayerVersion;
  const void* answer = what == kLayerName ? static_cast<const void*>(kName) : &kVersion;
  const size_t needed = what == kLayerName ? sizeof kName : sizeof kVersion;
  if (what != kLayerName && what != kLayerApiVersion) return CL_INVALID_VALUE;
  if (value && size < needed) return CL_INVALID_VALUE;
  if (value) memcpy(value, answer, needed);
  if (size_ret) *size_ret = needed;
  return CL_SUCCESS;
}

CUTAWAY_ABI cl_int CL_API_CALL clInitLayer(cl_uint entries, const Dispatch* next,
                                           cl_uint* entries_ret, const Dispatch** dispatch_ret) {
  if (!next || !entries_ret || !dispatch_ret) return CL_INVALID_VALUE;
  constexpr cl_uint kKnown = sizeof(Dispatch) / sizeof(void*);
  const cl_uint count = entries < kKnown ? entries : kKnown;  // an older loader has a shorter table
  target = {};
  memcpy(&target, next, count * sizeof(void*));
  layer = target;
  wrap_calls();
  wrap_copies();
  wrap_work();
  if (target.clCreateCommandQueue) layer.clCreateCommandQueue = create_queue;
  if (target.clCreateCommandQueueWithProperties)
    layer.clCreateCommandQueueWithProperties = create_queue_with;
  cutaway::host().folder();  // without Python, the recorded life of the process begins here
  *entries_ret = count;
  *dispatch_ret = &layer;
  return CL_SUCCESS;
}
