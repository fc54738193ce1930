// A libcupti for tests, compiled against the real headers: the functions our collector uses, and a device
// whose thread completes jobs later. Environment: FAKE_CUPTI_ERROR=39 (cuptiSubscribe), FAKE_CUPTI_ALL=15|999
// (every call), FAKE_CUPTI_DROP=n (records reported as dropped), FAKE_CUPTI_REVERSE=1 (records of a buffer in
// reverse order), FAKE_CUPTI_KERNEL_SIZE=bytes (length of kernel records, as newer CUPTIs append to them).
#define _GNU_SOURCE
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_JOBS 4096
#define LAUNCH 211       // cudaLaunchKernel_v7000 in cupti_runtime_cbid.h
#define SYNCHRONIZE 165  // cudaDeviceSynchronize_v3020

typedef struct {
  char name[64];
  uint32_t correlation, stream;
  uint64_t duration_us;
  int fault;  // 1: end < start, 2: start = 0
} Job;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static CUpti_BuffersCallbackRequestFunc requested;
static CUpti_BuffersCallbackCompleteFunc completed;
static CUpti_TimestampCallbackFunc clock_of_client;
static int subscribed, enabled[CUPTI_ACTIVITY_KIND_COUNT + 8], device_running;
static uint32_t next_correlation = 1;
static uint8_t* buffer;
static size_t buffer_size, used;
static Job jobs[MAX_JOBS];
static int job_count, jobs_done;
static __thread uint64_t external[64];
static __thread int external_depth;

static int setting(const char* name) {
  const char* value = getenv(name);
  return value ? atoi(value) : 0;
}
#define ANSWER()                           \
  do {                                     \
    int error = setting("FAKE_CUPTI_ALL"); \
    if (error) return (CUptiResult)error;  \
  } while (0)

static uint64_t now(void) {
  struct timespec t;
  if (clock_of_client) return clock_of_client();
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Each record is preceded by its length: the stepping of cuptiActivityGetNextRecord is CUPTI's own business.
static void deliver(void) {
  if (!buffer) return;
  uint8_t* full = buffer;
  size_t size = buffer_size, valid = used;
  buffer = NULL;
  used = 0;
  pthread_mutex_unlock(&mutex);
  completed(NULL, 0, full, size, valid);
  pthread_mutex_lock(&mutex);
}

static void emit(const void* record, size_t size) {
  if (buffer && used + size + 8 > buffer_size) deliver();
  if (!buffer) {
    size_t records;
    requested(&buffer, &buffer_size, &records);
    used = 0;
  }
  if (!buffer) return;
  uint64_t length = size;
  memcpy(buffer + used, &length, 8);
  memcpy(buffer + used + 8, record, size);
  used += size + 8;
}

static void emit_kernel(const CUpti_ActivityKernel9* kernel) {
  uint8_t longer[512];
  size_t size = (size_t)setting("FAKE_CUPTI_KERNEL_SIZE");
  if (size < sizeof *kernel) size = sizeof *kernel;
  memset(longer, 0xee, sizeof longer);
  memcpy(longer, kernel, sizeof *kernel);
  emit(longer, size);
}

static void emit_call(uint32_t cbid, uint32_t correlation, uint64_t start) {
  CUpti_ActivityAPI call;
  memset(&call, 0, sizeof call);
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.cbid = cbid;
  call.start = start;
  call.end = now();
  call.processId = (uint32_t)getpid();
  call.threadId = (uint32_t)syscall(SYS_gettid);
  call.correlationId = correlation;
  if (enabled[CUPTI_ACTIVITY_KIND_RUNTIME]) emit(&call, sizeof call);
  if (!external_depth || !enabled[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) return;
  CUpti_ActivityExternalCorrelation link;
  memset(&link, 0, sizeof link);
  link.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  link.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
  link.externalId = external[external_depth - 1];
  link.correlationId = correlation;
  emit(&link, sizeof link);
}

static void* device(void* unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (jobs_done == job_count) pthread_cond_wait(&changed, &mutex);
    Job job = jobs[jobs_done % MAX_JOBS];
    pthread_mutex_unlock(&mutex);
    uint64_t start = now();
    usleep((useconds_t)job.duration_us);
    uint64_t end = now();
    pthread_mutex_lock(&mutex);
    CUpti_ActivityKernel9 kernel;
    memset(&kernel, 0, sizeof kernel);
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.start = job.fault == 2 ? 0 : job.fault == 1 ? end : start;
    kernel.end = job.fault == 1 ? start : end;
    kernel.correlationId = job.correlation;
    kernel.streamId = job.stream;
    kernel.gridX = 4, kernel.gridY = 2, kernel.gridZ = 1;
    kernel.blockX = 128, kernel.blockY = 1, kernel.blockZ = 1;
    kernel.registersPerThread = 32;
    kernel.staticSharedMemory = 1024;
    kernel.name = jobs[jobs_done % MAX_JOBS].name;
    if (enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]) emit_kernel(&kernel);
    ++jobs_done;
    pthread_cond_broadcast(&changed);
  }
  return NULL;
}

