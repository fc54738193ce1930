// External correlation: a stack of ids for each thread and kind; every API call is tied to the top
// of each.
#include <string.h>

#include "double.h"

#define STACKS (CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 + 1)
static __thread uint64_t ids[STACKS][64];
static __thread int depth[STACKS];

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
  int error = setting("FAKE_CUPTI_ALL");
  if (error) return (CUptiResult)error;
  if (kind <= 0 || (int)kind >= STACKS) return CUPTI_ERROR_INVALID_PARAMETER;
  if (depth[kind] < 64) ids[kind][depth[kind]++] = id;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* last) {
  int error = setting("FAKE_CUPTI_ALL");
  if (error) return (CUptiResult)error;
  if (kind <= 0 || (int)kind >= STACKS) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!depth[kind]) return CUPTI_ERROR_QUEUE_EMPTY;
  --depth[kind];
  if (last) *last = ids[kind][depth[kind]];
  return CUPTI_SUCCESS;
}

void emit_external(uint32_t correlation) {
  if (!client.enabled[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) return;
  for (int kind = 1; kind < STACKS; ++kind) {
    if (!depth[kind]) continue;
    CUpti_ActivityExternalCorrelation link;
    memset(&link, 0, sizeof link);
    link.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    link.externalKind = (CUpti_ExternalCorrelationKind)kind;
    link.externalId = ids[kind][depth[kind] - 1];
    link.correlationId = correlation;
    emit(&link, sizeof link);
  }
}
