// A libcupti for tests, compiled against the real headers: the functions that our collector and
// Kineto use, and a device whose thread completes jobs later. Settings are variables of the
// environment:
//   FAKE_CUPTI_ERROR=n        cuptiSubscribe answers n
//   FAKE_CUPTI_ALL=n          every call answers n
//   FAKE_CUPTI_NO_TEXT=1      cuptiGetResultString answers 999 and leaves its pointer untouched
//   (13.4) FAKE_CUPTI_NO_CLOCK=1     no timestamp callback FAKE_CUPTI_NO_OVERHEAD=1  one kind of
//   activity cannot be enabled FAKE_CUPTI_DROP=n         records reported as dropped
//   FAKE_CUPTI_REVERSE=1      records of a buffer in reverse order
//   FAKE_CUPTI_KERNEL_SIZE=n  length of kernel records: newer CUPTIs append to them
//   FAKE_CUPTI_LATE=1         cuptiActivityFlushAll is deaf; buffers come when the client has
//   unsubscribed FAKE_CUPTI_CALLS=file     the calls that matter for the protocol, one a line
#pragma once
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define KINDS (CUPTI_ACTIVITY_KIND_COUNT + 8)

// What a client has asked for; everything here is read and written under `mutex`.
typedef struct {
  CUpti_BuffersCallbackRequestFunc request;
  CUpti_BuffersCallbackCompleteFunc complete;
  CUpti_TimestampCallbackFunc clock;
  int subscribed, enabled[KINDS];
  char runtime_calls[4096];  // enabled one by one, where the kind RUNTIME is not
} Client;

#pragma GCC visibility push(hidden)  // other libraries of a process have names of their own
extern pthread_mutex_t mutex;
extern Client client;

int setting(const char* name);
uint64_t now(void);                  // in the client's clock
void told(const char* format, ...);  // a line for FAKE_CUPTI_CALLS

// records.c; with `mutex` held, except `step`
void emit(const void* record, size_t size);
void emit_kernel(const CUpti_ActivityKernel9* kernel);
void deliver(void);
CUpti_Activity* step(uint8_t* data, size_t valid, size_t* at);

// external.c: the stacks of external correlation ids of the calling thread
void emit_external(uint32_t correlation);
#pragma GCC visibility pop
