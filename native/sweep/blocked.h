// Adds what samples know to the records of a thread: where it slept in native code that nobody
// recorded, or waited for the GIL. Between two of its events a thread is in Python as far as its
// records tell. If that takes long enough to have been sampled for certain, each sample in it says
// whether the thread slept. The reader then hands out such a stretch as a call, entered and left,
// like any other wait. Shorter ones are divided by the share of their samples, when all is added up
// (divide.cpp).
#pragma once
#include <memory>
#include <vector>

#include "sweep/relay.h"

namespace cutaway {

// What a sample found: the id of a call, 0 for a thread that ran or of which nobody knows.
inline uint32_t blocked_in(uint32_t sampled) {
  const Doing doing = doing_of(sampled);
  const uint32_t first = doing == kSleeps ? kBlockedCall : doing == kAwaitsGil ? kGilCall : 0;
  return first ? first + frame_of(sampled) : 0;
}

class Blocked final : public Relay {
 public:
  // `thread`: by which samples know it; what is loaded knows that itself.
  Blocked(std::unique_ptr<Events> events, SharedFiles files, uint32_t thread)
      : Relay(std::move(events), std::move(files)), thread_(thread) {}

  void follow(SharedFiles files, std::vector<Source> sources) override;
  uint64_t frontier() const override;

 protected:
  bool refill() override;
  void save_own(Saver& to) override { members(to); }
  void load_own(Loader& from) override { members(from); }

 private:
  static constexpr uint64_t kLong =
      20000000;  // ns; longer than two samples are apart, at the usual rate
  static constexpr uint64_t kPatience =
      1000000000;  // ns for which nothing is handed on while samples may come

  bool in_python() const {
    return alive_ && !paused_ && (calls_.empty() || calls_.back().layer == kPython);
  }
  bool is_gap(uint64_t until) const { return until - since_ >= kLong && in_python(); }
  const Event* first_gap(const Event* first, const Event* last);
  void take(const Event& e);
  void leave_call(uint32_t call);
  void look_until(uint64_t time);
  void open_samples_since(uint64_t time);
  const Event* next_sample();
  void be_in(uint32_t call, uint64_t time);
  void end_gap(uint64_t time);

  struct OpenCall {
    uint32_t call;
    uint8_t layer;
  };

  template <class A>
  void members(A& a) {
    a(thread_, calls_, alive_, paused_, since_, blocked_, sampled_at_, told_);
  }

  uint32_t thread_;
  std::unique_ptr<Events> samples_;
  const Event* sample_ = nullptr;  // the next one of any thread

  std::vector<OpenCall> calls_;
  bool alive_ = false, paused_ = false;
  uint64_t since_ = 0;       // end of the last event
  uint32_t blocked_ = 0;     // the call that was added and goes on
  uint64_t sampled_at_ = 0;  // the last sample since then; 0: none yet
  uint64_t told_ = 0;        // nothing is added before
};

}  // namespace cutaway
