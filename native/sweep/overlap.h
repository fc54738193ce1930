// Overlap and nesting of plain intervals; the readable twin is tests/analysis/sweep_twin.py.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace cutaway {

struct Interval {
  int64_t start, end;
};
static_assert(sizeof(Interval) == 16, "");

struct SetTime {
  std::vector<uint32_t> members;  // ascending
  int64_t time;
};

// Time for each exact set of active categories that occurs; the empty set is left out.
std::vector<SetTime> overlap(std::vector<std::vector<Interval>> categories);

struct Piece {
  int64_t index, start, end;
};

// The innermost of the intervals at each instant: the one that
// started last, of these the shortest, of these the last given.
std::vector<Piece> flatten(const std::vector<Interval>& intervals);

}  // namespace cutaway
