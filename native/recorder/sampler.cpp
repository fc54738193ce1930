#include "recorder/sampler.h"

#include <Python.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <random>
#include <unordered_map>
#include <utility>

#include "memory/heap_book.h"
#include "recorder/doing.h"
#include "recorder/stacks.h"
#include "recorder/state.h"

namespace cutaway {

namespace {

// Share of one core that sampling may cost; the rate falls if it would not do.
constexpr double kMostCpu = 0.002;
constexpr double kLeastHz = 40;
// Where the run fills all cores, each wake-up takes one from a thread that others may wait for: a
// pool of threads then spins until it is back. So there the rate is this share of what was asked
// for.
constexpr double kCrowded = 0.4, kLeftOver = 0.5, kSeveral = 1.2;  // the last two in cores
constexpr uint64_t kHeapEvery = 100'000'000;                       // ns
constexpr size_t kMaxNodes =
    1 << 20;  // beyond it a new stack counts as the part of it that is known

constexpr uint64_t kImported = 2'500'000'000;  // ns after the start; what came before is no growth
constexpr uint64_t kFirstContainers = 5'000'000'000;  // ns after the start
constexpr int64_t kMuchMemory = 16'000'000;  // more than when containers were last looked at

// On the main thread, with the GIL.
int note_containers(void*) {
  if (!recorder.recording) return 0;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* module = PyImport_ImportModule("cutaway.record.containers");
  Py_XDECREF(module ? PyObject_CallMethod(module, "note", nullptr) : nullptr);
  Py_XDECREF(module);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
  return 0;
}

// A recorded thread as it was at one look.
struct Subject {
  uint32_t id;
  pid_t tid;
  const PyThreadState* python;
  unsigned long ident;
  const Record* cursor;
  uint32_t depth;
  uint64_t since;  // start of the innermost open call
  bool same_as(const Subject& o) const {
    return depth && o.depth == depth && cursor == o.cursor && since == o.since &&
           python == o.python;
  }
};

struct NodeKey {
  uint32_t up, code;
  int line;
  bool operator==(const NodeKey& o) const { return up == o.up && code == o.code && line == o.line; }
};
struct NodeHash {
  size_t operator()(const NodeKey& k) const {
    return (uint64_t{k.up} << 32 ^ uint64_t{k.code} << 12 ^ static_cast<uint32_t>(k.line)) *
           0x9E3779B97F4A7C15ull;
  }
};

class Sampler final : private StackNumbers {
 public:
  void run();
  void finish();
  void forget_files() { doings_.forget(); }

  std::atomic<uint32_t> bell{0};
  std::atomic<bool> ending{false};
  pthread_t thread{};
  bool runs = false;
  bool refused = false;

 private:
  struct Last {
    Subject subject;
    uint32_t node;
  };

  void sample_all();
  void sample(const Subject& subject);
  uint32_t node_of(const std::vector<Place>& places);
  void log_code(uint32_t code);
  void write(uint64_t time, const Subject& subject, uint32_t node);
  bool room();
  void sleep_until(uint64_t due);
  void adapt(uint64_t wall_ns);
  bool fills_the_cores(uint64_t wall_ns);
  void look_at_heap(uint64_t now);
  void look_at_containers(uint64_t now);
  uint32_t number_of(const RawFrame* frames, size_t count) override;