// ---- what a program would do with CUDA ----

uint32_t fake_launch(const char* name, uint32_t stream, uint64_t duration_us, int fault) {
  pthread_mutex_lock(&mutex);
  if (!device_running) {
    pthread_t thread;
    pthread_create(&thread, NULL, device, NULL);
    pthread_detach(thread);
    device_running = 1;
  }
  uint64_t start = now();
  Job* job = &jobs[job_count % MAX_JOBS];
  snprintf(job->name, sizeof job->name, "%s", name);
  job->correlation = next_correlation++;
  job->stream = stream;
  job->duration_us = duration_us;
  job->fault = fault;
  uint32_t correlation = job->correlation;
  ++job_count;
  emit_call(LAUNCH, correlation, start);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return correlation;
}

void fake_synchronize(void) {
  pthread_mutex_lock(&mutex);
  uint64_t start = now();
  while (jobs_done != job_count) pthread_cond_wait(&changed, &mutex);
  emit_call(SYNCHRONIZE, next_correlation++, start);
  pthread_mutex_unlock(&mutex);
}

typedef struct {  // one line of a replay file, written by the test from a real trace
  uint64_t start, end, bytes;
  uint32_t kind, correlation, device, stream, thread, cbid, grid[3], block[3], registers, shared, copy, graph;
  char name[160];
} Replay;

static void replay_one(const Replay* r, const char* name) {
  if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    CUpti_ActivityKernel9 k;
    memset(&k, 0, sizeof k);
    k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    k.start = r->start, k.end = r->end, k.correlationId = r->correlation;
    k.deviceId = r->device, k.streamId = r->stream, k.graphId = r->graph;
    k.gridX = (int32_t)r->grid[0], k.gridY = (int32_t)r->grid[1], k.gridZ = (int32_t)r->grid[2];
    k.blockX = (int32_t)r->block[0], k.blockY = (int32_t)r->block[1], k.blockZ = (int32_t)r->block[2];
    k.registersPerThread = (uint16_t)r->registers, k.staticSharedMemory = (int32_t)r->shared;
    k.name = name;
    emit_kernel(&k);
  } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    CUpti_ActivityMemcpy5 c;
    memset(&c, 0, sizeof c);
    c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    c.start = r->start, c.end = r->end, c.bytes = r->bytes, c.copyKind = (uint8_t)r->copy;
    c.correlationId = r->correlation, c.deviceId = r->device, c.streamId = r->stream;
    emit(&c, sizeof c);
  } else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    CUpti_ActivityMemset4 s;
    memset(&s, 0, sizeof s);
    s.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    s.start = r->start, s.end = r->end, s.bytes = r->bytes;
    s.correlationId = r->correlation, s.deviceId = r->device, s.streamId = r->stream;
    emit(&s, sizeof s);
  } else {
    CUpti_ActivityAPI a;
    memset(&a, 0, sizeof a);
    a.kind = (CUpti_ActivityKind)r->kind;
    a.start = r->start, a.end = r->end, a.cbid = r->cbid;
    a.threadId = r->thread, a.correlationId = r->correlation;
    emit(&a, sizeof a);
  }
}

