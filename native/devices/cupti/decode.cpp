#include "devices/cupti/decode.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>

#include "devices/cupti/layout.h"
#include "devices/sink.h"

namespace cutaway::cupti {
namespace {

constexpr size_t kRemembered = 1 << 20;

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }
bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// A copy that is not asynchronous waits for the device as well.
bool synchronises(const std::string& api) {
  return contains(api, "Synchronize") || (contains(api, "Memcpy") && !contains(api, "Async"));
}

// The runtime calls the driver for everything; only what
// programs (Triton, cuBLAS) call directly is of interest.
bool worth_keeping(const std::string& driver_call) {
  return begins(driver_call, "cuLaunch") || begins(driver_call, "cuGraphLaunch") ||
         begins(driver_call, "cuMemcpy") || begins(driver_call, "cuMemset") ||
         contains(driver_call, "Synchronize");
}

const char* copy_name(uint8_t kind) {
  static const char* const kNames[] = {"memcpy",      "memcpy HtoD", "memcpy DtoH", "memcpy HtoA",
                                       "memcpy AtoH", "memcpy AtoA", "memcpy AtoD", "memcpy DtoA",
                                       "memcpy DtoD", "memcpy HtoH", "memcpy PtoP"};
  return kind < sizeof kNames / sizeof *kNames ? kNames[kind] : kNames[0];
}

const char* sync_name(CUpti_ActivitySynchronizationType type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return "event synchronize";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      return "stream waits for event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return "stream synchronize";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return "device synchronize";
    default:
      return "synchronize";
  }
}

}  // namespace

template <typename Visit>
void Decoder::each(uint8_t* buffer, size_t size, Visit visit) {
  CUpti_Activity* record = nullptr;
  CUptiResult result;
  while ((result = library_.cuptiActivityGetNextRecord(buffer, size, &record)) == CUPTI_SUCCESS)
    visit(record);
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED)
    Sink::get().lose("CUPTI buffers not read to their end", 1);
}

// Which operation a call belongs to may stand behind the call itself: look through the whole buffer
// first.
void Decoder::decode(uint8_t* buffer, size_t size) {
  each(buffer, size, [this](const CUpti_Activity* record) { learn(record); });
  each(buffer, size, [this](const CUpti_Activity* record) { write(record); });
}

void Decoder::learn(const CUpti_Activity* record) {
  if (record->kind != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) return;
  const auto& link = *reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
  if (link.externalKind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2) return;
  if (operations_.size() >= kRemembered) {
    older_.swap(operations_);
    operations_.clear();
  }
  operations_[link.correlationId] = static_cast<uint32_t>(link.externalId);
}

uint32_t Decoder::operation_of(uint32_t correlation) const {
  auto found = operations_.find(correlation);
  if (found != operations_.end()) return found->second;
  found = older_.find(correlation);
  return found != older_.end() ? found->second : 0;
}

void Decoder::write(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return write_api(*reinterpret_cast<const CUpti_ActivityAPI*>(record),
                       CUPTI_CB_DOMAIN_RUNTIME_API);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return write_api(*reinterpret_cast<const CUpti_ActivityAPI*>(record),
                       CUPTI_CB_DOMAIN_DRIVER_API);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return write_kernel(*reinterpret_cast<const CUpti_ActivityKernel9*>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      return write_copy(copy, copy_name(copy.copyKind), copy.copyKind);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return write_copy(*reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(record), "memcpy PtoP",
                        CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return write_set(*reinterpret_cast<const CUpti_ActivityMemset4*>(record));
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return write_graph(*reinterpret_cast<const CUpti_ActivityGraphTrace*>(record));
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return write_sync(*reinterpret_cast<const CUpti_ActivitySynchronization*>(record));
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return write_overhead(*reinterpret_cast<const CUpti_ActivityOverhead*>(record));
    default:
      return;
  }
}

void Decoder::write_api(const CUpti_ActivityAPI& call, CUpti_CallbackDomain domain) {
  const std::string name = api_name(domain, call.cbid);
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && !worth_keeping(name)) return;
  ApiRecord record{};
  record.start = call.start;
  record.end = call.end;
  record.correlation = call.correlationId;
  record.os_thread = call.threadId;
  record.name = Sink::get().name(name);
  record.operation = operation_of(call.correlationId);
  record.flags = synchronises(name) ? 1 : 0;
  Sink::get().write(record, clock_);
}

