// The functions of libcupti that sample hardware counters (PM sampling: CUDA 12.6 and later),
// opened at run time like the rest. Every one takes a struct that begins with its own size.
#pragma once
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

#include "devices/cupti/library.h"

namespace cutaway::cupti {

#define CUTAWAY_COUNTER_FUNCTIONS(X)           \
  X(cuptiProfilerInitialize)                   \
  X(cuptiProfilerDeInitialize)                 \
  X(cuptiDeviceGetChipName)                    \
  X(cuptiProfilerHostInitialize)               \
  X(cuptiProfilerHostDeinitialize)             \
  X(cuptiProfilerHostConfigAddMetrics)         \
  X(cuptiProfilerHostGetConfigImageSize)       \
  X(cuptiProfilerHostGetConfigImage)           \
  X(cuptiProfilerHostGetNumOfPasses)           \
  X(cuptiProfilerHostEvaluateToGpuValues)      \
  X(cuptiPmSamplingGetCounterAvailability)     \
  X(cuptiPmSamplingEnable)                     \
  X(cuptiPmSamplingDisable)                    \
  X(cuptiPmSamplingSetConfig)                  \
  X(cuptiPmSamplingStart)                      \
  X(cuptiPmSamplingStop)                       \
  X(cuptiPmSamplingDecodeData)                 \
  X(cuptiPmSamplingGetCounterDataSize)         \
  X(cuptiPmSamplingCounterDataImageInitialize) \
  X(cuptiPmSamplingGetCounterDataInfo)         \
  X(cuptiPmSamplingCounterDataGetSampleInfo)

struct CounterLibrary {
#define CUTAWAY_DECLARE(function) decltype(&::function) function = nullptr;
  CUTAWAY_COUNTER_FUNCTIONS(CUTAWAY_DECLARE)
#undef CUTAWAY_DECLARE
  Library cupti;
};

// False, and one sentence, where a function is missing.
bool load_counters(const char* asked, CounterLibrary* library, std::string* why);

// One sentence with a remedy about what a function of the above answered.
std::string explain_counters(const Library& library, CUptiResult result);

}  // namespace cutaway::cupti
