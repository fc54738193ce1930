#include "sweep/past.h"

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

}  // namespace

void Past::keep(uint64_t origin) {
  keeps_ = sweep_.api_.remembers = sweep_.work_.remembers = true;
  sweep_.slices.keep();
  sweep_.devices.set_origin(origin);
}

// Whether time is named by the rule is decided at the first look: what went without it cannot be
// named later.
void Past::refresh(SharedFiles files) {
  if (sweep_.timeline.threads.empty() && !loaded_) named_ = files->naming.usable();
  sweep_.timeline.files = std::move(files);
  if (!named_) forget_naming();
}

void Past::forget_naming() {
  SharedFiles& files = sweep_.timeline.files;
  auto plain = std::make_shared<ProcessFiles>(*files);
  plain->naming = {};
  plain->naming.compile = files->naming.compile;
  files = std::move(plain);
}

void Past::lead(uint64_t first_work, uint64_t steady) {
  std::vector<LeaderMark> marks;
  if (first_work && (!steady || first_work < steady))
    marks.push_back({first_work, kUndecided, LeaderMark::kFirstWork});
  if (steady) marks.push_back({steady, 1, LeaderMark::kEnters});
  sweep_.follow_leader(std::move(marks));
}

void Past::follow(uint32_t id, std::vector<Source> sources, std::vector<Record> open,
                  uint64_t until) {
  Timeline& timeline = sweep_.timeline;
  const uint32_t index =
      timeline.knows(id) ? timeline.index_of(id) : sweep_.add_thread(id, nullptr);
  SweepThread& t = *timeline.threads[index];
  if (t.events) {
    t.events->follow(timeline.files, std::move(sources));
  } else if (!sources.empty() || !t.saved.empty()) {
    attach(t, open_events(timeline.files, std::move(sources)));
  }
  if (t.events) t.events->bound(until, std::move(open));
}

void Past::follow_samples(std::vector<Source> sources, uint64_t until) {
  const SharedFiles& files = sweep_.timeline.files;
  if (sweep_.samples_) {
    sweep_.samples_->follow(files, std::move(sources));
  } else {
    attach_samples(open_samples(files, std::move(sources)));
  }
  sweep_.samples_->bound(until, {});
}

std::pair<uint32_t, uint64_t> Past::samples_position() const {
  if (!sweep_.samples_) return {};
  return sweep_.samples_->position();
}

void Past::attach(SweepThread& t, std::unique_ptr<Events> events) {
  t.events = std::move(events);
  if (t.events && !t.saved.empty()) t.event = load_events(*t.events, t.saved, t.held);
  t.saved.clear();
}

void Past::attach_samples(std::unique_ptr<Events> events) {
  sweep_.samples_ = std::move(events);
  if (!saved_samples_.empty())
    sweep_.sample_ = load_events(*sweep_.samples_, saved_samples_, held_sample_);
  saved_samples_.clear();
}

uint32_t Past::next_without_records() {
  const Timeline& timeline = sweep_.timeline;
  while (loaded_ && without_records_ < timeline.threads.size()) {
    const auto at = static_cast<uint32_t>(without_records_++);
    if (!timeline.has_records(at)) return at;
  }
  return kNoCell;
}

void Past::settle() {
  if (loaded_ && !sweep_.drawing.has_reached(reached_)) sweep_.drawing.settle(reached_);
}

std::pair<uint64_t, uint64_t> Past::begun() {
  return {sweep_.api_.begun_since(reached_), sweep_.work_.begun_since(reached_)};
}

const SweepThread* Past::thread(uint32_t id) const {
  const Timeline& timeline = sweep_.timeline;
  return timeline.knows(id) ? timeline.threads[timeline.index_of(id)].get() : nullptr;
}

uint64_t Past::silent_since(uint32_t id) const {
  const SweepThread* t = thread(id);
  return t && t->alive ? t->read_until : UINT64_MAX;
}

