// What the sampled allocations add up to: bytes alive by site (Python stack, operation, kind of
// memory), written to the log now and then. Only the sampler's thread uses it. Allocations freed
// within kLasting are never looked at.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "memory/heap.h"

namespace cutaway {

// Turns the frames of a sample into the number of a stack (log "frame"), 0 for none.
class StackNumbers {
 public:
  virtual uint32_t number_of(const RawFrame* frames, size_t count) = 0;

 protected:
  ~StackNumbers() = default;
};

class HeapBook {
 public:
  void look(
      StackNumbers& stacks);  // takes in what is new and what is gone, and writes when it is time
  void write();               // what has changed since it was last written

 private:
  struct Site {
    int64_t bytes = 0, blocks = 0;
    bool changed = false;
  };
  struct Kept {
    uint32_t site;
    uint64_t bytes;
  };

  void look_at(size_t slot, StackNumbers& stacks);
  void take_in(size_t slot, uint64_t pointer, StackNumbers& stacks);
  void take_out(size_t slot);
  void change(uint32_t site, int64_t bytes, int blocks);
  uint32_t site_of(const Sampled& sample, uint32_t stack);
  void adapt(uint64_t now_ns);

  std::vector<Site> sites_;
  std::map<std::tuple<uint32_t, uint32_t, uint8_t>, uint32_t> numbers_;
  std::unordered_map<size_t, Kept> kept_;  // by slot
  uint64_t began_ = 0, written_ = 0, adapted_ = 0, samples_ = 0;
  uint64_t lost_ = 0;
  uint32_t now_ms_ = 0;
};

}  // namespace cutaway
