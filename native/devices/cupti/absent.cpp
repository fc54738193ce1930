// Compiled where the CUPTI headers were missing.
#include <cstdio>

#include "recorder/abi.h"

CUTAWAY_ABI int cutaway_cupti_start(const char*, int, char* message, size_t size) {
  snprintf(message, size,
           "this Cutaway was built without cupti.h; install a CUDA toolkit and build it again");
  return -3;
}
CUTAWAY_ABI int cutaway_cupti_probe(const char*, char* message, size_t size) {
  return cutaway_cupti_start(nullptr, 0, message, size);
}
CUTAWAY_ABI int cutaway_cupti_state() { return -3; }
CUTAWAY_ABI void cutaway_cupti_flush() {}
CUTAWAY_ABI void cutaway_cupti_stop() {}
CUTAWAY_ABI int InitializeInjection() { return 1; }
