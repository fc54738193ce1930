// Which part of the run it is: start-up, steady state, shut-down, or an iteration. Counts
// iterations and steps, and knows the slowest iterations.
#pragma once
#include <vector>

#include "sweep/device_totals.h"
#include "sweep/drawing.h"
#include "sweep/leader.h"
#include "sweep/slowest.h"
#include "sweep/stages.h"
#include "sweep/timeline.h"

namespace cutaway {

class Slices {
 public:
  Slices(Timeline& timeline, Drawing& drawing, DeviceTotals& devices)
      : timeline_(timeline), drawing_(drawing), devices_(devices) {}

  // Marks that the process's own records do not have.
  void follow_leader(std::vector<LeaderMark> marks, bool even_with_iterations = false) {
    leader.follow(std::move(marks));
    everyone_follows_ = even_with_iterations;
  }
  void take_mark(const LeaderMark& mark);
  // What was undecided is start-up, or steady if the run has no second iteration.
  void decide(bool startup);

  void iterate(uint32_t number, uint64_t began, uint64_t time);
  void add_steps(uint64_t n, uint64_t from, uint64_t time);
  // Calibration left out a unit, which ends here.
  void take_in_pause(SweepThread& t, uint32_t iterations, uint32_t steps, uint64_t time);
  void keep() { keeps_ = true; }  // memory must not grow with the run

  uint32_t iteration() const { return iteration_; }      // the newest
  const StartUp& start_up() const { return start_up_; }  // by the process's own iterations
  bool sound() const { return unmarked_ <= kMostUnmarked && slowest.durations.sound(); }
  template <class A>
  void members(A& a) {
    a(start_up_, iteration_, unmarked_, passes, slowest, steps, steps_startup, steps_first_);
  }

  Leader leader;
  Passes passes;
  Slowest slowest;                        // iterations of the steady state
  uint64_t steps = 0, steps_startup = 0;  // `startup`: before it was steady

 private:
  static constexpr uint32_t kMostUnmarked = 1 << 20;  // iterations without a mark

  void begin_steady(uint64_t time);
  void end_steady(const LeaderMark& mark);
  void begin_work(uint64_t time);

  Timeline& timeline_;
  Drawing& drawing_;
  DeviceTotals& devices_;
  StartUp start_up_;
  uint32_t iteration_ = 0, unmarked_ = 0;
  uint64_t steps_first_ = 0;  // before the first work
  bool everyone_follows_ = false, over_ = false, keeps_ = false;
};

}  // namespace cutaway
