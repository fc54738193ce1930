// What the threads of a process are in, and which of their devices work. Each event moves a thread
// from one cell to another; the time in between goes into the ledger.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "sweep/conditions.h"
#include "sweep/device_records.h"
#include "sweep/events.h"
#include "sweep/ledger.h"
#include "sweep/passes.h"

namespace cutaway {

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

class Timeline {
 public:
  explicit Timeline(SharedFiles of) : files(std::move(of)) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // `id`: what the process's records call the thread; above kMaxId: nothing, only API calls do.
  SweepThread& add_thread(uint32_t id);
  bool knows(uint32_t id) const { return id < thread_of_.size() && thread_of_[id] != kNoCell; }
  uint32_t index_of(uint32_t id) const { return thread_of_[id]; }
  bool has_records(uint32_t index) const;

  // An event comes: what holds for all kinds of them. False if there is nothing more to it.
  bool meet(SweepThread& t, const Event& e);
  void apply(SweepThread& t, const Event& e);  // what it does to its own thread
  bool pass_calls(SweepThread& t, uint64_t limit);
  void enter_call(SweepThread& t, uint32_t call, uint64_t time);
  void exit_call(SweepThread& t, uint32_t call, uint64_t time);
  void pause(SweepThread& t, uint32_t reason, uint64_t time);
  void resume(SweepThread& t, uint64_t time);
  void finish(SweepThread& t, uint64_t time);
  void take_sample(const Event& e);

  // An API call, the `number`th of the process. Returns the operation in force.
  uint32_t begin_api(const ApiCall& call, uint64_t number);
  void end_api(const ApiCall& call, uint64_t number);
  // Work of a stream begins or ends, which keeps its device busy.
  void change_stream(uint32_t stream, bool ends, uint64_t time);
  // Who launched on each stream. True if a thread has more or fewer busy streams now; `busy` then
  // says how many each has.
  bool set_streams(std::vector<std::vector<uint32_t>> threads, std::vector<uint32_t>& busy);
  void set_busy(const std::vector<uint32_t>& busy, uint64_t time);

  void advance(SweepThread& t, uint64_t time);
  void advance_all(uint64_t time);
  void enter_slice(uint32_t slice, uint64_t time);
  uint32_t slice() const { return slice_; }
  // The ledger got other slices. Returns where its cells are now.
  std::vector<uint32_t> regroup(const std::function<uint32_t(uint32_t)>& slice_of);
  uint64_t paused_since() const;  // since when a thread is paused that still is

  bool sound(size_t rows) const;
  size_t streams() const { return stream_busy_.size(); }
  bool streams_are_sound(const std::vector<uint32_t>& depth) const;
  template <class A>
  void members(A& a) {
    a(slice_, ledger, conditions, pauses, cpu_first, cpu_last, thread_of_, stream_busy_, busy_);
  }
  void after_load();

  SharedFiles files;
  std::vector<std::unique_ptr<SweepThread>> threads;
  Ledger ledger;
  Conditions conditions;
  std::vector<Pause> pauses;
  uint64_t cpu_first = UINT64_MAX, cpu_last = 0;  // first and last instant of backend and API calls

 private:
  void enter_operation(SweepThread& t, uint32_t name, uint32_t why, uint64_t time);
  void exit_operation(SweepThread& t, size_t at, uint64_t time);
  void exit_named(SweepThread& t, uint32_t name, uint64_t time);
  void apply_mark(SweepThread& t, const Event& e);
  void begin(SweepThread& t, uint64_t time);
  void enter_context(SweepThread& t);
  void settle(SweepThread& t, uint64_t time);
  void settle_call(SweepThread& t, uint64_t time);
  void set_executing(SweepThread& t, bool executing, uint64_t time);
  void hold_layer(uint8_t layer, bool on, uint64_t time);
  uint32_t site_of(const SweepThread& t, uint32_t call, uint8_t from);
  uint32_t operation_of(const SweepThread& t) const;
  void note_cpu(uint64_t start, uint64_t end) {
    if (start < cpu_first) cpu_first = start;
    if (end > cpu_last) cpu_last = end;
  }
  bool sound(const SweepThread& t) const;

  std::vector<uint32_t> thread_of_;  // index by the id its records know a thread by; kNoCell: none
  std::vector<std::vector<uint32_t>> stream_threads_;  // who launched on each stream
  std::vector<uint32_t> stream_busy_;
  uint32_t busy_ = 0;  // streams
  uint32_t slice_ = 0;
  uint32_t with_operations_ = 0, sum_with_operations_ = 0;  // threads inside an operation; sum of
                                                            // their indices
};

}  // namespace cutaway
