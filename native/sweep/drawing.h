// Draws a process in bins of time, as it is swept: at each edge of a bin, all time up to there goes
// into the cells, and what they gained since the last edge into the bins.
#pragma once
#include <vector>

#include "sweep/lanes.h"
#include "sweep/timeline.h"

namespace cutaway {

class Drawing {
 public:
  explicit Drawing(Timeline& timeline) : timeline_(timeline) {}

  void draw(std::vector<Lanes> lanes);
  // Of a process that was loaded: all time up to where its past ends is drawn.
  void settle(uint64_t reached);
  // The same lanes as before go on; others begin anew.
  void redraw(std::vector<Lanes> lanes);
  bool has_reached(uint64_t time) const { return crossed_ == time; }

  uint64_t edge() const { return edge_; }  // the next, before which nothing is to be done
  // Before anything happens at `time`.
  void cross_edges(uint64_t time);
  void paint();
  // Made between two instants.
  void count_steps(uint64_t from, uint64_t time, uint64_t n) {
    if (!lanes.empty()) lanes[0].count_between(lanes[0].steps, from, time, n);
  }
  void count_iteration(uint64_t time) {
    if (!lanes.empty()) lanes[0].count(lanes[0].iterations, time, 1);
  }

  bool sound() const { return lanes.empty() || lanes[0].sound(); }
  size_t rows() const { return lanes.empty() ? 0 : lanes[0].rows.entries().size(); }
  void save(Saver& to);
  bool load(Loader& from);

  std::vector<Lanes> lanes;

 private:
  uint32_t lane_of(uint32_t cell, size_t lanes);

  Timeline& timeline_;
  uint64_t crossed_ = 0, edge_ = UINT64_MAX;  // the last edge of a bin, and the next
};

}  // namespace cutaway
