#include "intercept/feeds.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "recorder/state.h"

namespace cutaway {
namespace {

constexpr int kPlaces = 256;
constexpr size_t kMostFeeds = 1 << 14;
constexpr size_t kCounted = 1024;

// Threads of this process that wait for a lock now. Not on their stacks: a daemon thread may die in its wait.
struct Waiter {
  PyObject* object;
  int waker;
};
Waiter waiters[kPlaces];
int used = 0;  // places above it are free

struct Counted {
  PyObject* given;
  int tid;
  uint32_t count;
};
Counted counted[kCounted];
auto& noted = *new std::set<std::pair<int, std::string>>;
uint32_t noted_in = 0;  // the log they stand in
__thread int own_tid = 0;

void forget_after_fork() {
  used = 0;
  own_tid = 0;
  for (Waiter& w : waiters) w = {};
  for (Counted& c : counted) c = {};
}

void watch_forks() {
  static const int watched = pthread_atfork(nullptr, nullptr, forget_after_fork);
  (void)watched;
}

int tid() {
  watch_forks();
  if (own_tid == 0) own_tid = static_cast<int>(syscall(SYS_gettid));
  return own_tid;
}

}  // namespace

int begin_wait(PyObject* object) {
  watch_forks();
  int place = 0;
  while (place < used && waiters[place].object != nullptr) ++place;
  if (place == kPlaces) return -1;
  waiters[place] = {object, 0};
  if (place == used) ++used;
  return place;
}

int end_wait(int place) {
  if (place < 0) return 0;
  const int waker = waiters[place].waker;
  waiters[place] = {};
  while (used > 0 && waiters[used - 1].object == nullptr) --used;
  return waker;
}

void wake(PyObject* object) {
  for (int i = 0; i < used; ++i)
    if (waiters[i].object == object) waiters[i].waker = tid();
}

bool feed_is_due(PyObject* given) {
  // Small ints are shared objects, so descriptors are told apart; others may take turns in one place.
  Counted& c = counted[(reinterpret_cast<uintptr_t>(given) >> 4) % kCounted];
  if (c.given != given || c.tid != tid()) c = {given, tid(), 0};
  const uint32_t n = ++c.count;
  return (n & (n - 1)) == 0 || n % 256 == 0;
}

void note_feed(const Waited& waited) {
  if (waited.on.empty() || waited.is_file) return;
  if (noted_in != log_number()) noted.clear();
  noted_in = log_number();
  if (noted.size() >= kMostFeeds || !noted.insert({tid(), waited.on}).second) return;
  recorder.log.line("\"k\":\"feeds\",\"on\":" + json_text(waited.on.data(), waited.on.size()) +
                    ",\"tid\":" + std::to_string(tid()));
}

}  // namespace cutaway
