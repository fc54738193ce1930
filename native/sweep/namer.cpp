#include "sweep/namer.h"

#include <algorithm>

namespace cutaway {

namespace {

constexpr size_t kLongest =
    1 << 18;  // events in a stretch; what is longer is decided with what is known
// ns; the same for a stretch that takes too long: totals of a run that lasts days cannot wait for
// its end.
constexpr uint64_t kLongestStretch = 60000000000;
// ns; a longer call counts as Enter and Exit: whether it
// is written whole or in two parts makes no difference.
constexpr uint64_t kLongCall = 10000000000;
constexpr size_t kEnough = 256;  // events to have ready before the reader goes on

bool is_mark(const Event& e, Mark mark) { return e.tag == make_tag(kMark, mark); }

}  // namespace

void Namer::follow(SharedFiles files, std::vector<Source> sources) {
  files_ = files;
  facts_ = &files_->naming;
  follows_ = true;
  events_->follow(std::move(files), std::move(sources));
}

bool Namer::refill() {
  out_.clear();
  while (!over_ && out_.size() < kEnough) {
    const auto [first, last] = events_->take_window();
    for (const Event* e = first; e != last;) {
      const Event* other = end_of_plain(e, last);
      if (other == e) {
        take(*e++);
      } else {
        pass(e, other);
        e = other;
      }
    }
    if (first != last) continue;
    const uint64_t next = events_->frontier();
    if (next != UINT64_MAX) break_stretch(next);
    if (follows_ || next != UINT64_MAX) break;
    end_stretch(Anchor::kEnds, false, stretch_.empty() ? left_end_ : stretch_.back().end);
    flush();
    over_ = true;
  }
  return hand_out();
}

// Most events are calls that decide nothing: they go on, or are held back, many at a time.
const Event* Namer::end_of_plain(const Event* e, const Event* last) const {
  const bool outside = open_.empty();
  const uint64_t latest = in_anchor_ ? UINT64_MAX : left_end_ + kLongestStretch;
  if (outside) last = std::min(last, e + (kLongest - std::min(kLongest, stretch_.size())));
  for (; e != last && is_call(*e); ++e) {
    const uint32_t id = id_of(e->tag);
    if (e->end - e->time > kLongCall || e->time > latest || id == anchor_call_) break;
    if (outside && hint_of(id)) break;
  }
  return e;
}

void Namer::pass(const Event* first, const Event* last) {
  if (in_anchor_) flush();
  std::vector<Event>& to = in_anchor_ ? out_ : stretch_;
  to.insert(to.end(), first, last);
}

void Namer::take(const Event& e) {
  break_stretch(e.time);
  const uint32_t call = id_of(e.tag);
  if (kind_of(e.tag) != kCall || e.end - e.time <= kLongCall) return take_outside(e);
  take_outside({e.time, e.time, 0, make_tag(kEnter, call)});
  break_stretch(e.end);
  take_outside({e.end, e.end, 0, make_tag(kExit, call)});
}

// A stretch that has taken too long ends with its last event when the next one comes at `next` or
// later. An operation in it that became one with what is around it goes on by itself.
void Namer::break_stretch(uint64_t next) {
  if (__builtin_expect(next - left_end_ <= kLongestStretch, 1) || next < left_end_ || in_anchor_)
    return;
  if (left_ <= Anchor::kBreaks && stretch_.empty() && !pending_.tag) return;
  const uint64_t time = stretch_.empty() ? left_end_ : stretch_.back().end;
  end_stretch(Anchor::kBreaks, false, time);
  flush();
  for (const Nested& n : nested_)
    if (n.absorbed) emit({time, time, kByFramework, make_tag(kOpEnter, n.name)});
  start_stretch(Anchor::kBreaks, false, time);
}

uint64_t Namer::frontier() const {
  if (over_) return UINT64_MAX;
  const uint64_t next = events_->frontier();
  if (pending_.tag) return std::min(pending_.time, next);
  if (in_anchor_) return next;
  if (left_ > Anchor::kBreaks) return std::min(left_end_, next);
  return stretch_.empty() ? next : std::min(stretch_.front().time, next);
}

void Namer::load_own(Loader& from) {
  members(from);
  from.require(anchor_ <= Anchor::kEvaluation && left_ <= Anchor::kEvaluation);
  for (const Place& place : {acts_, learns_, batch_, stored_, gave_, synced_, awaited_, settles_})
    from.require(!place || place.at <= stretch_.size());
}

void Namer::take_outside(const Event& e) {
  if (!open_.empty()) return take_inside(e);
  switch (kind_of(e.tag)) {
    case kCall:
    case kEnter:
      return take_call(e);
    case kMark:
      return take_mark(e);
    case kOpEnter:
      return take_operation(e);
    case kPause:
      end_stretch(Anchor::kBreaks, false, e.time);
      pause_reason_ = id_of(e.tag);
      paused_ = true;
      emit(e);
      return start_stretch(Anchor::kBreaks, false, e.time);
    case kResume:  // what calibration leaves out ends with a step
      end_stretch(Anchor::kBreaks, false, e.time);
      paused_ = false;
      emit(e);
      return start_stretch(
          pause_reason_ == kCalibrationPause && stepped_ ? Anchor::kStep : Anchor::kBreaks, false,
          e.time);
    case kBegin:
    case kEnd:
      end_stretch(Anchor::kEnds, false, e.time);
      calls_.clear();
      emit(e);
      return start_stretch(Anchor::kEnds, false, e.time);
    case kExit:
      stretch_.push_back(e);
      if (hint_of(id_of(e.tag)) & kAwaitsHint) awaited_ = here(e.time);
      return;
    case kFeed:
      if (paused_) return emit(e);
      stretch_.push_back(e);
      if (!noting_ && !acts_ && !learns_) gave_ = here(e.time);
      return;
    default:
      if (paused_) return emit(e);
      stretch_.push_back(e);
  }
}

void Namer::take_call(const Event& e) {
  const uint8_t hint = hint_of(id_of(e.tag));
  const bool whole = kind_of(e.tag) == kCall;
  if (hint & (kUpdateHint | kPhysicsHint | kProgramHint)) {
    const bool physics = hint & kPhysicsHint;
    const uint32_t name = name_of(hint);
    begin_anchor(physics ? Anchor::kStep : Anchor::kUpdate, name,
                 physics ? kByFramework : kCompiled, e.time);
    launch(hint);
    emit(e);
    if (whole) return end_anchor(e.end);
    anchor_call_ = id_of(e.tag);
    anchor_depth_ = 1;
    return open_.push_back(name);
  }
  if ((hint & kNetworkHint) && !acts_) acts_ = here(e.time);
  waited_ |= (hint & kBlocksHint) != 0;
  launch(hint);
  if ((hint & kAwaitsHint) && whole) await(e);
  stretch_.push_back(e);
  if (hint & kAwaitsHint) awaited_ = here(e.end);
  const bool before = !acts_ && !learns_ && !remembered_;
  if ((hint & kStoresHint) && whole && before) stored_ = here(e.end);
  if (stretch_.size() <= kLongest) return;
  end_stretch(Anchor::kBreaks, false, e.end);
  start_stretch(Anchor::kBreaks, false, e.end);
}

// A compiled function that is a step and a program collects a whole rollout.
uint32_t Namer::name_of(uint8_t hint) const {
  const bool physics = hint & kPhysicsHint, program = hint & kProgramHint;
  if (physics) return program && facts_->rollout ? facts_->rollout : facts_->simulation;
  return program && facts_->program ? facts_->program : facts_->backpropagation;
}

void Namer::launch(uint8_t hint) {
  if (!(hint & kLaunchesHint)) return;
  steps_compute_ |= (hint & kPhysicsHint) != 0;
  rollouts_compute_ |= (hint & kPhysicsHint) && (hint & kProgramHint);
  networks_compute_ |= (hint & kNetworkHint) != 0;
}

// A wait ends with everything that was called before it.
void Namer::await(const Event& e) {
  if (!settles_ && (launched_ || steps_compute_)) {
    settles_ = here(e.time);
    settled_ = launched_;
    if (steps_compute_) settled_ = launched_ || networks_compute_ ? 0 : facts_->simulation;
    if (rollouts_compute_ && (launched_ || steps_compute_))
      settled_ = launched_ ? facts_->program : networks_compute_ ? 0 : facts_->rollout;
  }
  launched_ = 0;
  steps_compute_ = networks_compute_ = rollouts_compute_ = false;
}

void Namer::take_mark(const Event& e) {
  if (is_mark(e, kEnvironment)) environment_ = e.value;
  if ((is_mark(e, kNetworkBegins) || is_mark(e, kRandom)) && !acts_) acts_ = here(e.time);
  if ((is_mark(e, kBatch) || (is_mark(e, kNetworkBegins) && e.value)) && !learns_)
    learns_ = here(e.time);
  if (is_mark(e, kBatch) && !batch_) batch_ = here(e.time);
  networks_ += is_mark(e, kNetworkBegins) && !learns_;
  if (is_mark(e, kLogBegins) || is_mark(e, kLogEnds)) noting_ = is_mark(e, kLogBegins);
  stretch_.push_back(e);
}

// The outermost operation of the records.
void Namer::take_operation(const Event& e) {
  const uint32_t name = id_of(e.tag);
  if (name == facts_->simulation || name == facts_->backpropagation) {
    const bool step = name == facts_->simulation;
    begin_anchor(step && evaluates() ? Anchor::kEvaluation
                 : step              ? Anchor::kStep
                                     : Anchor::kUpdate,
                 name, static_cast<Why>(e.value), start_of(e));
    acted_ |= step;
  } else {
    const bool searches = name && name == facts_->search;
    if ((name == facts_->inference || searches) && !acts_) acts_ = here(e.time);
    if (searches && !learns_) networks_ = kMostTargets + 1;  // for an action in its own world
    stretch_.push_back(e);
  }
  open_.push_back(name);
}

// A hook that begins an iteration and then its operation has begun it with the iteration.
uint64_t Namer::start_of(const Event& e) const {
  const bool hooked = e.value == kByFramework && !stretch_.empty();
  return hooked && kind_of(stretch_.back().tag) == kIteration ? stretch_.back().time : e.time;
}

// Inside an operation of the records nothing is named but calls of networks.
void Namer::take_inside(const Event& e) {
  const Kind kind = kind_of(e.tag);
  if (in_anchor_) return take_inside_anchor(e);
  if (kind == kBegin || kind == kEnd) {
    open_.clear();
    return take_outside(e);
  }
  if (kind == kOpEnter) open_.push_back(id_of(e.tag));
  if (kind == kOpExit) forget(id_of(e.tag));
  stretch_.push_back(e);
  if (!open_.empty()) return;
  if (id_of(e.tag) == facts_->replay && !acts_ && !learns_) {
    stored_ = here(e.time);
    remembered_ = true;
  }
  if (id_of(e.tag) == facts_->sync && !acts_) synced_ = here(e.time);
}

void Namer::take_inside_anchor(const Event& e) {
  const Kind kind = kind_of(e.tag);
  const uint32_t id = id_of(e.tag);
  if (kind == kOpEnter) open_.push_back(id);
  if (kind == kOpExit) forget(id);
  if (anchor_call_ == id && kind == kEnter) ++anchor_depth_;
  const bool returned = anchor_call_ == id && kind == kExit && !--anchor_depth_;
  const bool over = kind == kBegin || kind == kEnd;
  if (returned || over) open_.clear();
  if (!open_.empty()) return emit_network(e, anchor_ == Anchor::kEvaluation);
  // Exits of hooks are written when it is known how it goes on; anything else that ends here, now.
  if (returned || anchor_annotated_ || (kind == kOpExit && id != anchor_operation_)) emit(e);
  end_anchor(e.time);
  if (!over) return;
  calls_.clear();
  flush();
  if (!anchor_annotated_) emit(e);
  start_stretch(Anchor::kEnds, false, e.time);
}

// Leaving closes the topmost open operation of this name.
void Namer::forget(uint32_t name) {
  const auto found = std::find(open_.rbegin(), open_.rend(), name);
  if (found != open_.rend()) open_.erase(std::next(found).base());
}

bool Namer::evaluates() const {
  const uint32_t number = environment_ & ~kEvaluating;
  return (environment_ & kEvaluating) ||
         (number < facts_->untrained.size() && facts_->untrained[number]);
}

void Namer::begin_anchor(Anchor anchor, uint32_t name, Why why, uint64_t time) {
  anchor_annotated_ = why == kAnnotated;
  end_stretch(anchor, anchor_annotated_, time);
  const bool evaluation = anchor == Anchor::kEvaluation && !anchor_annotated_;
  anchor_ = anchor;
  anchor_operation_ = name;
  if (why == kCompiled) {  // whose result is waited for, whatever it was given
    launched_ = name;
    steps_compute_ = networks_compute_ = false;
  }
  anchor_name_ = evaluation ? facts_->evaluation : name;
  in_anchor_ = true;
  if (anchor_annotated_) return emit({time, time, why, make_tag(kOpEnter, name)});
  open(anchor_name_, evaluation ? kEvaluates : why, time);
}

void Namer::end_anchor(uint64_t time) {
  end_network(time);
  if (!anchor_annotated_) close(anchor_name_, time);
  stepped_ |= anchor_ == Anchor::kStep;
  start_stretch(anchor_, anchor_annotated_, time);
}

void Namer::start_stretch(Anchor left, bool annotated, uint64_t time) {
  left_ = left;
  left_annotated_ = annotated;
  left_end_ = time;
  left_name_ = left == Anchor::kUpdate ? anchor_name_ : 0;
  anchor_call_ = anchor_depth_ = 0;
  acts_ = learns_ = batch_ = stored_ = gave_ = synced_ = awaited_ = settles_ = Place();
  networks_ = 0;
  waited_ = remembered_ = in_anchor_ = false;
}

}  // namespace cutaway
