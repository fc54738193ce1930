// A sweep as bytes: what a run that keeps only its last stretch in full knows of everything before
// it. Whoever loads it goes on with the records that are left, so totals are those of the whole
// run, to the nanosecond.
#include <algorithm>
#include <stdexcept>

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

const Event* load_events(Events& events, const std::vector<uint8_t>& saved, Event& held) {
  Loader from(saved.data(), saved.size());
  bool waits = false;
  from(waits, held);
  events.load(from);
  if (!from.ok()) throw std::invalid_argument("events of a thread");
  return waits ? &held : nullptr;
}

SharedFiles without_naming(const ProcessFiles& files) {
  auto plain = std::make_shared<ProcessFiles>(files);
  plain->naming = {};
  plain->naming.compile = files.naming.compile;
  return plain;
}

}  // namespace

// Whether time is named by the rule is decided at the first look: what went without it cannot be
// named later.
void ProcessSweep::refresh(SharedFiles files) {
  if (threads.empty() && !loaded_) named_ = files->naming.usable();
  files_ = named_ ? std::move(files) : without_naming(*files);
}

void ProcessSweep::pass_marks() {
  led_ = static_cast<size_t>(
      std::count_if(leader_.begin(), leader_.end(),
                    [this](const LeaderMark& mark) { return mark.time < reached_; }));
}

void ProcessSweep::lead(uint64_t first_work, uint64_t steady) {
  std::vector<LeaderMark> marks;
  if (first_work && (!steady || first_work < steady))
    marks.push_back({first_work, kUndecided, LeaderMark::kFirstWork});
  if (steady) marks.push_back({steady, 1, LeaderMark::kEnters});
  follow_leader(std::move(marks));
}

void ProcessSweep::decide(bool startup) {
  if (!loaded_) return;
  if (totals_) totals_->decide(startup);
  regroup([startup](uint32_t slice) { return slice != kUndecided ? slice : startup ? 0u : 1u; });
  if (startup || !had.parted[2]) return;
  had.end_startup_with_first_work();
  of.end_startup_with_first_work();
  steps_startup = steps_first_;
}

// Tables with other slices: what is the same then is put together.
void ProcessSweep::regroup(const std::function<uint32_t(uint32_t)>& slice_of) {
  std::vector<uint32_t> context_at, cell_at, site_at;
  const auto moved = [](uint32_t& at, const std::vector<uint32_t>& to) {
    if (at < to.size()) at = to[at];
  };
  const auto old_contexts = std::exchange(contexts, {}).entries();
  for (const auto& entry : old_contexts) {
    ContextKey key = entry.key;
    key.slice = slice_of(key.slice);
    context_at.push_back(contexts.find_or_add(key));
  }
  for (const Cell& cell : std::exchange(cells, {})) {
    cell_at.push_back(cell_of(context_at[cell.context], cell.state));
    cells[cell_at.back()].add(cell);
  }
  const auto old_sites = std::exchange(sites, {}).entries();
  for (const auto& entry : old_sites) {
    site_at.push_back(
        sites.find_or_add({context_at[entry.key.context], entry.key.call, entry.key.from}));
    sites[site_at.back()].count += entry.value.count;
    sites[site_at.back()].ns += entry.value.ns;
  }
  const auto old_samples = std::exchange(samples, {}).entries();
  for (const auto& [key, count] : old_samples)
    samples[samples.find_or_add(
        {context_at[key.context], key.call, key.frame, key.layer, key.doing})] += count;
  const auto old_operations = std::exchange(operations, {}).entries();
  for (const auto& [key, all] : old_operations)
    operations[operations.find_or_add({key.operation, slice_of(key.slice)})].add(all);
  for (auto& t : threads) {
    t->slice = slice_of(t->slice);
    moved(t->context, context_at);
    moved(t->cell, cell_at);
    moved(t->site, site_at);
    for (OpenCall& call : t->calls) moved(call.site, site_at);
    for (OpenApi& call : t->api) moved(call.site, site_at);
    for (OpenOp& op : t->operations) op.slice = slice_of(op.slice);
  }
  slice_ = slice_of(slice_);
  slowest.follow(cell_at);
  recent_sites_ = {};
}

// Makes the older half coarser: neighbours become one row until there is room again. The first two
// stay, they tell where start-up ends; so does what comes before iterations that nobody marked.
void ProcessSweep::join_iterations() {
  const size_t old = iterations.size() / 2;
  forget_pauses(old);
  const std::vector<Iteration> fine(iterations.begin() + static_cast<std::ptrdiff_t>(old),
                                    iterations.end());
  iterations.resize(old);
  for (uint64_t most = 2; iterations.size() > old - old / 4 && most <= UINT32_MAX; most *= 2) {
    std::vector<Iteration> joined;
    for (const Iteration& next : iterations) {
      const bool goes_on =
          joined.size() > 2 && next.number == joined.back().number + joined.back().count;
      if (goes_on && uint64_t{joined.back().count} + next.count <= most) {
        joined.back().count += next.count;
        joined.back().paused += next.paused;
      } else {
        joined.push_back(next);
      }
    }
    iterations = std::move(joined);
  }
  iterations.insert(iterations.end(), fine.begin(), fine.end());
}