template <typename Activity>
DeviceRecord Decoder::piece_of(const Activity& activity, DeviceKind kind, const std::string& name) {
  DeviceRecord record{};
  record.start = activity.start;
  record.end = activity.end;
  record.correlation = activity.correlationId;
  record.name = Sink::get().name(name);
  record.stream = activity.streamId;
  record.operation = operation_of(activity.correlationId);
  record.kind = kind;
  return record;
}

template <typename Activity>
DeviceRecord Decoder::work_of(const Activity& activity, DeviceKind kind, const std::string& name) {
  DeviceRecord record = piece_of(activity, kind, name);
  record.device = activity.deviceId;
  record.graph = activity.graphId;
  return record;
}

void Decoder::write_kernel(const CUpti_ActivityKernel9& kernel) {
  const std::string& name = kernel_name(kernel.name);
  DeviceRecord record = work_of(kernel, begins(name, "nccl") ? kCollective : kKernel, name);
  const int32_t grid[] = {kernel.gridX, kernel.gridY, kernel.gridZ};
  const int32_t block[] = {kernel.blockX, kernel.blockY, kernel.blockZ};
  for (int i = 0; i < 3; ++i) {
    record.grid[i] = static_cast<uint32_t>(grid[i]);
    record.block[i] = static_cast<uint32_t>(block[i]);
  }
  record.registers = kernel.registersPerThread;
  record.shared_static = static_cast<uint32_t>(kernel.staticSharedMemory);
  record.shared_dynamic = static_cast<uint32_t>(kernel.dynamicSharedMemory);
  Sink::get().write(record, clock_);
}

template <typename Copy>
void Decoder::write_copy(const Copy& copy, const char* name, uint8_t detail) {
  DeviceRecord record = work_of(copy, kMemcpy, name);
  record.bytes = copy.bytes;
  record.detail = detail;
  Sink::get().write(record, clock_);
}

void Decoder::write_set(const CUpti_ActivityMemset4& set) {
  DeviceRecord record = work_of(set, kMemset, "memset");
  record.bytes = set.bytes;
  Sink::get().write(record, clock_);
}

// A whole graph as one piece of work, where the nodes are not recorded one by one.
void Decoder::write_graph(const CUpti_ActivityGraphTrace& graph) {
  const std::string name = "graph " + std::to_string(graph.graphId);
  Sink::get().write(work_of(graph, kKernel, name), clock_);
}

void Decoder::write_sync(const CUpti_ActivitySynchronization& sync) {
  Sink::get().write(piece_of(sync, kSync, sync_name(sync.type)), clock_);
}

void Decoder::write_overhead(const CUpti_ActivityOverhead& overhead) {
  DeviceRecord record{};
  record.start = overhead.start;
  record.end = overhead.end;
  record.name = Sink::get().name("CUPTI overhead");
  record.kind = kOverhead;
  // CUPTI numbers its kinds in the upper half.
  record.detail = static_cast<uint8_t>(overhead.overheadKind >> 16);
  Sink::get().write(record, clock_);
}

// "cudaLaunchKernel_v7000" → "cudaLaunchKernel"
std::string Decoder::api_name(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  std::string& name = api_names_[static_cast<uint64_t>(domain) << 32 | id];
  if (!name.empty()) return name;
  const char* text = nullptr;
  library_.cuptiGetCallbackName(domain, id, &text);
  name = text && *text ? text : "CUDA call " + std::to_string(id);
  const size_t version = name.rfind("_v");
  const bool digits = version != std::string::npos && version + 2 < name.size() &&
                      name.find_first_not_of("0123456789", version + 2) == std::string::npos;
  if (digits) name.resize(version);
  return name;
}

const std::string& Decoder::kernel_name(const char* mangled) {
  if (!mangled || !*mangled) mangled = "kernel";
  std::string& name = kernel_names_[mangled];
  if (!name.empty()) return name;
  int status = 0;
  char* readable = strncmp(mangled, "_Z", 2) == 0
                       ? abi::__cxa_demangle(mangled, nullptr, nullptr, &status)
                       : nullptr;
  name = readable ? readable : mangled;
  free(readable);
  return name;
}

}  // namespace cutaway::cupti
