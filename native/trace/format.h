// The trace format, all of it that is binary. docs/format.md explains it; native/trace/codec.h
// packs it. The structures and the kinds of records are declared in src/cutaway/vocabulary.py:
// vocabulary.h is made from it. A run is a folder NAME.cutaway/; each process has a folder in it,
// p<pid>-<start>/, with these files.
//
//   live-<thread>-<n>.seg  raw Records of one thread, written in place, zero behind the last one
//   events.bin             Blocks: packed Records of a full segment, appended by the compaction
//   thread device.bin             Blocks of ApiRecord or DeviceRecord, in no order, written in
//   place by a collector
//                          (memory that a file backs, so that a kill loses nothing). Each starts at
//                          a multiple of kDeviceChunk; zeros between blocks and at the end are
//                          skipped
//   pulse.bin              Pulses: what each thread is in the middle of, one slot a thread,
//   rewritten twice
//                          a second by the background thread; none after a clean end
//   log.jsonl              names, call sites, threads, anchors, samples, losses: one checksummed
//   line each
#pragma once
#include "trace/vocabulary.h"

namespace cutaway {

constexpr uint32_t kEvaluating = 1u << 31;  // in the value of Mark kEnvironment
// Networks called without gradients for one update (target networks). If more are called, they act.
constexpr uint32_t kMostTargets = 16;
constexpr uint32_t kCalibrationPause = 1;  // the reason of a Pause that leaves out one unit of work
constexpr uint32_t kMaxId = (1u << 24) - 1;  // "everything beyond the 16 million first"

inline uint32_t make_tag(Kind kind, uint32_t id) { return static_cast<uint32_t>(kind) | id << 8; }
inline Kind kind_of(uint32_t tag) { return static_cast<Kind>(tag & 0xff); }
inline uint32_t id_of(uint32_t tag) { return tag >> 8; }

// Of a kSample.
inline uint32_t frame_of(uint32_t value) { return value & ((1u << kSampleDoing) - 1); }
inline Doing doing_of(uint32_t value) { return static_cast<Doing>(value >> kSampleDoing); }

struct Pulse : PulseHead {
  Record records[kPulseRecords];
};
static_assert(sizeof(Pulse) <= kPulseSlot, "");

}  // namespace cutaway
