#include "imports/nest.h"

#include <algorithm>
#include <unordered_map>

#include "trace/format.h"

namespace cutaway::imports {
namespace {

struct Open {
  int64_t end, start;
  uint32_t id;
  Item item;
  bool written;
};

// Writes one lane. The stack holds what is open; operations and frames may end in any order, calls
// may not.
class Writer {
 public:
  Writer(const Events& events, Nested* out) : events_(events), out_(out) {}

  // Returns the calls that did not fit: they end after the call they began in.
  std::vector<uint32_t> run(const std::vector<uint32_t>& order) {
    std::vector<uint32_t> misfits;
    out_->lanes.emplace_back();
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t i : order) {
      first = std::min(first, events_.start[i]);
      last = std::max(last, events_.end[i]);
    }
    put(first, 0, kBegin, 0);
    for (uint32_t i : order) {
      close_until(events_.start[i]);
      if (!place(i)) misfits.push_back(i);
    }
    close_until(INT64_MAX);
    put(last, 0, kEnd, 0);
    return misfits;
  }

 private:
  bool place(uint32_t i) {
    const Item item = Item(events_.item[i]);
    const uint32_t name = events_.name[i];
    if (out_->lanes.size() > 1) return place_call(i, misfits_[i]);
    out_->operation[i] = innermost(Item::kOperation);
    if (item == Item::kCall) return place_call(i, call_id(name, innermost(Item::kFrame)));
    if (stack_.size() >= kMaxOpenEvents && item != Item::kApi && item != Item::kIteration) {
      out_->dropped += item == Item::kOperation;
      return true;
    }
    switch (item) {
      case Item::kApi:
        return true;
      case Item::kIteration:
        write(events_.start[i], name, kIteration, 0);
        return true;
      case Item::kOperation:
        write(events_.start[i], 0, kOpEnter, name);
        break;
      default:
        break;
    }
    push(i, name);
    return true;
  }

  bool place_call(uint32_t i, uint32_t call) {
    if (events_.end[i] <= enclosing_end() && stack_.size() < kMaxOpenEvents) {
      push(i, call);
      return true;
    }
    misfits_[i] = call;
    return false;
  }

  void push(uint32_t i, uint32_t id) {
    nested_ = stack_.empty() || (nested_ && events_.end[i] <= stack_.back().end);
    stack_.push_back({events_.end[i], events_.start[i], id, Item(events_.item[i]), false});
    next_end_ = std::min(next_end_, events_.end[i]);
  }

  uint32_t innermost(Item item) const {
    for (size_t k = stack_.size(); k-- > 0;) {
      if (stack_[k].item == item) return stack_[k].id;
    }
    return Nested::kNowhere;
  }

  int64_t enclosing_end() const {
    for (size_t k = stack_.size(); k-- > 0;) {
      if (stack_[k].item == Item::kCall) return stack_[k].end;
    }
    return INT64_MAX;
  }

  uint32_t call_id(uint32_t function, uint32_t site) {
    const uint64_t key = uint64_t(function) << 32 | site;
    auto [at, fresh] = calls_.emplace(key, uint32_t(out_->function.size()));
    if (fresh) {
      out_->function.push_back(function);
      out_->site.push_back(site);
    }
    return at->second;
  }

  // What ends first is closed first; at the same instant the innermost.
  void close_until(int64_t time) {
    while (next_end_ <= time && !stack_.empty()) {
      close(earliest());
      next_end_ = stack_.empty() ? INT64_MAX : stack_[earliest()].end;
    }
  }

  size_t earliest() const {
    if (nested_) return stack_.size() - 1;
    size_t found = 0;
    for (size_t k = 1; k < stack_.size(); ++k) {
      if (stack_[k].end <= stack_[found].end) found = k;
    }
    return found;
  }

  void close(size_t k) {
    const Open open = stack_[k];
    if (open.item == Item::kOperation) {
      write(open.end, 0, kOpExit, open.id);
    } else if (open.item == Item::kCall) {
      close_call(k);
    }
    stack_.erase(stack_.begin() + std::ptrdiff_t(k));
  }

  void close_call(size_t k) {
    const Open open = stack_[k];
    const uint64_t duration = uint64_t(open.end - open.start);
    if (!open.written && !(duration >> 32)) {
      write_enters(k);
      put(open.start, uint32_t(duration), kCall, open.id);
    } else {
      write_enters(k + 1);
      put(open.end, 0, kExit, open.id);
    }
  }

  void write_enters(size_t below) {
    for (size_t k = 0; k < below; ++k) {
      Open& open = stack_[k];
      if (open.item != Item::kCall || open.written) continue;
      put(open.start, 0, kEnter, open.id);
      open.written = true;
    }
  }

  void write(int64_t time, uint32_t value, Kind kind, uint32_t id) {
    write_enters(stack_.size());
    put(time, value, kind, id);
  }

  void put(int64_t time, uint32_t value, Kind kind, uint32_t id) {
    Lane& lane = out_->lanes.back();
    lane.time.push_back(uint64_t(time));
    lane.value.push_back(value);
    lane.kind.push_back(kind);
    lane.id.push_back(id);
  }

  const Events& events_;
  Nested* out_;
  std::vector<Open> stack_;
  int64_t next_end_ = INT64_MAX;
  bool nested_ = true;  // nothing in the stack ends after what it began in
  std::unordered_map<uint64_t, uint32_t> calls_;
  std::unordered_map<uint32_t, uint32_t> misfits_;  // event → call, for the next lane
};

// Same start: the longer is the parent; same length: the more abstract.
std::vector<uint32_t> in_order(const Events& e) {
  static const uint8_t rank[] = {3, 1, 2, 4, 0};
  std::vector<uint32_t> order(e.size);
  for (size_t i = 0; i < e.size; ++i) order[i] = uint32_t(i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (e.start[a] != e.start[b]) return e.start[a] < e.start[b];
    if (e.end[a] != e.end[b]) return e.end[a] > e.end[b];
    return rank[e.item[a]] < rank[e.item[b]];
  });
  return order;
}

}  // namespace

Nested nest(const Events& events) {
  Nested out;
  out.operation.assign(events.size, Nested::kNowhere);
  Writer writer(events, &out);
  std::vector<uint32_t> order = in_order(events);
  while (!order.empty() && out.lanes.size() < kMaxLanes) order = writer.run(order);
  out.dropped += order.size();
  return out;
}

}  // namespace cutaway::imports
