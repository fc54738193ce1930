// Time in equal bins, for drawing: what each thread did in each, and how many steps and iterations
// there were. When the run goes beyond the last bin, neighbours are joined (bins grow with the
// run), or the first ones are forgotten (the bins slide), or what comes then is left out.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sweep/dense.h"

namespace cutaway {

// Who a row of bins is about; `state` is that of a cell.
struct LaneKey {
  uint32_t thread, operation, state;
  bool operator==(const LaneKey& o) const {
    return thread == o.thread && operation == o.operation && state == o.state;
  }
  uint64_t hash() const { return mix(mix(uint64_t{thread} << 32 | operation) ^ state); }
};

class Lanes {
 public:
  // `grows`: instead of leaving out what comes after the last bin, join bins. Their number is even
  // then.
  Lanes(uint64_t origin, uint64_t width, uint32_t count, bool grows)
      : steps(count),
        iterations(count),
        origin_(origin),
        width_(std::max<uint64_t>(width, 1)),
        count_(count),
        grows_(grows) {}

  // The newest bins only; they begin at multiples of their width.
  static Lanes sliding(uint64_t width, uint32_t count) {
    Lanes out(0, width, count, false);
    out.slides_ = true;
    return out;
  }

  uint32_t row(const LaneKey& key) {
    const uint32_t at = rows.find_or_add(key);
    rows[at].resize(count_);
    return at;
  }

  // Time of the bin that holds this instant.
  void add_within(uint32_t row, uint64_t at, uint64_t ns) {
    if (locate(at)) rows[row][bin_] += ns;
  }

  void count(std::vector<uint64_t>& what, uint64_t at, uint64_t n) {
    if (locate(at)) what[bin_] += n;
  }

  // What happened between two instants; all of it counts for the last if the bins do not slide.
  void count_between(std::vector<uint64_t>& what, uint64_t from, uint64_t to, uint64_t n) {
    if (!slides_) return count(what, to, n);
    slide_to(to);
    const uint64_t first = std::min(from, to) / width_, bins = to / width_ - first + 1;
    for (uint64_t bin = std::max(first, origin_ / width_); bin - first < bins; ++bin) {
      const uint64_t before = n * (bin - first) / bins, after = n * (bin - first + 1) / bins;
      what[bin - origin_ / width_] += after - before;
    }
  }

  bool holds(uint64_t time) const {
    return time >= origin_ && (grows_ || time < origin_ + width_ * count_);
  }

  // Joins bins until this instant is within the last one.
  void make_room(uint64_t time) { locate(time); }

  // Where the bin that holds this instant ends; what lies outside all bins ends with the run.
  uint64_t edge_after(uint64_t time) const {
    if (time < origin_) return origin_;
    const uint64_t bin = (time - origin_) / width_;
    return bin >= count_ && !grows_ ? UINT64_MAX : origin_ + (bin + 1) * width_;
  }

  void join_bins() {
    for (auto& entry : rows.entries()) join(entry.value);
    join(steps);
    join(iterations);
    width_ *= 2;
    here_ = kNowhere;
  }

  // The same bins, or what they grow to.
  bool goes_on_from(const Lanes& o) const {
    return grows_ && o.grows_ && origin_ == o.origin_ && count_ == o.count_ &&
           width_ % o.width_ == 0;
  }

  template <class A>
  void members(A& a) {
    a(origin_, width_, count_, grows_, rows, steps, iterations);
  }
  bool sound() const {
    const auto fits = [this](const std::vector<uint64_t>& bins) { return bins.size() == count_; };
    return width_ && count_ && count_ % 2 == 0 && fits(steps) && fits(iterations) &&
           std::all_of(rows.entries().begin(), rows.entries().end(),
                       [&](const auto& entry) { return fits(entry.value); });
  }

  uint64_t origin() const { return origin_; }
  uint64_t width() const { return width_; }
  uint32_t count() const { return count_; }
  Dense<LaneKey, std::vector<uint64_t>> rows;
  std::vector<uint64_t> steps, iterations;  // in each bin

 private:
  void join(std::vector<uint64_t>& bins) const {
    for (uint32_t i = 0; i < count_; ++i)
      bins[i] = 2 * i + 1 < count_ ? bins[2 * i] + bins[2 * i + 1] : 0;
  }

  void slide_to(uint64_t time) {
    const uint64_t newest = time / width_, first = origin_ / width_;
    if (newest < first + count_) return;
    const uint64_t by = std::min<uint64_t>(newest - count_ + 1 - first, count_);
    for (auto& entry : rows.entries()) slide(entry.value, by);
    slide(steps, by);
    slide(iterations, by);
    origin_ = (newest - count_ + 1) * width_;
    here_ = kNowhere;
  }
  static void slide(std::vector<uint64_t>& bins, uint64_t by) {
    bins.erase(bins.begin(), bins.begin() + static_cast<std::ptrdiff_t>(by));
    bins.resize(bins.size() + by);
  }

  bool locate(uint64_t time) {
    if (here_ != kNowhere && time - here_ < width_) return true;
    if (slides_) slide_to(time);
    if (time < origin_) return false;
    uint64_t bin = (time - origin_) / width_;
    for (; grows_ && bin >= count_; bin /= 2) join_bins();
    if (bin >= count_) return false;
    bin_ = static_cast<uint32_t>(bin);
    here_ = origin_ + bin * width_;
    return true;
  }

  uint64_t origin_, width_;
  uint32_t count_;
  bool grows_, slides_ = false;
  static constexpr uint64_t kNowhere = UINT64_MAX;
  uint64_t here_ = kNowhere;  // where the bin of the last time begins, and which it is
  uint32_t bin_ = 0;
};

}  // namespace cutaway
