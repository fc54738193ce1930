// One pass over all timelines of a process: the records of every thread, the accelerator API calls
// and the device work, merged in order of time. Between two neighbouring boundaries nothing
// changes, so each stretch is added to one cell. Processes do not see each other, so all cores can
// sweep. The readable twin is tests/analysis/sweep_twin.py. Nothing here knows Python.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "sweep/conditions.h"
#include "sweep/device_totals.h"
#include "sweep/events.h"
#include "sweep/lanes.h"
#include "sweep/leader.h"
#include "sweep/passes.h"
#include "sweep/slowest.h"
#include "sweep/stages.h"
#include "sweep/tables.h"

namespace cutaway {

// What else the time of a thread is divided by.
enum Slicing : uint8_t {
  kByStart = 0,  // 0 start-up, 1 steady: from the second iteration on, 2 shut-down
  kByIteration =
      1,  // the number of the process's iteration, 0 before the first; kNoIteration: shut-down
};
// In the past of a run without a second iteration, after its first work: start-up if one comes,
// else steady.
constexpr uint32_t kUndecided = 3;
constexpr uint32_t kShutDown = 2, kNoIteration = UINT32_MAX;

struct OpenCall {
  uint32_t call;
  uint8_t layer;
  uint32_t site;
};

struct OpenApi {
  uint64_t number;  // among those of the process
  uint32_t name, site;
};

struct OpenOp {
  uint32_t name, slice, why;
  uint64_t start, paused;  // `paused`: what the thread had been paused by then
  EventCounts before;      // what it had recorded
};

struct SweepThread {
  uint32_t index = 0;
  std::vector<uint8_t> saved;  // of a thread that was loaded: its events, until there are some
  Event held{};                // the next event of one that was loaded
  std::unique_ptr<Events> events;
  const Event* event = nullptr;  // the next one
  uint64_t read_until = 0;       // end of the last one
  bool in_leaf = false;

  bool alive = false, paused = false, active = false, executing = false, carries = false;
  std::vector<OpenCall> calls;
  std::vector<OpenOp> operations;
  uint32_t phase = 0, slice = 0;
  uint32_t open_of[kLayers] = {};
  std::vector<OpenApi> api;
  uint32_t sync = 0, busy = 0;
  uint32_t context = 0, cell = kNoCell, site = kNoCell;
  uint8_t layer = kPython;
  uint64_t last = 0;

  uint64_t first = 0, end = 0, paused_ns = 0, paused_since = 0, traced_ns = 0;
  uint32_t pause_reason = 0, iterations = 0;  // `iterations`: that it marked
  uint64_t cpu_first = 0, cpu_last = 0, unmatched = 0;
  bool seen = false, cpu_seen = false;
  EventCounts made;
  UnitMarks units;

  template <class A>
  void members(A& a) {
    a(in_leaf, read_until, alive, paused, active, executing, carries, calls, operations, phase,
      slice);
    a(open_of, api, sync, busy, context, cell, site, layer, last, first, end, paused_ns,
      paused_since, traced_ns);
    a(pause_reason, iterations, cpu_first, cpu_last, unmatched, seen, cpu_seen, made, units, saved);
  }
};

class ProcessSweep {
 public:
  explicit ProcessSweep(SharedFiles files) : files_(std::move(files)) {}
  ProcessSweep(const ProcessSweep&) = delete;
  ProcessSweep& operator=(const ProcessSweep&) = delete;

