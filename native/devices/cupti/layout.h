// The places of the fields we read, as they are in every CUPTI from 12.0 to 13.x. Newer headers that moved one would not
// compile here; a newer libcupti at run time only appends to its records.
#pragma once
#include <cupti.h>

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

#undef CUTAWAY_AT

}  // namespace cutaway::cupti
