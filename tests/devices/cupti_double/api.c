// What CUPTI does for its clients.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "double.h"

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Client client;

int setting(const char* name) {
  const char* value = getenv(name);
  return value ? atoi(value) : 0;
}

void told(const char* format, ...) {
  const char* path = getenv("FAKE_CUPTI_CALLS");
  int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
  if (file < 0) return;
  char line[128];
  va_list words;
  va_start(words, format);
  int length = vsnprintf(line, sizeof line - 1, format, words);
  va_end(words);
  line[length++] = '\n';
  if (write(file, line, (size_t)length) != length) abort();
  close(file);
}

uint64_t now(void) {
  struct timespec t;
  if (client.clock) return client.clock();
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define ANSWER()                           \
  do {                                     \
    int error = setting("FAKE_CUPTI_ALL"); \
    if (error) return (CUptiResult)error;  \
  } while (0)

CUptiResult cuptiGetVersion(uint32_t* version) {
  ANSWER();
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  ANSWER();  // leaves *text untouched
  if (setting("FAKE_CUPTI_NO_TEXT")) return CUPTI_ERROR_UNKNOWN;
  *text = result == CUPTI_ERROR_INVALID_KIND ? "CUPTI_ERROR_INVALID_KIND" : "CUPTI_ERROR";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* time) {
  ANSWER();
  *time = now();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* device) {
  (void)context;
  ANSWER();
  *device = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                           void* data) {
  (void)callback, (void)data;
  ANSWER();
  int error = setting("FAKE_CUPTI_ERROR");
  if (error) return (CUptiResult)error;
  if (client.subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  told("subscribe");
  client.subscribed = 1;
  *handle = (CUpti_SubscriberHandle)&client;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
  (void)handle;
  ANSWER();
  told("unsubscribe");
  client.subscribed = 0;
  if (!setting("FAKE_CUPTI_LATE")) return CUPTI_SUCCESS;
  pthread_mutex_lock(&mutex);
  deliver();
  pthread_mutex_unlock(&mutex);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiFinalize(void) {
  ANSWER();
  told("finalize");
  memset(&client, 0, sizeof client);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  (void)enable, (void)handle, (void)domain, (void)id;
  ANSWER();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle,
                              CUpti_CallbackDomain domain) {
  (void)enable, (void)handle, (void)domain;
  ANSWER();
  return CUPTI_SUCCESS;
}
// Made from the real headers when the double is built.
static const struct {
  uint32_t id;
  const char* name;
} kRuntime[] =
    {
#include "runtime_names.h"
    },
  kDriver[] = {
#include "driver_names.h"
  };

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  ANSWER();
  int driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  size_t count = driver ? sizeof kDriver / sizeof *kDriver : sizeof kRuntime / sizeof *kRuntime;
  for (size_t i = 0; i < count; ++i) {
    if ((driver ? kDriver[i].id : kRuntime[i].id) != cbid) continue;
    *name = driver ? kDriver[i].name : kRuntime[i].name;
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  ANSWER();
  pthread_mutex_lock(&mutex);
  client.request = request;
  client.complete = complete;
  pthread_mutex_unlock(&mutex);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  ANSWER();
  if (setting("FAKE_CUPTI_NO_CLOCK")) return CUPTI_ERROR_NOT_SUPPORTED;
  client.clock = function;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                      void* value) {
  (void)attribute, (void)size, (void)value;
  ANSWER();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  ANSWER();
  return type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? CUPTI_SUCCESS
                                                      : CUPTI_ERROR_INVALID_PARAMETER;
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
  told("enable %d", kind);
  client.enabled[kind] = 1;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  ANSWER();
  client.enabled[kind] = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  ANSWER();
  if (cbid >= sizeof client.runtime_calls) return CUPTI_ERROR_INVALID_PARAMETER;
  client.runtime_calls[cbid] = (char)enable;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  (void)cbid, (void)enable;
  ANSWER();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) {
  (void)enable;
  ANSWER();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  ANSWER();
  told("flush %u", flag);
  if (setting("FAKE_CUPTI_LATE")) return CUPTI_SUCCESS;
  pthread_mutex_lock(&mutex);
  deliver();
  pthread_mutex_unlock(&mutex);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* dropped) {
  (void)context, (void)stream;
  ANSWER();
  static int said;
  *dropped = said ? 0 : (size_t)setting("FAKE_CUPTI_DROP");
  said = 1;
  return CUPTI_SUCCESS;
}
