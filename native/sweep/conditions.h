// For how long conditions held together, in a process and in the whole run, by part of the run.
#pragma once
#include <cstdint>
#include <vector>

#include "sweep/tables.h"

namespace cutaway {

enum Of : int { kOfPython, kOfBackend, kOfApi, kOfDevice, kOfExecuting, kOfs };  // of the whole run
enum Had : int { kHadThread, kHadExecuting, kHadDevice, kHads };                 // of a process

// One of the conditions of the whole run begins or ends to hold in a process.
struct Change {
  uint64_t time;
  uint8_t what, on;
};

struct Conditions {
  Overlap<kHads> had;
  Overlap<kOfs> of;
  bool notes_changes = false;
  std::vector<Change> changes;  // since they were taken away

  void hold_of(int what, bool on, uint64_t time) {
    of.hold(what, on, time);
    if (notes_changes) changes.push_back({time, static_cast<uint8_t>(what), on});
  }
  void split(int part, uint64_t time) {
    had.split(part, time);
    of.split(part, time);
  }
  void end_startup_with_first_work() {
    had.end_startup_with_first_work();
    of.end_startup_with_first_work();
  }
  bool sound() const { return had.mask >> kHads == 0 && of.mask >> kOfs == 0; }

  template <class A>
  void members(A& a) {
    a(had, of);
  }
};

}  // namespace cutaway
