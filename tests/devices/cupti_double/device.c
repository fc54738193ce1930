// The device: jobs are enqueued by API calls and completed
// later, one after the other, by a thread of its own.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cbids.h"
#include "double.h"

#define MAX_JOBS 4096
#define GRAPH_ID 77

typedef struct {
  char name[64];
  int kind;  // CUpti_ActivityKind; GRAPH_TRACE is a graph of two kernels
  uint32_t correlation, stream;
  uint64_t duration_us, bytes;
  int fault;  // 1: end < start, 2: start = 0
} Job;

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t next_correlation = 1;
static Job jobs[MAX_JOBS];
static int job_count, jobs_begun, jobs_done, device_running;

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
  emit_external(correlation);
  if (client.enabled[CUPTI_ACTIVITY_KIND_RUNTIME] || client.runtime_calls[cbid])
    emit(&call, sizeof call);
}

static void finish_kernel(const Job* job, const char* name, uint64_t start, uint64_t end,
                          uint32_t graph) {
  CUpti_ActivityKernel9 kernel;
  memset(&kernel, 0, sizeof kernel);
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = start;
  kernel.end = end;
  kernel.correlationId = job->correlation;
  kernel.streamId = job->stream;
  kernel.contextId = 1;
  kernel.gridX = 4, kernel.gridY = 2, kernel.gridZ = 1;
  kernel.blockX = 128, kernel.blockY = 1, kernel.blockZ = 1;
  kernel.registersPerThread = 32;
  kernel.staticSharedMemory = 1024;
  kernel.graphId = graph;
  kernel.name = name;
  emit_kernel(&kernel);
}

// A client that asks for whole graphs is not told of their nodes.
static void finish_graph(const Job* job, uint64_t start, uint64_t end) {
  if (client.enabled[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]) {
    CUpti_ActivityGraphTrace graph;
    memset(&graph, 0, sizeof graph);
    graph.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    graph.correlationId = job->correlation;
    graph.start = start, graph.end = end;
    graph.graphId = GRAPH_ID, graph.streamId = job->stream, graph.contextId = 1;
    emit(&graph, sizeof graph);
    return;
  }
  if (!client.enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]) return;
  uint64_t middle = start + (end - start) / 2;
  finish_kernel(job, "graph_node_0", start, middle, GRAPH_ID);
  finish_kernel(job, "graph_node_1", middle, end, GRAPH_ID);
}

static void finish_copy(const Job* job, uint64_t start, uint64_t end) {
  CUpti_ActivityMemcpy5 copy;
  memset(&copy, 0, sizeof copy);
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.bytes = job->bytes, copy.start = start, copy.end = end;
  copy.streamId = job->stream, copy.correlationId = job->correlation, copy.contextId = 1;
  emit(&copy, sizeof copy);
}

static void finish_peer_copy(const Job* job, uint64_t start, uint64_t end) {
  CUpti_ActivityMemcpyPtoP4 copy;
  memset(&copy, 0, sizeof copy);
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.bytes = job->bytes, copy.start = start, copy.end = end;
  copy.srcDeviceId = 0, copy.dstDeviceId = 1, copy.contextId = 1;
  copy.streamId = job->stream, copy.correlationId = job->correlation;
  emit(&copy, sizeof copy);
}

static void finish_set(const Job* job, uint64_t start, uint64_t end) {
  CUpti_ActivityMemset4 set;
  memset(&set, 0, sizeof set);
  set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  set.bytes = job->bytes, set.start = start, set.end = end;
  set.streamId = job->stream, set.correlationId = job->correlation, set.contextId = 1;
  emit(&set, sizeof set);
}

static void finish(const Job* job, uint64_t start, uint64_t end) {
  if (job->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
    finish_graph(job, start, end);
  } else if (!client.enabled[job->kind]) {
    return;
  } else if (job->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    finish_copy(job, start, end);
  } else if (job->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
    finish_peer_copy(job, start, end);
  } else if (job->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    finish_set(job, start, end);
  } else {
    finish_kernel(job, job->name, start, end, 0);
  }
}

