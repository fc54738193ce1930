#include "memory/heap.h"

#include <Python.h>
#include <math.h>
#include <time.h>

#include "intercept/frame_layout.h"
#include "recorder/state.h"

namespace cutaway {

Heap heap;
__thread HeapThread heap_thread = {0, 0, false};

namespace {

constexpr uint32_t kBuffers = 8192;  // samples that the book has not seen yet

// Free buffers, as a stack of numbers; the upper half of its head counts up, so that a buffer which
// was taken and given back meanwhile is noticed.
struct Buffers {
  Sampled all[kBuffers];
  std::atomic<uint32_t> below[kBuffers];
  std::atomic<uint64_t> top{0};  // number + 1; 0: none

  void reset() {
    top = 0;
    for (uint32_t i = kBuffers; i-- > 0;) give(i);
  }
  void give(uint32_t number) {
    uint64_t head = top.load();
    do {
      below[number] = static_cast<uint32_t>(head);
    } while (!top.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | (number + 1)));
  }
  bool take(uint32_t* number) {
    uint64_t head = top.load();
    do {
      if (!static_cast<uint32_t>(head)) return false;
      *number = static_cast<uint32_t>(head) - 1;
    } while (!top.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | below[*number]));
    return true;
  }
};
Buffers buffers;

// xorshift64*: good enough, and a thread's own.
double draw(HeapThread& t) {
  if (!t.random) t.random = (ticks() ^ reinterpret_cast<uintptr_t>(&t)) * 0x9E3779B97F4A7C15ull | 1;
  t.random ^= t.random >> 12;
  t.random ^= t.random << 25;
  t.random ^= t.random >> 27;
  const uint64_t bits = t.random * 0x2545F4914F6CDD1Dull >> 11;
  return -log((static_cast<double>(bits) + 1) / 9007199254740993.0);
}

int64_t next_point(HeapThread& t) {
  return static_cast<int64_t>(draw(t) * static_cast<double>(heap.interval.load()));
}

#if CUTAWAY_KNOWS_FRAMES
// The thread's own frames: nobody else changes them, so they can be read without the GIL.
uint8_t read_own_frames(RawFrame* frames) {
  PyThreadState* state = PyGILState_GetThisThreadState();
  if (!state) return 0;
  uint8_t n = 0;
#if PY_VERSION_HEX >= 0x030b0000
#if PY_VERSION_HEX >= 0x030d0000
  const auto* at = reinterpret_cast<const CutawayFrame*>(state->current_frame);
#else
  const auto* at =
      state->cframe ? reinterpret_cast<const CutawayFrame*>(state->cframe->current_frame) : nullptr;
#endif
  for (; at && n < kMostHeapFrames; at = at->previous) {
    const PyObject* code = cutaway_executable(at);
    if (!code || cutaway_is_entry(at) || code == Py_None) continue;
    frames[n++] = {code, at->instruction};
  }
#else
  for (const PyFrameObject* at = state->frame; at && n < kMostHeapFrames; at = at->f_back)
    frames[n++] = {at->f_code,
                   reinterpret_cast<const char*>(static_cast<intptr_t>(at->f_lasti) * 2)};
#endif
  return n;
}
#else
uint8_t read_own_frames(RawFrame*) { return 0; }
#endif

uint32_t operation_now() {
  const Thread* t = current;
  if (!t) return 0;
  const auto& open = static_cast<const ThreadState*>(t)->operations;
  return open.empty() ? 0 : open.back().name;
}

HeapSlot* free_slot(size_t bucket) {
  for (size_t i = 0; i < kInBucket; ++i) {
    HeapSlot& slot = heap.slots[bucket * kInBucket + i];
    uint64_t empty = 0;
    if (slot.key.compare_exchange_strong(empty, kHeapBits)) return &slot;
  }
  return nullptr;
}

