// Where the running Python frame keeps its code and its instruction. The interpreter's own header for this is
// private and not C++; the few fields needed are mirrored here and checked against it in
// frame_layout_check.c.
#pragma once
#include <Python.h>
#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#endif

#if PY_VERSION_HEX < 0x030a0000 || PY_VERSION_HEX >= 0x030e0000
#error "Cutaway knows the frames of CPython 3.10 to 3.13"
#endif

#if PY_VERSION_HEX >= 0x030d0000
struct CutawayFrame {
  PyObject* code;  // or None
  void* unused[6];
  const char* instruction;
};
#elif PY_VERSION_HEX >= 0x030c0000
struct CutawayFrame {
  PyObject* code;
  void* unused[6];
  const char* instruction;
};
#elif PY_VERSION_HEX >= 0x030b0000
struct CutawayFrame {
  void* unused[4];
  PyObject* code;
  void* unused2[2];
  const char* instruction;
};
#endif