static void* device(void* unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (jobs_done == job_count) pthread_cond_wait(&changed, &mutex);
    Job* job = &jobs[jobs_done % MAX_JOBS];
    uint64_t start = now();
    ++jobs_begun;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    usleep((useconds_t)job->duration_us);
    uint64_t end = now();
    pthread_mutex_lock(&mutex);
    finish(job, job->fault == 2 ? 0 : job->fault == 1 ? end : start, job->fault == 1 ? start : end);
    ++jobs_done;
    pthread_cond_broadcast(&changed);
  }
  return NULL;
}

// ---- what a program would do with CUDA ----

static uint32_t enqueue(const Job* wanted, uint32_t cbid) {
  pthread_mutex_lock(&mutex);
  if (!device_running) {
    pthread_t thread;
    pthread_create(&thread, NULL, device, NULL);
    pthread_detach(thread);
    device_running = 1;
  }
  uint64_t start = now();
  Job* job = &jobs[job_count % MAX_JOBS];
  *job = *wanted;
  uint32_t correlation = job->correlation = next_correlation++;
  ++job_count;
  emit_call(cbid, correlation, start);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return correlation;
}

uint32_t fake_launch(const char* name, uint32_t stream, uint64_t duration_us, int fault) {
  Job job = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .stream = stream, .fault = fault};
  job.duration_us = duration_us;
  snprintf(job.name, sizeof job.name, "%s", name);
  return enqueue(&job, LAUNCH);
}

uint32_t fake_launch_graph(uint32_t stream, uint64_t duration_us) {
  Job job = {.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE, .stream = stream, .duration_us = duration_us};
  return enqueue(&job, LAUNCH_GRAPH);
}

uint32_t fake_copy(uint32_t stream, uint64_t bytes, int to_another_device) {
  int kind = to_another_device ? CUPTI_ACTIVITY_KIND_MEMCPY2 : CUPTI_ACTIVITY_KIND_MEMCPY;
  Job job = {.kind = kind, .stream = stream, .bytes = bytes, .duration_us = 100};
  return enqueue(&job, to_another_device ? COPY_PEER : COPY);
}

uint32_t fake_set(uint32_t stream, uint64_t bytes) {
  Job job = {
      .kind = CUPTI_ACTIVITY_KIND_MEMSET, .stream = stream, .bytes = bytes, .duration_us = 100};
  return enqueue(&job, SET);
}

// Returns when the device has begun with the last job; no call of CUDA, and none that CUPTI tells
// of.
void fake_wait_begun(void) {
  pthread_mutex_lock(&mutex);
  while (jobs_begun != job_count) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

void fake_synchronize(void) {
  pthread_mutex_lock(&mutex);
  uint64_t start = now();
  while (jobs_done != job_count) pthread_cond_wait(&changed, &mutex);
  uint32_t correlation = next_correlation++;
  CUpti_ActivitySynchronization sync;
  memset(&sync, 0, sizeof sync);
  sync.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  sync.start = start, sync.end = now();
  sync.correlationId = correlation, sync.contextId = 1;
  sync.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  if (client.enabled[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION]) emit(&sync, sizeof sync);
  emit_call(SYNCHRONIZE, correlation, start);
  pthread_mutex_unlock(&mutex);
}

// Time that CUPTI itself takes from the program, here for a flush.
void fake_overhead(uint64_t duration_us) {
  uint64_t start = now();
  usleep((useconds_t)duration_us);
  CUpti_ActivityOverhead overhead;
  memset(&overhead, 0, sizeof overhead);
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId.pt.processId = (uint32_t)getpid();
  overhead.objectId.pt.threadId = (uint32_t)syscall(SYS_gettid);
  overhead.start = start, overhead.end = now();
  pthread_mutex_lock(&mutex);
  if (client.enabled[CUPTI_ACTIVITY_KIND_OVERHEAD]) emit(&overhead, sizeof overhead);
  pthread_mutex_unlock(&mutex);
}
