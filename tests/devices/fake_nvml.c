// A libnvidia-ml.so.1 for tests: one GPU whose energy counter goes up with time, for NVIDIA's own
// Python binding. Types as NVIDIA documents them. FAKE_NVML_INIT=n: nvmlInitWithFlags answers n;
// FAKE_NVML_LOST=1: the GPU is lost after a few readings; FAKE_NVML_REFUSES=1: no permission for
// power and processes. -DOLD leaves out the energy counter.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, NO_PERMISSION = 4, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
enum { MILLIWATTS = 250000, READINGS_BEFORE_LOSS = 12 };

typedef struct {
  unsigned int gpu, memory;
} Utilization;
typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
} Process;

static int setting(const char* name) {
  const char* value = getenv(name);
  return value ? atoi(value) : 0;
}
static int lost(void) {
  static int readings;
  return setting("FAKE_NVML_LOST") && ++readings > READINGS_BEFORE_LOSS ? GPU_IS_LOST : SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  return setting("FAKE_NVML_INIT");
}
int nvmlShutdown(void) { return SUCCESS; }
const char* nvmlErrorString(int error) {
  return error == GPU_IS_LOST     ? "GPU is lost"
         : error == NO_PERMISSION ? "Insufficient Permissions"
                                  : "Error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  snprintf(text, size, "570.86.15");
  return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  static char gpu;
  *device = &gpu;
  return index == 0 ? SUCCESS : 2;
}
int nvmlDeviceGetName(void* device, char* name, unsigned int size) {
  (void)device;
  snprintf(name, size, "Fake GPU");
  return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* rates) {
  (void)device;
  rates->gpu = 40, rates->memory = 5;
  return lost();
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  (void)device;
  memory->total = 16ull << 30, memory->used = 3ull << 30, memory->free = 13ull << 30;
  return lost();
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned int* megahertz) {
  (void)device;
  *megahertz = type == 1 ? 1410 : 0;
  return lost();
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
  (void)device;
  *milliwatts = MILLIWATTS;
  return setting("FAKE_NVML_REFUSES") ? NO_PERMISSION : lost();
}
#ifndef OLD
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  (void)device;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  *millijoules = (unsigned long long)t.tv_sec * MILLIWATTS +
                 (unsigned long long)t.tv_nsec / 1000000 * MILLIWATTS / 1000;
  return lost();
}
#endif
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count, Process* processes) {
  (void)device;
  if (setting("FAKE_NVML_REFUSES")) return NO_PERMISSION;
  if (*count < 2) {
    *count = 2;
    return INSUFFICIENT_SIZE;
  }
  memset(processes, 0, 2 * sizeof *processes);
  processes[0].pid = (unsigned int)getpid(), processes[0].used = 123 << 20;
  processes[1].pid = 1, processes[1].used = 7 << 20;  // somebody else's
  *count = 2;
  return lost();
}
