// Replays records from a file that a test wrote, rebuilt as CUPTI's own structures.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "double.h"

typedef struct {
  uint64_t start, end, bytes;
  uint32_t kind, correlation, device, stream, thread, cbid, grid[3], block[3], registers, shared;
  uint32_t
      detail;  // direction of a copy, type of a synchronisation, kind of an overhead or external id
  uint32_t graph;
  char name[160];
} Replay;

static void replay_kernel(const Replay* r, const char* name) {
  CUpti_ActivityKernel9 k;
  memset(&k, 0, sizeof k);
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.start = r->start, k.end = r->end, k.correlationId = r->correlation;
  k.deviceId = r->device, k.streamId = r->stream, k.graphId = r->graph, k.contextId = 1;
  k.gridX = (int32_t)r->grid[0], k.gridY = (int32_t)r->grid[1], k.gridZ = (int32_t)r->grid[2];
  k.blockX = (int32_t)r->block[0], k.blockY = (int32_t)r->block[1], k.blockZ = (int32_t)r->block[2];
  k.registersPerThread = (uint16_t)r->registers, k.staticSharedMemory = (int32_t)r->shared;
  k.name = name;
  emit_kernel(&k);
}

static void replay_copy(const Replay* r) {
  CUpti_ActivityMemcpy5 c;
  memset(&c, 0, sizeof c);
  c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  c.start = r->start, c.end = r->end, c.bytes = r->bytes, c.copyKind = (uint8_t)r->detail;
  c.correlationId = r->correlation, c.deviceId = r->device, c.streamId = r->stream, c.contextId = 1;
  emit(&c, sizeof c);
}

static void replay_set(const Replay* r) {
  CUpti_ActivityMemset4 s;
  memset(&s, 0, sizeof s);
  s.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  s.start = r->start, s.end = r->end, s.bytes = r->bytes;
  s.correlationId = r->correlation, s.deviceId = r->device, s.streamId = r->stream, s.contextId = 1;
  emit(&s, sizeof s);
}

static void replay_sync(const Replay* r) {
  CUpti_ActivitySynchronization s;
  memset(&s, 0, sizeof s);
  s.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  s.type = (CUpti_ActivitySynchronizationType)r->detail;
  s.start = r->start, s.end = r->end;
  s.correlationId = r->correlation, s.streamId = r->stream, s.contextId = 1;
  emit(&s, sizeof s);
}

static void replay_external(const Replay* r) {
  CUpti_ActivityExternalCorrelation e;
  memset(&e, 0, sizeof e);
  e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  e.externalKind = (CUpti_ExternalCorrelationKind)r->detail;
  e.externalId = r->bytes, e.correlationId = r->correlation;
  emit(&e, sizeof e);
}

static void replay_call(const Replay* r) {
  CUpti_ActivityAPI a;
  memset(&a, 0, sizeof a);
  a.kind = (CUpti_ActivityKind)r->kind;
  a.start = r->start, a.end = r->end, a.cbid = r->cbid;
  a.threadId = r->thread, a.correlationId = r->correlation;
  emit(&a, sizeof a);
}

static void replay_one(const Replay* r, const char* name) {
  switch (r->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return replay_kernel(r, name);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return replay_copy(r);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return replay_set(r);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return replay_sync(r);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return replay_external(r);
    default:
      return replay_call(r);
  }
}

// How fast the client's clock goes (Kineto's counts ticks of the processor), against nanoseconds.
static double ticks_per_ns(void) {
  struct timespec before, after, pause = {0, 100000000};
  uint64_t first = now();
  clock_gettime(CLOCK_MONOTONIC, &before);
  nanosleep(&pause, NULL);
  uint64_t last = now();
  clock_gettime(CLOCK_MONOTONIC, &after);
  double ns =
      1e9 * (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec);
  return (double)(last - first) / ns;
}

// From now on, in the client's clock, as CUPTI turns a GPU's times into it; else the times of the
// file as they are. Returns how many records there were.
int fake_replay(const char* path, int from_now_on) {
  FILE* file = fopen(path, "rb");
  if (!file) return -1;
  int count = 0;
  Replay r;
  double rate = from_now_on ? ticks_per_ns() : 1;
  uint64_t origin = from_now_on ? now() : 0;
  pthread_mutex_lock(&mutex);
  while (fread(&r, sizeof r, 1, file) == 1) {
    if (from_now_on) {
      r.start = origin + (uint64_t)((double)r.start * rate);
      r.end = origin + (uint64_t)((double)r.end * rate);
    }
    replay_one(&r, strdup(r.name));  // names live as long as the program, as CUPTI's do
    ++count;
  }
  pthread_mutex_unlock(&mutex);
  fclose(file);
  return count;
}
