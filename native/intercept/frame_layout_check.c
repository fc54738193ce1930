// Refuses to compile when the mirrored frame differs from the interpreter's.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>

#include "intercept/frame_layout.h"

#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>

#if PY_VERSION_HEX >= 0x030d0000
#define CODE f_executable
#define INSTRUCTION instr_ptr
#else
#define CODE f_code
#define INSTRUCTION prev_instr
#endif

_Static_assert(offsetof(struct CutawayFrame, code) == offsetof(_PyInterpreterFrame, CODE), "code moved");
_Static_assert(offsetof(struct CutawayFrame, instruction) == offsetof(_PyInterpreterFrame, INSTRUCTION),
               "instruction moved");
_Static_assert(offsetof(struct CutawayFrame, previous) == offsetof(_PyInterpreterFrame, previous),
               "previous moved");
_Static_assert(offsetof(struct CutawayFrame, owner) == offsetof(_PyInterpreterFrame, owner), "owner moved");
#else
// In 3.10 the frame is a public structure; nothing is mirrored. A translation unit may not be empty.
typedef int cutaway_frame_is_public;
#endif
