// CPU threads, scheduled as Linux does it, each with a queue of its own. A waking job returns to
// the thread it last ran on. If that one is busy and the machine is lightly loaded, it moves to an
// idle one. An idle thread takes over waiting jobs at the next tick, not before. A thread that has
// been idle sleeps, and the job that wakes it loses time. A batch job waits for its turn; any other
// preempts a batch job at once, and one of its own kind that has run for a while. Who has run for a
// slice while others wait goes to the end of the queue.
#pragma once
#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace cutaway::replay {

constexpr double kTick = 4e-3;           // seconds between two looks of an idle thread for work
constexpr double kPoll = 0.2e-3;         // seconds that an idle thread polls before it sleeps
constexpr double kLoadHalfLife = 32e-3;  // seconds, of the average load
// From it on, 1 / 1.17 of everything, nobody looks for idle threads.
constexpr double kScanLoad = 1.17 * 1.17;

struct Cpu {
  // Hardware threads, physical cores, what all threads of a core yield together, speed with all
  // cores busy
  int threads = 1, cores = 1;
  double smt_yield = 1.0, turbo = 1.0;
  double wake = 0;     // seconds a job loses when it wakes a thread that sleeps
  double foreign = 0;  // cores' worth of CPU time that other programs take
  double slice = INFINITY, granularity = INFINITY;  // seconds
  double poll = kPoll;
};

// A Job has `work` (seconds that are left), `arrived`, `task()` (who it belongs to) and `batch()`.
template <class Job>
class Scheduler {
 public:
  Scheduler(const Cpu& cpu, int tasks)
      : cpu_(cpu),
        wake_(cpu.wake * std::max(0.0, 1 - cpu.foreign / cpu.threads)),
        finish_(cpu.threads, INFINITY),
        idle_since_(cpu.threads, 0),
        since_(cpu.threads, 0),
        who_(cpu.threads, -1),
        on_(cpu.threads),
        waiting_(cpu.threads),
        last_(tasks) {
    for (int task = 0; task < tasks; ++task) last_[task] = task % cpu.threads;
  }

  double now() const { return now_; }
  int running() const { return running_; }
  double busy() const { return busy_; }      // seconds of CPU time since the start
  double waited() const { return waited_; }  // seconds in which batch jobs waited for a thread
  void forget() { busy_ = waited_ = 0; }

  void wake(const Job& job);
  // When the next job is done, a slice is over or an idle thread looks for work; infinite: never.
  double next() const {
    double at = next_finish();
    if (waiting_count_ == 0) return at;
    if (running_ < cpu_.threads) at = std::min(at, kTick * std::ceil(now_ / kTick + 1e-6));
    if (std::isinf(cpu_.slice)) return at;
    for (int t = 0; t < cpu_.threads; ++t)
      if (!idle(t) && !waiting_[t].empty())
        at = std::min(at, std::max(now_, since_[t] + cpu_.slice));
    return at;
  }
  void advance(double to);
  // What is due at this instant. True if a job is done: it is `done`, and its thread is free until
  // `refill`.
  bool settle(Job* done, int* thread);
  void refill(int thread) {
    if (idle(thread)) take(thread, thread);
  }

 private:
  bool idle(int thread) const { return std::isinf(finish_[thread]); }
  double next_finish() const {
    const double first = *std::min_element(finish_.begin(), finish_.end());
    return now_ + (first - virtual_) / rate();
  }
  double capacity(int k) const;
  double rate() const;
  int idle_thread() const;
  void run_on(int thread, const Job& job);
  Job leave(int thread);
  void take(int thread, int from);
  void balance();
  void end_slices();

  Cpu cpu_;
  double wake_;  // other programs keep threads awake
  double now_ = 0, virtual_ = 0, load_ = 0, busy_ = 0, waited_ = 0;
  std::vector<double> finish_;  // of each thread's job, in work done by a running job since the
                                // start; infinite: idle
  std::vector<double> idle_since_, since_;
  std::vector<int> who_;  // ran last on each thread
  std::vector<Job> on_;
  std::vector<std::deque<Job>> waiting_;  // for each thread
  int running_ = 0, waiting_count_ = 0;
  std::vector<int> last_;  // thread of each task
};

// Work that k running jobs get done in a second when nobody else is there.
template <class Job>
double Scheduler<Job>::capacity(int k) const {
  const double on_cores = std::min(k, cpu_.cores);
  const double clock =
      cpu_.cores > 1 ? 1 - (1 - cpu_.turbo) * (on_cores - 1) / (cpu_.cores - 1) : 1.0;
  if (k <= cpu_.cores) return clock * k;
  const double second = static_cast<double>(k - cpu_.cores) / (cpu_.threads - cpu_.cores);
  return clock * cpu_.cores * (1 + (cpu_.smt_yield - 1) * second);
}

