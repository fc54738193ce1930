// A recorded program, run again: each thread is a row of items, worked off on the CPU threads of a
// machine. Threads hold each other up through channels, which count what was given and not yet
// taken, and through the interpreter lock of their process. tests/analysis/replay_twin.py is the
// same in readable Python.
#pragma once
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "replay/scheduler.h"

namespace cutaway::replay {

enum ItemKind : uint8_t {
  kRun = 0,       // CPU work: what: key, amount: seconds
  kRunGil = 1,    // the same, holding the interpreter lock of the process
  kDelay = 2,     // time that needs no CPU: what: key, amount: seconds
  kGive = 3,      // what: channel, amount
  kTakeItem = 4,  // what: channel, amount; waits until that much is there
  kPeek = 5,      // the same, and leaves it there
  kPass = 6,      // the end of an iteration
  // A server that answers in batches, at a desk (what: its number among the channels):
  kAsk = 7,      // waits until it is answered
  kCollect = 8,  // waits for so many who ask, and takes them; 0: for one, and takes all there are
  kEach = 9,     // CPU work for each of them: what: key, amount: seconds
  kAnswer = 10,  // what: desk; those it took go on
  // Of the next kCollect at a desk (what): it waits for that many seconds after the first who asks,
  // and then takes who is there
  kPatience = 11,
  kEachDelay = 12,  // time that needs no CPU for each of them: what: key, amount: seconds
};

struct Program {
  const uint8_t* kinds;
  const uint32_t* whats;
  const double* amounts;
  const int64_t* first;  // of each thread's items, and the end of the last
  const int32_t* process;
  const double* factors;         // of each key
  std::vector<double> channels;  // what is in each at the start
  std::vector<uint8_t> batch;    // of each thread: it waits for its turn (SCHED_BATCH); empty: none
  int threads, processes, leader;
};

struct Replayed {
  std::vector<double> passes;  // when the leader ended its iterations
  std::vector<double> busy;    // CPU seconds of each thread
  std::vector<int64_t> asked;  // how often somebody had been answered at each pass
  double end = 0;
  double cpu = 0;      // seconds in which CPU threads were busy
  int64_t forced = 0;  // waits that nobody would ever have ended
};

class Replay {
 public:
  Replay(const Program& program, const Cpu& cpu)
      : p_(program),
        cpu_(cpu, program.threads),
        at_(p_.first, p_.first + p_.threads),
        waiting_(p_.channels.size()),
        desks_(p_.channels.size()),
        batch_(program.threads),
        locks_(p_.processes) {
    out_.busy.assign(p_.threads, 0);
  }

  Replayed run() {
    for (int t = 0; t < p_.threads; ++t) ready_.push_back(t);
    while (true) {
      proceed();
      if (over(p_.leader)) break;
      const double delayed = delayed_.empty() ? INFINITY : delayed_.top().first;
      const double patient = patient_.empty() ? INFINITY : patient_.top().first;
      const double next = std::min({cpu_.next(), delayed, patient});
      if (std::isinf(next)) {
        if (!force()) break;
        continue;
      }
      cpu_.advance(std::max(next, cpu_.now()));
      if (patient <= next) {
        lose_patience(patient_.top().second);
        patient_.pop();
        continue;
      }
      if (delayed <= next) {
        const int t = delayed_.top().second;
        delayed_.pop();
        ++at_[t];
        ready_.push_back(t);
        continue;
      }
      Job done;
      int core;
      if (!cpu_.settle(&done, &core)) continue;
      ++at_[done.thread];
      ready_.push_back(done.thread);
      proceed();  // what it goes on with finds its core free
      cpu_.refill(core);
    }
    out_.end = cpu_.now();
    out_.cpu = cpu_.busy();
    return std::move(out_);
  }

 private:
  struct Job {
    double work, arrived;
    int thread;
    bool waits;
    int task() const { return thread; }
    bool batch() const { return waits; }
  };
  struct Lock {
    int holder = -1;
    bool fresh = false;  // the holder was handed it and has not run since
    std::deque<int> waiting;
  };
  struct Desk {
    std::deque<int> asking, serving;  // threads that wait
    double patience = INFINITY, since = 0;
  };
  using Due = std::pair<double, int>;

  bool over(int t) const { return at_[t] == p_.first[t + 1]; }
  void proceed() {
    while (!ready_.empty()) {
      const int t = ready_.front();
      ready_.pop_front();
      go_on(t);
    }
  }
  void go_on(int t);
  bool lock(int t);
  void unlock(int t);
  void serve(uint32_t channel);
  void ask(int t, uint32_t desk);
  bool collect(int t, uint32_t desk, size_t wanted);
  void answer(int t);
  void set_alarm(uint32_t desk) {
    const double at = desks_[desk].since + desks_[desk].patience;
    if (std::isfinite(at)) patient_.push({at, static_cast<int>(desk)});
  }
  void lose_patience(int desk);
  bool force();

