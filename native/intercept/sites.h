// Call ids: which function, in which layer, called from which line. Resolved by the address of the
// running Python instruction through a small direct-mapped cache; the GIL protects it, so all
// threads share one. Ids live as long as the process: each log, also that of a forked child, gets
// all that are known.
#pragma once
#include "intercept/frame_layout.h"
#include "intercept/intercept.h"

namespace cutaway {

struct CachedCall {
  uint64_t key;  // instruction << 16 | target; user addresses have 47 bits, targets 14
  uint32_t tag;  // which object, for a shared target
  uint32_t call;
};
constexpr uint32_t kCachedCalls = 4096;
extern CachedCall cached_calls[kCachedCalls];
extern bool sites_wanted;

// The running Python frames, the innermost first; null where there is none, or where they are
// unknown.
#if !CUTAWAY_KNOWS_FRAMES
struct Frame;
inline const Frame* running_frame() { return nullptr; }
inline const Frame* caller_of(const Frame*) { return nullptr; }
inline const char* instruction_of(const Frame*) { return nullptr; }
inline PyCodeObject* code_of(const Frame*) { return nullptr; }
#elif PY_VERSION_HEX >= 0x030b0000
using Frame = CutawayFrame;
inline const Frame* running_frame() {
#if PY_VERSION_HEX >= 0x030d0000
  PyThreadState* state = PyThreadState_GetUnchecked();
  return state ? reinterpret_cast<const Frame*>(state->current_frame) : nullptr;
#else
  PyThreadState* state = _PyThreadState_UncheckedGet();
  return state ? reinterpret_cast<const Frame*>(state->cframe->current_frame) : nullptr;
#endif
}
inline const Frame* caller_of(const Frame* frame) { return frame->previous; }
inline const char* instruction_of(const Frame* frame) { return frame->instruction; }
inline PyCodeObject* code_of(const Frame* frame) {  // null where C calls Python
  if (cutaway_is_entry(frame)) return nullptr;
  PyObject* code = cutaway_executable(frame);
  return code && PyCode_Check(code) ? reinterpret_cast<PyCodeObject*>(code) : nullptr;
}
#else
using Frame = PyFrameObject;
inline const Frame* running_frame() {
  PyThreadState* state = _PyThreadState_UncheckedGet();
  return state ? state->frame : nullptr;
}
inline const Frame* caller_of(const Frame* frame) { return frame->f_back; }
inline const char* instruction_of(const Frame* frame) {
  return PyBytes_AS_STRING(frame->f_code->co_code) + 2 * frame->f_lasti;
}
inline PyCodeObject* code_of(const Frame* frame) { return frame->f_code; }
#endif

inline const char* current_instruction() {
  const Frame* frame = running_frame();
  return frame ? instruction_of(frame) : nullptr;
}

inline CachedCall& cached_call(uint64_t key, uint32_t tag) {
  const auto index = static_cast<uint32_t>(key & 0xffff);
  return cached_calls[static_cast<uint32_t>((key >> 17) ^ (index * 0x9E5u) ^ (tag >> 2)) %
                      kCachedCalls];
}

uint32_t find_call_slowly(uint32_t index, const char* instruction, Word identity);

// `identity`: the object that is called through a shared target, else 0.
inline uint32_t find_call_at(uint32_t index, const char* instruction, Word identity) {
  const uint64_t key = reinterpret_cast<uint64_t>(instruction) << 16 | index;
  const uint32_t tag = static_cast<uint32_t>(identity >> 4);
  const CachedCall& c = cached_call(key, tag);
  if (__builtin_expect(c.key == key && c.tag == tag, 1)) return c.call;
  return find_call_slowly(index, instruction, identity);
}

// Calls of a target that is not shared mostly come from where the last one came from.
uint32_t find_call_elsewhere(uint32_t index, const char* instruction);

inline uint32_t find_call(const Target& target, uint32_t index) {
  const char* instruction = sites_wanted ? current_instruction() : nullptr;
  if (__builtin_expect(target.site == instruction, 1)) return target.called;
  return find_call_elsewhere(index, instruction);
}

// The same call, waiting for `on` ("pipe:123"); interned by `identity`.
uint32_t call_waiting_on(uint32_t call, uint64_t identity, const std::string& on,
                         const std::string& peer);

void name_shared(Word identity,
                 std::string name);  // what a shared target is called for this object
bool has_name(Word identity);
void forget_calls();
uint32_t sites_known();

}  // namespace cutaway
