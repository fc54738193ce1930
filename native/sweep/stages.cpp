#include "sweep/stages.h"

#include <algorithm>
#include <atomic>

#include "sweep/cursor.h"
#include "sweep/parallel.h"

namespace cutaway {

namespace {

// The earliest instant that anybody has found; UINT64_MAX: none yet.
class Earliest {
 public:
  void offer(uint64_t time) {
    uint64_t known = time_;
    while (time < known && !time_.compare_exchange_weak(known, time)) {
    }
  }
  uint64_t get() const { return time_; }
  uint64_t or_zero() const { return time_ == UINT64_MAX ? 0 : time_.load(); }

 private:
  std::atomic<uint64_t> time_{UINT64_MAX};
};

// The records of all threads of a process, in order of time.
class Merged {
 public:
  explicit Merged(const ProcessRecords& process) {
    for (const auto& sources : process.threads) {
      auto& stream = streams_.emplace_back();
      stream.records = std::make_unique<Cursor>(process.files, sources);
      stream.event = stream.records->next();
    }
  }

  // The next event and the thread it is of; nullptr at the end.
  std::pair<const Event*, size_t> next() {
    if (now_ < streams_.size()) streams_[now_].event = streams_[now_].records->next();
    if (now_ >= streams_.size() || time_of(now_) >= limit_) choose();
    return {now_ < streams_.size() ? streams_[now_].event : nullptr, now_};
  }

 private:
  struct Stream {
    std::unique_ptr<Cursor> records;
    const Event* event = nullptr;
  };

  uint64_t time_of(size_t at) const {
    return streams_[at].event ? streams_[at].event->time : UINT64_MAX;
  }

  // Of several with the same time the first goes on; nobody else is looked at before `limit_`.
  void choose() {
    now_ = SIZE_MAX;
    limit_ = UINT64_MAX;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < streams_.size(); ++i) {
      const uint64_t time = time_of(i);
      if (time < first) {
        limit_ = first;
        first = time;
        now_ = i;
      } else {
        limit_ = std::min(limit_, time);
      }
    }
  }

  std::vector<Stream> streams_;
  size_t now_ = SIZE_MAX;
  uint64_t limit_ = UINT64_MAX;
};

// Iterations that began while calibration paused the recording are counted when it goes on.
class Pauses {
 public:
  explicit Pauses(const ProcessRecords& process) : reason_(process.threads.size(), kNotPaused) {
    for (size_t i = 0; i < std::min(reason_.size(), process.paused.size()); ++i)
      if (process.paused[i]) reason_[i] = kCalibrationPause;
  }

  // How many iterations an event tells of.
  uint32_t note(const Event& e, size_t thread) {
    const Kind kind = kind_of(e.tag);
    const bool calibrates = reason_[thread] == kCalibrationPause;
    if (kind == kPause && reason_[thread] == kNotPaused) reason_[thread] = id_of(e.tag);
    if (kind == kResume || kind == kEnd) reason_[thread] = kNotPaused;
    return kind == kResume && calibrates ? id_of(e.tag) : 0;
  }

 private:
  static constexpr uint32_t kNotPaused = UINT32_MAX;
  std::vector<uint32_t> reason_;  // of each thread
};

// Offers the second iteration of a process, unless another one was earlier. Returns when the first
// began.
uint64_t look_for_iterations(const ProcessRecords& process, Earliest& second) {
  uint64_t first = process.first_iteration;
  StartUp start_up{first ? 1u : 0u};
  Pauses pauses(process);
  Merged records(process);
  for (;;) {
    const auto [e, thread] = records.next();
    if (!e || e->time >= second.get()) break;
    if (e->time < process.since) continue;
    const uint32_t in_pause = pauses.note(*e, thread);
    if (process.first_iteration && e->time <= process.first_iteration) continue;
    const bool begins = kind_of(e->tag) == kIteration;
    if (!begins && !(in_pause && start_up.iterations)) continue;
    if (!first) first = std::max<uint64_t>(1, e->time);  // 0 is none
    if (start_up.begin_iteration(begins ? e->value : 0, e->time)) second.offer(e->time);
  }
  return first;
}

void look_for_work(const ProcessRecords& process, const std::vector<Source>& sources,
                   Earliest& work) {
  const auto events = open_events(process.files, sources);
  const uint32_t compile = process.files->naming.compile;
  FirstWork first;
  while (const Event* e = events->next()) {
    if (first.over || (!first.found && e->time > work.get())) break;
    const Kind kind = kind_of(e->tag);
    if (kind == kOpEnter || kind == kOpExit)
      first.note(e->time, kind == kOpEnter, compile && id_of(e->tag) == compile);
  }
  if (first.time) work.offer(first.time);
}

}  // namespace

Iterations find_iterations(std::vector<ProcessRecords> processes) {
  Earliest second;
  std::vector<uint64_t> first(processes.size());
  in_parallel(processes, [&](const ProcessRecords& process) {
    first[static_cast<size_t>(&process - processes.data())] = look_for_iterations(process, second);
  });
  return {std::move(first), second.or_zero()};
}

uint64_t find_first_work(std::vector<ProcessRecords> processes) {
  Earliest work;
  in_parallel(processes, [&](const ProcessRecords& process) {
    for (const auto& sources : process.threads) look_for_work(process, sources, work);
  });
  return work.or_zero();
}

}  // namespace cutaway
