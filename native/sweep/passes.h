// The iterations of a process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sweep/tables.h"

namespace cutaway {

class Passes {
 public:
  // Of a run that keeps only its last stretch in full: makes room if there are too many. No pause
  // that lasts began before `paused_since`; those that are forgotten become a length.
  void limit(std::vector<Pause>& pauses, uint64_t paused_since);

  template <class A>
  void members(A& a) {
    a(iterations);
  }
  std::vector<Iteration> iterations;

 private:
  static constexpr size_t kMost = 1 << 15;  // iterations

  void join(size_t old);
  void forget_pauses(std::vector<Pause>& pauses, size_t rows, uint64_t until);
};

}  // namespace cutaway
