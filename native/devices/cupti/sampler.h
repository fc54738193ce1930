// Hardware counters of one GPU over time, through CUPTI's PM sampling: the GPU notes them at a
// fixed interval in a buffer of its own, from which they are taken now and then. One object belongs
// to one thread at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "devices/cupti/counters_library.h"

namespace cutaway::cupti {

// A moment: when it ended (on CUPTI's clock), and a value for each metric.
using OnSample = std::function<void(uint64_t end, const std::vector<double>& values)>;

class Sampler {
 public:
  Sampler(const CounterLibrary& library, size_t device) : cupti_(library), device_(device) {}
  ~Sampler() { close(); }
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Chooses the metrics that this GPU can count at once, and begins. False, and a sentence, if not.
  bool open(uint64_t interval_ns, std::string* why);

  // What has come since the last time; false when no more is there. `overflowed` counts how often
  // the GPU's buffer was full.
  bool take(const OnSample& on_sample, uint64_t* overflowed);

  // The GPU stops counting; what is in its buffer can still be taken.
  void stop();
  void close();

  const std::vector<const char*>& metrics() const { return metrics_; }
  size_t device() const { return device_; }

 private:
  bool fail(CUptiResult result, std::string* why);
  CUptiResult read_availability();
  bool choose_metrics(std::string* why);
  bool fits(const std::vector<const char*>& metrics, CUptiResult* result);
  CUptiResult make_host(const std::vector<const char*>& metrics);
  CUptiResult make_config();
  void drop_host();
  CUptiResult configure(uint64_t interval_ns, CUpti_PmSampling_TriggerMode trigger);
  CUptiResult make_image();
  CUptiResult clear_image();
  bool evaluate(size_t sample, std::vector<double>* values, uint64_t* end);

  const CounterLibrary& cupti_;
  const size_t device_;
  const char* chip_ = nullptr;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  CUpti_PmSampling_Object* sampling_ = nullptr;
  bool running_ = false;
  bool first_ = true;  // NVIDIA says that the first sample may be far off
  std::vector<uint8_t> availability_;
  std::vector<uint8_t> config_;
  std::vector<uint8_t> image_;
  std::vector<const char*> metrics_;
};

}  // namespace cutaway::cupti
