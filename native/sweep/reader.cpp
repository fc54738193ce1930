#include "sweep/reader.h"

#include <algorithm>

namespace cutaway {

Reader::Reader(SharedFiles files, std::vector<Source> sources)
    : files_(files), events_(open_events(std::move(files), std::move(sources))) {}

void Reader::follow(SharedFiles files, std::vector<Source> sources) {
  files_ = files;
  events_->follow(std::move(files), std::move(sources));
}

std::vector<Row> Reader::read(size_t room, uint64_t since, uint32_t kinds) {
  std::vector<Row> out;
  const auto hand_over_passed = [&] {
    if (passed_) out.push_back(*passed_);
    passed_.reset();
  };
  while (out.size() < room) {
    const Event* e = events_->next();
    if (!e) {
      hand_over_passed();
      break;
    }
    Row row = take(*e);
    if (!(kinds >> row.kind & 1)) continue;
    const uint64_t lost = counts().damaged + counts().missing;
    if (lost != lost_) row.flags |= kLossBefore;
    lost_ = lost;
    if (e->end < since) {
      passed_ = row;
      continue;
    }
    hand_over_passed();
    out.push_back(row);
  }
  return out;
}

// An exit closes the topmost open one of its name; one that nothing opened says nothing.
Row Reader::take(const Event& e) {
  const uint32_t id = id_of(e.tag);
  const Kind kind = kind_of(e.tag);
  if (kind != kEnd) alive_ = true;
  switch (kind) {
    case kEnter:
      calls_.push_back({id, files_->layer_of(id)});
      [[fallthrough]];
    case kCall:
      calls_begun_ += id < kBlockedCall;
      break;
    case kExit: {
      const auto open =
          std::find_if(calls_.rbegin(), calls_.rend(), [id](OpenCall c) { return c.call == id; });
      if (open != calls_.rend()) calls_.erase(std::next(open).base());
      break;
    }
    case kOpEnter:
      operations_.push_back(id);
      operations_begun_ += e.value <= kByFramework;
      break;
    case kOpExit: {
      const auto open = std::find(operations_.rbegin(), operations_.rend(), id);
      if (open != operations_.rend()) operations_.erase(std::next(open).base());
      break;
    }
    case kMark:
      operations_begun_ += id == kNetworkBegins || (id == kWhy && e.value == kByFramework);
      break;
    case kPause:
      paused_ = true;
      break;
    case kResume:
      paused_ = false;
      break;
    case kEnd:
      calls_.clear();
      operations_.clear();
      alive_ = paused_ = false;
      break;
    default:
      break;
  }
  const uint8_t outer = layer();
  return {static_cast<int64_t>(e.time),
          static_cast<int64_t>(e.end),
          e.value,
          id,
          operations_.empty() ? 0 : operations_.back(),
          calls_begun_,
          operations_begun_,
          kind,
          kind == kCall ? files_->layer_of(id) : outer,
          outer,
          static_cast<uint8_t>(alive_ && !paused_ ? kRecorded : 0)};
}

}  // namespace cutaway
