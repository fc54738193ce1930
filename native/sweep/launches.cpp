#include "sweep/launches.h"

namespace cutaway {

void Launches::expect_no_more_than(const DeviceRecords& records) {
  records_ = &records;
  knows_all_ = true;
  works_.clear();
  for (const auto& group : records.correlations.entries()) works_.push_back(group.value.works);
}

void Launches::add(const Launch& launch) {
  if (!launch.correlation) return;
  if (knows_all_) {
    const uint32_t group = records_->correlations.find(group_key(launch.correlation));
    if (group < works_.size() && works_[group]) launches_.emplace(launch.correlation, launch);
    return;
  }
  if (!launches_.emplace(launch.correlation, launch).second) return;
  newest_.push_back(launch.correlation);
  if (newest_.size() > kMost) forget_oldest();
}

const Launch* Launches::find(uint64_t correlation) const {
  const auto found = correlation ? launches_.find(correlation) : launches_.end();
  return found == launches_.end() ? nullptr : &found->second;
}

bool Launches::is_to_come(uint64_t correlation) const {
  return correlation && records_ && records_->is_made(correlation) && !find(correlation);
}

void Launches::took(const DeviceRecord& work) {
  if (!knows_all_ || !work.correlation || !keeps_busy(work)) return;
  const CorrelationKey key = group_key(work.correlation);
  const uint32_t group = records_->correlations.find(key);
  if (group < works_.size() && works_[group] && !--works_[group]) forget_group(key.group);
}

std::vector<Launch> Launches::all() const {
  std::vector<Launch> out;
  for (const uint64_t correlation : newest_) out.push_back(launches_.at(correlation));
  return out;
}

void Launches::forget_oldest() {
  launches_.erase(newest_.front());
  newest_.pop_front();
}

void Launches::forget_group(uint64_t group) {
  for (uint64_t i = 0; i < kCorrelationGroup && !launches_.empty(); ++i)
    launches_.erase(group * kCorrelationGroup + i);
}

}  // namespace cutaway