int fake_replay(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) return -1;
  int count = 0;
  Replay r;
  pthread_mutex_lock(&mutex);
  while (fread(&r, sizeof r, 1, file) == 1) {
    replay_one(&r, strdup(r.name));
    ++count;
  }
  pthread_mutex_unlock(&mutex);
  fclose(file);
  return count;
}

size_t fake_replay_size(void) { return sizeof(Replay); }

// ---- what CUPTI does ----

CUptiResult cuptiGetVersion(uint32_t* version) {
  ANSWER();
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  ANSWER();  // leaves *text untouched
  *text = result == CUPTI_ERROR_INVALID_KIND ? "CUPTI_ERROR_INVALID_KIND" : "CUPTI_ERROR";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* data) {
  (void)callback, (void)data;
  ANSWER();
  int error = setting("FAKE_CUPTI_ERROR");
  if (error) return (CUptiResult)error;
  if (subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscribed = 1;
  *handle = (CUpti_SubscriberHandle)&subscribed;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
  (void)handle;
  ANSWER();
  subscribed = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  ANSWER();
  static char names[4096][32];
  if (cbid >= 4096) return CUPTI_ERROR_INVALID_PARAMETER;
  if (cbid == LAUNCH)
    *name = "cudaLaunchKernel_v7000";
  else if (cbid == SYNCHRONIZE)
    *name = "cudaDeviceSynchronize_v3020";
  else
    snprintf(names[cbid], sizeof names[cbid], "%sCall%u_v1",
             domain == CUPTI_CB_DOMAIN_DRIVER_API ? "cuLaunch" : "cuda", cbid),
        *name = names[cbid];
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  ANSWER();
  requested = request;
  completed = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  ANSWER();
  if (setting("FAKE_CUPTI_NO_CLOCK")) return CUPTI_ERROR_NOT_SUPPORTED;
  clock_of_client = function;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  ANSWER();
  return type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiActivityFlushPeriod(uint32_t milliseconds) {
  (void)milliseconds;
  ANSWER();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  ANSWER();
  if (kind == CUPTI_ACTIVITY_KIND_KERNEL) return CUPTI_ERROR_NOT_COMPATIBLE;
  if (kind == CUPTI_ACTIVITY_KIND_OVERHEAD && setting("FAKE_CUPTI_NO_OVERHEAD"))
    return CUPTI_ERROR_INVALID_KIND;
  enabled[kind] = 1;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  ANSWER();
  enabled[kind] = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  ANSWER();
  pthread_mutex_lock(&mutex);
  deliver();
  pthread_mutex_unlock(&mutex);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* dropped) {
  (void)context, (void)stream;
  ANSWER();
  static int told;
  *dropped = told ? 0 : (size_t)setting("FAKE_CUPTI_DROP");
  told = 1;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  ANSWER();
  if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2) return CUPTI_ERROR_INVALID_PARAMETER;
  if (external_depth < 64) external[external_depth++] = id;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* last) {
  (void)kind;
  ANSWER();
  if (!external_depth) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = external[--external_depth];
  return CUPTI_SUCCESS;
}

static CUpti_Activity* step(uint8_t* data, size_t valid, size_t* at) {
  if (*at >= valid) return NULL;
  uint64_t length;
  memcpy(&length, data + *at, 8);
  CUpti_Activity* record = (CUpti_Activity*)(data + *at + 8);
  *at += 8 + length;
  return record;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* data, size_t valid, CUpti_Activity** record) {
  ANSWER();
  CUpti_Activity* previous = NULL;
  size_t at = 0;
  if (!setting("FAKE_CUPTI_REVERSE")) {
    if (*record) {
      uint64_t length;
      memcpy(&length, (uint8_t*)*record - 8, 8);
      at = (size_t)((uint8_t*)*record - data) + length;
    }
    CUpti_Activity* next = step(data, valid, &at);
    if (!next) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = next;
    return CUPTI_SUCCESS;
  }
  for (CUpti_Activity* r; (r = step(data, valid, &at)) && r != *record;) previous = r;
  if (!previous) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = previous;
  return CUPTI_SUCCESS;
}
