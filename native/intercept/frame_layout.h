// Where a Python frame keeps its code, its instruction and its caller. The interpreter's own header
// for this is private and not C++; the few fields needed are mirrored here. frame_layout_check.c
// compares them with that header when we compile and, from 3.14 on, with the offsets that
// the running interpreter reports (_Py_DebugOffsets).
#pragma once
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#endif

// The newest CPython whose frames were looked at: 3.15. CMakeLists.txt may set an older one, for
// tests.
#ifndef CUTAWAY_NEWEST_PYTHON
#define CUTAWAY_NEWEST_PYTHON 15
#endif
#define CUTAWAY_KNOWS_FRAMES (PY_MAJOR_VERSION == 3 && PY_MINOR_VERSION <= CUTAWAY_NEWEST_PYTHON)

#ifdef __cplusplus
extern "C" {
#endif
// Why frames cannot be read here, in one sentence; null if they can. Then there are no call sites
// and no samples.
const char* cutaway_frames_unknown(void);
#ifdef __cplusplus
}
#endif

#if PY_VERSION_HEX >= 0x030c0000
typedef struct CutawayFrame {
  uintptr_t code;  // or None (3.13 and later, where C calls Python); from 3.14 on its lowest bits
                   // are a tag
  struct CutawayFrame* previous;
  void* unused[5];
  const char* instruction;
#if PY_VERSION_HEX >= 0x030e0000
  void* stackpointer;
#ifdef Py_GIL_DISABLED
  int32_t bytecode_copy;
#endif
#else
  int stacktop;
#endif
  uint16_t return_offset;
  char owner;  // 3 and above: C called Python here
} CutawayFrame;
#elif PY_VERSION_HEX >= 0x030b0000
typedef struct CutawayFrame {
  void* unused[4];
  uintptr_t code;
  void* unused2;
  struct CutawayFrame* previous;
  const char* instruction;
  int stacktop;
  bool is_entry;
  char owner;
} CutawayFrame;
#endif

#if PY_VERSION_HEX >= 0x030b0000
static inline PyObject* cutaway_executable(const CutawayFrame* frame) {
  return (PyObject*)(frame->code & ~(uintptr_t)3);
}
static inline bool cutaway_is_entry(const CutawayFrame* frame) {
#if PY_VERSION_HEX >= 0x030c0000
  return frame->owner >= 3;
#else
  (void)frame;
  return false;
#endif
}
#endif
