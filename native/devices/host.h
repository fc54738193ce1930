// The recorder of this process as seen from a library that was loaded by someone else (an OpenCL
// loader, libcuda). With Python it is `cutaway._recorder`, found at run time (recorder/abi.h).
// Without, standalone.cpp stands in: it makes the process folder itself in the run that the
// environment names.
#pragma once
#include <cstddef>
#include <cstdint>

#include "recorder/abi.h"

namespace cutaway {

struct Host {
  const char* (*folder)();
  uint32_t (*operation)();
  uint32_t (*intern)(const char* utf8, size_t size);
  uint64_t (*outside_since)();
  void (*count_bytes)(uint64_t bytes);
  void (*log)(const char* json);
  void (*set_operation_hook)(cutaway_operation_hook hook);
  void (*set_phase_hook)(cutaway_phase_hook hook);
};

// The recorder if it is loaded, else the stand-in; decided at the first call.
const Host& host();

// For a recorder that was loaded after this library: decides again while nothing records.
void choose_host_again();

const Host& standalone_host();

}  // namespace cutaway
