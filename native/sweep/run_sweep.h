// The sweeps of all processes of a run, on all cores. Results do not depend on how many there are.
#pragma once
#include <functional>

#include "sweep/sweep.h"

namespace cutaway {

class RunSweep {
 public:
  RunSweep() = default;
  RunSweep(const RunSweep&) = delete;
  RunSweep& operator=(const RunSweep&) = delete;

  uint32_t add_process(SharedFiles files);
  uint32_t add_thread(uint32_t process, uint32_t id, std::vector<Source> sources);
  void add_samples(uint32_t process, std::vector<Source> sources);

  void run();

  // For how long which conditions held in the run as a whole, its steady state lasting from one
  // instant to another (0: unknown). Instead of `run`: it keeps the processes in step, which takes
  // longer.
  Overlap<kOfs> overlap(uint64_t steady, uint64_t over);

  std::vector<std::unique_ptr<ProcessSweep>> processes;
  std::vector<uint32_t> first_thread;  // of each process, counted over all
  std::vector<Lanes> windows;          // what every process draws

 private:
  void for_each_process(const std::function<void(ProcessSweep&)>& work);
  void read_ahead();

  static constexpr uint64_t kLong = 1 << 17;  // records of a thread that may be worth a core

  std::vector<uint64_t> records_;  // of each process: the largest begins first
  std::vector<std::pair<SweepThread*, uint64_t>> long_ones_;  // and their records
};
}  // namespace cutaway
