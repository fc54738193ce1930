// Where a Python frame keeps its code, its instruction and its caller. The
// interpreter's own header for this is private and not C++; the few fields
// needed are mirrored here and checked against it in frame_layout_check.c.
#pragma once
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#endif

#if PY_VERSION_HEX < 0x030a0000 || PY_VERSION_HEX >= 0x030e0000
#error "Cutaway knows the frames of CPython 3.10 to 3.13"
#endif

#if PY_VERSION_HEX >= 0x030c0000
typedef struct CutawayFrame {
  PyObject* code;  // or None (3.13, where C calls Python)
  struct CutawayFrame* previous;
  void* unused[5];
  const char* instruction;
  int stacktop;
  uint16_t return_offset;
  char owner;  // 3: C called Python here
} CutawayFrame;
#elif PY_VERSION_HEX >= 0x030b0000
typedef struct CutawayFrame {
  void* unused[4];
  PyObject* code;
  void* unused2;
  struct CutawayFrame* previous;
  const char* instruction;
  int stacktop;
  bool is_entry;
  char owner;
} CutawayFrame;
#endif
