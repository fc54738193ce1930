// A distributed RL trainer as a queueing network: actors that step environments on
// shared CPU threads, a batching inference server, a device, a learner locked to the
// actors by the replay ratio, a bounded queue of unrolls. Service times are given,
// never fitted. tests/balance/simulation_twin.py is the same system in readable Python.
//
// CPU threads are scheduled as Linux does it, each with a queue of its own. A waking job returns to the
// thread it last ran on. If that one is busy and the machine is lightly loaded, it moves to an idle one.
// An idle thread takes over waiting jobs at the next tick, not before. A thread that has been idle sleeps,
// and the job that wakes it loses time. Server and learner preempt an actor at once; actors are batch
// jobs of lower priority and wait for their turn.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <queue>
#include <random>
#include <vector>

namespace cutaway::balance {

struct Service {
  double mean = 0;  // seconds
  double cv = 0;    // standard deviation / mean
};

struct Line {
  double a = 0, b = 0;  // seconds of a batch of n: a + b n
  double operator()(int n) const { return a + b * n; }
};

struct System {
  int actors = 1, envs_per_actor = 1;
  // CPU: hardware threads, physical cores, what all threads
  // of a core yield together, speed with all cores busy
  int threads = 1, cores = 1;
  double smt_yield = 1.0, turbo = 1.0;
  double wake = 0;         // seconds a job loses when it wakes a thread that sleeps
  double foreign = 0;      // cores' worth of CPU time that other programs take
  Service env_step;        // CPU of one environment step
  Service actor_overhead;  // CPU of the actor for a request beyond its steps, its share of transport included
  // CPU of the server for a batch: before the device works, from then until the actors are answered, and
  // after that (while the actors already step); and the device
  Line host, reply, after, device;
  double inference_cv = 0;
  double latency = 0;   // of a round trip, used by no resource: network, wake-ups
  int batch = 1;        // environments in a full batch
  double timeout = -1;  // seconds after the first request; negative: wait for the full batch
  Service train_host, train_device;
  double steps_per_train = 0;  // environment steps that one training step consumes; 0: no learner
  // Seconds of training after which inference may use the device: its kernels interleave.
  double slice = 1e-3;
  int unroll = 100, queue = 100;
  bool device_on_cpu = false;  // the "device" is the CPU: inference and training occupy a hardware thread
};

struct Result {
  double steps_per_s = 0, cpu_busy = 0, device_busy = 0, server_busy = 0, mean_batch = 0;
  double wait_cpu = 0, wait_inference = 0;  // share of an actor's cycle
  double train_per_s = 0, queue_full = 0;
};

constexpr double kTick = 4e-3;           // seconds between two looks of an idle thread for work
constexpr double kPoll = 0.2e-3;         // seconds that an idle thread polls before it sleeps
constexpr double kLoadHalfLife = 32e-3;  // seconds, of the average load
// From it on, 1 / 1.17 of everything, nobody looks for idle threads.
constexpr double kScanLoad = 1.17 * 1.17;

class Simulation {
 public:
  Simulation(const System& system, uint64_t seed)
      : s_(system), wake_(system.wake * std::max(0.0, 1 - system.foreign / system.threads)), random_(seed) {}

  Result run(int64_t warmup_steps, int64_t steps);

 private:
  enum Role { kActor, kServerHost, kServerDevice, kServerReply, kServerAfter, kTrainHost, kTrainDevice };
  struct Job {
    double work;
    Role role;
    int who;
    double arrived;
  };
  struct Delayed {
    double time;
    uint64_t order;
    Job job;
    bool operator>(const Delayed& o) const { return time != o.time ? time > o.time : order > o.order; }
  };

  double draw(const Service& v);
  double capacity(int k) const;
  double rate() const;
  int process(const Job& job) const;
  int idle_thread() const;
  void wake(const Job& job);
  void run_on(int thread, const Job& job);
  Job leave(int thread);
  void refill(int thread, int from);
  void balance();
  void use_device(const Job& job);
  void finished(const Job& job);
  void start_batch();
  void serve(Role role, int n, const Line& seconds);
  void batch_done();
  void request(int actor);
  void replies();
  void offer_unrolls();
  void learn();
  void advance(double to);

