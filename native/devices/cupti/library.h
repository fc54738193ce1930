// libcupti, opened at run time: nothing here needs CUDA to be installed where Cutaway runs.
#pragma once
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>

#include <string>

namespace cutaway::cupti {

#define CUTAWAY_CUPTI_FUNCTIONS(X)          \
  X(cuptiGetVersion)                        \
  X(cuptiGetResultString)                   \
  X(cuptiSubscribe)                         \
  X(cuptiUnsubscribe)                       \
  X(cuptiGetCallbackName)                   \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityPopExternalCorrelationId)
// Newer than the oldest libcupti we work with; null where missing.
#define CUTAWAY_CUPTI_OPTIONAL(X) \
  X(cuptiSetThreadIdType)         \
  X(cuptiActivityFlushPeriod)     \
  X(cuptiActivityRegisterTimestampCallback)

struct Library {
#define CUTAWAY_DECLARE(function) decltype(&::function) function = nullptr;
  CUTAWAY_CUPTI_FUNCTIONS(CUTAWAY_DECLARE)
  CUTAWAY_CUPTI_OPTIONAL(CUTAWAY_DECLARE)
#undef CUTAWAY_DECLARE
  std::string path;

  // What CUPTI calls an error; never fails, whatever CUPTI does.
  std::string error_name(CUptiResult result) const;
};

// The libcupti that the process has loaded already, else `asked` (may be null), else the usual
// places.
bool load(const char* asked, Library* library, std::string* why);

// One sentence with a remedy.
std::string explain(const Library& library, CUptiResult result);

}  // namespace cutaway::cupti
