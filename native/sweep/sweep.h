// One pass over all timelines of a run: the records of every thread, the accelerator API calls and the device
// work, merged in order of time. Between two neighbouring boundaries nothing changes, so each stretch is
// added to one cell. The readable twin is tests/analysis/sweep_twin.py.
#pragma once
#include <memory>
#include <vector>

#include "sweep/events.h"
#include "sweep/tables.h"

namespace cutaway {

// What else the time of a thread is divided by.
enum Slicing : uint8_t {
  kByStart = 0,      // 0 start-up, 1 steady: from the second iteration on
  kByIteration = 1,  // the number of the process's iteration, 0 before the first
  kByBin = 2,        // equal bins of time, from 1 on
};

struct ApiCall {
  uint64_t start, end;
  uint32_t thread;  // index into Sweep::threads
  uint32_t name, operation, flags;
};
static_assert(sizeof(ApiCall) == 32, "the dtype API_CALL in analysis/sweep.py says so too");

struct Work {
  uint64_t start, end;
  uint32_t stream;  // dense in the process
  uint32_t reserved;
};
static_assert(sizeof(Work) == 24, "the dtype WORK in analysis/sweep.py says so too");

// Conditions whose overlap is measured.
enum Of : int { kOfPython, kOfBackend, kOfApi, kOfDevice, kOfExecuting, kOfs };  // of the whole run
enum Had : int { kHadThread, kHadExecuting, kHadDevice, kHads };                 // of a process

struct OpenCall {
  uint32_t call;
  uint8_t layer;
  uint32_t site;
};

struct OpenOp {
  uint32_t name, slice, why;
  uint64_t start, paused;  // `paused`: what the thread had been paused by then
  EventCounts before;      // what it had recorded
};

struct SweepProcess {
  SharedFiles files;
  std::vector<uint32_t> threads;
  std::vector<uint32_t> thread_of;  // index by the id its records know a thread by; kNoCell: none
  std::vector<ApiCall> api;         // ordered by start
  std::vector<uint32_t> api_by_end;
  std::vector<uint32_t> api_operation;  // result: operation in force when each call was made
  std::vector<uint32_t> api_site;       // of each call, known from its start on
  std::vector<Work> work;               // ordered by start
  std::vector<uint32_t> work_by_end;
  std::vector<std::vector<uint32_t>> stream_threads;  // who launched on each stream
  std::vector<uint32_t> stream_busy;
  Overlap<kHads> had;
  uint32_t busy = 0;  // streams
  uint32_t slice = 0, marks = 0, iteration = 0, unmarked = 0;
  bool steady = false;
  uint32_t with_operations = 0, sum_with_operations = 0;  // threads inside an operation; sum of their indices
  uint64_t steps = 0;
};

struct SweepThread {
  uint32_t process = 0, index = 0;
  const ProcessFiles* files = nullptr;
  std::unique_ptr<Events> events;
  const Event* event = nullptr;  // the next one
  bool in_leaf = false;

  bool alive = false, paused = false, active = false, executing = false, carries = false;
  std::vector<OpenCall> calls;
  std::vector<OpenOp> operations;
  uint32_t phase = 0, slice = 0;
  uint32_t open_of[kLayers] = {};
  std::vector<uint32_t> api;  // open API calls, as positions in SweepProcess::api
  uint32_t sync = 0, busy = 0;
  uint32_t context = 0, cell = kNoCell, site = kNoCell;
  uint8_t layer = kPython;
  uint64_t last = 0;

  uint64_t first = 0, end = 0, paused_ns = 0, paused_since = 0, traced_ns = 0;
  uint32_t pause_reason = 0;
  uint64_t cpu_first = 0, cpu_last = 0, unmatched = 0;
  bool seen = false, cpu_seen = false;
  EventCounts made;

