// Instants that processes without iterations of their own follow: when the process of the run whose
// second iteration came first enters a slice.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cutaway {

struct LeaderMark {
  // kEndsOwn, kEndsRun: the steady state ends, with the last work of the process or of the run.
  // kFirstWork: it begins if there are no iterations.
  enum What : uint8_t { kEnters, kEndsOwn, kEndsRun, kFirstWork };
  uint64_t time;
  uint32_t slice;
  What what = kEnters;
};

class Leader {
 public:
  void follow(std::vector<LeaderMark> marks) {
    marks_ = std::move(marks);
    next_ = 0;
  }
  // 0: unknown. After `follow`.
  void end_steady(uint64_t own, uint64_t run) {
    if (own) marks_.push_back({own, 0, LeaderMark::kEndsOwn});
    if (run) marks_.push_back({run, 0, LeaderMark::kEndsRun});
    std::stable_sort(marks_.begin(), marks_.end(), is_earlier);
  }
  // What lies before is known by a past that was loaded.
  void skip_to(uint64_t time) {
    const auto is_past = [time](const LeaderMark& mark) { return mark.time < time; };
    next_ = static_cast<size_t>(std::count_if(marks_.begin(), marks_.end(), is_past));
  }
  uint64_t next_time() const { return next_ < marks_.size() ? marks_[next_].time : UINT64_MAX; }
  LeaderMark take() { return marks_[next_++]; }

 private:
  static bool is_earlier(const LeaderMark& a, const LeaderMark& b) { return a.time < b.time; }

  std::vector<LeaderMark> marks_;
  size_t next_ = 0;
};

}  // namespace cutaway
