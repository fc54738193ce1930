// The sink for Python (ctypes): the Kineto and JAX routes write what they took from the other
// profiler.
#include <cstddef>
#include <cstdint>

#include "devices/host.h"
#include "devices/sink.h"
#include "recorder/abi.h"

using cutaway::Clock;
using cutaway::Sink;

CUTAWAY_ABI void cutaway_devices_api(const cutaway::ApiRecord* records, size_t count,
                                     uint8_t clock) {
  for (size_t i = 0; i < count; ++i) Sink::get().write(records[i], static_cast<Clock>(clock & 3));
}

CUTAWAY_ABI void cutaway_devices_work(const cutaway::DeviceRecord* records, size_t count,
                                      uint8_t clock) {
  for (size_t i = 0; i < count; ++i) Sink::get().write(records[i], static_cast<Clock>(clock & 3));
}

CUTAWAY_ABI uint32_t cutaway_devices_name(const char* utf8) { return Sink::get().name(utf8); }
CUTAWAY_ABI void cutaway_devices_log(const char* json) { Sink::get().log(json); }
CUTAWAY_ABI int cutaway_devices_outside() { return cutaway::host().outside_since() != 0; }
CUTAWAY_ABI void cutaway_devices_attach() { cutaway::choose_host_again(); }
CUTAWAY_ABI void cutaway_devices_flush() { Sink::get().flush(); }
CUTAWAY_ABI void cutaway_devices_close() { Sink::get().close(); }
