// The CUPTI collector: switches the activity records on, takes the buffers on CUPTI's own thread
// and writes what is in them at once. Python and its lock are not involved.
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "devices/cupti/decode.h"
#include "devices/cupti/devices.h"
#include "devices/cupti/library.h"
#include "devices/host.h"
#include "devices/sink.h"
#include "devices/text.h"
#include "recorder/abi.h"

namespace cutaway::cupti {
namespace {

constexpr size_t kBufferSize = 1 << 20;
constexpr uint32_t kFlushMilliseconds = 100;
constexpr int kNotStarted = -1, kNoLibrary = -2;

// CONCURRENT_KERNEL and not KERNEL, which would make kernels run one after the other.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
    CUPTI_ACTIVITY_KIND_OVERHEAD,
};

// Never destroyed: CUPTI's thread may bring a buffer while the process exits.
struct Collector {
  std::mutex control;  // held by start and stop, never while a buffer is decoded
  std::mutex decoding;
  Library library;
  std::unique_ptr<Decoder> decoder;
  CUpti_SubscriberHandle subscriber = nullptr;
  std::vector<CUpti_ActivityKind> enabled;
  std::atomic<bool> running{false};
  std::atomic<int> state{kNotStarted};
  bool registered = false;
};

Collector& collector() {
  static Collector* c = new Collector;
  return *c;
}

uint64_t CUPTIAPI timestamp() { return now_ns(CLOCK_MONOTONIC); }

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void CUPTIAPI on_buffer_requested(uint8_t** buffer, size_t* size, size_t* records) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferSize));
  *size = *buffer ? kBufferSize : 0;
  *records = 0;
}

void CUPTIAPI on_buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                                  size_t valid) {
  Collector& c = collector();
  {
    const std::lock_guard<std::mutex> lock(c.decoding);
    if (c.decoder && valid) c.decoder->decode(buffer, valid);
  }
  free(buffer);
  size_t dropped = 0;
  const CUptiResult result = c.library.cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
  if (result == CUPTI_SUCCESS) Sink::get().lose("device records dropped by CUPTI", dropped);
}

void on_operation(uint32_t name, int entered) {
  Collector& c = collector();
  if (!c.running.load(std::memory_order_relaxed)) return;
  if (entered) {
    c.library.cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, name);
  } else {
    uint64_t last;
    c.library.cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &last);
  }
}

void flush(bool forced) {
  Collector& c = collector();
  if (!c.running) return;
  c.library.cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  describe_devices();
  Sink::get().flush();
}

// What a phase did is on disk when it is over.
void on_phase(uint32_t) { flush(false); }

void set_hooks(bool wanted) {
  host().set_operation_hook(wanted ? on_operation : nullptr);
  host().set_phase_hook(wanted ? on_phase : nullptr);
}

void note(const std::string& text) {
  Sink::get().log(R"({"k":"note","text":)" + json_text(text) + "}");
}

// What was recorded before a fork is written before it;
// no buffer is being decoded while the process is copied.
void before_fork() {
  flush(false);
  collector().decoding.lock();
}

void after_fork() { collector().decoding.unlock(); }

// CUDA does not survive a fork: the child has neither context nor CUPTI's thread.
void in_child() {
  collector().decoding.unlock();
  if (!collector().running.exchange(false)) return;
  collector().state = kNotStarted;
  set_hooks(false);
}

void register_once() {
  Collector& c = collector();
  if (c.registered) return;
  c.registered = true;
  Sink::get();  // its fork handlers come first, so that ours run before it is locked
  atexit([] { flush(true); });
  pthread_atfork(before_fork, after_fork, in_child);
}

void disable_all(Collector& c) {
  for (const auto kind : c.enabled) c.library.cuptiActivityDisable(kind);
  c.enabled.clear();
}

// Enables what can be enabled. The kinds without which there is nothing to see decide about
// success.
CUptiResult enable_all(Collector& c, bool whole_graphs) {
  std::vector<CUpti_ActivityKind> kinds(std::begin(kKinds), std::end(kKinds));
  if (whole_graphs) kinds.push_back(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  for (const auto kind : kinds) {
    const CUptiResult result = c.library.cuptiActivityEnable(kind);
    if (result == CUPTI_SUCCESS) {
      c.enabled.push_back(kind);
    } else if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
               kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
      disable_all(c);
      return result;
    } else {
      note("CUPTI does not record activity kind " + std::to_string(kind) + ": " +
           c.library.error_name(result));
    }
  }
  return CUPTI_SUCCESS;
}

