// A recorded program, run again: each thread is a row of items, worked off on the CPU threads of a
// machine. Threads hold each other up through channels, which count what was given and not yet
// taken, and through the interpreter lock of their process. tests/balance/replay_twin.py is the
// same in readable Python.
#pragma once
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "balance/scheduler.h"

namespace cutaway::balance {

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
};

struct Program {
  const uint8_t* kinds;
  const uint32_t* whats;
  const double* amounts;
  const int64_t* first;  // of each thread's items, and the end of the last
  const int32_t* process;
  const double* factors;         // of each key
  std::vector<double> channels;  // what is in each at the start
  int threads, processes, leader;
};

struct Replayed {
  std::vector<double> passes;  // when the leader ended its iterations
  std::vector<double> busy;    // CPU seconds of each thread
  std::vector<int64_t> asked;  // how often somebody had been answered at each pass
  double end = 0;
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
      const double next = std::min(cpu_.next(), delayed);
      if (std::isinf(next)) {
        if (!force()) break;
        continue;
      }
      cpu_.advance(std::max(next, cpu_.now()));
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
    return std::move(out_);
  }

 private:
  struct Job {
    double work, arrived;
    int thread;
    int task() const { return thread; }
    bool batch() const { return false; }
  };
  struct Lock {
    int holder = -1;
    bool fresh = false;  // the holder was handed it and has not run since
    std::deque<int> waiting;
  };
  struct Desk {
    std::deque<int> asking, serving;  // threads that wait
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
        return cpu_.wake({work, cpu_.now(), t});
      }
      case kDelay: {
        const double seconds = amount * p_.factors[what];
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
  d.asking.push_back(t);
  if (d.serving.empty()) return;
  const int server = d.serving.front();
  if (d.asking.size() < std::max(1.0, p_.amounts[at_[server]])) return;
  d.serving.pop_front();
  ready_.push_back(server);  // and collects
}

inline bool Replay::collect(int t, uint32_t desk, size_t wanted) {
  Desk& d = desks_[desk];
  if (d.asking.size() < std::max<size_t>(1, wanted)) {
    unlock(t);
    d.serving.push_back(t);
    return false;
  }
  const auto end = wanted ? d.asking.begin() + wanted : d.asking.end();
  batch_[t].assign(d.asking.begin(), end);
  d.asking.erase(d.asking.begin(), end);
  return true;
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

}  // namespace cutaway::balance
