#include "sweep/run_sweep.h"

#include <algorithm>
#include <numeric>

#include "sweep/ahead.h"
#include "sweep/parallel.h"

namespace cutaway {

uint32_t RunSweep::add_process(SharedFiles files) {
  first_thread.push_back(
      processes.empty()
          ? 0
          : first_thread.back() + static_cast<uint32_t>(processes.back()->timeline.threads.size()));
  processes.push_back(std::make_unique<ProcessSweep>(std::move(files)));
  records_.push_back(0);
  return static_cast<uint32_t>(processes.size() - 1);
}

uint32_t RunSweep::add_thread(uint32_t process, uint32_t id, std::vector<Source> sources) {
  ProcessSweep& p = *processes.at(process);
  if (id > kMaxId)
    if (const uint32_t known = p.past.next_without_records(); known != kNoCell)
      return first_thread[process] + known;
  uint64_t records = 0;
  for (const Source& s : sources) records += s.count;
  records_[process] += records;
  const bool known = !sources.empty() || p.timeline.knows(id);
  const uint32_t at =
      p.add_thread(id, known ? open_events(p.timeline.files, std::move(sources)) : nullptr);
  if (records >= kLong) long_ones_.emplace_back(p.timeline.threads[at].get(), records);
  return first_thread[process] + at;
}

void RunSweep::add_samples(uint32_t process, std::vector<Source> sources) {
  ProcessSweep& p = *processes.at(process);
  p.past.attach_samples(open_samples(p.timeline.files, std::move(sources)));
}

void RunSweep::run() {
  read_ahead();
  for_each_process([](ProcessSweep& p) { p.run(); });
}

// Where there are fewer processes than cores, or one is far larger than the others, two share the
// work on it.
void RunSweep::read_ahead() {
  const uint64_t all = std::accumulate(records_.begin(), records_.end(), uint64_t{0});
  for (const auto& [thread, records] : long_ones_)
    if (cores() > 1 && 2 * records >= all / cores())
      thread->events = std::make_unique<Ahead>(std::move(thread->events));
}

void RunSweep::for_each_process(const std::function<void(ProcessSweep&)>& work) {
  std::vector<size_t> order(processes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return records_[a] > records_[b]; });
  in_parallel(order, [&](size_t at) { work(*processes[at]); });
}

Overlap<kOfs> RunSweep::overlap(uint64_t steady, uint64_t over) {
  constexpr size_t kFew = 1 << 18, kMany = 1 << 21;  // changes of a turn
  Overlap<kOfs> all;
  std::vector<Change> changes;
  uint64_t step = 1'000'000;
  for (auto& p : processes) p->timeline.conditions.notes_changes = true;
  for (;;) {
    uint64_t until = UINT64_MAX;
    for (auto& p : processes) until = std::min(until, p->next_time());
    if (until == UINT64_MAX) return all;
    until += step;
    for_each_process([until](ProcessSweep& p) { p.run(until); });
    changes.clear();
    for (auto& p : processes) {
      auto& own = p->timeline.conditions.changes;
      changes.insert(changes.end(), own.begin(), own.end());
      own.clear();
    }
    std::sort(changes.begin(), changes.end(),
              [](const Change& a, const Change& b) { return a.time < b.time; });
    for (const Change& c : changes) {
      if (steady && c.time >= steady) all.split(0, steady);
      if (over && c.time >= over) all.split(1, over);
      all.hold(c.what, c.on, c.time);
    }
    if (changes.size() < kFew) step *= 2;
    if (changes.size() > kMany) step = std::max<uint64_t>(1, step / 2);
  }
}

}  // namespace cutaway