// Subscribing tells whether another profiler owns CUPTI; the activity records themselves would not.
CUptiResult begin(Collector& c, bool whole_graphs) {
  const Library& cupti = c.library;
  CUptiResult result = cupti.cuptiSubscribe(&c.subscriber, on_callback, nullptr);
  if (result != CUPTI_SUCCESS) return result;
  const bool own_clock = cupti.cuptiActivityRegisterTimestampCallback &&
                         cupti.cuptiActivityRegisterTimestampCallback(timestamp) == CUPTI_SUCCESS;
  if (cupti.cuptiSetThreadIdType) cupti.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  {
    const std::lock_guard<std::mutex> lock(c.decoding);
    c.decoder = std::make_unique<Decoder>(c.library, own_clock ? kMonotonic : kRealtime);
  }
  result = cupti.cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed);
  if (result == CUPTI_SUCCESS) result = enable_all(c, whole_graphs);
  if (result != CUPTI_SUCCESS) {
    cupti.cuptiUnsubscribe(c.subscriber);
    return result;
  }
  if (cupti.cuptiActivityFlushPeriod) cupti.cuptiActivityFlushPeriod(kFlushMilliseconds);
  return CUPTI_SUCCESS;
}

int start(const char* path, bool whole_graphs, std::string* why) {
  Collector& c = collector();
  const std::lock_guard<std::mutex> lock(c.control);
  if (c.running) return 0;
  host().folder();  // without Python, the recorded life of the process begins here
  if (!c.library.cuptiSubscribe && !load(path, &c.library, why)) {
    c.library = Library();
    return c.state = kNoLibrary;
  }
  const CUptiResult result = begin(c, whole_graphs);
  c.state = static_cast<int>(result);
  if (result != CUPTI_SUCCESS) {
    *why = explain(c.library, result);
    return c.state;
  }
  c.running = true;
  register_once();
  set_hooks(true);
  if (const uint32_t open = host().operation()) on_operation(open, 1);
  return 0;
}

void stop() {
  Collector& c = collector();
  const std::lock_guard<std::mutex> lock(c.control);
  if (!c.running) return;
  set_hooks(false);
  disable_all(c);
  flush(true);
  c.running = false;
  c.library.cuptiUnsubscribe(c.subscriber);
  c.state = kNotStarted;
}

}  // namespace
}  // namespace cutaway::cupti

using namespace cutaway::cupti;

// 0 when it records; a CUptiResult, -2 without a library; then `message` says why.
CUTAWAY_ABI int cutaway_cupti_start(const char* path, int whole_graphs, char* message,
                                    size_t size) {
  std::string why;
  const int result = start(path, whole_graphs != 0, &why);
  if (message && size) snprintf(message, size, "%s", why.c_str());
  return result;
}

// For `cutaway doctor`: loads the library, asks for its
// version and leaves. Returns the version, or minus the error.
CUTAWAY_ABI int cutaway_cupti_probe(const char* path, char* message, size_t size) {
  Library library;
  std::string why;
  uint32_t version = 0;
  if (!load(path, &library, &why)) {
    snprintf(message, size, "%s", why.c_str());
    return kNoLibrary;
  }
  const CUptiResult result = library.cuptiGetVersion(&version);
  const std::string said = result == CUPTI_SUCCESS ? library.path : explain(library, result);
  snprintf(message, size, "%s", said.c_str());
  return result == CUPTI_SUCCESS ? static_cast<int>(version) : -static_cast<int>(result);
}

CUTAWAY_ABI int cutaway_cupti_state() { return collector().state; }
CUTAWAY_ABI void cutaway_cupti_stop() { stop(); }

// Called by libcuda when CUDA_INJECTION64_PATH names this library; a failure must not disturb the
// program.
CUTAWAY_ABI int InitializeInjection() {
  std::string why;
  if (start(nullptr, getenv("CUTAWAY_WHOLE_GRAPHS") != nullptr, &why) != 0) note(why);
  return 1;
}
