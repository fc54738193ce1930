// Refuses to compile when the mirrored frame differs from the interpreter's, and to read frames
// when the interpreter that runs us differs from the one we were compiled for.
#define Py_BUILD_CORE 1
#include <stddef.h>
#include <string.h>

#include "intercept/frame_layout.h"

#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number
#define VERSION TEXT(PY_MAJOR_VERSION) "." TEXT(PY_MINOR_VERSION)

#if !CUTAWAY_KNOWS_FRAMES

const char* cutaway_frames_unknown(void) {
  return "Python " VERSION
         " is newer than this version of Cutaway: it records without call sites and stack "
         "samples; update Cutaway, or use Python 3." TEXT(CUTAWAY_NEWEST_PYTHON);
}

#else

#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#endif

#if PY_VERSION_HEX >= 0x030d0000
#define CODE f_executable
#define INSTRUCTION instr_ptr
#else
#define CODE f_code
#define INSTRUCTION prev_instr
#endif

_Static_assert(offsetof(CutawayFrame, code) == offsetof(_PyInterpreterFrame, CODE), "code moved");
_Static_assert(offsetof(CutawayFrame, instruction) == offsetof(_PyInterpreterFrame, INSTRUCTION),
               "instruction moved");
_Static_assert(offsetof(CutawayFrame, previous) == offsetof(_PyInterpreterFrame, previous),
               "previous moved");
_Static_assert(offsetof(CutawayFrame, owner) == offsetof(_PyInterpreterFrame, owner),
               "owner moved");
#endif

#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_runtime.h>

static bool as_compiled(const _Py_DebugOffsets* told) {
  if (memcmp(told->cookie, _Py_Debug_Cookie, sizeof told->cookie) != 0) return false;
  if (told->version >> 16 != PY_VERSION_HEX >> 16) return false;
  return told->interpreter_frame.size == sizeof(_PyInterpreterFrame) &&
         told->interpreter_frame.executable == offsetof(CutawayFrame, code) &&
         told->interpreter_frame.instr_ptr == offsetof(CutawayFrame, instruction) &&
         told->interpreter_frame.previous == offsetof(CutawayFrame, previous) &&
         told->interpreter_frame.owner == offsetof(CutawayFrame, owner) &&
         told->thread_state.size == sizeof(PyThreadState) &&
         told->thread_state.current_frame == offsetof(PyThreadState, current_frame) &&
         told->thread_state.datastack_chunk == offsetof(PyThreadState, datastack_chunk) &&
         told->thread_state.thread_id == offsetof(PyThreadState, thread_id) &&
         told->code_object.co_code_adaptive == offsetof(PyCodeObject, co_code_adaptive) &&
         told->code_object.filename == offsetof(PyCodeObject, co_filename) &&
         told->code_object.qualname == offsetof(PyCodeObject, co_qualname) &&
         told->code_object.linetable == offsetof(PyCodeObject, co_linetable) &&
         told->code_object.firstlineno == offsetof(PyCodeObject, co_firstlineno);
}

const char* cutaway_frames_unknown(void) {
  if (as_compiled(&_PyRuntime.debug_offsets)) return NULL;
  return "this build of Python " VERSION
         " differs from the one Cutaway was compiled for: it records without "
         "call sites and stack samples; install Cutaway from source here";
}
#else
const char* cutaway_frames_unknown(void) { return NULL; }
#endif

#endif
