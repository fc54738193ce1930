// Reads the events of a thread ahead, on another core than the one that takes them.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "sweep/events.h"

namespace cutaway {

class Ahead final : public Events {
 public:
  explicit Ahead(std::unique_ptr<Events> events) : events_(std::move(events)) {}
  ~Ahead() override {
    {
      const std::lock_guard lock(mutex_);
      unwanted_ = true;
    }
    changed_.notify_all();
    if (reader_.joinable()) reader_.join();
  }

  // Of what was read ahead nobody could say where it stands: only for a run that is read to its
  // end.
  void follow(SharedFiles, std::vector<Source>) override {}
  void bound(uint64_t, std::vector<Record>) override {}
  void save(Saver&) override {}
  void load(Loader& from) override { events_->load(from); }
  std::pair<uint32_t, uint64_t> position() const override { return events_->position(); }
  const ReadCounts& counts() const override { return events_->counts(); }
  uint64_t frontier() const override { return events_->frontier(); }

 protected:
  bool refill() override {
    if (!reader_.joinable()) reader_ = std::thread([this] { read(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || over_; });
    if (ready_.empty()) return false;
    spare_.push_back(std::exchange(now_, std::move(ready_.front())));
    ready_.pop_front();
    changed_.notify_all();
    at_ = now_.data();
    end_ = at_ + now_.size();
    return true;
  }

 private:
  static constexpr size_t kEnough = 1 << 13;  // events handed over at once
  static constexpr size_t kMost = 4;          // so many times

  void read() {
    for (std::vector<Event> next; fill(next);) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ready_.size() < kMost || unwanted_; });
      if (unwanted_) return;
      ready_.push_back(std::exchange(next, {}));
      if (!spare_.empty()) next = std::move(spare_.back()), spare_.pop_back();
      changed_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  bool fill(std::vector<Event>& next) {
    next.clear();
    while (next.size() < kEnough) {
      const auto [from, to] = events_->take_window();
      if (from == to) break;
      next.insert(next.end(), from, to);
    }
    return !next.empty();
  }

  std::unique_ptr<Events> events_;
  std::thread reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<Event>> ready_;
  std::vector<std::vector<Event>> spare_;  // their memory is used again
  std::vector<Event> now_;
  bool over_ = false, unwanted_ = false;
};

}  // namespace cutaway
