// Live segments: raw Records in file-backed memory, so
// that what was written survives the death of the process.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/format.h"

namespace cutaway {

constexpr size_t kFirstSegment = 64 << 10;  // up to kLargestSegment
// Records kept free at the end of a segment: room for all
// open calls and for the reason why recording stopped.
constexpr uint32_t kReserve = 72;

struct Segment {
  char* base;
  size_t size;
  uint32_t thread, number;  // of the file's name
  uint32_t seq;
  Segment* link;

  SegmentHead* head() const { return reinterpret_cast<SegmentHead*>(base); }

  Record* first() const { return reinterpret_cast<Record*>(base + sizeof(SegmentHead)); }
  Record* last() const { return reinterpret_cast<Record*>(base + size); }
  Record* limit() const { return last() - kReserve; }
};

// Makes live-<thread>-<number>.seg with its blocks reserved and its pages touched; null and errno
// if that fails. Its place in the thread's stream, `seq`, is set when it is taken into use.
Segment* make_segment(int folder, uint32_t thread, uint32_t number, size_t size);
void unmap_segment(Segment* segment);  // its memory; the file stays
void unlink_segment(int folder, const Segment* segment);
void remove_segment(int folder, Segment* segment);  // file, memory and all
size_t complete_records(const Segment* segment);

// The segment as one block of events.bin, empty if it holds no record.
std::vector<uint8_t> pack_segment(const Segment* segment, uint64_t* count);
// False and errno if that fails; the file is then as before.
bool append_block(int events, const std::vector<uint8_t>& block);

}  // namespace cutaway
