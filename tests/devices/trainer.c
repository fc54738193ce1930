// A training program without Python. What libcuda does at its start (CUDA_INJECTION64_PATH) is done
// by hand; then it uses the device of the CUPTI double. Arguments: launches and "replay FILE",
// "fork", "faults".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t (*launch)(const char*, uint32_t, uint64_t, int);
static void (*synchronize)(void);

static void* need(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) exit(3);
  return found;
}

static void inject(void) {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  void* library = path ? dlopen(path, RTLD_NOW) : NULL;
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  int (*initialize)(void) = (int (*)(void))need(library, "InitializeInjection");
  if (!initialize()) exit(4);
}

int main(int count, char** words) {
  const char* task = count > 1 ? words[1] : "train";
  inject();
  void* cupti = dlopen(getenv("CUTAWAY_CUPTI"), RTLD_NOW);
  launch = (uint32_t (*)(const char*, uint32_t, uint64_t, int))need(cupti, "fake_launch");
  synchronize = (void (*)(void))need(cupti, "fake_synchronize");
  if (strcmp(task, "replay") == 0) {
    int (*replay)(const char*, int) = (int (*)(const char*, int))need(cupti, "fake_replay");
    printf("%d\n", replay(words[2], 0));
    return 0;
  }
  if (strcmp(task, "fork") == 0) {
    launch("before_fork", 7, 100, 0);
    synchronize();
    if (fork() == 0) _exit(0);
    wait(NULL);
    launch("after_fork", 7, 100, 0);
    synchronize();
    _exit(0);  // no exit handlers: what was flushed at the fork must be there all the same
  }
  launch("_Z6kernelPfi", 7, 2000, 0);
  launch("plain_kernel", 9, 1000, 0);
  if (strcmp(task, "faults") == 0) {
    launch("ends_before_it_starts", 7, 100, 1);
    launch("starts_at_zero", 7, 100, 2);
  }
  synchronize();
  return 0;
}
