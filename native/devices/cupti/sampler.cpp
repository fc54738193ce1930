#include "devices/cupti/sampler.h"

#include <algorithm>

namespace cutaway::cupti {
namespace {

constexpr size_t kHardwareBuffer = 64 << 20;
constexpr uint32_t kSamples = 1024;  // taken at once

// What is asked for, in the order of its worth; of each row the first that the GPU knows and can
// count together with the others. The formulas are in src/cutaway/analysis/hardware.py.
const std::vector<std::vector<const char*>> kWanted = {
    {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed"},
    {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
     "dram__throughput.avg.pct_of_peak_sustained_elapsed"},
    {"sm__throughput.avg.pct_of_peak_sustained_elapsed"},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
     "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"},
    {"sm__warps_active.avg.pct_of_peak_sustained_active"},
    {"lts__t_sector_hit_rate.pct"},
};

// A parameter of CUPTI: all zero but its size.
template <typename Params>
Params sized(size_t size) {
  Params params{};
  params.structSize = size;
  return params;
}

}  // namespace

#define CUTAWAY_PARAMS(type, name) auto name = sized<type>(type##_STRUCT_SIZE)
#define CUTAWAY_TRY(call)                     \
  do {                                        \
    const CUptiResult tried = (call);         \
    if (tried != CUPTI_SUCCESS) return tried; \
  } while (0)

bool Sampler::fail(CUptiResult result, std::string* why) {
  *why = explain_counters(cupti_.cupti, result);
  close();
  return false;
}

bool Sampler::open(uint64_t interval_ns, std::string* why) {
  CUTAWAY_PARAMS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = device_;
  CUptiResult result = cupti_.cuptiDeviceGetChipName(&chip);
  if (result != CUPTI_SUCCESS) return fail(result, why);
  chip_ = chip.pChipName;
  result = read_availability();
  if (result != CUPTI_SUCCESS) return fail(result, why);
  if (!choose_metrics(why)) return false;

  CUTAWAY_PARAMS(CUpti_PmSampling_Enable_Params, enable);
  enable.deviceIndex = device_;
  result = cupti_.cuptiPmSamplingEnable(&enable);
  if (result != CUPTI_SUCCESS) return fail(result, why);
  sampling_ = enable.pPmSamplingObject;

  // Turing and GA100 count cycles of their own clock instead of nanoseconds.
  result = configure(interval_ns, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
  if (result != CUPTI_SUCCESS)
    result = configure(interval_ns, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL);
  if (result == CUPTI_SUCCESS) result = make_image();
  if (result != CUPTI_SUCCESS) return fail(result, why);

  CUTAWAY_PARAMS(CUpti_PmSampling_Start_Params, start);
  start.pPmSamplingObject = sampling_;
  result = cupti_.cuptiPmSamplingStart(&start);
  if (result != CUPTI_SUCCESS) return fail(result, why);
  running_ = true;
  return true;
}

// Which raw counters this GPU has; chips that are newer than the library need it.
CUptiResult Sampler::read_availability() {
  CUTAWAY_PARAMS(CUpti_PmSampling_GetCounterAvailability_Params, asked);
  asked.deviceIndex = device_;
  CUTAWAY_TRY(cupti_.cuptiPmSamplingGetCounterAvailability(&asked));
  availability_.resize(asked.counterAvailabilityImageSize);
  asked.pCounterAvailabilityImage = availability_.data();
  return cupti_.cuptiPmSamplingGetCounterAvailability(&asked);
}

bool Sampler::choose_metrics(std::string* why) {
  CUptiResult result = CUPTI_SUCCESS;
  for (const auto& alternatives : kWanted) {
    for (const char* metric : alternatives) {
      std::vector<const char*> more = metrics_;
      more.push_back(metric);
      if (!fits(more, &result)) continue;
      metrics_ = more;
      break;
    }
  }
  if (!metrics_.empty()) {
    result = make_host(metrics_);
    if (result == CUPTI_SUCCESS) result = make_config();
    return result == CUPTI_SUCCESS || fail(result, why);
  }
  *why = "none of the counters Cutaway asks for can be sampled on this GPU (" +
         std::string(chip_ ? chip_ : "unknown") + "); leave out --counters";
  close();
  return false;
}

// Whether the GPU can count all of these in one pass: it cannot run the program again.
bool Sampler::fits(const std::vector<const char*>& metrics, CUptiResult* result) {
  *result = make_host(metrics);
  if (*result == CUPTI_SUCCESS) *result = make_config();
  CUTAWAY_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, passes);
  passes.configImageSize = config_.size();
  passes.pConfigImage = config_.data();
  if (*result == CUPTI_SUCCESS) *result = cupti_.cuptiProfilerHostGetNumOfPasses(&passes);
  drop_host();
  return *result == CUPTI_SUCCESS && passes.numOfPasses == 1;
}

CUptiResult Sampler::make_host(const std::vector<const char*>& metrics) {
  drop_host();
  CUTAWAY_PARAMS(CUpti_Profiler_Host_Initialize_Params, made);
  made.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
  made.pChipName = chip_;
  made.pCounterAvailabilityImage = availability_.data();
  CUTAWAY_TRY(cupti_.cuptiProfilerHostInitialize(&made));
  host_ = made.pHostObject;
  CUTAWAY_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
  add.pHostObject = host_;
  add.ppMetricNames = const_cast<const char**>(metrics.data());
  add.numMetrics = metrics.size();
  return cupti_.cuptiProfilerHostConfigAddMetrics(&add);
}

CUptiResult Sampler::make_config() {
  CUTAWAY_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = host_;
  CUTAWAY_TRY(cupti_.cuptiProfilerHostGetConfigImageSize(&size));
  config_.assign(size.configImageSize, 0);
  CUTAWAY_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, image);
  image.pHostObject = host_;
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  return cupti_.cuptiProfilerHostGetConfigImage(&image);
}

