// Buffers of records. Each record is preceded by its length: how cuptiActivityGetNextRecord steps
// is CUPTI's own business, and no client may depend on it.
#include <string.h>

#include "double.h"

static uint8_t* buffer;
static size_t buffer_size, used;

void deliver(void) {
  if (!buffer) return;
  uint8_t* full = buffer;
  size_t size = buffer_size, valid = used;
  buffer = NULL;
  used = 0;
  pthread_mutex_unlock(&mutex);
  client.complete(NULL, 0, full, size, valid);
  pthread_mutex_lock(&mutex);
}

void emit(const void* record, size_t size) {
  if (!client.request) return;
  size = (size + 7) & ~(size_t)7;
  if (buffer && used + size + 8 > buffer_size) deliver();
  if (!buffer) {
    size_t records;
    client.request(&buffer, &buffer_size, &records);
    used = 0;
  }
  if (!buffer) return;
  uint64_t length = size;
  memcpy(buffer + used, &length, 8);
  memcpy(buffer + used + 8, record, size);
  used += size + 8;
}

void emit_kernel(const CUpti_ActivityKernel9* kernel) {
  uint8_t longer[512];
  size_t size = (size_t)setting("FAKE_CUPTI_KERNEL_SIZE");
  if (size < sizeof *kernel) size = sizeof *kernel;
  memset(longer, 0xee, sizeof longer);
  memcpy(longer, kernel, sizeof *kernel);
  emit(longer, size);
}

CUpti_Activity* step(uint8_t* data, size_t valid, size_t* at) {
  if (*at >= valid) return NULL;
  uint64_t length;
  memcpy(&length, data + *at, 8);
  CUpti_Activity* record = (CUpti_Activity*)(data + *at + 8);
  *at += 8 + length;
  return record;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* data, size_t valid, CUpti_Activity** record) {
  int error = setting("FAKE_CUPTI_ALL");
  if (error) return (CUptiResult)error;
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
