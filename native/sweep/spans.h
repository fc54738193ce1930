// Spans in order of their boundaries: they come ordered by start, and those that have begun wait
// for their end. Memory grows with how many are open at once only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace cutaway {

template <typename T>
class Spans {
 public:
  // Where they come from, ordered by start.
  class Feed {
   public:
    virtual ~Feed() = default;
    virtual bool next(T& span) = 0;  // false at the end
  };
  struct Begun {
    T span;
    uint64_t number;  // how many began before
    bool operator>(const Begun& o) const {
      return span.end != o.span.end ? span.end > o.span.end : number > o.number;
    }
  };

  void feed(std::unique_ptr<Feed> feed) {
    feed_ = std::move(feed);
    more_ = feed_->next(next_);
  }

  // Of the next boundary; UINT64_MAX if there is none.
  uint64_t next_time() const {
    const uint64_t start = more_ ? next_.start : UINT64_MAX;
    return open_.empty() ? start : std::min(start, open_.front().span.end);
  }

  // What ends at an instant ends before anything starts there, except for what began there.
  bool end_is_next() const {
    if (open_.empty() || !more_) return !open_.empty();
    const T& first = open_.front().span;
    return first.end < next_.start || (first.end == next_.start && first.start < first.end);
  }

  Begun begin() {
    const Begun begun{next_, began_++};
    if (remembers) starts_.push_back(next_.start);
    open_.push_back(begun);
    std::push_heap(open_.begin(), open_.end(), std::greater<Begun>());
    more_ = feed_->next(next_);
    return begun;
  }

  Begun end() {
    std::pop_heap(open_.begin(), open_.end(), std::greater<Begun>());
    const Begun ended = open_.back();
    open_.pop_back();
    return ended;
  }

  // How many have begun at `time` or later; those before it are forgotten. A sweep may stop before
  // what it has read.
  uint64_t begun_since(uint64_t time) {
    starts_.erase(starts_.begin(), std::lower_bound(starts_.begin(), starts_.end(), time));
    return starts_.size();
  }
  bool remembers = false;
  uint64_t began() const { return began_; }

  template <class A>
  void members(A& a) {
    a(began_, open_, starts_);
  }
  const std::vector<Begun>& open() const { return open_; }

 private:
  std::unique_ptr<Feed> feed_;
  T next_{};
  bool more_ = false;
  uint64_t began_ = 0;
  std::vector<Begun> open_;  // a heap: the first ends first
  std::vector<uint64_t> starts_;
};

}  // namespace cutaway