// Pauses in the first of the iterations become a length of each. Those stay that tell where an
// iteration ended whose successor nobody marked.
void ProcessSweep::forget_pauses(size_t rows) {
  uint64_t until = iterations[rows].time;
  for (const auto& t : threads)
    if (t->paused) until = std::min(until, t->paused_since);
  std::sort(pauses.begin(), pauses.end(),
            [](const Pause& a, const Pause& b) { return a.start < b.start; });
  std::vector<Pause> kept;
  for (size_t i = 0, row = 0, next = 0; i < pauses.size(); i = next) {
    uint64_t end = pauses[i].end;
    for (next = i + 1; next < pauses.size() && pauses[next].start <= end; ++next)
      end = std::max(end, pauses[next].end);
    while (row + 1 < rows && iterations[row + 1].time <= pauses[i].start) ++row;
    bool stays = end > until || iterations[row].time > pauses[i].start;
    for (size_t r = row; r < rows && iterations[r].time < end; ++r)
      stays |= iterations[r + 1].number != iterations[r].number + iterations[r].count;
    if (stays) kept.insert(kept.end(), &pauses[i], &pauses[i] + (next - i));
    for (size_t r = row; !stays && r < rows && iterations[r].time < end; ++r) {
      const uint64_t from = std::max(pauses[i].start, iterations[r].time);
      iterations[r].paused += std::max(from, std::min(end, iterations[r + 1].time)) - from;
    }
  }
  pauses = std::move(kept);
}

// All time up to where the past ends goes into the cells, and into the bins it was drawn in.
void ProcessSweep::settle_past() {
  edge_ = lanes_.empty() ? UINT64_MAX : 0;
  if (!lanes_.empty()) cross_edges(reached_);
  for (auto& t : threads) advance(*t, reached_);
  paint();
  for (Cell& cell : cells) cell.painted = cell.ns;
  crossed_ = reached_;
}

void ProcessSweep::draw(std::vector<Lanes> lanes) {
  if (loaded_ && crossed_ != reached_) settle_past();
  const bool goes_on =
      loaded_ && !lanes.empty() && !lanes_.empty() && lanes_[0].goes_on_from(lanes[0]);
  if (goes_on) lanes[0] = std::move(lanes_[0]);
  for (Cell& cell : cells)
    for (size_t i = goes_on; i < kMostLanes; ++i) cell.lanes[i] = kNoCell;
  lanes_ = std::move(lanes);
  edge_ = lanes_.empty() ? UINT64_MAX : 0;
}

void ProcessSweep::attach(SweepThread& t, std::unique_ptr<Events> events) {
  t.events = std::move(events);
  if (t.events && !t.saved.empty()) t.event = load_events(*t.events, t.saved, t.held);
  t.saved.clear();
}

void ProcessSweep::add_samples(std::unique_ptr<Events> events) {
  samples_ = std::move(events);
  if (!saved_samples_.empty()) sample_ = load_events(*samples_, saved_samples_, held_sample_);
  saved_samples_.clear();
}

void ProcessSweep::follow(uint32_t id, std::vector<Source> sources, std::vector<Record> open,
                          uint64_t until) {
  SweepThread& t = *threads[knows(id) ? thread_of_[id] : add_thread(id, nullptr)];
  if (t.events) {
    t.events->follow(files_, std::move(sources));
  } else if (!sources.empty() || !t.saved.empty()) {
    attach(t, open_events(files_, std::move(sources)));
  }
  if (t.events) t.events->bound(until, std::move(open));
}

void ProcessSweep::follow_samples(std::vector<Source> sources, uint64_t until) {
  if (samples_) {
    samples_->follow(files_, std::move(sources));
  } else {
    add_samples(open_samples(files_, std::move(sources)));
  }
  samples_->bound(until, {});
}

uint32_t ProcessSweep::next_without_records() {
  while (loaded_ && without_records_ < threads.size()) {
    const auto at = static_cast<uint32_t>(without_records_++);
    if (std::find(thread_of_.begin(), thread_of_.end(), at) == thread_of_.end()) return at;
  }
  return kNoCell;
}

void ProcessSweep::keep(uint64_t origin) {
  keeps_ = api_.remembers = work_.remembers = true;
  totals_ = std::make_unique<DeviceTotals>();
  totals_->set_origin(origin);
}

std::vector<uint8_t> ProcessSweep::save() {
  reached_ = until_;
  begun();  // forgets what began before
  std::vector<uint32_t>().swap(api_operation);
  if (totals_) totals_->expect({});
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
  bool totals = totals_ != nullptr;
  to(totals);
  if (totals) {
    totals_->before_save();
    to(*totals_);
    totals_->after_load();
  }
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
  bool totals = false;
  from(totals);
  if (totals) {
    totals_ = std::make_unique<DeviceTotals>();
    from(*totals_);
    totals_->after_load();
  }
  loaded_ = keeps_ = api_.remembers = work_.remembers = true;
  if (!named_) files_ = without_naming(*files_);
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
  return had.mask >> kHads == 0 && of.mask >> kOfs == 0 && unmarked_ <= kMostUnmarked &&
         (lanes_.empty() || lanes_[0].sound()) && (!totals_ || totals_->sound()) &&
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
         all(pauses, [&](const Pause& p) { return p.thread < threads.size(); }) &&
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