// How much work each running job does in a second: what other programs leave is shared.
template <class Job>
double Scheduler<Job>::rate() const {
  if (running_ == 0) return 1.0;
  if (cpu_.foreign <= 0) return capacity(running_) / running_;
  const double left = std::max(0.02 * cpu_.threads, capacity(cpu_.threads) - cpu_.foreign);
  return std::min(capacity(running_), left) / running_;
}

// The kernel looks for one only while the machine is not too busy for that to be worth its while.
template <class Job>
int Scheduler<Job>::idle_thread() const {
  if (running_ == cpu_.threads || cpu_.threads * (1 - kScanLoad * load_ * load_) < 1) return -1;
  for (int t = 0; t < cpu_.threads; ++t)
    if (idle(t)) return t;
  return -1;
}

template <class Job>
void Scheduler<Job>::wake(const Job& job) {
  int thread = last_[job.task()];
  if (!idle(thread)) {
    const int other = idle_thread();
    if (other >= 0) thread = other;
  }
  if (idle(thread)) {
    Job woken = job;
    if (now_ - idle_since_[thread] > cpu_.poll) woken.work += wake_;
    return run_on(thread, woken);
  }
  ++waiting_count_;
  last_[job.task()] = thread;
  const bool preempts =
      !job.batch() && (on_[thread].batch() || now_ - since_[thread] > cpu_.granularity);
  if (preempts) {
    waiting_[thread].push_front(leave(thread));
    run_on(thread, job);
  } else if (job.batch() || !std::isinf(cpu_.slice)) {
    waiting_[thread].push_back(job);
  } else {
    waiting_[thread].push_front(job);
  }
}

template <class Job>
void Scheduler<Job>::run_on(int thread, const Job& job) {
  if (job.batch()) waited_ += now_ - job.arrived;
  finish_[thread] = virtual_ + job.work;
  const bool goes_on = who_[thread] == job.task() && idle_since_[thread] == now_;  // with its slice
  if (!goes_on) since_[thread] = now_;
  who_[thread] = job.task();
  on_[thread] = job;
  last_[job.task()] = thread;
  ++running_;
}

// Takes the job off its thread; what is left of it is its work now.
template <class Job>
Job Scheduler<Job>::leave(int thread) {
  Job job = on_[thread];
  job.work = finish_[thread] - virtual_;
  job.arrived = now_;
  finish_[thread] = INFINITY;
  idle_since_[thread] = now_;
  --running_;
  return job;
}

// Gives an idle thread the next job of a queue, its own or another's.
template <class Job>
void Scheduler<Job>::take(int thread, int from) {
  if (waiting_[from].empty()) return;
  const Job job = waiting_[from].front();
  waiting_[from].pop_front();
  --waiting_count_;
  run_on(thread, job);
}

// Idle threads take over what waits for others.
template <class Job>
void Scheduler<Job>::balance() {
  for (int t = 0; t < cpu_.threads && waiting_count_ > 0; ++t) {
    if (!idle(t)) continue;
    int from = t;
    while (waiting_[from].empty()) from = (from + 1) % cpu_.threads;
    take(t, from);
  }
}

template <class Job>
void Scheduler<Job>::end_slices() {
  for (int t = 0; t < cpu_.threads; ++t) {
    if (idle(t) || waiting_[t].empty() || now_ < since_[t] + cpu_.slice - 1e-9) continue;
    waiting_[t].push_back(leave(t));
    ++waiting_count_;
    take(t, t);
  }
}

template <class Job>
bool Scheduler<Job>::settle(Job* done, int* thread) {
  const auto first = std::min_element(finish_.begin(), finish_.end());
  if (!std::isinf(*first) && now_ + (*first - virtual_) / rate() <= now_ + 1e-9) {
    *thread = static_cast<int>(first - finish_.begin());
    virtual_ = *first;
    *done = leave(*thread);
    return true;
  }
  if (!std::isinf(cpu_.slice)) end_slices();
  balance();
  return false;
}

template <class Job>
void Scheduler<Job>::advance(double to) {
  const double dt = to - now_;
  virtual_ += dt * rate();
  busy_ += dt * std::min<double>(running_, std::max(0.0, cpu_.threads - cpu_.foreign));
  const double kept = std::exp2(-dt / kLoadHalfLife);
  load_ = load_ * kept + (1 - kept) * running_ / cpu_.threads;
  now_ = to;
}

}  // namespace cutaway::replay
