// The places of the fields we read, as they are in every CUPTI from 12.0 to 13.x. Newer headers
// that moved one would not compile here; a newer libcupti at run time only appends to its records.
#pragma once
#include <cupti_activity.h>
#include <cupti_version.h>

#include <cstddef>

namespace cutaway::cupti {

#define CUTAWAY_AT(type, field, offset) \
  static_assert(offsetof(type, field) == offset, #type "." #field " has moved")

CUTAWAY_AT(CUpti_ActivityKernel9, registersPerThread, 6);
CUTAWAY_AT(CUpti_ActivityKernel9, start, 16);
CUTAWAY_AT(CUpti_ActivityKernel9, end, 24);
CUTAWAY_AT(CUpti_ActivityKernel9, deviceId, 40);
CUTAWAY_AT(CUpti_ActivityKernel9, streamId, 48);
CUTAWAY_AT(CUpti_ActivityKernel9, gridX, 52);
CUTAWAY_AT(CUpti_ActivityKernel9, blockX, 64);
CUTAWAY_AT(CUpti_ActivityKernel9, staticSharedMemory, 76);
CUTAWAY_AT(CUpti_ActivityKernel9, dynamicSharedMemory, 80);
CUTAWAY_AT(CUpti_ActivityKernel9, correlationId, 92);
CUTAWAY_AT(CUpti_ActivityKernel9, name, 104);
CUTAWAY_AT(CUpti_ActivityKernel9, graphId, 156);
static_assert(sizeof(CUpti_ActivityKernel9) == 208, "the prefix we read");

CUTAWAY_AT(CUpti_ActivityMemcpy5, copyKind, 4);
CUTAWAY_AT(CUpti_ActivityMemcpy5, bytes, 8);
CUTAWAY_AT(CUpti_ActivityMemcpy5, start, 16);
CUTAWAY_AT(CUpti_ActivityMemcpy5, end, 24);
CUTAWAY_AT(CUpti_ActivityMemcpy5, deviceId, 32);
CUTAWAY_AT(CUpti_ActivityMemcpy5, streamId, 40);
CUTAWAY_AT(CUpti_ActivityMemcpy5, correlationId, 44);
CUTAWAY_AT(CUpti_ActivityMemcpy5, graphId, 72);

CUTAWAY_AT(CUpti_ActivityMemcpyPtoP4, bytes, 8);
CUTAWAY_AT(CUpti_ActivityMemcpyPtoP4, start, 16);
CUTAWAY_AT(CUpti_ActivityMemcpyPtoP4, deviceId, 32);
CUTAWAY_AT(CUpti_ActivityMemcpyPtoP4, streamId, 40);
CUTAWAY_AT(CUpti_ActivityMemcpyPtoP4, correlationId, 60);
CUTAWAY_AT(CUpti_ActivityMemcpyPtoP4, graphId, 80);

CUTAWAY_AT(CUpti_ActivityMemset4, bytes, 8);
CUTAWAY_AT(CUpti_ActivityMemset4, start, 16);
CUTAWAY_AT(CUpti_ActivityMemset4, deviceId, 32);
CUTAWAY_AT(CUpti_ActivityMemset4, streamId, 40);
CUTAWAY_AT(CUpti_ActivityMemset4, correlationId, 44);
CUTAWAY_AT(CUpti_ActivityMemset4, graphId, 72);

CUTAWAY_AT(CUpti_ActivityAPI, cbid, 4);
CUTAWAY_AT(CUpti_ActivityAPI, start, 8);
CUTAWAY_AT(CUpti_ActivityAPI, threadId, 28);
CUTAWAY_AT(CUpti_ActivityAPI, correlationId, 32);

CUTAWAY_AT(CUpti_ActivityExternalCorrelation, externalId, 8);
CUTAWAY_AT(CUpti_ActivityExternalCorrelation, correlationId, 16);
CUTAWAY_AT(CUpti_ActivitySynchronization, start, 8);
CUTAWAY_AT(CUpti_ActivitySynchronization, correlationId, 24);
CUTAWAY_AT(CUpti_ActivitySynchronization, streamId, 32);
CUTAWAY_AT(CUpti_ActivityOverhead, start, 24);
CUTAWAY_AT(CUpti_ActivityGraphTrace, correlationId, 4);
CUTAWAY_AT(CUpti_ActivityGraphTrace, start, 8);
CUTAWAY_AT(CUpti_ActivityGraphTrace, deviceId, 24);
CUTAWAY_AT(CUpti_ActivityGraphTrace, graphId, 28);
CUTAWAY_AT(CUpti_ActivityGraphTrace, streamId, 36);

// What CUPTI hands out today under the same kind is longer, and begins alike.
#define CUTAWAY_SAME(newer, older, field) \
  static_assert(offsetof(newer, field) == offsetof(older, field), #newer "." #field " has moved")
#define CUTAWAY_SAME_KERNEL(newer)                                 \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, registersPerThread);  \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, start);               \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, deviceId);            \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, gridX);               \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, dynamicSharedMemory); \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, correlationId);       \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, name);                \
  CUTAWAY_SAME(newer, CUpti_ActivityKernel9, graphId)
#if CUPTI_API_VERSION >= 130000
CUTAWAY_SAME_KERNEL(CUpti_ActivityKernel10);
CUTAWAY_SAME(CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy5, graphId);
CUTAWAY_SAME(CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy5, correlationId);
CUTAWAY_SAME(CUpti_ActivityGraphTrace2, CUpti_ActivityGraphTrace, streamId);
CUTAWAY_SAME(CUpti_ActivityOverhead3, CUpti_ActivityOverhead, start);
CUTAWAY_SAME(CUpti_ActivitySynchronization2, CUpti_ActivitySynchronization, correlationId);
CUTAWAY_SAME(CUpti_ActivitySynchronization2, CUpti_ActivitySynchronization, streamId);
#endif
#if CUPTI_API_VERSION >= 130400
CUTAWAY_SAME_KERNEL(CUpti_ActivityKernel13);
#endif

#undef CUTAWAY_SAME_KERNEL
#undef CUTAWAY_SAME
#undef CUTAWAY_AT

}  // namespace cutaway::cupti