  Program p_;
  Scheduler<Job> cpu_;
  std::vector<int64_t> at_;
  std::vector<std::deque<int>> waiting_;  // threads, for each channel
  std::vector<Desk> desks_;
  std::vector<std::vector<int>> batch_;  // who is being served by each thread
  int64_t answered_ = 0;
  std::vector<Lock> locks_;
  std::deque<int> ready_;
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> delayed_;
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> patient_;  // desks
  Replayed out_;
};

// Works off what takes no time, up to the next item that does.
inline void Replay::go_on(int t) {
  for (; !over(t); ++at_[t]) {
    const int64_t i = at_[t];
    const uint32_t what = p_.whats[i];
    const double amount = p_.amounts[i];
    switch (p_.kinds[i]) {
      case kRunGil:
      case kEach:
      case kRun: {
        if (p_.kinds[i] != kRunGil) unlock(t);
        if (p_.kinds[i] == kRunGil && !lock(t)) return;
        const double times = p_.kinds[i] == kEach ? batch_[t].size() : 1;
        const double work = amount * p_.factors[what] * times;
        if (work <= 0) break;
        out_.busy[t] += work;
        return cpu_.wake({work, cpu_.now(), t, !p_.batch.empty() && p_.batch[t] != 0});
      }
      case kEachDelay:
      case kDelay: {
        const double times = p_.kinds[i] == kEachDelay ? batch_[t].size() : 1;
        const double seconds = amount * p_.factors[what] * times;
        if (seconds <= 0) break;
        unlock(t);
        return delayed_.push({cpu_.now() + seconds, t});
      }
      case kGive:
        p_.channels[what] += amount;
        serve(what);
        break;
      case kTakeItem:
      case kPeek:
        if (!waiting_[what].empty() || p_.channels[what] < amount) {
          unlock(t);
          waiting_[what].push_back(t);
          return;
        }
        if (p_.kinds[i] == kTakeItem) p_.channels[what] -= amount;
        break;
      case kPass:
        if (t != p_.leader) break;
        out_.passes.push_back(cpu_.now());
        out_.asked.push_back(answered_);
        break;
      case kAsk:
        return ask(t, what);
      case kCollect:
        if (!collect(t, what, static_cast<size_t>(amount))) return;
        break;
      case kAnswer:
        answer(t);
        break;
      case kPatience:
        desks_[what].patience = amount;
        break;
    }
  }
  unlock(t);
}

// Whoever waits gets it in turn; a thread that holds it lets the others in between two items.
inline bool Replay::lock(int t) {
  Lock& l = locks_[p_.process[t]];
  if (l.holder == t && !l.fresh && !l.waiting.empty()) {
    unlock(t);
  } else if (l.holder == t || l.holder < 0) {
    l.holder = t;
    l.fresh = false;
    return true;
  }
  l.waiting.push_back(t);
  return false;
}

inline void Replay::unlock(int t) {
  Lock& l = locks_[p_.process[t]];
  if (l.holder != t) return;
  l.holder = -1;
  if (l.waiting.empty()) return;
  l.holder = l.waiting.front();
  l.waiting.pop_front();
  l.fresh = true;
  ready_.push_back(l.holder);
}

inline void Replay::serve(uint32_t channel) {
  auto& queue = waiting_[channel];
  while (!queue.empty()) {
    const int64_t i = at_[queue.front()];
    if (p_.channels[channel] < p_.amounts[i]) return;
    if (p_.kinds[i] == kTakeItem) p_.channels[channel] -= p_.amounts[i];
    ++at_[queue.front()];
    ready_.push_back(queue.front());
    queue.pop_front();
  }
}

inline void Replay::ask(int t, uint32_t desk) {
  unlock(t);
  Desk& d = desks_[desk];
  if (d.asking.empty()) d.since = cpu_.now();
  d.asking.push_back(t);
  if (d.serving.empty()) return;
  const int server = d.serving.front();
  if (d.asking.size() == 1) set_alarm(desk);
  if (d.asking.size() < std::max(1.0, p_.amounts[at_[server]])) return;
  d.serving.pop_front();
  ready_.push_back(server);  // and collects
}

inline bool Replay::collect(int t, uint32_t desk, size_t wanted) {
  Desk& d = desks_[desk];
  const bool late = !d.asking.empty() && cpu_.now() >= d.since + d.patience - 1e-12;
  if (d.asking.size() < std::max<size_t>(1, wanted) && !late) {
    unlock(t);
    d.serving.push_back(t);
    if (!d.asking.empty()) set_alarm(desk);
    return false;
  }
  const size_t taken = wanted ? std::min(wanted, d.asking.size()) : d.asking.size();
  batch_[t].assign(d.asking.begin(), d.asking.begin() + taken);
  d.asking.erase(d.asking.begin(), d.asking.begin() + taken);
  d.since = cpu_.now();  // for those who are left
  return true;
}

// The server looks who is there; if it has begun a batch in the meantime, nothing happens.
inline void Replay::lose_patience(int desk) {
  Desk& d = desks_[desk];
  if (d.serving.empty() || d.asking.empty() || cpu_.now() < d.since + d.patience - 1e-12) return;
  ready_.push_back(d.serving.front());
  d.serving.pop_front();
}

inline void Replay::answer(int t) {
  for (const int asker : batch_[t]) {
    ++at_[asker];
    ready_.push_back(asker);
  }
  answered_ += batch_[t].size();
  batch_[t].clear();
}

// Nothing can happen any more, so somebody must have ended a wait of whom the recording knows
// nothing: of the thread that is furthest behind.
inline bool Replay::force() {
  int behind = -1;
  double least = 2;
  for (int t = 0; t < p_.threads; ++t) {
    if (over(t)) continue;
    const double done = static_cast<double>(at_[t] - p_.first[t]) / (p_.first[t + 1] - p_.first[t]);
    if (done < least) least = done, behind = t;
  }
  if (behind < 0) return false;
  if (p_.kinds[at_[behind]] > kPass) {  // a server whose batch is never full: nobody can tell
    out_.forced += p_.first[p_.threads];
    return false;
  }
  const uint32_t channel = p_.whats[at_[behind]];
  auto& queue = waiting_[channel];
  const auto found = std::find(queue.begin(), queue.end(), behind);
  if (found == queue.end()) return false;
  queue.erase(found);
  ++out_.forced;
  ++at_[behind];
  ready_.push_back(behind);
  return true;
}

}  // namespace cutaway::replay
