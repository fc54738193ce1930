// The rule by which a stretch between two anchors is divided (namer.h), and what is written then.
#include <algorithm>

#include "sweep/namer.h"

namespace cutaway {

// Calls of target networks before an update. More of them act in a world that nobody sees.

void Namer::end_stretch(Anchor right, bool annotated, uint64_t time) {
  parts_.clear();
  if (!annotated && !left_annotated_) divide(right);
  emit_stretch(right, time);
  stretch_.clear();
  waits_at_ = SIZE_MAX;
  acts_ = learns_ = batch_ = stored_ = gave_ = synced_ = awaited_ = settles_ =
      Place();  // were places in it
  networks_ = 0;
  remembered_ = false;
}

void Namer::part(Place from, uint32_t name, Why why) {
  if (!parts_.empty() && parts_.back().from.time == from.time) parts_.pop_back();
  parts_.push_back({from, name, why});
}

void Namer::divide(Anchor right) {
  const Place start{0, left_end_};
  if (left_ == Anchor::kUpdate && (right != Anchor::kEnds || awaited_))
    part(start, left_name_, right == Anchor::kUpdate ? kWithinUpdate : kAfterUpdate);
  if (left_ == Anchor::kUpdate && right > Anchor::kEnds && right != Anchor::kUpdate && synced_)
    part(synced_, 0, kAnnotated);
  if (left_ == Anchor::kUpdate && right == Anchor::kEnds && awaited_) part(awaited_, 0, kAnnotated);
  if (left_ == Anchor::kEvaluation && right > Anchor::kBreaks)
    part(start, facts_->evaluation, kEvaluates);
  // Who acts and hands over rollouts prepares them before: what it steps next needs none of that.
  if (left_ == Anchor::kStep && right == Anchor::kStep && acts_ && gave_ &&
      gave_.time >= stored_.time)
    stored_ = gave_;
  if (left_ == Anchor::kStep && stored_) {
    part(start, facts_->replay, kStoresStep);
    part(stored_, 0, kAnnotated);
  }
  if (right == Anchor::kStep) divide_before_step(start);
  if (right == Anchor::kUpdate) divide_before_update(start);
  if (right == Anchor::kEvaluation && left_ != right && acts_)
    part(acts_, facts_->evaluation, kEvaluates);
  if (right == Anchor::kBreaks && left_ == Anchor::kUpdate && acts_) part(acts_, 0, kAnnotated);
  const bool for_a_step = !settled_ || settled_ == facts_->simulation ||
                          settled_ == facts_->rollout ||
                          (settled_ == facts_->program && settled_ != left_name_);
  if (settles_ && for_a_step) waits_at_ = settles_.at;
}

// What a step leads to is the next action, but for what is stored first.
void Namer::divide_before_step(Place start) {
  if (left_ == Anchor::kUpdate) chooses_early_ = chosen_ && !acts_;
  chosen_ = false;
  if (left_ == Anchor::kStep && (acts_ || (acted_ && !waited_)))
    part(stored_ ? stored_ : start, facts_->inference, kLeadsToStep);
  else if (acts_ && left_ != Anchor::kEnds)  // nobody acts before the first reset
    part(acts_, facts_->inference, kLeadsToStep);
  acted_ |= static_cast<bool>(acts_);
  // Compiled functions compute while the program goes on: an action waits for the update before it.
  const bool acts = !parts_.empty() && parts_.back().name == facts_->inference;
  if (settles_ && acts && settles_.at >= parts_.back().from.at) waits_at_ = settles_.at;
}

void Namer::divide_before_update(Place start) {
  if (left_ == Anchor::kStep) return divide_between_step_and_update(start);
  if (left_ == Anchor::kUpdate && networks_ > kMostTargets && !stepped_) {
    parts_.clear();
    part(start, left_name_, kAfterUpdate);
    part(acts_, 0, kAnnotated);
    if (learns_) part(learns_, facts_->backpropagation, kLeadsToUpdate);
    return;
  }
  const bool waits_for_data = left_ == Anchor::kUpdate && waited_ && !stepped_;
  if (left_ == Anchor::kUpdate && !waits_for_data) return;
  if (waits_for_data) parts_.clear();
  if (learns_) part(learns_, facts_->backpropagation, kLeadsToUpdate);
}

// Some programs choose the next action before they update, and take it afterwards. It is chosen
// before a batch is drawn.
void Namer::divide_between_step_and_update(Place start) {
  const Place from = stored_ ? stored_ : start;
  chosen_ = acts_ && batch_ && acts_.at < batch_.at;
  if (!chosen_ || !chooses_early_) return part(from, facts_->backpropagation, kLeadsToUpdate);
  part(from, facts_->inference, kLeadsToStep);
  part(batch_, facts_->backpropagation, kLeadsToUpdate);
}

// Time in which the thread waits has no name, whatever it leads to: the part around it is left for
// so long.
void Namer::emit_stretch(Anchor right, uint64_t time) {
  const bool updates = left_ == Anchor::kUpdate && right == Anchor::kUpdate;
  size_t next = 0;
  if (left_ != Anchor::kBreaks) logging_ = false;
  part_ = nullptr;
  nested_.clear();
  for (size_t i = 0; i <= stretch_.size(); ++i) {
    for (; next < parts_.size() && parts_[next].from.at == i; ++next) begin_part(&parts_[next]);
    if (i == stretch_.size()) break;
    const Event& e = stretch_[i];
    if (i == waits_at_) {
      emit_awaited(e);
      continue;
    }
    if (is_call(e) && !is_plain(e)) {
      emit_call(e);
      continue;
    }
    if (e.tag == make_tag(kMark, kLogBegins) || e.tag == make_tag(kMark, kLogEnds)) {
      emit_log(e);
      continue;
    }
    enter_part(e.time + 1);
    const size_t last = std::min(stretch_.size(), waits_at_ < i ? SIZE_MAX : waits_at_);
    const size_t stop =
        next < parts_.size() ? std::max(i, std::min(last, parts_[next].from.at)) : last;
    const auto from = stretch_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto other = std::find_if_not(from, stretch_.begin() + static_cast<std::ptrdiff_t>(stop),
                                        [this](const Event& one) { return is_plain(one); });
    if (other != from) {
      flush();
      out_.insert(out_.end(), from, other);
      i += static_cast<size_t>(other - from) - 1;
      continue;
    }
    if (kind_of(e.tag) == kStep && left_ == Anchor::kEvaluation) continue;
    // One operation for each iteration, also where updates follow each other without end.
    const bool cut = updates && part_open_ && kind_of(e.tag) == kIteration;
    if (cut) close(part_->name, e.time);
    emit_in(part_, e);
    if (cut) open(part_->name, part_->why, e.time);
  }
  end_network(time);
  leave_part(time);
}

void Namer::begin_part(const Part* part) {
  leave_part(part->from.time);
  part_ = part;
  part_since_ = part->from.time;
  end_network(part_since_);
}

// Opens the operation of the part if time before `time` belongs to it.
void Namer::enter_part(uint64_t time) {
  if (!part_ || !part_->name || part_open_ || asleep() || time <= part_since_) return;
  open(part_->name, part_->why, part_since_);
  part_open_ = true;
}

void Namer::leave_part(uint64_t time) {
  enter_part(time);
  if (part_open_) close(part_->name, time);
  part_open_ = false;
}

// A call in which the thread waits, or one that what it waits in has called back. Inside an
// operation of the records it is a part of that.
void Namer::emit_call(const Event& e) {
  const bool named = !nested_.empty() || network_open_;
  const bool slept = asleep();
  if (kind_of(e.tag) == kCall) {
    if (!named) leave_part(e.time);
  } else if (kind_of(e.tag) == kEnter) {
    if (!named && waits(e)) leave_part(e.time);
    calls_.push_back(waits(e));
  } else {
    const bool sleeps = calls_.size() > 1 && calls_[calls_.size() - 2];
    if (!named && sleeps) leave_part(e.time);
    if (!calls_.empty()) calls_.pop_back();
  }
  if (!named && !asleep() && !slept && kind_of(e.tag) != kCall) enter_part(e.time + 1);
  emit(e);
  if (!asleep() && (slept || kind_of(e.tag) == kCall)) part_since_ = e.end;
}

// What a logger does outside operations has no name.
void Namer::emit_log(const Event& e) {
  const bool begins = e.tag == make_tag(kMark, kLogBegins);
  const bool named = !nested_.empty() || network_open_;
  if (begins && !named) leave_part(e.time);
  if (!begins && logging_) part_since_ = e.time;
  logging_ = begins && !named;
  emit(e);
}

// Waiting for a result is part of what computes it, if that can be told.
void Namer::emit_awaited(const Event& e) {
  if (!settled_) {
    leave_part(e.time);
    emit(e);
    part_since_ = e.end;
    return;
  }
  const bool steps = settled_ == facts_->simulation || settled_ == facts_->rollout;
  const Why why = steps ? kAwaitsStep : kAwaitsUpdate;
  enter_part(e.time + 1);
  emit({e.time, e.time, why, make_tag(kOpEnter, settled_)});
  emit(e);
  emit({e.end, e.end, 0, make_tag(kOpExit, settled_)});
}

// An operation that a hook opened inside a part of the same name becomes one with it.
bool Namer::absorbs(const Part* part, const Event& e) const {
  const uint32_t name = id_of(e.tag);
  if (!part || !nested_.empty() || e.value != kByFramework) return false;
  if (part->name == facts_->evaluation) return name == facts_->inference || name == facts_->replay;
  return part->name == name;
}

void Namer::emit_in(const Part* part, const Event& e) {
  if (kind_of(e.tag) == kOpEnter) {
    nested_.push_back({id_of(e.tag), absorbs(part, e)});
    if (!nested_.back().absorbed) return emit(e);
    if (part->name == id_of(e.tag)) emit({e.time, e.time, kByFramework, make_tag(kMark, kWhy)});
  } else if (kind_of(e.tag) == kOpExit) {
    emit_exit(part, e);
  } else {
    emit_network(e, nested_.empty() ? part && part->name : nested_.front().absorbed);
  }
}

void Namer::emit_exit(const Part* part, const Event& e) {
  size_t at = nested_.size();
  while (at && nested_[at - 1].name != id_of(e.tag)) --at;
  const bool absorbed = at && nested_[at - 1].absorbed;
  if (at) nested_.erase(nested_.begin() + static_cast<std::ptrdiff_t>(at - 1));
  if (!absorbed) return emit(e);
  if (part->name == id_of(e.tag)) emit({e.time, e.time, part->why, make_tag(kMark, kWhy)});
}

// Where nothing else is known, a network that records no gradients is inference.
void Namer::emit_network(const Event& e, bool hidden) {
  emit(e);
  if (e.tag == make_tag(kMark, kNetworkBegins) && !e.value && !hidden && !network_open_) {
    emit({e.time, e.time, kNetworkCall, make_tag(kOpEnter, facts_->inference)});
    network_open_ = true;
  }
  if (e.tag == make_tag(kMark, kNetworkEnds)) end_network(e.time);
}

void Namer::end_network(uint64_t time) {
  if (network_open_) emit({time, time, 0, make_tag(kOpExit, facts_->inference)});
  network_open_ = false;
}

void Namer::emit(const Event& e) {
  flush();
  out_.push_back(e);
}

void Namer::open(uint32_t name, Why why, uint64_t time) {
  if (pending_.tag == make_tag(kOpExit, name) && pending_.time == time) {
    pending_ = {};
    out_.push_back({time, time, why, make_tag(kMark, kWhy)});
    return;
  }
  emit({time, time, why, make_tag(kOpEnter, name)});
}

void Namer::close(uint32_t name, uint64_t time) {
  flush();
  pending_ = {time, time, 0, make_tag(kOpExit, name)};
}

void Namer::flush() {
  if (pending_.tag) out_.push_back(pending_);
  pending_ = {};
}

}  // namespace cutaway
