// Sampled quantities (10 Hz) and clock anchors (1 Hz), written by the background thread.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace cutaway {

class Meters {
 public:
  Meters();
  void sample(bool all_threads);  // false: only those that record; reading /proc for all costs more
  uint64_t process_cpu_ns() const { return process_cpu_ns_; }

 private:
  std::string threads(bool all);
  void measure_cores(uint64_t now);
  std::string sharing(uint64_t now);
  std::map<int, uint64_t> cpu_of_;  // a thread that did not run since is not written again
  uint64_t process_cpu_ns_ = 0;
  uint64_t cores_from_ = 0, cores_cpu_ = 0, run_cpu_ = 0, busy_from_ = 0, foreign_from_ = 0;
  uint64_t sharing_next_ = 0;
  double cores_ = 0, foreign_ = -1;  // -1: not measured yet
};

void write_anchor();

}  // namespace cutaway