  uint8_t layer_of(uint32_t call) const { return files->layer_of(call); }
};

class Sweep {
 public:
  Sweep() = default;
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  uint32_t add_process(SweepProcess&& process);
  uint32_t add_thread(uint32_t process, uint32_t id, std::vector<Source> sources);
  void add_samples(uint32_t process, std::vector<Source> sources);
  void set_device_work(uint32_t process, std::vector<ApiCall> api, std::vector<Work> work,
                       std::vector<std::vector<uint32_t>> stream_threads);
  void slice_by(Slicing slicing, uint64_t origin, uint64_t width, uint32_t count);
  void run();

  std::vector<std::unique_ptr<SweepProcess>> processes;
  std::vector<std::unique_ptr<SweepThread>> threads;
  std::vector<std::unique_ptr<SweepThread>> sample_streams;  // one a process at most
  Dense<ContextKey, Context> contexts;
  std::vector<Cell> cells;
  Dense<SiteKey, Site> sites;
  Dense<OperationKey, Durations> operations;
  Dense<SampleKey, uint64_t> samples;
  std::vector<Iteration> iterations;
  std::vector<Pause> pauses;
  Overlap<kOfs> of;
  uint64_t cpu_first = UINT64_MAX, cpu_last = 0;  // first and last instant of backend and API calls
  uint64_t steady_ns = 0;                         // when the leader's start-up ended; 0: it never did

 private:
  struct Head;
  void step_thread(SweepThread& t, const Head& limit);
  void step_api(SweepProcess& p, size_t& started, size_t& ended);
  void step_work(SweepProcess& p, size_t& started, size_t& ended);

  void apply(SweepThread& t, const Event& e);
  void take_sample(const SweepProcess& p, uint32_t thread, uint32_t frame);
  bool pass_calls(SweepThread& t, uint64_t limit);
  void next_event(SweepThread& t, uint64_t time);
  void enter_call(SweepThread& t, uint32_t call, uint64_t time);
  void exit_call(SweepThread& t, uint32_t call, uint64_t time);
  void enter_operation(SweepThread& t, uint32_t name, uint32_t why, uint64_t time);
  void apply_mark(SweepThread& t, const Event& e);
  void exit_operation(SweepThread& t, size_t at, uint64_t time);
  void iterate(SweepThread& t, uint32_t number, uint64_t began, uint64_t time);
  void begin(SweepThread& t, uint64_t time);
  void finish(SweepThread& t, uint64_t time);
  void pause(SweepThread& t, uint32_t reason, uint64_t time);
  void resume(SweepThread& t, uint64_t time);
  void take_in_pause(SweepThread& t, uint32_t iterations, uint32_t steps, uint64_t time);
  void end_startup(SweepProcess& p, bool leads, uint64_t time);
  void set_slice(SweepProcess& p, uint32_t slice, uint64_t time);

  void advance(SweepThread& t, uint64_t time);
  void enter_context(SweepThread& t);
  uint64_t bin_end(uint32_t slice) const;
  uint32_t slice_at(const SweepThread& t, uint64_t time) const;
  void settle(SweepThread& t, uint64_t time);
  uint32_t cell_of(uint32_t context, uint32_t state);
  uint32_t site_of(const SweepThread& t, uint32_t call, uint8_t from);
  uint32_t operation_of(const SweepThread& t) const;
  SweepThread& stream(uint32_t index);
  void note_cpu(uint64_t start, uint64_t end) {
    if (start < cpu_first) cpu_first = start;
    if (end > cpu_last) cpu_last = end;
  }

  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr uint32_t kMostUnmarked = 1 << 20;   // iterations without a mark, in a process
  static constexpr uint32_t kSampleStream = 1u << 31;  // indices of sample streams begin here
  uint32_t leader_ = kNobody;                          // the first process that marked an iteration
  Slicing slicing_ = kByStart;
  uint64_t bin_origin_ = 0, bin_width_ = 1;
  uint32_t bin_count_ = 1;
};

}  // namespace cutaway
