// Tables about device work, made in one pass over the device records of all processes, in order of
// start. Of calls only those stay in memory whose work is still to come.
#pragma once
#include <array>

#include "sweep/device_records.h"

namespace cutaway {

// Operations that have no name: of work whose launch is not in the recording, and of names the log
// does not tell.
constexpr uint32_t kUnattributed = UINT32_MAX, kUnknown = UINT32_MAX - 1;

// The device work of a process, and what the sweep found out about the calls that launched it.
struct DeviceSource {
  const DeviceRecords* records;
  std::vector<uint32_t> callers;  // which of the run each of `records->threads` is
  const uint32_t* operations;     // in force at each API call
  size_t calls;
};

// Time in which at least one piece of work ran, by what was asked for.
struct BusyQuery {
  enum By : uint8_t { kProcess = 1, kDevice = 2, kOperation = 4, kKind = 8 };
  uint32_t by, kinds;   // `kinds`: a bit for each
  uint64_t first, end;  // when the work starts
  // Numbers of the operations of each process, by id; kUnattributed and kUnknown are among them.
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> titles;
  std::vector<uint64_t> instants;  // the edges of bins, ascending
};

struct BusyKey {
  uint32_t process, device, operation, kind;
  bool operator==(const BusyKey& o) const {
    return process == o.process && device == o.device && operation == o.operation && kind == o.kind;
  }
  uint64_t hash() const {
    return mix(mix(uint64_t{process} << 32 | device) ^ (uint64_t{kind} << 32 | operation));
  }
};

struct Busy {
  uint64_t count = 0, ns = 0, until = 0;
  size_t at = 0;              // the bin that was reached
  std::vector<int64_t> bins;  // the time in each
};

using BusyTable = Dense<BusyKey, Busy>;
std::vector<BusyTable> busy_tables(const std::vector<DeviceSource>& of,
                                   const std::vector<BusyQuery>& queries);

// Work that looks the same.
struct KernelKey {
  enum Field { kProcess, kThread, kApi, kOperation, kDevice, kStream, kName, kKind, kGrid };
  static constexpr size_t kFields = kGrid + 3 + 3 + 2;  // grid, block, registers, shared memory
  std::array<uint32_t, kFields> fields;
  bool operator==(const KernelKey& o) const { return fields == o.fields; }
  uint64_t hash() const {
    uint64_t h = 0;
    for (const uint32_t field : fields) h = mix(h ^ field);
    return h;
  }
};

struct Kernel {
  uint64_t count = 0, ns = 0, bytes = 0;
  uint64_t launched = 0;  // by a call that is known
  int64_t launch_ns = 0;  // from the ends of these calls
  int64_t queue = 0;  // how many on the same stream had been launched by then and had not started
};

using KernelTable = Dense<KernelKey, Kernel>;
// `with_queue` holds three numbers of each piece of work in memory.
KernelTable kernel_table(const std::vector<DeviceSource>& of, uint64_t first, uint64_t end,
                         bool with_queue);

}  // namespace cutaway
