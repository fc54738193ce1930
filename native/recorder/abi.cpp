#include "recorder/abi.h"

#include <string.h>

#include "recorder/operations.h"

namespace cutaway {
Watched<cutaway_operation_hook> operation_hook;
Watched<cutaway_phase_hook> phase_hook;
}  // namespace cutaway

using cutaway::recorder;

const char* cutaway_folder() {
  return recorder.recording ? recorder.process_folder.c_str() : nullptr;
}

uint32_t cutaway_current_operation() {
  const cutaway::Thread* t = cutaway::current;
  if (!t) return 0;
  const auto& open = static_cast<const cutaway::ThreadState*>(t)->operations;
  return open.empty() ? 0 : open.back().name;
}

uint32_t cutaway_intern_name(const char* utf8, size_t size) {
  return recorder.recording ? cutaway::intern_name(utf8, size) : 0;
}

uint64_t cutaway_outside_since() { return recorder.outside_since; }

void cutaway_count_bytes(uint64_t bytes) { recorder.device_bytes += bytes; }

void cutaway_log(const char* json) {
  const size_t size = strlen(json);
  if (recorder.recording && size > 2) recorder.log.line(std::string(json + 1, size - 2));
}

void cutaway_set_operation_hook(cutaway_operation_hook hook) {
  cutaway::operation_hook.publish(hook);
}

void cutaway_set_phase_hook(cutaway_phase_hook hook) { cutaway::phase_hook.publish(hook); }
