// Compiled where the OpenCL layer headers were missing.
#include "recorder/abi.h"

CUTAWAY_ABI int cutaway_opencl_built() { return 0; }
