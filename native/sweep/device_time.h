// When devices were busy, by the records that are there. Work of several processes on one device at
// one time counts once, so this is asked of all processes together, after their sweeps.
#pragma once
#include "sweep/device_records.h"
#include "sweep/periods.h"

namespace cutaway {

// Operations that have no name: of work whose launch is not in the recording, and of names the log
// does not tell.
constexpr uint32_t kUnattributed = UINT32_MAX, kUnknown = UINT32_MAX - 1;

// The device work of a process, and which operation launched each piece (DeviceTotals::operations).
struct DeviceSource {
  const DeviceRecords* records;
  const uint32_t* operations;
  size_t works;
};

// Time in which at least one piece of work ran, by what was asked for.
struct BusyQuery {
  enum By : uint8_t { kProcess = 1, kDevice = 2, kOperation = 4, kKind = 8 };
  uint32_t by;
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
  uint64_t ns = 0, until = 0;
  size_t at = 0;              // the bin that was reached
  std::vector<int64_t> bins;  // the time in each
};

using BusyTable = Dense<BusyKey, Busy>;
std::vector<BusyTable> busy_tables(const std::vector<DeviceSource>& of,
                                   const std::vector<BusyQuery>& queries);

// How a device was used between two instants.
struct DeviceUse {
  uint64_t until = 0, ns = 0;
  Periods kernels;
};
using UseTable = Dense<DeviceNumber, DeviceUse>;
UseTable use_of_devices(const std::vector<DeviceSource>& of, uint64_t first, uint64_t end);

}  // namespace cutaway
