#include "devices/cupti/counters_library.h"

#include <dlfcn.h>

namespace cutaway::cupti {

bool load_counters(const char* asked, CounterLibrary* library, std::string* why) {
  if (!load(asked, &library->cupti, why)) return false;
  void* handle = dlopen(library->cupti.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
#define CUTAWAY_FIND(function)                                                           \
  library->function = reinterpret_cast<decltype(&::function)>(dlsym(handle, #function)); \
  if (!library->function) {                                                              \
    *why = library->cupti.path + " has no " #function "; install CUDA 12.6 or later";    \
    return false;                                                                        \
  }
  CUTAWAY_COUNTER_FUNCTIONS(CUTAWAY_FIND)
#undef CUTAWAY_FIND
  return true;
}

std::string explain_counters(const Library& library, CUptiResult result) {
  const std::string code = " (CUPTI error " + std::to_string(static_cast<int>(result)) + ")";
  switch (static_cast<int>(result)) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the NVIDIA driver allows counters to administrators only, ERR_NVGPUCTRPERM" + code +
             "; have NVreg_RestrictProfilingToAdminUsers=0 set, or give the program CAP_SYS_ADMIN";
    case CUPTI_ERROR_INVALID_OPERATION:
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another program uses the counters of this GPU" + code +
             "; end it (ncu, nsys, `dcgmi profile --pause`) and start again";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_SUPPORTED:
      return "this kind of GPU (virtual, MIG, WSL, confidential, or older than Turing) has no "
             "counters that can be sampled" +
             code + "; leave out --counters";
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_UNKNOWN:
      return "no NVIDIA driver answers here" + code +
             "; run on a machine with a GPU and its driver, or leave out --counters";
    default:
      return "CUPTI refused: " + library.error_name(result) + code +
             "; check that the driver is as new as " + library.path;
  }
}

}  // namespace cutaway::cupti