  // `id`: what the process's records call the thread. Without events it is known from API calls
  // only.
  uint32_t add_thread(uint32_t id, std::unique_ptr<Events> events);
  void add_samples(std::unique_ptr<Events> events);
  void set_device_work(std::unique_ptr<Spans<ApiCall>::Feed> api,
                       std::unique_ptr<Spans<Work>::Feed> work,
                       std::vector<std::vector<uint32_t>> stream_threads);
  // Numbers of streams (device << 32 | stream) that stay the same from look to look.
  std::vector<uint32_t> number_streams(const std::vector<uint64_t>& streams);
  size_t streams() const { return stream_keys_.size(); }
  uint64_t reached() const { return reached_; }  // by what was saved
  // API calls and device work that begin there or later and are in it all the same.
  std::pair<uint64_t, uint64_t> begun() {
    return {api_.begun_since(reached_), work_.begun_since(reached_)};
  }
  // Since when a thread that lives has told nothing; UINT64_MAX if it does not live.
  uint64_t silent_since(uint32_t thread) const {
    const SweepThread* t = knows(thread) ? threads[thread_of_[thread]].get() : nullptr;
    return t && t->alive ? t->read_until : UINT64_MAX;
  }
  // Whether calibration has paused the recording of a thread.
  bool calibrates(uint32_t thread) const {
    const SweepThread* t = knows(thread) ? threads[thread_of_[thread]].get() : nullptr;
    return t && t->paused && t->pause_reason == kCalibrationPause;
  }
  void slice_by(Slicing slicing) { slicing_ = slicing; }
  void follow_leader(std::vector<LeaderMark> marks, bool even_with_iterations = false) {
    leader_.follow(std::move(marks));
    leader_.skip_to(reached_);
    everyone_follows_ = even_with_iterations;
  }
  // The steady state ends with the last work of the process (0: unknown), or with that of the run
  // if the process has no iterations. After follow_leader.
  void end_steady(uint64_t own, uint64_t run) {
    leader_.end_steady(own, run);
    leader_.skip_to(reached_);
  }
  void draw(std::vector<Lanes> lanes);
  void note_changes() { conditions.notes_changes = true; }

  // Takes in what happens before `until`, and before the frontiers of all threads; can be called
  // again.
  void run(uint64_t until = UINT64_MAX);
  void divide_by_samples();  // once, before the tables are read out
  uint64_t next_time();      // of what `run` would take in next; UINT64_MAX: there is nothing

  // The past of a process that goes on (keep.cpp): takes in what ended before `until`. Everything
  // it knows then can be saved, and loaded into a new one before that gets threads. Of a past that
  // was loaded, one thread after the other that only device records know; then kNoCell.
  uint32_t next_without_records();
  void keep(uint64_t origin);  // of the stretches of time
  bool knows(uint32_t thread) const {
    return thread < thread_of_.size() && thread_of_[thread] != kNoCell;
  }
  void refresh(SharedFiles files);
  void follow(uint32_t thread, std::vector<Source> sources, std::vector<Record> open,
              uint64_t until);
  std::pair<uint32_t, uint64_t> samples_position() const {
    return samples_ ? samples_->position() : std::pair<uint32_t, uint64_t>{};
  }
  void follow_samples(std::vector<Source> sources, uint64_t until);
  // Of a run that is not over: when its first work began, and its second iteration; 0: not yet.
  void lead(uint64_t first_work, uint64_t steady);
  // What was undecided is start-up, or steady if the run has no second iteration.
  void decide(bool startup);
  std::vector<uint8_t> save();
  bool load(const uint8_t* bytes, size_t n);

  const SharedFiles& files() const { return files_; }
  const StartUp& start_up() const { return start_up_; }  // by its own iterations

  std::vector<std::unique_ptr<SweepThread>> threads;
  Dense<ContextKey, Context> contexts;
  std::vector<Cell> cells;
  Dense<SiteKey, Site> sites;
  Dense<OperationKey, Durations> operations;
  Dense<SampleKey, uint64_t> samples;
  Passes passes;
  Slowest slowest;       // iterations of the steady state
  DeviceTotals devices;  // what its device work adds up to
  const std::vector<Lanes>& lanes() const { return lanes_; }
  std::vector<Lanes>& lanes() { return lanes_; }
  Conditions conditions;
  uint64_t cpu_first = UINT64_MAX, cpu_last = 0;  // first and last instant of backend and API calls
  uint64_t steps = 0, steps_startup = 0;          // `startup`: before it was steady

 private:
  template <class A>
  void members(A& a) {
    a(named_, slice_, start_up_, iteration_, unmarked_);
    a(reached_, crossed_, contexts, cells, sites, operations, samples, passes, slowest, conditions,
      cpu_first);
    a(cpu_last, steps, steps_startup, steps_first_, thread_of_, saved_samples_);
    a(api_, work_, stream_keys_, stream_busy_, busy_);
  }
  bool sound() const;
  bool devices_sound() const;
  void forget_naming();
  void settle_past();
  void regroup(const std::function<uint32_t(uint32_t)>& slice_of);
  bool sound(const SweepThread& t) const;
  void attach(SweepThread& t, std::unique_ptr<Events> events);

