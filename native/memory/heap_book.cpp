#include "memory/heap_book.h"

#include <algorithm>

#include "recorder/state.h"

namespace cutaway {

namespace {

constexpr uint32_t kLasting = 200;  // ms
constexpr uint64_t kMany = 400,
                   kFew = 100;    // samples a second: when points are put further apart, and nearer
constexpr size_t kEnough = 2048;  // samples kept at each distance of points, before it doubles
constexpr size_t kMostDoublings = 16;
constexpr uint64_t kSecond = 1000000000;
constexpr uint64_t kRarest = 10 * kSecond;  // between two entries, in a long run
constexpr size_t kMostInLine = 2000;
const char* const kKinds[] = {"malloc", "mmap", "python"};

}  // namespace

void HeapBook::look(StackNumbers& stacks) {
  const uint64_t now = monotonic_ns();
  if (!began_) began_ = written_ = adapted_ = now;
  now_ms_ = coarse_ms();
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (!heap.filter[bucket].load(std::memory_order_relaxed)) continue;
    for (size_t i = 0; i < kInBucket; ++i) look_at(bucket * kInBucket + i, stacks);
  }
  if (now - adapted_ >= kSecond) adapt(now);
  if (now - written_ >= std::min(kRarest, kSecond / 2 + (now - began_) / 100)) write();
}

void HeapBook::look_at(size_t slot, StackNumbers& stacks) {
  const uint64_t key = heap.slots[slot].key.load(std::memory_order_acquire);
  if (key == kGone) return take_out(slot);
  if (!(key & ~kHeapBits) || key & kHeapBits) return;
  if (now_ms_ - heap.slots[slot].born_ms.load() >= kLasting) take_in(slot, key, stacks);
}

// Claimed first: the program may free it meanwhile, and its buffer must not go to another sample.
void HeapBook::take_in(size_t slot, uint64_t pointer, StackNumbers& stacks) {
  HeapSlot& at = heap.slots[slot];
  uint64_t expected = pointer;
  if (!at.key.compare_exchange_strong(expected, pointer | kClaimed)) return;
  const uint32_t buffer = at.buffer;
  const Sampled& sample = sampled_at(buffer);
  const uint32_t site = site_of(sample, stacks.number_of(sample.frames, sample.count));
  const uint64_t weight = sample.weight;
  give_back(buffer);
  kept_[slot] = {site, weight};
  change(site, static_cast<int64_t>(weight), 1);
  expected = pointer | kClaimed;
  if (!at.key.compare_exchange_strong(expected, pointer | kKnown)) take_out(slot);
}

void HeapBook::take_out(size_t slot) {
  const auto known = kept_.find(slot);
  if (known != kept_.end()) {
    change(known->second.site, -static_cast<int64_t>(known->second.bytes), -1);
    kept_.erase(known);
  }
  clear_slot(slot);
}

void HeapBook::change(uint32_t site, int64_t bytes, int blocks) {
  sites_[site].bytes += bytes;
  sites_[site].blocks += blocks;
  sites_[site].changed = true;
  heap.kept_bytes += bytes;
}

uint32_t HeapBook::site_of(const Sampled& sample, uint32_t stack) {
  const auto [known, is_new] = numbers_.try_emplace({stack, sample.operation, sample.kind},
                                                    static_cast<uint32_t>(sites_.size()));
  if (!is_new) return known->second;
  sites_.emplace_back();
  recorder.log.line("\"k\":\"site\",\"id\":" + std::to_string(known->second) + ",\"frame\":" +
                    std::to_string(stack) + ",\"operation\":" + std::to_string(sample.operation) +
                    ",\"what\":\"" + kKinds[sample.kind] + "\"");
  return known->second;
}

// A program that allocates gigabytes a second, or keeps gigabytes, gets fewer points; each then
// stands for more.
void HeapBook::adapt(uint64_t now_ns) {
  const uint64_t seconds = std::max<uint64_t>(1, (now_ns - adapted_) / kSecond);
  const uint64_t rate = (heap.samples - samples_) / seconds;
  samples_ = heap.samples;
  adapted_ = now_ns;
  const uint64_t least = kInterval << std::min(kMostDoublings, kept_.size() / kEnough);
  const uint64_t interval = heap.interval;
  if (rate > kMany || interval < least)
    heap.interval = 2 * interval;
  else if (rate < kFew && interval > least)
    heap.interval = interval / 2;
}

void HeapBook::write() {
  written_ = monotonic_ns();
  std::string live;
  size_t count = 0;
  const auto put = [&] {
    recorder.log.line("\"k\":\"heap\",\"t\":" + std::to_string(written_) + ",\"interval\":" +
                      std::to_string(heap.interval) + ",\"live\":[" + live + "]");
    live.clear();
    count = 0;
  };
  for (size_t i = 0; i < sites_.size(); ++i) {
    Site& site = sites_[i];
    if (!site.changed) continue;
    site.changed = false;
    live += (live.empty() ? "[" : ",[") + std::to_string(i) + "," + std::to_string(site.bytes) +
            "," + std::to_string(site.blocks) + "]";
    if (++count == kMostInLine) put();
  }
  put();
  if (heap.lost_bytes == lost_) return;
  lost_ = heap.lost_bytes;
  recorder.log.line("\"k\":\"heap\",\"t\":" + std::to_string(written_) +
                    ",\"lost\":" + std::to_string(lost_));
}

}  // namespace cutaway
