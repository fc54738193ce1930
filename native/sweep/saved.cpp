// A sweep as bytes: what a run that keeps only its last stretch in full knows of everything before
// it. Whoever loads it goes on with the records that are left, so totals are those of the whole
// run, to the nanosecond.
#include <algorithm>

#include "sweep/sweep.h"

namespace cutaway {

namespace {

// Events of a thread with the one that was taken and not applied yet.
std::vector<uint8_t> saved_events(Events& events, const Event* next) {
  Saver to;
  bool waits = next != nullptr;
  Event event = waits ? *next : Event{};
  to(waits, event);
  events.save(to);
  return std::move(to.bytes);
}

}  // namespace

std::vector<uint8_t> ProcessSweep::save() {
  reached_ = until_;
  begun();  // forgets what began before
  devices.launches().expect(nullptr);
  devices.forget_operations(work_.began() - work_.begun_since(reached_));
  saved_samples_ = samples_ ? saved_events(*samples_, sample_) : std::vector<uint8_t>{};
  Saver to;
  uint64_t count = threads.size();
  to(count);
  members(to);
  for (auto& t : threads) {
    t->saved = t->events ? saved_events(*t->events, t->event) : std::vector<uint8_t>{};
    to(*t);
    t->saved.clear();
  }
  saved_samples_.clear();
  uint64_t lanes = std::min<size_t>(lanes_.size(), 1);
  to(lanes);
  if (lanes) to(lanes_[0]);
  devices.before_save();
  to(devices);
  devices.after_load();
  return std::move(to.bytes);
}

bool ProcessSweep::load(const uint8_t* bytes, size_t n) {
  Loader from(bytes, n);
  uint64_t count = 0, lanes = 0;
  from(count);
  from.require(count <= n / sizeof(Event));
  members(from);
  for (uint32_t i = 0; from.ok() && i < count; ++i) {
    threads.push_back(std::make_unique<SweepThread>());
    threads.back()->index = i;
    from(*threads.back());
  }
  with_operations_ = sum_with_operations_ = 0;
  for (const auto& t : threads) {
    if (t->operations.empty()) continue;
    ++with_operations_;
    sum_with_operations_ += t->index;
  }
  from(lanes);
  lanes_.clear();
  if (from.ok() && lanes == 1) from(lanes_.emplace_back(0, 1, 2, true));
  from(devices);
  devices.after_load();
  loaded_ = keeps_ = api_.remembers = work_.remembers = true;
  if (!named_) forget_naming();
  return from.ok() && lanes <= 1 && sound();
}

// A file may come from anybody: no position in it may lead out of a table.
bool ProcessSweep::sound() const {
  const auto below = [](uint32_t at, size_t size) { return at == kNoCell || at < size; };
  const size_t rows = lanes_.empty() ? 0 : lanes_[0].rows.entries().size();
  const auto all = [](const auto& values, auto fine) {
    return std::all_of(std::begin(values), std::end(values), fine);
  };
  const size_t known = contexts.entries().size();
  return conditions.sound() && unmarked_ <= kMostUnmarked &&
         (lanes_.empty() || lanes_[0].sound()) && devices.sound() &&
         devices_sound() && slowest.durations.sound() &&
         all(thread_of_, [&](uint32_t t) { return below(t, threads.size()); }) &&
         all(contexts.entries(),
             [&](const auto& c) {
               return c.key.thread < threads.size() &&
                      all(c.value.cells, [&](uint32_t cell) { return below(cell, cells.size()); });
             }) &&
         all(cells,
             [&](const Cell& c) {
               return c.context < known && c.state < kLayers << 3 && below(c.lanes[0], rows);
             }) &&
         all(sites.entries(),
             [&](const auto& s) { return s.key.context < known && s.key.from < kLayers; }) &&
         all(samples.entries(),
             [&](const auto& s) { return s.key.context < known && s.key.layer < kLayers; }) &&
         all(operations.entries(), [](const auto& o) { return o.value.sound(); }) &&
         all(passes.pauses, [&](const Pause& p) { return p.thread < threads.size(); }) &&
         all(slowest.worst,
             [&](const SlowIteration& i) {
               return all(i.cells, [&](const SlowCell& c) {
                 return c.thread < threads.size() && c.layer < kLayers;
               });
             }) &&
         all(threads, [&](const auto& t) { return sound(*t); });
}

bool ProcessSweep::devices_sound() const {
  std::vector<uint32_t> open(threads.size()), depth(stream_busy_.size());
  for (const auto& call : api_.open()) {
    if (call.span.thread >= threads.size()) return false;
    ++open[call.span.thread];
  }
  for (const auto& work : work_.open()) {
    if (work.span.stream == kNoStream) continue;
    if (work.span.stream >= depth.size()) return false;
    ++depth[work.span.stream];
  }
  uint32_t busy = 0;
  for (const uint32_t n : stream_busy_) busy += n > 0;
  for (size_t i = 0; i < threads.size(); ++i) {
    if (threads[i]->api.size() != open[i]) return false;
    for (const OpenApi& call : threads[i]->api) {
      const auto same = [&](const auto& o) {
        return o.number == call.number && o.span.thread == i;
      };
      if (std::none_of(api_.open().begin(), api_.open().end(), same)) return false;
    }
  }
  return depth == stream_busy_ && busy == busy_ && stream_keys_.size() >= stream_busy_.size();
}

bool ProcessSweep::sound(const SweepThread& t) const {
  const auto below = [](uint32_t at, size_t size) { return at == kNoCell || at < size; };
  return t.layer < kLayers && below(t.cell, cells.size()) &&
         below(t.site, sites.entries().size()) &&
         std::all_of(
             t.api.begin(), t.api.end(),
             [&](const OpenApi& c) { return c.site < sites.entries().size(); }) &&
         t.active == (t.cell != kNoCell) && (!t.active || t.context < contexts.entries().size()) &&
         std::all_of(
             t.calls.begin(), t.calls.end(),
             [&](const OpenCall& c) {
               return c.layer < kLayers && t.open_of[c.layer] > 0 &&
                      below(c.site, sites.entries().size());
             });
}

}  // namespace cutaway
