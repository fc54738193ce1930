// Which memory stays, and which line asked for it. Allocations are sampled: a point falls on one of
// every kInterval bytes or so (a Poisson process over bytes), and the allocation it falls into is
// remembered with its Python stack until it is freed. So an allocation of n bytes is chosen with
// the probability 1 - exp(-n / interval), and stands for n divided by that.
//
// The program's threads do only two things: count bytes down, and check for each pointer they free
// whether its bucket holds anything. Both take a few instructions and no lock. The sampler's thread
// does the rest (heap_book.h).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cutaway {

enum HeapKind : uint8_t { kMallocated = 0, kMapped = 1, kPythonPool = 2 };

constexpr uint64_t kInterval = 64 << 10;  // bytes between two points, on average; more in programs
                                          // that allocate or keep very much
constexpr size_t kMostHeapFrames = 48;    // of a stack, the innermost
constexpr size_t kBuckets = 1 << 14, kInBucket = 4;

struct RawFrame {
  const void* code;
  const char* instruction;  // 3.10: the offset itself
};

// A sampled allocation as its thread saw it.
struct Sampled {
  uint64_t bytes, weight;
  uint32_t operation;  // name of the innermost open one, 0: none
  HeapKind kind;
  uint8_t count;
  RawFrame frames[kMostHeapFrames];  // innermost first
};

// What a slot holds: a pointer with these bits, or no pointer and one of them.
constexpr uint64_t kKnown = 1;    // the book has it
constexpr uint64_t kClaimed = 2;  // the book is reading it
constexpr uint64_t kGone =
    4;  // freed; the book has to take it out. All bits without a pointer: being written
constexpr uint64_t kHeapBits = 7;

struct HeapSlot {
  std::atomic<uint64_t> key{0};
  std::atomic<uint32_t> buffer{0};   // number of the Sampled
  std::atomic<uint32_t> born_ms{0};  // CLOCK_MONOTONIC_COARSE
};

struct Heap {
  std::atomic<bool> on{false};
  std::atomic<uint64_t> interval{0};
  std::atomic<uint64_t> samples{0};     // since the start
  std::atomic<int64_t> kept_bytes{0};   // that the book has
  std::atomic<uint64_t> lost_bytes{0};  // of samples that found no room
  std::atomic<uint8_t> filter[kBuckets] = {};
  HeapSlot slots[kBuckets * kInBucket];
};
extern Heap heap;  // all zero before the start, so that it takes no memory

struct HeapThread {
  int64_t left;     // bytes until the next point
  uint64_t random;  // 0: nothing drawn yet
  bool inside;      // one of our threads, or one that is being sampled
};
extern __thread HeapThread heap_thread;

__attribute__((cold)) void count_down(void* p, size_t bytes, HeapKind kind);
__attribute__((cold)) void keep_sample(void* p, size_t bytes, uint64_t weight, HeapKind kind);
__attribute__((cold)) void forget_sample(void* p);

inline size_t bucket_of(const void* p) {
  return (reinterpret_cast<uintptr_t>(p) >> 4) * 0x9E3779B97F4A7C15ull >> 50;
}

inline void allocated(void* p, size_t bytes, HeapKind kind = kMallocated) {
  heap_thread.left -= static_cast<int64_t>(bytes);
  if (__builtin_expect(heap_thread.left < 0, 0)) count_down(p, bytes, kind);
}

inline void freed(void* p) {
  if (__builtin_expect(heap.filter[bucket_of(p)].load(std::memory_order_relaxed) != 0, 0))
    forget_sample(p);
}

Sampled& sampled_at(uint32_t buffer);
void give_back(uint32_t buffer);
void clear_slot(size_t slot);  // by whoever set it to no pointer
uint32_t coarse_ms();

// heap_hooks.cpp: puts our functions where objects keep the addresses of malloc and its kin.
void hook_new_objects();              // from the sampler's thread, now and then
void hook_arenas();                   // needs the GIL
void unhook_heap();                   // needs the GIL
void switch_heap_hooks(bool wanted);  // needs the GIL; off: until they are wanted again
void lock_hooks();                    // around a fork
void unlock_hooks();

// heap.cpp
void start_heap();
void stop_heap();
void forget_heap_after_fork();

}  // namespace cutaway
