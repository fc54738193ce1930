// One device for a CUDA build of PyTorch on a machine without any: the few
// calls of the runtime that decide whether Kineto looks at CUDA at all.
// Everything else goes to the real libcudart. Preloaded by check_kineto.py.
#include <string.h>

int cudaGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}
int cudaGetDevice(int* device) {
  *device = 0;
  return 0;
}
