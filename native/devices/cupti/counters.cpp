// Samples the hardware counters of all GPUs that this process sees, on a thread of its own, and
// writes them as log entries "counter_samples". Started on request, when CUDA is in use already: it
// must not be started here.
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "devices/cupti/sampler.h"
#include "devices/host.h"
#include "devices/sink.h"
#include "devices/text.h"

namespace cutaway::cupti {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);
constexpr int kMostRounds = 1000;      // of one visit: a library gone wrong must not hold us
constexpr size_t kMostText = 200'000;  // of one log entry
constexpr int64_t kHour = 3'600'000'000'000;
constexpr int kNoLibrary = -2, kNoDevice = -4;

struct Counters {
  std::mutex control;  // held by start and stop
  std::mutex waiting;
  std::condition_variable wake;
  bool stopping = false;  // under `waiting`
  CounterLibrary library;
  std::vector<std::unique_ptr<Sampler>> samplers;
  std::thread thread;
  uint64_t overflowed = 0;
  bool registered = false;
};

// Never destroyed: its thread may run while the process exits.
Counters& counters() {
  static Counters* c = new Counters;
  return *c;
}

// CUPTI writes times of the clock that the activity collector has set (CLOCK_MONOTONIC), or of
// CLOCK_REALTIME where nobody has; 0 if it is neither.
uint64_t to_monotonic(uint64_t time) {
  const auto t = static_cast<int64_t>(time);
  const auto mono = static_cast<int64_t>(now_ns(CLOCK_MONOTONIC));
  const auto real = static_cast<int64_t>(now_ns(CLOCK_REALTIME));
  if (std::abs(t - mono) < kHour) return time;
  if (std::abs(t - real) < kHour) return static_cast<uint64_t>(t - (real - mono));
  return 0;
}

std::string begin_entry(const Sampler& sampler) {
  std::string text = R"({"k":"counter_samples","metrics":[)";
  for (const char* metric : sampler.metrics()) {
    if (text.back() != '[') text += ',';
    text += json_text(metric);
  }
  return text + R"(],"rows":[)";
}

void write(const std::string& rows, const Sampler& sampler) {
  if (!rows.empty()) Sink::get().log(begin_entry(sampler) + rows + "]}");
}

void append_row(std::string* rows, uint64_t t, size_t device, const std::vector<double>& values) {
  char number[40];
  if (!rows->empty()) *rows += ',';
  snprintf(number, sizeof number, "[%llu,%zu", static_cast<unsigned long long>(t), device);
  *rows += number;
  for (const double value : values) {
    snprintf(number, sizeof number, ",%.6g", value);
    *rows += number;
  }
  *rows += ']';
}

bool are_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// Everything that the GPU has noted since the last visit.
void visit(Sampler& sampler, uint64_t* overflowed) {
  std::string rows;
  uint64_t misplaced = 0;
  const OnSample on_sample = [&](uint64_t end, const std::vector<double>& values) {
    const uint64_t t = are_finite(values) ? to_monotonic(end) : 0;
    misplaced += t == 0;
    if (t && !host().outside_since()) append_row(&rows, t, sampler.device(), values);
    if (rows.size() < kMostText) return;
    write(rows, sampler);
    rows.clear();
  };
  for (int round = 0; round < kMostRounds && sampler.take(on_sample, overflowed); ++round) {
  }
  write(rows, sampler);
  if (misplaced)
    Sink::get().lose("samples of hardware counters without a usable time or value", misplaced);
}

void run() {
  Counters& c = counters();
  std::unique_lock<std::mutex> lock(c.waiting);
  while (!c.wake.wait_for(lock, kPause, [&c] { return c.stopping; })) {
    for (auto& sampler : c.samplers) visit(*sampler, &c.overflowed);
  }
}

// The number of GPUs, if the program has started CUDA.
int devices() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return 0;
  const auto count =
      reinterpret_cast<decltype(&::cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"));
  int found = 0;
  return count && count(&found) == CUDA_SUCCESS ? found : 0;
}

void end_library(Counters& c) {
  CUpti_Profiler_DeInitialize_Params end{};
  end.structSize = CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE;
  c.library.cuptiProfilerDeInitialize(&end);
}

// The thread does not survive a fork, nor does CUDA.
void in_child() {
  Counters& c = counters();
  if (!c.thread.joinable()) return;
  new (&c.thread) std::thread;
  for (auto& sampler : c.samplers) static_cast<void>(sampler.release());
  c.samplers.clear();
}

bool open_all(Counters& c, int count, uint64_t interval_ns, std::string* why) {
  for (int device = 0; device < count; ++device) {
    auto sampler = std::make_unique<Sampler>(c.library, static_cast<size_t>(device));
    if (sampler->open(interval_ns, why)) c.samplers.push_back(std::move(sampler));
  }
  return !c.samplers.empty();
}

int start(const char* path, uint64_t interval_ns, std::string* why) {
  Counters& c = counters();
  const std::lock_guard<std::mutex> lock(c.control);
  if (c.thread.joinable()) return 0;
  const int count = devices();
  if (!count) {
    *why = "the program has not started CUDA";
    return kNoDevice;
  }
  if (!load_counters(path, &c.library, why)) return kNoLibrary;
  CUpti_Profiler_Initialize_Params begin{};
  begin.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
  const CUptiResult result = c.library.cuptiProfilerInitialize(&begin);
  if (result != CUPTI_SUCCESS) {
    *why = explain_counters(c.library.cupti, result);
    return static_cast<int>(result);
  }
  c.overflowed = 0;
  if (!open_all(c, count, interval_ns, why)) {
    end_library(c);
    return kNoDevice + 1;
  }
  c.stopping = false;
  c.thread = std::thread(run);
  if (!c.registered) pthread_atfork(nullptr, nullptr, in_child);
  c.registered = true;
  return 0;
}

void stop() {
  Counters& c = counters();
  const std::lock_guard<std::mutex> lock(c.control);
  if (!c.thread.joinable()) return;
  {
    const std::lock_guard<std::mutex> waiting(c.waiting);
    c.stopping = true;
  }
  c.wake.notify_one();
  c.thread.join();
  for (auto& sampler : c.samplers) {
    sampler->stop();
    visit(*sampler, &c.overflowed);
  }
  c.samplers.clear();
  end_library(c);
  if (c.overflowed)
    Sink::get().lose("times that a GPU's buffer of counters was full", c.overflowed);
  Sink::get().flush();
}

}  // namespace
}  // namespace cutaway::cupti

// 0 when it samples; an error, then `message` says why.
CUTAWAY_ABI int cutaway_counters_start(const char* path, uint64_t interval_ns, char* message,
                                       size_t size) {
  std::string why;
  const int result = cutaway::cupti::start(path, interval_ns, &why);
  if (message && size) snprintf(message, size, "%s", why.c_str());
  return result;
}

CUTAWAY_ABI void cutaway_counters_stop() { cutaway::cupti::stop(); }