bool store(void* p, size_t bytes, uint64_t weight, HeapKind kind) {
  uint32_t buffer;
  if (!buffers.take(&buffer)) return false;
  const size_t bucket = bucket_of(p);
  HeapSlot* slot = free_slot(bucket);
  if (!slot) {
    buffers.give(buffer);
    return false;
  }
  Sampled& sample = buffers.all[buffer];
  sample.bytes = bytes;
  sample.weight = weight;
  sample.operation = operation_now();
  sample.kind = kind;
  sample.count = read_own_frames(sample.frames);
  slot->buffer = buffer;
  slot->born_ms = coarse_ms();
  heap.filter[bucket].fetch_add(1);
  slot->key.store(reinterpret_cast<uint64_t>(p), std::memory_order_release);
  return true;
}

}  // namespace

uint32_t coarse_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return static_cast<uint32_t>(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

Sampled& sampled_at(uint32_t buffer) { return buffers.all[buffer]; }
void give_back(uint32_t buffer) { buffers.give(buffer); }

// A thread's first allocation only draws where its first point lies; drawing anew at a point is
// right, because the distance to the next one does not depend on the past.
void count_down(void* p, size_t bytes, HeapKind kind) {
  HeapThread& t = heap_thread;
  if (t.inside || !heap.on) {
    t.left = static_cast<int64_t>(kInterval);
    return;
  }
  const bool first = t.random == 0;
  t.left = next_point(t);
  if (first) {
    t.left -= static_cast<int64_t>(bytes);
    if (t.left >= 0) return;
    t.left = next_point(t);
  }
  const double share = static_cast<double>(bytes) / static_cast<double>(heap.interval.load());
  keep_sample(p, bytes, static_cast<uint64_t>(static_cast<double>(bytes) / -expm1(-share)), kind);
}

void keep_sample(void* p, size_t bytes, uint64_t weight, HeapKind kind) {
  if (!p || !heap.on || heap_thread.inside || reinterpret_cast<uintptr_t>(p) & kHeapBits) return;
  heap_thread.inside = true;
  ++heap.samples;
  if (!store(p, bytes, weight, kind)) heap.lost_bytes += weight;
  heap_thread.inside = false;
}

void clear_slot(size_t slot) {
  heap.filter[slot / kInBucket].fetch_sub(1);
  heap.slots[slot].key.store(0, std::memory_order_release);
}

// Before the memory is given back: afterwards another thread may have it, and sample it.
void forget_sample(void* p) {
  const size_t bucket = bucket_of(p);
  const auto pointer = reinterpret_cast<uint64_t>(p);
  for (size_t i = bucket * kInBucket; i < (bucket + 1) * kInBucket; ++i) {
    HeapSlot& slot = heap.slots[i];
    uint64_t key = slot.key.load(std::memory_order_acquire);
    while (key && (key & ~kHeapBits) == pointer) {
      const uint64_t then = key == pointer ? kHeapBits : (key & kClaimed) | kGone;
      if (!slot.key.compare_exchange_weak(key, then)) continue;
      if (key == pointer) {
        buffers.give(slot.buffer);
        clear_slot(i);
      }
      return;
    }
  }
}

void start_heap() {
  static bool first = true;
  if (first) buffers.reset();
  first = false;
  heap.samples = heap.lost_bytes = 0;
  heap.kept_bytes = 0;
  heap.interval = kInterval;
  heap.on = true;
}

// Other threads may be freeing what is taken out here.
void stop_heap() {
  heap.on = false;
  unhook_heap();
  for (size_t i = 0; i < kBuckets * kInBucket; ++i) {
    if (!heap.filter[i / kInBucket]) continue;
    const uint64_t key = heap.slots[i].key;
    if (const uint64_t pointer = key & ~kHeapBits) forget_sample(reinterpret_cast<void*>(pointer));
    if (heap.slots[i].key == kGone) clear_slot(i);
  }
}

// What a parent allocated is not the child's. Only the buckets in use: a fork must stay cheap.
void forget_heap_after_fork() {
  if (!heap.on) return;
  heap.on = false;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (!heap.filter[bucket]) continue;
    for (size_t i = bucket * kInBucket; i < (bucket + 1) * kInBucket; ++i) heap.slots[i].key = 0;
    heap.filter[bucket] = 0;
  }
  buffers.reset();
}

}  // namespace cutaway
