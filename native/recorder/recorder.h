// What the hooks of native/intercept and the operations of this folder use to write events.
// Invariants: a Thread is written only by its own thread, or by one that holds the GIL (the
// background thread and the sampler look at its Watched fields meanwhile); records are written with
// the GIL held; `cursor == end` while nothing may be written (no buffer yet, paused, disk full), so
// the one comparison every writer makes anyway is also the switch.
#pragma once
#include <time.h>

#include <cstdint>

#include "recorder/watched.h"
#include "trace/format.h"

namespace cutaway {

inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t v;
  asm volatile("mrs %0, cntvct_el0" : "=r"(v));
  return v;
#else
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
#endif
}

// Ticks a second where the machine tells (the generic timer of aarch64); 0 where they must be
// measured against a clock, as the anchors in the log do for every reader.
inline uint64_t ticks_per_second() {
#if defined(__aarch64__)
  uint64_t v;
  asm("mrs %0, cntfrq_el0" : "=r"(v));
  return v;
#elif defined(__x86_64__)
  return 0;
#else
  return 1000000000;
#endif
}

// An open native call that has not been written yet.
struct Open {
  Watched<uint64_t> start;
  Watched<uint32_t> call;
};

constexpr uint32_t kMaxOpen = 64;  // deeper calls are timed as part of the 64th

struct alignas(64) Thread {  // what a call needs, two calls deep, is one cache line
  Watched<Record*> cursor;
  Record* end;
  Watched<uint32_t> depth;    // open calls
  Watched<uint32_t> written;  // of these, how many have been written as Enter; written <= depth
  uint32_t spin;    // debugging: ticks that every event is made to cost on top, to show that
                    // correction finds them; 0 in real life
  bool with_sites;  // calls are told apart by the line they come from
  Open open[kMaxOpen];
};

// __thread, not thread_local: no initialisation guard on the hot path.
extern __thread Thread*
    current;  // null until this thread records its first event, and after a fork
extern __thread bool left_alone;  // a thread of ours in the program

__attribute__((cold)) Thread* attach();  // slow path: makes `current`; null when nothing records
__attribute__((cold)) bool refill(
    Thread* t);                // slow path: next segment; false when recording is off
void write_enters(Thread* t);  // slow path: writes open[written … depth) as Enter
uint32_t intern_name(const char* utf8, size_t size);  // log "name"
uint32_t intern_call(
    const char* json_fields);  // log "call": `"layer":…,"fn":…,…`; returns its new id

// Called by native/intercept once: how to put its pointers in place and take them out again. Both
// run with the GIL held, at start, stop, pause and resume, also from inside a hook.
void set_switch(void (*arm)(), void (*disarm)());

uint32_t log_number();  // call ids belong to one log; this changes when a new one begins

inline void write_record(Thread* t, uint64_t time, uint32_t value, uint32_t tag) {
  Record* r = t->cursor;
  r->value = value;
  r->tag = tag;
  __atomic_store_n(&r->time, time, __ATOMIC_RELEASE);
  t->cursor = r + 1;
}

inline void append(Thread* t, uint64_t time, uint32_t value, uint32_t tag) {
  if (__builtin_expect(t->cursor == t->end, 0) && !refill(t)) return;
  if (__builtin_expect(t->spin != 0, 0)) {
    const uint64_t until = ticks() + t->spin;
    while (ticks() < until) {
    }
  }
  write_record(t, time, value, tag);
}

inline void enter_call(Thread* t, uint64_t start, uint32_t call) {
  const uint32_t depth = t->depth;
  if (__builtin_expect(depth < kMaxOpen, 1)) {
    // Published, so that whoever sees them also sees that the call before has left this place
    // (pulse.cpp).
    t->open[depth].start.publish(start);
    t->open[depth].call.publish(call);
  }
  t->depth = depth + 1;
}

__attribute__((cold)) void exit_call_slowly(Thread* t, uint64_t end);

// Usually nothing around it waits to be written, nor has this one been; it is short; there is room.
// Each condition by itself: then compilers lay the usual way out in one row, in fewer cache lines.
inline void exit_call(Thread* t, uint64_t end) {
  const uint32_t depth = t->depth - 1;
  if (__builtin_expect(depth >= kMaxOpen, 0)) return exit_call_slowly(t, end);
  if (__builtin_expect(t->written != depth, 0)) return exit_call_slowly(t, end);
  const Open o = t->open[depth];
  const uint64_t duration = end - o.start;
  if (__builtin_expect(duration >> 32 != 0, 0)) return exit_call_slowly(t, end);
  if (__builtin_expect(t->cursor == t->end, 0)) return exit_call_slowly(t, end);
  if (__builtin_expect(t->spin != 0, 0)) return exit_call_slowly(t, end);
  t->depth = depth;
  write_record(t, o.start, static_cast<uint32_t>(duration), make_tag(kCall, o.call));
}

// Everything that is not a call (operations, phases, iterations) goes through here.
inline void mark(Thread* t, uint64_t time, uint32_t value, uint32_t tag) {
  if (__builtin_expect(t->written < t->depth, 0)) write_enters(t);
  append(t, time, value, tag);
}

}  // namespace cutaway
