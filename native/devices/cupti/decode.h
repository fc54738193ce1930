// From CUPTI's buffers to our records. Reads only fields that have kept their place from CUDA 12.0
// to 13.x.
#pragma once
#include <string>
#include <unordered_map>

#include "devices/cupti/library.h"
#include "trace/format.h"

namespace cutaway::cupti {

class Decoder {
 public:
  explicit Decoder(const Library& library, Clock clock) : library_(library), clock_(clock) {}

  // One finished buffer. Called from one thread at a time.
  void decode(uint8_t* buffer, size_t size);

 private:
  template <typename Visit>
  void each(uint8_t* buffer, size_t size, Visit visit);
  void learn(const CUpti_Activity* record);
  void write(const CUpti_Activity* record);
  void write_api(const CUpti_ActivityAPI& call, CUpti_CallbackDomain domain);
  void write_kernel(const CUpti_ActivityKernel9& kernel);
  template <typename Copy>
  void write_copy(const Copy& copy, const char* name, uint8_t detail);
  // What every piece of device work has; and what those have that ran on a device.
  template <typename Activity>
  DeviceRecord piece_of(const Activity& activity, DeviceKind kind, const std::string& name);
  template <typename Activity>
  DeviceRecord work_of(const Activity& activity, DeviceKind kind, const std::string& name);
  void write_set(const CUpti_ActivityMemset4& set);
  void write_graph(const CUpti_ActivityGraphTrace& graph);
  void write_sync(const CUpti_ActivitySynchronization& sync);
  void write_overhead(const CUpti_ActivityOverhead& overhead);

  uint32_t operation_of(uint32_t correlation) const;
  std::string api_name(CUpti_CallbackDomain domain, CUpti_CallbackId id);
  const std::string& kernel_name(const char* mangled);

  const Library& library_;
  Clock clock_;
  // Operation by correlation id; the older half is dropped when the newer is full.
  std::unordered_map<uint32_t, uint32_t> operations_, older_;
  std::unordered_map<uint64_t, std::string> api_names_;
  std::unordered_map<std::string, std::string> kernel_names_;
};

}  // namespace cutaway::cupti
