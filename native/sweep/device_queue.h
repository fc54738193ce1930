// How many pieces of work wait on a stream when another one is launched: launched before, and not
// started.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cutaway {

class DeviceQueue {
 public:
  struct Waiting {
    uint64_t launched, started, reach;  // `reach`: the latest start up to here
    uint32_t row;
    int32_t length;
    bool is_early() const { return started <= launched; }  // foreign clocks are not exact
  };
  // They come in order of their start.
  void add(uint64_t launched, uint64_t started, uint32_t row);
  bool is_full() const { return waiting.size() > kMost; }

  template <class A>
  void members(A& a) {
    a(waiting, has_early_);
  }
  std::vector<Waiting> waiting;  // by launch

 private:
  using At = std::vector<Waiting>::iterator;
  static constexpr size_t kMost = 1 << 13;

  void compare_with_all(Waiting& own, At first);

  bool has_early_ = false;
};

}  // namespace cutaway
