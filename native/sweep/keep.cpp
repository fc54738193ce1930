// The past of a process that goes on: how it takes in more, and what happens to its tables when it
// is known where start-up ends. saved.cpp makes bytes of it.
#include <algorithm>
#include <stdexcept>

#include "sweep/sweep.h"

namespace cutaway {

namespace {

const Event* load_events(Events& events, const std::vector<uint8_t>& saved, Event& held) {
  Loader from(saved.data(), saved.size());
  bool waits = false;
  from(waits, held);
  events.load(from);
  if (!from.ok()) throw std::invalid_argument("events of a thread");
  return waits ? &held : nullptr;
}

}  // namespace

// Whether time is named by the rule is decided at the first look: what went without it cannot be
// named later.
void ProcessSweep::refresh(SharedFiles files) {
  if (threads.empty() && !loaded_) named_ = files->naming.usable();
  files_ = std::move(files);
  if (!named_) forget_naming();
}

void ProcessSweep::forget_naming() {
  auto plain = std::make_shared<ProcessFiles>(*files_);
  plain->naming = {};
  plain->naming.compile = files_->naming.compile;
  files_ = std::move(plain);
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
  devices.set_origin(origin);
}

}  // namespace cutaway
