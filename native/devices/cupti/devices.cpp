#include "devices/cupti/devices.h"

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <string>

#include "devices/sink.h"
#include "devices/text.h"

namespace cutaway::cupti {
namespace {

struct Driver {
  decltype(&::cuDeviceGetCount) count;
  decltype(&::cuDeviceGet) get;
  decltype(&::cuDeviceGetName) name;
  decltype(&::cuDeviceGetAttribute) attribute;
};

bool find(Driver* driver) {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return false;
  driver->count = reinterpret_cast<decltype(driver->count)>(dlsym(library, "cuDeviceGetCount"));
  driver->get = reinterpret_cast<decltype(driver->get)>(dlsym(library, "cuDeviceGet"));
  driver->name = reinterpret_cast<decltype(driver->name)>(dlsym(library, "cuDeviceGetName"));
  driver->attribute =
      reinterpret_cast<decltype(driver->attribute)>(dlsym(library, "cuDeviceGetAttribute"));
  return driver->count && driver->get && driver->name && driver->attribute;
}

constexpr struct {
  const char* key;
  CUdevice_attribute attribute;
} kAttributes[] = {
    {"major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {"minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {"sms", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"threads_per_sm", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {"registers_per_sm", CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {"shared_per_sm", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
};

void describe(const Driver& driver, int index) {
  CUdevice device;
  char name[256] = "";
  if (driver.get(&device, index) != CUDA_SUCCESS) return;
  driver.name(name, sizeof name - 1, device);
  std::string json = R"({"k":"device","id":)" + std::to_string(index) + R"(,"name":)" +
                     json_text(name) + R"(,"runtime":"cuda")";
  for (const auto& [key, attribute] : kAttributes) {
    int value = 0;
    if (driver.attribute(&value, attribute, device) != CUDA_SUCCESS) continue;
    json += std::string(",\"") + key + "\":" + std::to_string(value);
  }
  Sink::get().log(json + "}");
}

}  // namespace

void describe_devices() {
  static std::atomic<bool> done{false};
  Driver driver;
  int count = 0;
  if (done || !find(&driver) || driver.count(&count) != CUDA_SUCCESS || done.exchange(true)) return;
  for (int i = 0; i < count; ++i) describe(driver, i);
}

}  // namespace cutaway::cupti
