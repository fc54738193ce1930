#include "sweep/drawing.h"

#include <algorithm>

namespace cutaway {

void Drawing::draw(std::vector<Lanes> next) {
  for (Cell& cell : timeline_.ledger.cells)
    for (uint32_t& row : cell.lanes) row = kNoCell;
  lanes = std::move(next);
  edge_ = lanes.empty() ? UINT64_MAX : 0;
}

void Drawing::redraw(std::vector<Lanes> next) {
  const bool goes_on = !next.empty() && !lanes.empty() && lanes[0].goes_on_from(next[0]);
  if (!goes_on) return draw(std::move(next));
  next[0] = std::move(lanes[0]);
  for (Cell& cell : timeline_.ledger.cells)
    for (size_t i = 1; i < kMostLanes; ++i) cell.lanes[i] = kNoCell;
  lanes = std::move(next);
  edge_ = 0;
}

void Drawing::settle(uint64_t reached) {
  edge_ = lanes.empty() ? UINT64_MAX : 0;
  if (!lanes.empty()) cross_edges(reached);
  timeline_.advance_all(reached);
  paint();
  for (Cell& cell : timeline_.ledger.cells) cell.painted = cell.ns;
  crossed_ = reached;
}

void Drawing::cross_edges(uint64_t time) {
  for (Lanes& one : lanes) one.make_room(time);
  for (;;) {
    edge_ = UINT64_MAX;
    for (const Lanes& one : lanes) edge_ = std::min(edge_, one.edge_after(crossed_));
    if (time < edge_) return;
    timeline_.advance_all(edge_);
    paint();
    crossed_ = edge_;
  }
}

// What was added to the cells since the last edge lies in one bin of each lane.
void Drawing::paint() {
  std::vector<Cell>& cells = timeline_.ledger.cells;
  for (uint32_t at = 0; !lanes.empty() && at < cells.size(); ++at) {
    const uint64_t ns = cells[at].ns - cells[at].painted;
    for (size_t i = 0; ns && i < lanes.size(); ++i)
      if (lanes[i].holds(crossed_)) lanes[i].add_within(lane_of(at, i), crossed_, ns);
    cells[at].painted += ns;
  }
}

uint32_t Drawing::lane_of(uint32_t cell, size_t which) {
  Cell& c = timeline_.ledger.cells[cell];
  if (c.lanes[which] == kNoCell) {
    const ContextKey& who = timeline_.ledger.contexts.entries()[c.context].key;
    c.lanes[which] = lanes[which].row({who.thread, who.operation, c.state});
  }
  return c.lanes[which];
}

// Only the first lanes are those of the whole run.
void Drawing::save(Saver& to) {
  uint64_t count = std::min<size_t>(lanes.size(), 1);
  to(crossed_, count);
  if (count) to(lanes[0]);
}

bool Drawing::load(Loader& from) {
  uint64_t count = 0;
  from(crossed_, count);
  lanes.clear();
  if (from.ok() && count == 1) from(lanes.emplace_back(0, 1, 2, true));
  return count <= 1;
}

}  // namespace cutaway
