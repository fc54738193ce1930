// PM sampling: a GPU that notes a sample at every interval since its start. Checks what a client
// hands over as the headers demand it. Settings:
//   FAKE_CUPTI_COUNTERS=n   cuptiPmSamplingEnable answers n
//   FAKE_CUPTI_PASSES=text  metrics whose name contains this need a second pass
//   FAKE_CUPTI_UNKNOWN=text metrics whose name contains this are unknown
//   FAKE_CUPTI_NO_TIME=1    no trigger by time, like Turing
//   FAKE_CUPTI_FULL=1       the GPU's buffer overflows at the first decoding
//   FAKE_CUPTI_NAN=1        every other value is not a number
// In C++, because one of the headers is.
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern "C" {
#include "double.h"
}

enum { METRICS = 16, CONFIG = 64, AVAILABILITY = 32 };

struct CUpti_Profiler_Host_Object {
  int count, passes;
};
struct CUpti_PmSampling_Object {
  int enabled, started, configured, full;
  uint64_t interval, next;
};
typedef struct {
  uint32_t most, count;
  uint64_t end[];
} Image;

static int initialised;
static struct CUpti_PmSampling_Object sampling;

#define CHECK(params, type)                                          \
  if ((params)->structSize != type##_STRUCT_SIZE || (params)->pPriv) \
  return CUPTI_ERROR_INVALID_PARAMETER

static int named(const char* setting, const char* metric) {
  const char* part = getenv(setting);
  return part && strstr(metric, part) != NULL;
}

CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params* p) {
  CHECK(p, CUpti_Profiler_Initialize_Params);
  initialised = 1;
  told("counters begin");
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerDeInitialize(CUpti_Profiler_DeInitialize_Params* p) {
  CHECK(p, CUpti_Profiler_DeInitialize_Params);
  initialised = 0;
  told("counters end");
  return CUPTI_SUCCESS;
}
CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* p) {
  CHECK(p, CUpti_Device_GetChipName_Params);
  if (!initialised) return CUPTI_ERROR_NOT_INITIALIZED;
  p->pChipName = "GA100";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingGetCounterAvailability(
    CUpti_PmSampling_GetCounterAvailability_Params* p) {
  CHECK(p, CUpti_PmSampling_GetCounterAvailability_Params);
  if (p->pCounterAvailabilityImage) memset(p->pCounterAvailabilityImage, 7, AVAILABILITY);
  p->counterAvailabilityImageSize = AVAILABILITY;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* p) {
  CHECK(p, CUpti_Profiler_Host_Initialize_Params);
  const uint8_t* image = p->pCounterAvailabilityImage;
  if (p->profilerType != CUPTI_PROFILER_TYPE_PM_SAMPLING || !image || image[0] != 7)
    return CUPTI_ERROR_INVALID_PARAMETER;
  p->pHostObject = static_cast<CUpti_Profiler_Host_Object*>(calloc(1, sizeof *p->pHostObject));
  p->pHostObject->passes = 1;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params* p) {
  CHECK(p, CUpti_Profiler_Host_Deinitialize_Params);
  free(p->pHostObject);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* p) {
  CHECK(p, CUpti_Profiler_Host_ConfigAddMetrics_Params);
  for (size_t i = 0; i < p->numMetrics; ++i) {
    if (named("FAKE_CUPTI_UNKNOWN", p->ppMetricNames[i])) return CUPTI_ERROR_INVALID_METRIC_NAME;
    if (named("FAKE_CUPTI_PASSES", p->ppMetricNames[i])) p->pHostObject->passes = 2;
  }
  p->pHostObject->count = (int)p->numMetrics;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* p) {
  CHECK(p, CUpti_Profiler_Host_GetConfigImageSize_Params);
  p->configImageSize = CONFIG;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params* p) {
  CHECK(p, CUpti_Profiler_Host_GetConfigImage_Params);
  if (p->configImageSize != CONFIG) return CUPTI_ERROR_INVALID_PARAMETER;
  p->pConfigImage[0] = (uint8_t)p->pHostObject->passes;
  p->pConfigImage[1] = (uint8_t)p->pHostObject->count;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* p) {
  CHECK(p, CUpti_Profiler_Host_GetNumOfPasses_Params);
  p->numOfPasses = p->pConfigImage[0];
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params* p) {
  CHECK(p, CUpti_PmSampling_Enable_Params);
  int error = setting("FAKE_CUPTI_COUNTERS");
  if (error) return (CUptiResult)error;
  if (sampling.enabled) return CUPTI_ERROR_INVALID_OPERATION;
  memset(&sampling, 0, sizeof sampling);
  sampling.enabled = 1;
  p->pPmSamplingObject = &sampling;
  told("counters enable");
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params* p) {
  CHECK(p, CUpti_PmSampling_Disable_Params);
  p->pPmSamplingObject->enabled = 0;
  told("counters disable");
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params* p) {
  CHECK(p, CUpti_PmSampling_SetConfig_Params);
  int by_time = p->triggerMode == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  if (by_time && setting("FAKE_CUPTI_NO_TIME")) return CUPTI_ERROR_NOT_SUPPORTED;
  if (p->configSize != CONFIG || p->pConfig[0] != 1) return CUPTI_ERROR_NOT_SUPPORTED;
  if (!p->hardwareBufferSize || !p->samplingInterval) return CUPTI_ERROR_INVALID_PARAMETER;
  told("counters every %llu %s", (unsigned long long)p->samplingInterval,
       by_time ? "ns" : "cycles");
  p->pPmSamplingObject->interval = p->samplingInterval;
  p->pPmSamplingObject->configured = 1;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params* p) {
  CHECK(p, CUpti_PmSampling_GetCounterDataSize_Params);
  if (!p->numMetrics || !p->maxSamples) return CUPTI_ERROR_INVALID_PARAMETER;
  p->counterDataSize = sizeof(Image) + p->maxSamples * sizeof(uint64_t);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingCounterDataImageInitialize(
    CUpti_PmSampling_CounterDataImage_Initialize_Params* p) {
  CHECK(p, CUpti_PmSampling_CounterDataImage_Initialize_Params);
  Image* image = reinterpret_cast<Image*>(p->pCounterData);
  image->most = (uint32_t)((p->counterDataSize - sizeof(Image)) / sizeof(uint64_t));
  image->count = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingStart(CUpti_PmSampling_Start_Params* p) {
  CHECK(p, CUpti_PmSampling_Start_Params);
  struct CUpti_PmSampling_Object* s = p->pPmSamplingObject;
  if (!s->configured || s->started) return CUPTI_ERROR_INVALID_OPERATION;
  s->started = 1;
  s->next = now() + s->interval;
  told("counters start");
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params* p) {
  CHECK(p, CUpti_PmSampling_Stop_Params);
  if (!p->pPmSamplingObject->started) return CUPTI_ERROR_INVALID_OPERATION;
  p->pPmSamplingObject->started = 0;
  told("counters stop");
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params* p) {
  CHECK(p, CUpti_PmSampling_DecodeData_Params);
  struct CUpti_PmSampling_Object* s = p->pPmSamplingObject;
  Image* image = reinterpret_cast<Image*>(p->pCounterDataImage);
  uint64_t until = now();
  while (image->count < image->most && s->next <= until) {
    image->end[image->count++] = s->next;
    s->next += s->interval;
  }
  p->decodeStopReason = s->next <= until ? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
                                         : CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
  p->overflow = 0;
  if (!setting("FAKE_CUPTI_FULL") || s->full++) return CUPTI_SUCCESS;
  p->overflow = 1;
  return CUPTI_ERROR_OUT_OF_MEMORY;
}
CUptiResult cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params* p) {
  CHECK(p, CUpti_PmSampling_GetCounterDataInfo_Params);
  const Image* image = reinterpret_cast<const Image*>(p->pCounterDataImage);
  p->numTotalSamples = image->most;
  p->numPopulatedSamples = p->numCompletedSamples = image->count;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingCounterDataGetSampleInfo(
    CUpti_PmSampling_CounterData_GetSampleInfo_Params* p) {
  CHECK(p, CUpti_PmSampling_CounterData_GetSampleInfo_Params);
  const Image* image = reinterpret_cast<const Image*>(p->pCounterDataImage);
  if (p->sampleIndex >= image->count) return CUPTI_ERROR_INVALID_PARAMETER;
  p->endTimestamp = image->end[p->sampleIndex];
  p->startTimestamp = p->endTimestamp - sampling.interval;
  return CUPTI_SUCCESS;
}
// The n-th metric has 10 n percent.
CUptiResult cuptiProfilerHostEvaluateToGpuValues(
    CUpti_Profiler_Host_EvaluateToGpuValues_Params* p) {
  CHECK(p, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
  if ((int)p->numMetrics != p->pHostObject->count) return CUPTI_ERROR_INVALID_PARAMETER;
  int wrong = setting("FAKE_CUPTI_NAN") && p->rangeIndex % 2;
  for (size_t i = 0; i < p->numMetrics; ++i)
    p->pMetricValues[i] = wrong ? NAN : 10.0 * (double)(i + 1);
  return CUPTI_SUCCESS;
}