bool Past::calibrates(uint32_t id) const {
  const SweepThread* t = thread(id);
  return t && t->paused && t->pause_reason == kCalibrationPause;
}

std::vector<uint8_t> Past::save() {
  reached_ = sweep_.until_;
  begun();  // forgets what began before
  DeviceTotals& devices = sweep_.devices;
  devices.launches().expect(nullptr);
  devices.forget_operations(sweep_.work_.began() - sweep_.work_.begun_since(reached_));
  saved_samples_ =
      sweep_.samples_ ? saved_events(*sweep_.samples_, sweep_.sample_) : std::vector<uint8_t>{};
  Saver to;
  uint64_t count = sweep_.timeline.threads.size();
  to(count, named_, reached_, saved_samples_, sweep_);
  saved_samples_.clear();
  for (auto& t : sweep_.timeline.threads) {
    t->saved = t->events ? saved_events(*t->events, t->event) : std::vector<uint8_t>{};
    to(*t);
    t->saved.clear();
  }
  sweep_.drawing.save(to);
  devices.before_save();
  to(devices);
  devices.after_load();
  return std::move(to.bytes);
}

bool Past::load(const uint8_t* bytes, size_t n) {
  Loader from(bytes, n);
  uint64_t count = 0;
  from(count, named_, reached_, saved_samples_, sweep_);
  from.require(count <= n / sizeof(Event));
  auto& threads = sweep_.timeline.threads;
  for (uint32_t i = 0; from.ok() && i < count; ++i) {
    threads.push_back(std::make_unique<SweepThread>());
    threads.back()->index = i;
    from(*threads.back());
  }
  sweep_.timeline.after_load();
  from.require(sweep_.drawing.load(from));
  from(sweep_.devices);
  sweep_.devices.after_load();
  loaded_ = keeps_ = sweep_.api_.remembers = sweep_.work_.remembers = true;
  sweep_.slices.keep();
  if (!named_) forget_naming();
  return from.ok() && sound();
}

// A file may come from anybody: no position in it may lead out of a table.
bool Past::sound() const {
  const size_t threads = sweep_.timeline.threads.size();
  const auto cell_is_sound = [&](const SlowCell& c) {
    return c.thread < threads && c.layer < kLayers;
  };
  const auto iteration_is_sound = [&](const SlowIteration& i) {
    return std::all_of(i.cells.begin(), i.cells.end(), cell_is_sound);
  };
  const auto& worst = sweep_.slices.slowest.worst;
  return sweep_.drawing.sound() && sweep_.timeline.sound(sweep_.drawing.rows()) &&
         sweep_.slices.sound() && sweep_.devices.sound() && devices_are_sound() &&
         std::all_of(worst.begin(), worst.end(), iteration_is_sound);
}

bool Past::devices_are_sound() const {
  const auto& threads = sweep_.timeline.threads;
  std::vector<uint32_t> open(threads.size()), depth(sweep_.timeline.streams());
  for (const auto& call : sweep_.api_.open()) {
    if (call.span.thread >= threads.size()) return false;
    ++open[call.span.thread];
  }
  for (const auto& work : sweep_.work_.open()) {
    if (work.span.stream == kNoStream) continue;
    if (work.span.stream >= depth.size()) return false;
    ++depth[work.span.stream];
  }
  for (size_t i = 0; i < threads.size(); ++i)
    if (threads[i]->api.size() != open[i] || !calls_are_sound(*threads[i])) return false;
  return sweep_.timeline.streams_are_sound(depth) && sweep_.streams() >= depth.size();
}

bool Past::calls_are_sound(const SweepThread& t) const {
  const auto& open = sweep_.api_.open();
  const auto is_open = [&](const OpenApi& call) {
    return std::any_of(open.begin(), open.end(), [&](const auto& o) {
      return o.number == call.number && o.span.thread == t.index;
    });
  };
  return std::all_of(t.api.begin(), t.api.end(), is_open);
}

}  // namespace cutaway
