// What the processes of a run share: RUN/shared, one page-sized table in shared
// memory. Each process owns a slot; anybody may add them up. Nothing in it is needed to read the
// trace.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace cutaway {

enum WindowState : uint32_t { kWindowOpen = 0, kWindowNotYet = 1, kWindowOver = 2 };

class Shared {
 public:
  bool open(const std::string& run_folder);  // true for the first process; works on its own, alone,
                                             // if the file cannot be had
  void close();
  void tell(uint64_t cpu_ns, uint64_t bytes);  // this process so far
  uint64_t cpu_ns() const;              // all processes of the run, also those that have ended
  uint64_t bytes(uint64_t mine) const;  // all processes, this one with what it has by now
  WindowState window() const;
  void set_window(WindowState state);

 private:
  struct Slot {
    std::atomic<uint64_t> cpu_ns, bytes;
  };
  struct Table {
    std::atomic<uint32_t> used, window;
    uint64_t reserved;
    Slot slots[4095];
  };
  static_assert(sizeof(Table) == 65536, "");
  Table* table_ = nullptr;
  Slot* slot_ = nullptr;
  Slot alone_{};
  std::atomic<WindowState> window_alone_{kWindowOpen};
};

}  // namespace cutaway
