// The trace format, all of it that is binary. docs/format.md explains it; native/trace/codec.h packs it.
// A run is a folder NAME.cutaway/; each process has a folder in it, p<pid>-<start>/, with
//   live-<thread>-<n>.seg     raw Records of one thread, written in place, zero behind the last one
//   events.bin                Blocks: packed Records of a full segment, appended by the compaction thread
//   device.bin                Blocks of ApiRecord / DeviceRecord, written in place by an accelerator
//   collector: each
//                             starts at a multiple of kDeviceChunk, zeros between blocks and at the end are
//                             skipped
//   pulse.bin                 Pulses: what each thread is in the middle of, one slot a thread; none after a
//                             clean end
//   log.jsonl                 names, call sites, threads, anchors, samples, losses: one checksummed line each
#pragma once
#include <cstdint>

namespace cutaway {

constexpr uint8_t kFormatVersion = 1;

// One 16-byte record. `time` is written last (release), so a record is complete if and only if time != 0.
struct Record {
  uint64_t time;   // ticks of the recorder's clock
  uint32_t value;  // see Kind
  uint32_t tag;    // kind in the low 8 bits, id in the high 24
};
static_assert(sizeof(Record) == 16, "a record is 16 bytes");

// The stream of a thread is ordered by time and properly nested: a call that made no recorded call inside is
// one Call; any other call is Enter … Exit around what happened inside it.
enum Kind : uint8_t {
  kNone = 0,
  kCall = 1,       // id: call (log "call"), value: duration in ticks
  kEnter = 2,      // id: call; also for a call longer than 2^32 ticks
  kExit = 3,       // id: call
  kOpEnter = 4,    // id: name; value: who opened it, 0 the program, 1 a framework hook (Why)
  kOpExit = 5,     // id: name; may be out of order (mis-nesting): closes the topmost open one of that name
  kPhase = 6,      // id: name, 0 for none; in force until the next one on this thread
  kIteration = 7,  // value: number of this iteration in the process
  kStep = 8,       // value: environment steps made at this instant (width of a vector environment)
  kPause = 9,      // recording stops here … id: 1 calibration, 2 window, 3 asked for, 4 size limit, 5 disk
  kResume =
      10,  // … and goes on here, value and id: steps and iterations meanwhile; no part of the traced life
  kCpuTime = 11,  // thread CPU ns = id << 32 | value, at this instant
  kBegin = 12,    // the traced life of this thread begins
  kEnd = 13,      // … and ends
  kMark = 14,     // id: Mark; a hint from which the analysis names what has no operation (sweep/namer.h)
  kSample = 15,   // in the stream of samples only; id: thread, value: frame (log "frame")
};

enum Mark : uint32_t {
  kNetworkBegins = 1,  // an outermost call of a neural network; value: 1 if gradients were recorded
  kNetworkEnds = 2,
  kBatch = 3,        // a batch is drawn from memory
  kRandom = 4,       // a random action is drawn
  kEnvironment = 5,  // which environment is used from here on; value: its number, kEvaluating if it evaluates
  kWhy = 6,          // never in a file: the reason (value) for which the innermost operation is open changes
};
constexpr uint32_t kEvaluating = 1u << 31;

// Why an operation is open. The first two are recorded, the others come from the rule of sweep/namer.h.
enum Why : uint32_t {
  kAnnotated = 0,      // the program says so
  kByFramework = 1,    // a hook in a library says so
  kLeadsToStep = 2,    // leads to the next step of an environment
  kStoresStep = 3,     // after a step, up to the last time something is stored
  kLeadsToUpdate = 4,  // leads to the first gradient or optimizer call after a step
  kWithinUpdate = 5,   // between two gradient or optimizer calls
  kAfterUpdate = 6,    // after the last of these, up to the next action
  kNetworkCall = 7,    // a network called without gradients, with no step and no update near
  kEvaluates = 8,      // steps of an environment that is not trained on
  kCompiled = 9,       // a compiled function that holds a gradient
  kWhys = 10
};

constexpr uint32_t kCalibrationPause = 1;  // the reason of a Pause that leaves out one unit of work

inline uint32_t make_tag(Kind kind, uint32_t id) { return static_cast<uint32_t>(kind) | id << 8; }
inline Kind kind_of(uint32_t tag) { return static_cast<Kind>(tag & 0xff); }
inline uint32_t id_of(uint32_t tag) { return tag >> 8; }
constexpr uint32_t kMaxId = (1u << 24) - 1;  // "everything beyond the 16 million first"

// Head of a live segment, 64 bytes, then Records up to the end of the file.
constexpr uint32_t kSegmentMagic = 0x47535743;  // "CWSG"
struct SegmentHead {
  uint32_t magic;
  uint8_t version;
  uint8_t clock;  // Clock
  uint16_t reserved;
  uint32_t thread;  // log "thread" id
  uint32_t seq;     // 0, 1, 2 … for each thread; kUnusedSeq: prepared, never written to
  uint64_t pad[6];
};
static_assert(sizeof(SegmentHead) == 64, "");
constexpr uint32_t kUnusedSeq = 0xffffffff;

// A thread that writes nothing for a while (a long call, a hang): a slot of pulse.bin, rewritten twice a
// second by the background thread. It holds if `count` is still the number of records in segment `seq`; its
// records then go on where the segment ends: Enter for each open call that was not written yet, and End, now.
constexpr uint32_t kPulseMagic = 0x4c505743;  // "CWPL"
constexpr uint32_t kPulseSlot = 2048;         // bytes; divides a page, so a kill never tears one
constexpr uint32_t kPulseRecords = 65;
struct Pulse {
  uint32_t magic;
  uint8_t version;
  uint8_t clock;  // Clock
  uint16_t used;  // records
  uint32_t thread, seq;
  uint32_t count;
  uint32_t call;   // the innermost open call, 0: none
  uint64_t since;  // when it began, 0: none
  uint32_t crc;    // CRC-32C of the whole slot with this field 0
  uint32_t pad[7];
  Record records[kPulseRecords];
};
static_assert(sizeof(Pulse) == 64 + 16 * kPulseRecords && sizeof(Pulse) <= kPulseSlot, "");

enum Clock : uint8_t { kTicks = 0, kMonotonic = 1, kRealtime = 2, kMonotonicRaw = 3 };
enum Stream : uint8_t { kThreadStream = 0, kApiStream = 1, kDeviceStream = 2 };

// Head of a block in events.bin and device.bin, 56 bytes, then `bytes` of payload.
constexpr uint32_t kBlockMagic = 0x4b425743;  // "CWBK"
struct BlockHead {
  uint32_t magic;
  uint8_t version;
  uint8_t stream;  // Stream
  uint8_t clock;   // Clock
  uint8_t reserved;
  uint32_t id;     // thread (log "thread" id); 0 for device.bin
  uint32_t seq;    // of this thread; a live segment with a seq that also stands in a block is a duplicate
  uint32_t count;  // records
  uint32_t bytes;  // payload
  uint64_t first, last;  // smallest time and largest end in the payload, in the block's clock
  uint64_t reserved2;
  uint32_t payload_crc;  // CRC-32C of the payload
  uint32_t head_crc;     // CRC-32C of the 52 bytes before this field
};
static_assert(sizeof(BlockHead) == 56, "");

// device.bin is file-backed memory, so that what was recorded survives a kill: a block grows in place within
// its chunk. Records are in no order (a queue may finish out of order).
constexpr uint32_t kDeviceChunk = 1 << 16;

// Payload of kApiStream: one accelerator API call of a host thread.
struct ApiRecord {
  uint64_t start, end;
  uint64_t correlation;  // unique in the process
  uint32_t os_thread;    // tid
  uint32_t name;         // log "name" id
  uint32_t operation;    // name id of the innermost operation then, 0 if unknown (external correlation)
  uint32_t flags;        // bit 0: a synchronising call
};
static_assert(sizeof(ApiRecord) == 40, "");

// Payload of kDeviceStream: one piece of device work.
enum DeviceKind : uint8_t {
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kCollective = 4,
  kSync = 5,
  kOverhead = 6
};
struct DeviceRecord {
  uint64_t start, end;
  uint64_t correlation;  // of the launching call; 0 unknown
  uint64_t bytes;        // copies and sets
  uint32_t name;         // log "name" id
  uint32_t device, stream, graph;
  uint32_t operation;  // as in ApiRecord
  uint32_t grid[3], block[3];
  uint32_t registers, shared_static, shared_dynamic;
  uint8_t kind;    // DeviceKind
  uint8_t detail;  // copies: CUpti_ActivityMemcpyKind
  uint16_t
      flags;  // bit 0: queued_ns holds the picoseconds below start (low half) and end (high half) instead
  uint32_t queued_ns;  // submitted → start where the runtime tells, else 0
};
static_assert(sizeof(DeviceRecord) == 96, "");

}  // namespace cutaway
