#include "sweep/overlap.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

namespace cutaway {

namespace {

// Sorts and merges, so that the intervals of one category never overlap; empty ones vanish.
void merge(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  size_t n = 0;
  for (const Interval i : intervals) {
    if (i.end <= i.start) continue;
    if (n && i.start <= intervals[n - 1].end) {
      intervals[n - 1].end = std::max(intervals[n - 1].end, i.end);
    } else {
      intervals[n++] = i;
    }
  }
  intervals.resize(n);
}

struct Boundary {
  int64_t time;
  uint32_t category;
  bool operator<(const Boundary& o) const { return time < o.time; }
};

}  // namespace

std::vector<SetTime> overlap(std::vector<std::vector<Interval>> categories) {
  std::vector<Boundary> boundaries;
  for (uint32_t c = 0; c < categories.size(); ++c) {
    merge(categories[c]);
    for (const Interval& i : categories[c]) {
      boundaries.push_back({i.start, c});
      boundaries.push_back({i.end, c});
    }
    categories[c] = {};
  }
  std::sort(boundaries.begin(), boundaries.end());
  // A merged category changes its state at each of its boundaries, so a boundary need not say how.
  std::vector<uint64_t> active((categories.size() + 63) / 64);
  std::map<std::vector<uint64_t>, int64_t> times;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    active[boundaries[i].category / 64] ^= 1ull << boundaries[i].category % 64;
    const int64_t length = boundaries[i + 1].time - boundaries[i].time;
    if (length) times[active] += length;
  }
  std::vector<SetTime> out;
  for (const auto& [set, time] : times) {
    SetTime row{{}, time};
    for (uint32_t c = 0; c < categories.size(); ++c)
      if (set[c / 64] >> c % 64 & 1) row.members.push_back(c);
    if (!row.members.empty()) out.push_back(std::move(row));
  }
  return out;
}

std::vector<Piece> flatten(const std::vector<Interval>& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Interval &x = intervals[a], &y = intervals[b];
    return x.start != y.start ? x.start < y.start : x.end > y.end;
  });
  std::priority_queue<size_t> open;  // positions in `order`: the largest is the innermost
  std::vector<Piece> out;
  auto end_of = [&](size_t rank) { return intervals[order[rank]].end; };
  int64_t now = 0;
  for (size_t next = 0; next < order.size() || !open.empty();) {
    if (open.empty()) now = intervals[order[next]].start;
    while (next < order.size() && intervals[order[next]].start <= now) open.push(next++);
    while (!open.empty() && end_of(open.top()) <= now) open.pop();
    if (open.empty()) continue;
    int64_t until = end_of(open.top());
    if (next < order.size()) until = std::min(until, intervals[order[next]].start);
    const auto owner = static_cast<int64_t>(order[open.top()]);
    if (!out.empty() && out.back().index == owner && out.back().end == now) {
      out.back().end = until;
    } else {
      out.push_back({owner, now, until});
    }
    now = until;
  }
  return out;
}

}  // namespace cutaway