  System s_;
  double wake_;  // other programs keep threads awake
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double now_ = 0, virtual_ = 0, device_until_ = 0, first_request_ = 0;
  uint64_t order_ = 0;
  std::vector<double>
      finish_;  // of each thread's job, in work done by a running job since the start; infinite: idle
  std::vector<double> idle_since_;
  std::vector<Job> on_thread_;
  std::vector<std::deque<Job>> waiting_;  // for each thread
  int running_ = 0, waiting_count_ = 0;
  double load_ = 0;
  std::vector<int> last_thread_;  // of each process: actors, then server and learner
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<Delayed>> delayed_;
  std::deque<Job> device_waiting_;
  Job on_device_{};
  bool device_busy_ = false, server_busy_ = false, server_blocked_ = false, learner_busy_ = false;
  std::deque<int> requests_;
  std::vector<int> in_batch_;
  std::vector<double> requested_at_, granted_;
  int64_t done_steps_ = 0, counted_ = 0, batches_ = 0, trains_ = 0, batch_sum_ = 0;
  double unrolls_ = 0, pending_unrolls_ = 0;
  double busy_cpu_ = 0, busy_device_ = 0, busy_server_ = 0, blocked_ = 0, wait_cpu_ = 0, wait_inference_ = 0,
         cycles_ = 0;
};

inline double Simulation::draw(const Service& v) {
  if (v.mean <= 0 || v.cv <= 0) return v.mean;
  const double sigma2 = std::log1p(v.cv * v.cv);  // log-normal: positive, right-skewed as service times are
  return v.mean * std::exp(std::sqrt(sigma2) * normal_(random_) - sigma2 / 2);
}

// Work that k running jobs get done in a second when nobody else is there.
inline double Simulation::capacity(int k) const {
  const double on_cores = std::min(k, s_.cores);
  const double clock = s_.cores > 1 ? 1 - (1 - s_.turbo) * (on_cores - 1) / (s_.cores - 1) : 1.0;
  if (k <= s_.cores) return clock * k;
  const double second = static_cast<double>(k - s_.cores) / (s_.threads - s_.cores);
  return clock * s_.cores * (1 + (s_.smt_yield - 1) * second);
}

// How much work each running job does in a second: what other programs leave is shared.
inline double Simulation::rate() const {
  if (running_ == 0) return 1.0;
  if (s_.foreign <= 0) return capacity(running_) / running_;
  const double left = std::max(0.02 * s_.threads, capacity(s_.threads) - s_.foreign);
  return std::min(capacity(running_), left) / running_;
}

inline int Simulation::process(const Job& job) const {
  if (job.role == kActor) return job.who;
  return s_.actors + (job.role == kTrainHost || job.role == kTrainDevice);
}

// The kernel looks for one only while the machine is not too busy for that to be worth its while.
inline int Simulation::idle_thread() const {
  if (running_ == s_.threads || s_.threads * (1 - kScanLoad * load_ * load_) < 1) return -1;
  for (int t = 0; t < s_.threads; ++t)
    if (std::isinf(finish_[t])) return t;
  return -1;
}

inline void Simulation::wake(const Job& job) {
  int thread = last_thread_[process(job)];
  if (!std::isinf(finish_[thread])) {
    const int idle = idle_thread();
    if (idle >= 0) thread = idle;
  }
  if (std::isinf(finish_[thread])) {
    Job woken = job;
    if (now_ - idle_since_[thread] > kPoll) woken.work += wake_;
    return run_on(thread, woken);
  }
  ++waiting_count_;
  last_thread_[process(job)] = thread;
  if (job.role == kActor) {
    waiting_[thread].push_back(job);
  } else if (on_thread_[thread].role == kActor) {
    waiting_[thread].push_front(leave(thread));
    run_on(thread, job);
  } else {
    waiting_[thread].push_front(job);
  }
}

inline void Simulation::run_on(int thread, const Job& job) {
  if (job.role == kActor) wait_cpu_ += now_ - job.arrived;
  finish_[thread] = virtual_ + job.work;
  on_thread_[thread] = job;
  last_thread_[process(job)] = thread;
  ++running_;
}

// Takes the job off its thread; what is left of it is its work now.
inline Simulation::Job Simulation::leave(int thread) {
  Job job = on_thread_[thread];
  job.work = finish_[thread] - virtual_;
  job.arrived = now_;
  finish_[thread] = INFINITY;
  idle_since_[thread] = now_;
  --running_;
  return job;
}

// Gives an idle thread the next job of a queue, its own or another's.
inline void Simulation::refill(int thread, int from) {
  if (waiting_[from].empty()) return;
  const Job job = waiting_[from].front();
  waiting_[from].pop_front();
  --waiting_count_;
  run_on(thread, job);
}

// Idle threads take over what waits for others.
inline void Simulation::balance() {
  for (int t = 0; t < s_.threads && waiting_count_ > 0; ++t) {
    if (!std::isinf(finish_[t])) continue;
    int from = t;
    while (waiting_[from].empty()) from = (from + 1) % s_.threads;
    refill(t, from);
  }
}

inline void Simulation::use_device(const Job& job) {
  if (s_.device_on_cpu) return wake(job);
  if (device_busy_) {
    device_waiting_.push_back(job);
    return;
  }
  device_busy_ = true;
  on_device_ = job;
  if (job.role == kTrainDevice && job.work > s_.slice) {
    device_until_ = now_ + s_.slice;
    on_device_.work -= s_.slice;
  } else {
    device_until_ = now_ + job.work;
    on_device_.work = 0;
  }
}

inline void Simulation::request(int actor) {
  if (requests_.empty()) first_request_ = now_;
  requests_.push_back(actor);
  requested_at_[actor] = now_;
  start_batch();
}

inline void Simulation::start_batch() {
  if (server_busy_ || server_blocked_ || requests_.empty()) return;
  const int per = s_.envs_per_actor;
  const int have = static_cast<int>(requests_.size()) * per;
  const bool timed_out = s_.timeout >= 0 && now_ >= first_request_ + s_.timeout - 1e-12;
  if (have < s_.batch && !timed_out) return;
  const int take = std::min<int>(requests_.size(), std::max(1, s_.batch / per));
  in_batch_.assign(requests_.begin(), requests_.begin() + take);
  requests_.erase(requests_.begin(), requests_.begin() + take);
  if (!requests_.empty()) first_request_ = now_;
  server_busy_ = true;
  const int n = take * per;
  ++batches_;
  batch_sum_ += n;
  serve(kServerHost, n, s_.host);
}

// One stretch of the server's CPU work; one that costs nothing is over at once, without waiting for a thread.
inline void Simulation::serve(Role role, int n, const Line& seconds) {
  const Job job{draw({seconds(n), s_.inference_cv}), role, n, now_};
  if (job.work > 0)
    wake(job);
  else
    finished(job);
}

// Unrolls that the finished batch completed go to the queue; a full queue blocks the server.
inline void Simulation::offer_unrolls() {
  if (s_.steps_per_train <= 0) return;
  pending_unrolls_ += static_cast<double>(in_batch_.size() * s_.envs_per_actor) / s_.unroll;
  const double room = s_.queue - unrolls_;
  const double moved = std::min(room, pending_unrolls_);
  unrolls_ += moved;
  pending_unrolls_ -= moved;
  server_blocked_ = pending_unrolls_ > 1e-9;
  learn();
}

inline void Simulation::learn() {
  const double wants = s_.steps_per_train / s_.unroll;
  if (learner_busy_ || s_.steps_per_train <= 0 || unrolls_ + 1e-9 < std::min<double>(wants, s_.queue)) return;
  unrolls_ -= std::min<double>(wants, s_.queue);
  learner_busy_ = true;
  wake({draw(s_.train_host), kTrainHost, 0, now_});
  if (pending_unrolls_ > 0) {
    const double moved = std::min(s_.queue - unrolls_, pending_unrolls_);
    unrolls_ += moved;
    pending_unrolls_ -= moved;
    if (server_blocked_ && pending_unrolls_ <= 1e-9) {
      server_blocked_ = false;
      start_batch();
    }
  }
}

inline void Simulation::replies() {
  for (int actor : in_batch_) {
    wait_inference_ += now_ - requested_at_[actor];
    double work = draw(s_.actor_overhead);
    for (int e = 0; e < s_.envs_per_actor; ++e) work += draw(s_.env_step);
    if (s_.latency > 0)
      delayed_.push({now_ + s_.latency, order_++, {work, kActor, actor, now_ + s_.latency}});
    else
      wake({work, kActor, actor, now_});
    granted_[actor] = now_;
  }
  done_steps_ += static_cast<int64_t>(in_batch_.size()) * s_.envs_per_actor;
}

inline void Simulation::batch_done() {
  server_busy_ = false;
  offer_unrolls();
  start_batch();
}

inline void Simulation::finished(const Job& job) {
  switch (job.role) {
    case kActor:
      cycles_ += now_ - granted_[job.who];
      request(job.who);
      break;
    case kServerHost:
      use_device({draw({s_.device(job.who), s_.inference_cv}), kServerDevice, job.who, now_});
      break;
    case kServerDevice:
      serve(kServerReply, job.who, s_.reply);
      break;
    case kServerReply: {
      const double after = s_.after(job.who);
      if (after > 0) wake({draw({after, s_.inference_cv}), kServerAfter, job.who, now_});
      replies();
      if (after <= 0) batch_done();
      break;
    }
    case kServerAfter:
      batch_done();
      break;
    case kTrainHost:
      use_device({draw(s_.train_device), kTrainDevice, 0, now_});
      break;
    case kTrainDevice:
      learner_busy_ = false;
      ++trains_;
      learn();
      break;
  }
}

inline void Simulation::advance(double to) {
  const double dt = to - now_;
  virtual_ += dt * rate();
  busy_cpu_ += dt * std::min<double>(running_, std::max(0.0, s_.threads - s_.foreign));
  const double kept = std::exp2(-dt / kLoadHalfLife);
  load_ = load_ * kept + (1 - kept) * running_ / s_.threads;
  if (device_busy_) busy_device_ += dt;
  if (server_busy_) busy_server_ += dt;
  if (server_blocked_) blocked_ += dt;
  now_ = to;
}

inline Result Simulation::run(int64_t warmup_steps, int64_t steps) {
  requested_at_.assign(s_.actors, 0);
  granted_.assign(s_.actors, 0);
  finish_.assign(s_.threads, INFINITY);
  idle_since_.assign(s_.threads, 0);
  on_thread_.assign(s_.threads, Job{});
  waiting_.assign(s_.threads, {});
  last_thread_.resize(s_.actors + 2);
  for (size_t p = 0; p < last_thread_.size(); ++p) last_thread_[p] = static_cast<int>(p) % s_.threads;
  for (int a = 0; a < s_.actors; ++a) {  // start spread over one step, as real actors are after a while
    const double part = std::uniform_real_distribution<double>(0.05, 1)(random_);
    wake({part * draw(s_.env_step) * s_.envs_per_actor + draw(s_.actor_overhead), kActor, a, 0});
  }
  double start = 0;
  bool warm = warmup_steps <= 0;
  Result result;
  while (done_steps_ < warmup_steps + steps) {
    const auto first = std::min_element(finish_.begin(), finish_.end());
    const double next_cpu = now_ + (*first - virtual_) / rate();
    const double next_device = device_busy_ ? device_until_ : INFINITY;
    double next_timeout = INFINITY;
    if (s_.timeout >= 0 && !server_busy_ && !server_blocked_ && !requests_.empty())
      next_timeout = std::max(now_, first_request_ + s_.timeout);
    const double next_delayed = delayed_.empty() ? INFINITY : delayed_.top().time;
    double next = std::min({next_cpu, next_device, next_timeout, next_delayed});
    if (std::isinf(next)) break;  // nothing can happen any more: a batch that never fills
    if (waiting_count_ > 0 && running_ < s_.threads) {
      next = std::min(next, kTick * std::ceil(now_ / kTick + 1e-6));
    }
    advance(std::max(next, now_));
    if (next == next_cpu) {
      const int thread = static_cast<int>(first - finish_.begin());
      virtual_ = *first;
      finished(leave(thread));  // what it goes on with finds its thread free
      if (std::isinf(finish_[thread])) refill(thread, thread);
    } else if (next == next_device) {
      const Job job = on_device_;
      device_busy_ = false;
      const bool more = job.work > 0;
      if (more) device_waiting_.push_back(job);
      if (!device_waiting_.empty()) {
        const Job next_job = device_waiting_.front();
        device_waiting_.pop_front();
        use_device(next_job);
      }
      if (!more) finished(job);
    } else if (next == next_delayed) {
      const Job job = delayed_.top().job;
      delayed_.pop();
      wake(job);
    } else if (next == next_timeout) {
      start_batch();
    } else {
      balance();
    }
    if (!warm && done_steps_ >= warmup_steps) {
      warm = true;
      start = now_;
      counted_ = done_steps_;
      busy_cpu_ = busy_device_ = busy_server_ = blocked_ = wait_cpu_ = wait_inference_ = cycles_ = 0;
      batches_ = batch_sum_ = trains_ = 0;
    }
  }
  const double span = now_ - start;
  if (span <= 0) return result;
  result.steps_per_s = static_cast<double>(done_steps_ - counted_) / span;
  result.cpu_busy = busy_cpu_ / span;
  result.device_busy = busy_device_ / span;
  result.server_busy = busy_server_ / span;
  result.queue_full = blocked_ / span;
  result.mean_batch = batches_ ? static_cast<double>(batch_sum_) / batches_ : 0;
  result.train_per_s = trains_ / span;
  const double whole = span * s_.actors;
  result.wait_cpu = wait_cpu_ / whole;
  result.wait_inference = wait_inference_ / whole;
  return result;
}

}  // namespace cutaway::balance
