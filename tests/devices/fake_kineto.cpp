// A fake asynchronous device for PyTorch: registered as a child profiler of Kineto, so that its
// kernels appear through the public torch.profiler API of a CPU build. Compiled against PyTorch's
// own headers.
#include <libkineto.h>
#include <output_base.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using libkineto::ActivityType;
using Activity = libkineto::GenericTraceActivity;

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

struct Job {
  std::string name;
  int32_t correlation;
  int64_t microseconds;
};

struct Device {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool busy = false, recording = false, started = false;
  int32_t correlation = 0;
  libkineto::TraceSpan span{0, 0, "fake device"};
  std::vector<std::unique_ptr<Activity>> seen;

  void add(ActivityType type, const std::string& name, int64_t start, int32_t id,
           int32_t resource) {
    if (!recording) return;
    auto activity = std::make_unique<Activity>(span, type, name);
    activity->startTime = start;
    activity->endTime = now();
    activity->id = id;
    activity->resource = resource;
    if (type == ActivityType::CONCURRENT_KERNEL) {
      activity->addMetadataQuoted("kernel", name);
      activity->addMetadata("registers per thread", 40);
    }
    seen.push_back(std::move(activity));
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return !jobs.empty(); });
      const Job job = jobs.front();
      jobs.pop_front();
      busy = true;
      lock.unlock();
      const int64_t start = now();
      usleep(static_cast<useconds_t>(job.microseconds));
      lock.lock();
      add(ActivityType::CONCURRENT_KERNEL, job.name, start, job.correlation, 3);
      busy = false;
      changed.notify_all();
    }
  }
};

Device& device() {
  static Device* d = new Device;
  return *d;
}

class Session : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    const std::lock_guard<std::mutex> lock(device().mutex);
    device().recording = true;
  }
  void stop() override {
    const std::lock_guard<std::mutex> lock(device().mutex);
    device().recording = false;
  }
  std::vector<std::string> errors() override { return {}; }
  void processTrace(libkineto::ActivityLogger& logger) override {
    const std::lock_guard<std::mutex> lock(device().mutex);
    for (const auto& activity : device().seen) activity->log(logger);
    // The trace refers to them until it is read; a test is short.
    static auto* kept = new std::vector<std::unique_ptr<Activity>>;
    for (auto& activity : device().seen) kept->push_back(std::move(activity));
    device().seen.clear();
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::make_unique<libkineto::CpuTraceBuffer>();
  }
};

class Profiler : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return types_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>&, const libkineto::Config&) override {
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>&, const libkineto::Config&) override {
    return std::make_unique<Session>();
  }

 private:
  std::string name_ = "fake device";
  std::set<ActivityType> types_{ActivityType::CONCURRENT_KERNEL, ActivityType::CUDA_RUNTIME};
};

}  // namespace

extern "C" {

void fake_register() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

int32_t fake_launch(const char* name, int64_t microseconds) {
  Device& d = device();
  const std::lock_guard<std::mutex> lock(d.mutex);
  if (!d.started) std::thread([&d] { d.run(); }).detach();
  d.started = true;
  const int64_t start = now();
  const int32_t id = ++d.correlation;
  d.jobs.push_back({name, id, microseconds});
  d.changed.notify_all();
  d.add(ActivityType::CUDA_RUNTIME, "cudaLaunchKernel", start, id,
        static_cast<int32_t>(syscall(SYS_gettid)));
  return id;
}

// Whether a window is open that asks this device.
int fake_recording() {
  const std::lock_guard<std::mutex> lock(device().mutex);
  return device().recording;
}

void fake_synchronize() {
  Device& d = device();
  std::unique_lock<std::mutex> lock(d.mutex);
  const int64_t start = now();
  d.changed.wait(lock, [&d] { return d.jobs.empty() && !d.busy; });
  d.add(ActivityType::CUDA_RUNTIME, "cudaDeviceSynchronize", start, ++d.correlation,
        static_cast<int32_t>(syscall(SYS_gettid)));
}
}
