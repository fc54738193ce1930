#include "intercept/feeds.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "recorder/state.h"

namespace cutaway {
namespace {

constexpr int kPlaces = 256;
constexpr size_t kMostFeeds = 1 << 14;
constexpr size_t kCounted = 1024;
constexpr size_t kMostChannels = 1 << 16;

// Threads of this process that wait for a lock now. Not on their stacks: a daemon thread may die in
// its wait.
struct Waiter {
  PyObject* object;
  int waker;
  int tid;
};
Waiter waiters[kPlaces];
int used = 0;  // places above it are free

struct Counted {
  PyObject* given;
  int tid;
  uint32_t count, channel;
};
Counted counted[2][kCounted];  // by Way
auto& noted = *new std::set<std::pair<int, std::string>>;
auto& channels = *new std::unordered_map<std::string, uint32_t>;
uint32_t noted_in = 0;  // the log they stand in
__thread int own_tid = 0;

void forget_after_fork() {
  used = 0;
  own_tid = 0;
  for (Waiter& w : waiters) w = {};
  memset(counted, 0, sizeof counted);
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

// Numbers belong to one log.
void follow_log() {
  if (noted_in == log_number()) return;
  noted.clear();
  channels.clear();
  memset(counted, 0, sizeof counted);
  noted_in = log_number();
}

uint32_t intern_channel(const Waited& waited) {
  if (waited.on.empty() || waited.is_file || waited.on.rfind("terminal:", 0) == 0) return 0;
  const auto found = channels.find(waited.on);
  if (found != channels.end()) return found->second;
  if (channels.size() >= kMostChannels) return 0;
  const auto id = static_cast<uint32_t>(channels.size() + 1);
  channels[waited.on] = id;
  std::string line = "\"k\":\"channel\",\"id\":" + std::to_string(id) +
                     ",\"on\":" + json_text(waited.on.data(), waited.on.size());
  if (!waited.peer.empty())
    line += ",\"peer\":" + json_text(waited.peer.data(), waited.peer.size());
  recorder.log.line(line);
  return id;
}

void note_feed(const Waited& waited) {
  if (waited.on.empty() || waited.is_file) return;
  if (noted.size() >= kMostFeeds || !noted.insert({tid(), waited.on}).second) return;
  recorder.log.line("\"k\":\"feeds\",\"on\":" + json_text(waited.on.data(), waited.on.size()) +
                    ",\"tid\":" + std::to_string(tid()));
}

uint32_t channel_of_waiter(int tid) {
  follow_log();
  Waited waited;
  waited.on = "waiter:" + std::to_string(tid);
  return intern_channel(waited);
}

}  // namespace

int begin_wait(PyObject* object) {
  watch_forks();
  int place = 0;
  while (place < used && waiters[place].object != nullptr) ++place;
  if (place == kPlaces) return -1;
  waiters[place] = {object, 0, tid()};
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

// A thread that was woken has not run since: it is not woken twice.
void wake(PyObject* object, bool noted_too) {
  for (int i = 0; i < used; ++i) {
    if (waiters[i].object != object || waiters[i].waker) continue;
    waiters[i].waker = tid();
    Thread* t = noted_too ? current : nullptr;
    if (t != nullptr) note(t, ticks(), Way::kFeeds, channel_of_waiter(waiters[i].tid), 1);
  }
}

void note_woken(Thread* t, uint64_t time) {
  note(t, time, Way::kTakes, channel_of_waiter(tid()), 1);
}

uint32_t channel_of(PyObject* given, Way way, Waited (*look)(PyObject*)) {
  follow_log();
  // Small ints are shared objects, so descriptors are distinguished; others may take turns in one
  // place.
  Counted& c = counted[static_cast<int>(way)][(reinterpret_cast<uintptr_t>(given) >> 4) % kCounted];
  if (c.given != given || c.tid != tid()) c = {given, tid(), 0, 0};
  const uint32_t n = ++c.count;
  if ((n & (n - 1)) != 0 && n % 256 != 0) return c.channel;
  const Waited waited = look(given);
  if (way == Way::kFeeds) note_feed(waited);
  return c.channel = intern_channel(waited);
}

void note(Thread* t, uint64_t time, Way way, uint32_t channel, uint32_t amount) {
  if (channel && amount)
    mark(t, time, amount, make_tag(way == Way::kFeeds ? kFeed : kTake, channel));
}

}  // namespace cutaway
