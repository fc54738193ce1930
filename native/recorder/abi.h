// What `_recorder` exports to the accelerator libraries of native/devices (libcutaway_devices.so),
// which are loaded by others (an OpenCL loader, libcuda) and therefore look these functions up at
// run time: dl_iterate_phdr finds the loaded `_recorder*.so`, dlopen(RTLD_NOLOAD) + dlsym find the
// functions. All of them may be called from any thread, without the GIL. In a program without
// Python the library makes its own process folder in the run named by the environment.
#pragma once
#include <cstddef>
#include <cstdint>

#define CUTAWAY_ABI extern "C" __attribute__((visibility("default")))

// Folder of this process (…/NAME.cutaway/p<pid>-<start>), null while nothing records; changes after
// a fork.
CUTAWAY_ABI const char* cutaway_folder();

// Name id of the innermost open operation of the calling thread, 0 for none.
CUTAWAY_ABI uint32_t cutaway_current_operation();

// Log "name"; 0 when nothing records.
CUTAWAY_ABI uint32_t cutaway_intern_name(const char* utf8, size_t size);

// CLOCK_MONOTONIC nanoseconds since when nothing is to be recorded (a window, a limit, or by
// request; calibration does not count), 0 while recording.
CUTAWAY_ABI uint64_t cutaway_outside_since();

// `bytes` were written to device.bin; they count for the size limit of the run.
CUTAWAY_ABI void cutaway_count_bytes(uint64_t bytes);

// Appends one checksummed line to log.jsonl; `json` is a whole JSON object.
CUTAWAY_ABI void cutaway_log(const char* json);

// `hook(name, 1)` is called on the operation's thread right after an operation was entered,
// `hook(name, 0)` right after it was left; null removes the hook. The recorder tests one pointer
// when there is none.
typedef void (*cutaway_operation_hook)(uint32_t name, int entered);
CUTAWAY_ABI void cutaway_set_operation_hook(cutaway_operation_hook hook);

// Called on the phase's thread right after the phase was
// changed, whatever it was before; null removes the hook.
typedef void (*cutaway_phase_hook)(uint32_t name);
CUTAWAY_ABI void cutaway_set_phase_hook(cutaway_phase_hook hook);