  Stacks stacks_;
  HeapBook heap_book_;
  Doings doings_;
  std::unordered_map<NodeKey, uint32_t, NodeHash> nodes_;
  std::unordered_map<uint32_t, Last> last_;  // by thread
  std::vector<Place> places_;
  std::vector<Subject> subjects_;
  std::vector<bool> logged_;
  std::minstd_rand random_{static_cast<uint32_t>(ticks())};
  double hz_ = 0;
  uint64_t due_ = 0;  // the next sample, also after a rest; 0: not drawn yet
  uint64_t cpu_before_ = 0, run_before_ = 0, torn_ = 0, dropped_ = 0;
  uint64_t heap_looked_ = 0, heap_cpu_ = 0;
  uint64_t containers_next_ = 0;
  int64_t containers_bytes_ = -1;  // -1: not known yet
  uint32_t session_ = 0, stream_ = 0, seq_ = 0;
  Segment* segment_ = nullptr;
  Record* at_ = nullptr;
};

Sampler* sampler =
    nullptr;  // made anew in the child of a fork: the old one may be half way through a change

void Sampler::sleep_until(uint64_t due) {
  const uint64_t now = monotonic_ns(), ns = due > now ? due - now : 0;
  timespec timeout = {static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  const uint32_t seen = bell;
  if (!ending) syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

// Intervals are random, so that no rhythm of the program's can hide between two samples.
void Sampler::run() {
  hz_ = hz_ > 0 ? hz_ : recorder.options.stack_hz;
  cpu_before_ = thread_cpu_ns();
  uint64_t looked = monotonic_ns();
  std::uniform_real_distribution<double> spread(0.5, 1.5);
  while (!ending) {
    if (!due_) due_ = monotonic_ns() + static_cast<uint64_t>(1e9 / hz_ * spread(random_));
    sleep_until(due_);
    if (ending) break;
    due_ = 0;
    if (!recorder.paused) sample_all();
    const uint64_t now = monotonic_ns();
    look_at_heap(now);
    if (now - looked < 1000000000) continue;
    adapt(now - looked);
    look_at_containers(now);
    looked = now;
  }
  recorder.sampler_cpu_ns += thread_cpu_ns() - cpu_before_;
}

void Sampler::adapt(uint64_t wall_ns) {
  const uint64_t cpu = thread_cpu_ns();
  recorder.sampler_cpu_ns += cpu - cpu_before_;
  const uint64_t stacks_cpu = cpu - cpu_before_ - std::min(cpu - cpu_before_, heap_cpu_);
  const double share = static_cast<double>(stacks_cpu) / static_cast<double>(wall_ns);
  cpu_before_ = cpu;
  const double most = recorder.options.stack_hz * (fills_the_cores(wall_ns) ? kCrowded : 1);
  heap_cpu_ = 0;
  if (share > kMostCpu) hz_ = std::max(kLeastHz, hz_ * kMostCpu / share);
  // Sampling is expensive during imports, because every stack is new; later it is cheap.
  if (share < 0.8 * kMostCpu) hz_ *= std::min(4.0, 0.9 * kMostCpu / (share + 1e-9));
  hz_ = std::min(hz_, most);
}

// By all processes of the run together. One busy thread harms nobody, even where it has the only
// core.
bool Sampler::fills_the_cores(uint64_t wall_ns) {
  const uint64_t run = recorder.shared.cpu_ns(), before = std::exchange(run_before_, run);
  cpu_set_t allowed;
  if (!before || run <= before || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  const double used = static_cast<double>(run - before) / static_cast<double>(wall_ns);
  return used > kSeveral && used > CPU_COUNT(&allowed) - kLeftOver;
}

void Sampler::look_at_heap(uint64_t now) {
  if (!heap.on || now - heap_looked_ < kHeapEvery) return;
  heap_looked_ = now;
  const uint64_t before = thread_cpu_ns();
  hook_new_objects();
  heap_book_.look(*this);
  heap_cpu_ += thread_cpu_ns() - before;
}

// Holds the program up for a moment, so only where memory grows, and three times as late each time.
// Where allocations are not sampled, resident memory tells whether it does.
void Sampler::look_at_containers(uint64_t now) {
  const uint64_t life = now - recorder.started_ns;
  if (life < kImported) return;
  const int64_t bytes = heap.on ? heap.kept_bytes.load() : recorder.anonymous_bytes.load();
  if (containers_bytes_ < 0) containers_bytes_ = heap.on ? 0 : bytes;
  if (life < std::max(containers_next_, kFirstContainers)) return;
  const bool grew = bytes >= containers_bytes_ + kMuchMemory;
  containers_next_ = grew ? 3 * life : life + life / 4;
  if (!grew) return;
  containers_bytes_ = bytes;
  Py_AddPendingCall(note_containers, nullptr);
}

uint32_t Sampler::number_of(const RawFrame* frames, size_t count) {
  return stacks_.look_up(frames, count, &places_) ? node_of(places_) : 0;
}

void Sampler::sample_all() {
  subjects_.clear();
  {
    Locked locked;
    for (const ThreadState* t : recorder.threads) {
      if (t->session != recorder.session || !t->python) continue;
      const uint32_t depth = std::min<uint32_t>(t->depth.look(), kMaxOpen);
      const uint64_t since = depth ? t->open[depth - 1].start.look() : 0;
      subjects_.push_back(
          {t->id, t->tid, t->python.look(), t->ident, t->cursor.look(), depth, since});
    }
  }
  for (const Subject& subject : subjects_) sample(subject);
}

// A thread that is still in the native call it was in last time has the same stack.
void Sampler::sample(const Subject& subject) {
  const auto last = last_.find(subject.id);
  if (last != last_.end() && last->second.subject.same_as(subject)) {
    write(ticks(), subject, last->second.node);
    return;
  }
  if (!stacks_.read(subject.python, subject.ident, &places_)) {
    ++torn_;
    return;
  }
  const uint32_t node = node_of(places_);
  last_[subject.id] = {subject, node};
  if (node) write(stacks_.time, subject, node);
}

uint32_t Sampler::node_of(const std::vector<Place>& places) {
  uint32_t node = 0;
  for (const Place& place : places) {
    const auto [known, is_new] = nodes_.try_emplace({node, place.code, place.line},
                                                    static_cast<uint32_t>(nodes_.size() + 1));
    if (is_new && nodes_.size() > kMaxNodes) {
      nodes_.erase(known);
      return node;
    }
    if (is_new) {
      log_code(place.code);
      recorder.log.line("\"k\":\"frame\",\"id\":" + std::to_string(known->second) + ",\"up\":" +
                        std::to_string(node) + ",\"code\":" + std::to_string(place.code) +
                        ",\"line\":" + std::to_string(place.line));
    }
    node = known->second;
  }
  return node;
}

void Sampler::log_code(uint32_t code) {
  if (logged_.size() <= code) logged_.resize(code + 1);
  if (logged_[code]) return;
  logged_[code] = true;
  const CodeText& text = stacks_.codes[code];
  recorder.log.line("\"k\":\"code\",\"id\":" + std::to_string(code) +
                    ",\"file\":" + json_text(text.file.data(), text.file.size()) +
                    ",\"func\":" + json_text(text.function.data(), text.function.size()) +
                    ",\"first\":" + std::to_string(text.identity.first_line));
}

// The next segment is made here: at a few hundred records a second nobody waits for it.
bool Sampler::room() {
  if (segment_ && at_ < segment_->limit()) return true;
  if (!stream_) {
    stream_ = recorder.next_thread++;
    recorder.log.line("\"k\":\"samples\",\"stream\":" + std::to_string(stream_));
  }
  Segment* next = make_segment(recorder.folder.fd(), stream_, recorder.files++, kFirstSegment);
  if (!next) return false;  // a full disk: the program's own threads meet it too and say so
  recorder.live_bytes += kFirstSegment;
  if (segment_) hand_over(segment_);
  next->head()->seq = seq_++;
  segment_ = next;
  at_ = next->first();
  return true;
}

void Sampler::write(uint64_t time, const Subject& subject, uint32_t node) {
  if (!room()) {
    ++dropped_;
    return;
  }
  at_->value = node | uint32_t{doings_.look(subject.id, subject.tid)} << kSampleDoing;
  at_->tag = make_tag(kSample, subject.id);
  __atomic_store_n(&at_->time, time, __ATOMIC_RELEASE);
  ++at_;
  ++recorder.stack_samples;
}

void Sampler::finish() {
  if (torn_ || dropped_)
    recorder.log.line("\"k\":\"samples\",\"torn\":" + std::to_string(torn_) +
                      ",\"dropped\":" + std::to_string(dropped_));
  if (heap.on) heap_book_.look(*this);
  if (heap.on) heap_book_.write();
  if (segment_) hand_over(segment_);
  segment_ = nullptr;
}

void* run_sampler(void*) {
  pthread_setname_np(pthread_self(), "cutaway-stacks");
  recorder.sampler_tid = static_cast<int>(syscall(SYS_gettid));
  heap_thread.inside = true;
  sampler->run();
  return nullptr;
}

}  // namespace

void start_sampler() {
  if (recorder.options.stack_hz <= 0 || (sampler && (sampler->runs || sampler->refused))) return;
  if (cutaway_frames_unknown()) return;  // the log says why
  if (!sampler) sampler = new Sampler();
  if (!stacks_can_be_read()) {
    sampler->refused = true;
    recorder.log.line(
        "\"k\":\"note\",\"text\":\"Python stacks are not sampled: this container forbids "
        "process_vm_readv\"");
    return;
  }
  sampler->ending = false;
  if (recorder.options.memory && !heap.on) {
    start_heap();
    hook_arenas();
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  sampler->runs = pthread_create(&sampler->thread, &attributes, run_sampler, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void rest_sampler() {
  if (!sampler || !sampler->runs) return;
  sampler->ending = true;
  ++sampler->bell;
  syscall(SYS_futex, &sampler->bell, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  pthread_join(sampler->thread, nullptr);
  sampler->runs = false;
}

void stop_sampler() {
  rest_sampler();
  if (!sampler) return;
  sampler->finish();
  delete sampler;
  sampler = nullptr;
}

// Its segment is the parent's; what it knows may be half changed.
void forget_sampler_after_fork() {
  if (sampler) sampler->forget_files();
  sampler = nullptr;
}

}  // namespace cutaway
