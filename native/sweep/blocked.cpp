#include "sweep/blocked.h"

#include <algorithm>

#include "sweep/cursor.h"

namespace cutaway {

void Blocked::follow(SharedFiles files, std::vector<Source> sources) {
  files_ = files;
  if (samples_) samples_->follow(files, files->samples);
  if (!sources.empty()) thread_ = sources.front().thread;
  events_->follow(std::move(files), std::move(sources));
}

// Windows without a gap, nearly all of them, are handed on as they are.
bool Blocked::refill() {
  out_.clear();
  const auto [first, last] = events_->take_window();
  const Event* gap = first_gap(first, last);
  if (first != last && gap == last) {
    at_ = first;
    end_ = last;
    return true;
  }
  out_.assign(first, gap);
  for (const Event* e = gap; e != last; ++e) {
    if (blocked_ || is_gap(e->time)) end_gap(e->time);
    out_.push_back(*e);
    take(*e);
  }
  if (first == last) {
    const uint64_t next = events_->frontier();
    if (next != UINT64_MAX && next > since_ && is_gap(next)) look_until(next);
    if (next != UINT64_MAX && next > kPatience) told_ = std::max(told_, next - kPatience);
  }
  return hand_out();
}

// Takes in events up to the first that a gap ends with.
const Event* Blocked::first_gap(const Event* first, const Event* last) {
  for (; first != last; ++first) {
    if (__builtin_expect(first->time - since_ >= kLong || blocked_, 0) &&
        (blocked_ || is_gap(first->time)))
      break;
    if (__builtin_expect(kind_of(first->tag) == kCall && alive_, 1)) {
      since_ = first->end;
    } else {
      take(*first);
    }
  }
  return first;
}

void Blocked::take(const Event& e) {
  const Kind kind = kind_of(e.tag);
  since_ = e.end;
  sampled_at_ = 0;
  alive_ = kind != kEnd;
  if (kind == kEnter) calls_.push_back({id_of(e.tag), files_->layer_of(id_of(e.tag))});
  if (kind == kExit) leave_call(id_of(e.tag));
  if (kind == kPause || kind == kResume) paused_ = kind == kPause;
  if (kind != kBegin && kind != kEnd) return;
  calls_.clear();
  paused_ = false;
}

void Blocked::leave_call(uint32_t call) {
  const auto found = std::find_if(calls_.rbegin(), calls_.rend(),
                                  [call](const OpenCall& c) { return c.call == call; });
  if (found != calls_.rend()) calls_.erase(std::next(found).base());
}

// What a sample says holds half way to its neighbours, and up to the ends of the gap.
void Blocked::look_until(uint64_t time) {
  open_samples_since(sampled_at_ ? sampled_at_ + 1 : since_);
  for (; sample_ && sample_->time < time; sample_ = next_sample()) {
    if (kind_of(sample_->tag) != kSample || id_of(sample_->tag) != thread_) continue;
    if (sample_->time < since_ || sample_->time <= sampled_at_) continue;
    const uint64_t boundary =
        sampled_at_ ? sampled_at_ + (sample_->time - sampled_at_) / 2 : since_;
    be_in(blocked_in(sample_->value), std::max(boundary, told_));
    sampled_at_ = sample_->time;
  }
}

// Blocks of samples that end before are not even read.
void Blocked::open_samples_since(uint64_t time) {
  if (samples_) {
    if (!sample_) sample_ = next_sample();
    return;
  }
  std::vector<Source> sources = files_->samples;
  const auto is_over = [&](const Source& s) {
    const size_t clock = s.clock < files_->clocks.size() ? s.clock : 0;
    return s.last && ClockWalk(files_->clocks[clock]).to_ns(s.last) < time;
  };
  sources.erase(std::remove_if(sources.begin(), sources.end(), is_over), sources.end());
  samples_ = open_samples(files_, std::move(sources));
  sample_ = next_sample();
}

const Event* Blocked::next_sample() { return samples_->next(); }

void Blocked::be_in(uint32_t call, uint64_t time) {
  if (call == blocked_) return;
  if (blocked_) out_.push_back({time, time, 0, make_tag(kExit, blocked_)});
  if (call) out_.push_back({time, time, 0, make_tag(kEnter, call)});
  blocked_ = call;
}

void Blocked::end_gap(uint64_t time) {
  look_until(time);
  be_in(0, time);
}

// The next thing that can change is what a sample found that is not there yet.
uint64_t Blocked::frontier() const {
  const uint64_t next = events_->frontier();
  if (next == UINT64_MAX || files_->samples.empty() || !in_python() || next <= since_) return next;
  return std::max({since_, sampled_at_, std::min(told_, next)});
}

}  // namespace cutaway