void Sampler::drop_host() {
  if (!host_) return;
  CUTAWAY_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, dropped);
  dropped.pHostObject = host_;
  cupti_.cuptiProfilerHostDeinitialize(&dropped);
  host_ = nullptr;
}

CUptiResult Sampler::configure(uint64_t interval_ns, CUpti_PmSampling_TriggerMode trigger) {
  CUTAWAY_PARAMS(CUpti_PmSampling_SetConfig_Params, set);
  set.pPmSamplingObject = sampling_;
  set.configSize = config_.size();
  set.pConfig = config_.data();
  set.hardwareBufferSize = kHardwareBuffer;
  set.samplingInterval = interval_ns;
  set.triggerMode = trigger;
  set.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
  return cupti_.cuptiPmSamplingSetConfig(&set);
}

CUptiResult Sampler::make_image() {
  CUTAWAY_PARAMS(CUpti_PmSampling_GetCounterDataSize_Params, size);
  size.pPmSamplingObject = sampling_;
  size.pMetricNames = metrics_.data();
  size.numMetrics = metrics_.size();
  size.maxSamples = kSamples;
  CUTAWAY_TRY(cupti_.cuptiPmSamplingGetCounterDataSize(&size));
  image_.assign(size.counterDataSize, 0);
  return clear_image();
}

CUptiResult Sampler::clear_image() {
  CUTAWAY_PARAMS(CUpti_PmSampling_CounterDataImage_Initialize_Params, clear);
  clear.pPmSamplingObject = sampling_;
  clear.counterDataSize = image_.size();
  clear.pCounterData = image_.data();
  return cupti_.cuptiPmSamplingCounterDataImageInitialize(&clear);
}

bool Sampler::take(const OnSample& on_sample, uint64_t* overflowed) {
  CUTAWAY_PARAMS(CUpti_PmSampling_DecodeData_Params, decode);
  decode.pPmSamplingObject = sampling_;
  decode.pCounterDataImage = image_.data();
  decode.counterDataImageSize = image_.size();
  const CUptiResult result = cupti_.cuptiPmSamplingDecodeData(&decode);
  const bool full = result == CUPTI_ERROR_OUT_OF_MEMORY;
  *overflowed += full || decode.overflow;
  if (result != CUPTI_SUCCESS && !full) return false;
  CUTAWAY_PARAMS(CUpti_PmSampling_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = image_.data();
  info.counterDataImageSize = image_.size();
  if (cupti_.cuptiPmSamplingGetCounterDataInfo(&info) != CUPTI_SUCCESS) return false;
  std::vector<double> values(metrics_.size());
  for (size_t sample = 0; sample < info.numCompletedSamples; ++sample) {
    uint64_t end = 0;
    if (evaluate(sample, &values, &end) && !first_) on_sample(end, values);
    first_ = false;
  }
  const bool cleared = clear_image() == CUPTI_SUCCESS;
  return cleared && info.numCompletedSamples &&
         decode.decodeStopReason != CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
}

bool Sampler::evaluate(size_t sample, std::vector<double>* values, uint64_t* end) {
  CUTAWAY_PARAMS(CUpti_PmSampling_CounterData_GetSampleInfo_Params, info);
  info.pPmSamplingObject = sampling_;
  info.pCounterDataImage = image_.data();
  info.counterDataImageSize = image_.size();
  info.sampleIndex = sample;
  if (cupti_.cuptiPmSamplingCounterDataGetSampleInfo(&info) != CUPTI_SUCCESS) return false;
  *end = info.endTimestamp;
  CUTAWAY_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, evaluate);
  evaluate.pHostObject = host_;
  evaluate.pCounterDataImage = image_.data();
  evaluate.counterDataImageSize = image_.size();
  evaluate.rangeIndex = sample;
  evaluate.ppMetricNames = metrics_.data();
  evaluate.numMetrics = metrics_.size();
  evaluate.pMetricValues = values->data();
  return cupti_.cuptiProfilerHostEvaluateToGpuValues(&evaluate) == CUPTI_SUCCESS;
}

void Sampler::stop() {
  if (!running_) return;
  running_ = false;
  CUTAWAY_PARAMS(CUpti_PmSampling_Stop_Params, stop);
  stop.pPmSamplingObject = sampling_;
  cupti_.cuptiPmSamplingStop(&stop);
}

void Sampler::close() {
  stop();
  if (sampling_) {
    CUTAWAY_PARAMS(CUpti_PmSampling_Disable_Params, disable);
    disable.pPmSamplingObject = sampling_;
    cupti_.cuptiPmSamplingDisable(&disable);
    sampling_ = nullptr;
  }
  drop_host();
}

#undef CUTAWAY_TRY
#undef CUTAWAY_PARAMS

}  // namespace cutaway::cupti
