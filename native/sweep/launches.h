// Which API call launched a piece of device work. A call is remembered for as long as work of it
// may come.
#pragma once
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "sweep/device_records.h"

namespace cutaway {

struct Launch {
  uint64_t correlation, start, end;
  uint32_t thread, name, operation;
};

class Launches {
 public:
  static constexpr size_t kMost = 1 << 15;  // if nobody knows what is to come

  // What is on disk, until the next call; or nullptr.
  void expect(const DeviceRecords* records) { records_ = records; }
  // All work there will be is on disk: only calls that it refers to are remembered.
  void expect_no_more_than(const DeviceRecords& records);

  // Of calls with the same id the first counts.
  void add(const Launch& launch);
  const Launch* find(uint64_t correlation) const;  // nullptr: not known
  bool is_to_come(uint64_t correlation) const;
  void took(const DeviceRecord& work);  // nothing more is asked about it
  // Whether one that is needed may have been forgotten, so that it makes no sense to wait for it.
  bool forgets() const { return !knows_all_; }

  std::vector<Launch> all() const;  // oldest first

 private:
  void forget_oldest();
  void forget_group(uint64_t group);

  std::unordered_map<uint64_t, Launch> launches_;
  std::deque<uint64_t> newest_;  // correlations, oldest first, in that case
  const DeviceRecords* records_ = nullptr;
  bool knows_all_ = false;
  std::vector<uint32_t> works_;  // to come, of each group of correlations on disk
};

}  // namespace cutaway
