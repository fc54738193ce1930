#include "devices/cupti/library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

namespace cutaway::cupti {
namespace {

int take_loaded(dl_phdr_info* info, size_t, void* path) {
  const char* slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : nullptr;
  if (!slash || strncmp(slash, "/libcupti.so", 12) != 0) return 0;
  *static_cast<std::string*>(path) = info->dlpi_name;
  return 1;
}

// A second libcupti beside the one of PyTorch would be a second client: take the one that is there.
void* open_loaded(std::string* path) {
  dl_iterate_phdr(take_loaded, path);
  return path->empty() ? nullptr : dlopen(path->c_str(), RTLD_LAZY | RTLD_NOLOAD);
}

void* open_usual(std::string* path) {
  static const char* const kPlaces[] = {
      "libcupti.so.13",
      "libcupti.so.12",
      "/usr/local/cuda/lib64/libcupti.so",
      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
      "/usr/local/cuda/lib/libcupti.so",
  };
  for (const char* place : kPlaces) {
    if (void* handle = dlopen(place, RTLD_LAZY | RTLD_LOCAL)) {
      *path = place;
      return handle;
    }
  }
  return nullptr;
}

void* open_any(const char* asked, std::string* path, std::string* why) {
  if (void* handle = open_loaded(path)) return handle;
  if (!asked || !*asked) asked = getenv("CUTAWAY_CUPTI");
  if (asked && *asked) {
    *path = asked;
    void* handle = dlopen(asked, RTLD_LAZY | RTLD_LOCAL);
    if (!handle)
      *why = std::string("libcupti cannot be loaded (") + dlerror() + "); check CUTAWAY_CUPTI";
    return handle;
  }
  void* handle = open_usual(path);
  if (!handle)
    *why = "no libcupti was found; install the CUDA toolkit or `pip install nvidia-cuda-cupti`";
  return handle;
}

}  // namespace

bool load(const char* asked, Library* library, std::string* why) {
  void* handle = open_any(asked, &library->path, why);
  if (!handle) return false;
#define CUTAWAY_FIND(function) \
  library->function = reinterpret_cast<decltype(&::function)>(dlsym(handle, #function));
  CUTAWAY_CUPTI_FUNCTIONS(CUTAWAY_FIND)
  CUTAWAY_CUPTI_OPTIONAL(CUTAWAY_FIND)
#undef CUTAWAY_FIND
#define CUTAWAY_CHECK(function)                                                              \
  if (!library->function) {                                                                  \
    *why = library->path + " has no " #function " and is too old; install CUDA 12 or later"; \
    return false;                                                                            \
  }
  CUTAWAY_CUPTI_FUNCTIONS(CUTAWAY_CHECK)
#undef CUTAWAY_CHECK
  return true;
}

std::string Library::error_name(CUptiResult result) const {
  const char* text = nullptr;  // 13.4 without a driver leaves it untouched
  if (cuptiGetResultString) cuptiGetResultString(result, &text);
  return text && *text ? text : "error " + std::to_string(static_cast<int>(result));
}

std::string explain(const Library& library, CUptiResult result) {
  const std::string code = " (CUPTI error " + std::to_string(static_cast<int>(result)) + ")";
  switch (static_cast<int>(result)) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another profiler is using CUPTI in this process" + code +
             "; its data is used through torch.profiler";
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_UNKNOWN:
      return "no NVIDIA driver answers here" + code +
             "; run on a machine with a GPU and its driver, or use --device none";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "the NVIDIA driver allows profiling to administrators only" + code +
             "; have NVreg_RestrictProfilingToAdminUsers=0 set";
    default:
      return "CUPTI refused to start: " + library.error_name(result) + code +
             "; check that the driver is as new as " + library.path;
  }
}

}  // namespace cutaway::cupti
