// Events that pass through somebody who adds some of his own: what all of them have in common.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "sweep/events.h"

namespace cutaway {

class Relay : public Events {
 public:
  Relay(std::unique_ptr<Events> events, SharedFiles files)
      : events_(std::move(events)), files_(std::move(files)) {}

  void bound(uint64_t until, std::vector<Record> open) override {
    events_->bound(until, std::move(open));
  }
  const ReadCounts& counts() const override { return events_->counts(); }
  std::pair<uint32_t, uint64_t> position() const override { return events_->position(); }

  void save(Saver& to) override {
    std::vector<Event> unread(at_, end_);
    to(unread);
    save_own(to);
    events_->save(to);
  }
  void load(Loader& from) override {
    from(out_);
    load_own(from);
    hand_out();
    events_->load(from);
  }

 protected:
  virtual void save_own(Saver& to) = 0;
  virtual void load_own(Loader& from) = 0;

  // What is ready is what comes next.
  bool hand_out() {
    at_ = out_.data();
    end_ = at_ + out_.size();
    return !out_.empty();
  }

  std::unique_ptr<Events> events_;
  SharedFiles files_;
  std::vector<Event> out_;
};

}  // namespace cutaway