  struct Head;
  struct RecentSite {
    uint64_t key = UINT64_MAX;
    uint32_t site = 0;
    uint8_t layer = 0,
            state = 0;  // of a cell, while the thread is in this call and no device is busy
  };
  std::vector<Head> next_heads();
  Head head_of(uint8_t rank, uint32_t index) const;
  void step(const Head& head, const Head& limit);
  void step_thread(SweepThread& t, const Head& limit);
  void step_api();
  void end_api(const Spans<ApiCall>::Begun& ended);
  void step_work();
  void step_leader();
  void shut_down(uint64_t time);

  struct Asleep;
  uint32_t whole_of(uint32_t context);
  uint32_t sleeper(uint32_t context, uint32_t call);
  void divide(uint32_t cell, const Asleep& asleep);
  void apply(SweepThread& t, const Event& e);
  void take_sample(const Event& e);
  bool pass_calls(SweepThread& t, uint64_t limit);
  void next_event(SweepThread& t);
  void rest(SweepThread& t);
  void enter_call(SweepThread& t, uint32_t call, uint64_t time);
  void exit_call(SweepThread& t, uint32_t call, uint64_t time);
  void enter_operation(SweepThread& t, uint32_t name, uint32_t why, uint64_t time);
  void apply_mark(SweepThread& t, const Event& e);
  void exit_operation(SweepThread& t, size_t at, uint64_t time);
  void iterate(uint32_t number, uint64_t began, uint64_t time);
  uint64_t paused_since() const;
  void add_steps(uint64_t n, uint64_t time);
  void begin(SweepThread& t, uint64_t time);
  void finish(SweepThread& t, uint64_t time);
  void pause(SweepThread& t, uint32_t reason, uint64_t time);
  void resume(SweepThread& t, uint64_t time);
  void take_in_pause(SweepThread& t, uint32_t iterations, uint32_t steps, uint64_t time);
  void set_slice(uint32_t slice, uint64_t time);

  void advance(SweepThread& t, uint64_t time);
  void enter_context(SweepThread& t);
  void settle(SweepThread& t, uint64_t time);
  void settle_call(SweepThread& t, uint64_t time);
  void set_executing(SweepThread& t, bool executing, uint64_t time);
  void cross_edges(uint64_t time);
  void paint();
  uint32_t lane_of(uint32_t cell, size_t lanes);
  uint32_t cell_of(uint32_t context, uint32_t state);
  __attribute__((noinline)) uint32_t add_cell(uint32_t context, uint32_t state);
  uint32_t site_of(const SweepThread& t, uint32_t call, uint8_t from);
  const RecentSite& look_up_site(const SweepThread& t, uint32_t call, uint8_t from);
  __attribute__((noinline)) void find_site(RecentSite& recent, const SiteKey& key);
  uint32_t operation_of(const SweepThread& t) const;
  void note_cpu(uint64_t start, uint64_t end) {
    if (start < cpu_first) cpu_first = start;
    if (end > cpu_last) cpu_last = end;
  }

  static constexpr uint32_t kMostUnmarked = 1 << 20;  // iterations without a mark

  static constexpr size_t kRecentSites = 2048;

  SharedFiles files_;
  std::array<RecentSite, kRecentSites> recent_sites_;
  std::vector<uint32_t> thread_of_;  // index by the id its records know a thread by; kNoCell: none
  std::unique_ptr<Events> samples_;
  const Event* sample_ = nullptr;
  Spans<ApiCall> api_;
  Spans<Work> work_;
  std::vector<std::vector<uint32_t>> stream_threads_;  // who launched on each stream
  std::vector<uint32_t> stream_busy_;
  std::vector<uint64_t> stream_keys_;  // by number
  size_t without_records_ = 0;
  uint32_t busy_ = 0;  // streams
  StartUp start_up_;
  uint32_t slice_ = 0, iteration_ = 0, unmarked_ = 0;
  uint64_t steps_first_ = 0;  // before the first work
  uint32_t with_operations_ = 0,
           sum_with_operations_ = 0;  // threads inside an operation; sum of their indices
  uint64_t until_ = UINT64_MAX;
  bool named_ =
      false;  // whether the events of a loaded process go through the rule that names time
  bool loaded_ = false, keeps_ = false;  // `keeps`: memory must not grow with the run
  uint64_t reached_ = 0;                 // by what was saved
  std::vector<uint8_t> saved_samples_;
  Event held_sample_{};
  bool everyone_follows_ = false, over_ = false;
  Slicing slicing_ = kByStart;
  Leader leader_;
  std::vector<Lanes> lanes_;
  uint64_t crossed_ = 0, edge_ = UINT64_MAX;  // the last edge of a bin, and the next
};

}  // namespace cutaway
