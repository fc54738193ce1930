// A distributed RL trainer as a queueing network: actors that step environments on
// shared CPU threads, a batching inference server, a device, a learner locked to the
// actors by the replay ratio, a bounded queue of unrolls. Service times are given,
// never fitted. tests/balance/simulation_twin.py is the same system in readable Python.
// Server and learner preempt an actor at once; actors are batch jobs and wait for their turn.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <queue>
#include <random>
#include <vector>

#include "balance/scheduler.h"

namespace cutaway::balance {

struct Service {
  double mean = 0;  // seconds
  double cv = 0;    // standard deviation / mean
};

struct Line {
  double a = 0, b = 0;  // seconds of a batch of n: a + b n
  double operator()(int n) const { return a + b * n; }
};

struct System : Cpu {
  int actors = 1, envs_per_actor = 1;
  Service env_step;        // CPU of one environment step
  Service actor_overhead;  // CPU of the actor for a request beyond its steps, its share of
                           // transport included
  // CPU of the server for a batch: before the device works, from then until the actors are
  // answered, and after that (while the actors already step); and the device
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
  bool device_on_cpu =
      false;  // the "device" is the CPU: inference and training occupy a hardware thread
};

struct Result {
  double steps_per_s = 0, cpu_busy = 0, device_busy = 0, server_busy = 0, mean_batch = 0;
  double wait_cpu = 0, wait_inference = 0;  // share of an actor's cycle
  double train_per_s = 0, queue_full = 0;
};

class Simulation {
 public:
  Simulation(const System& system, uint64_t seed)
      : s_(system), cpu_(system, system.actors + 2), random_(seed) {}

  Result run(int64_t warmup_steps, int64_t steps);

 private:
  enum Role {
    kActor,
    kServerHost,
    kServerDevice,
    kServerReply,
    kServerAfter,
    kTrainHost,
    kTrainDevice
  };
  struct Job {
    double work;
    Role role;
    int who;
    double arrived;
    int process;
    int task() const { return process; }
    bool batch() const { return role == kActor; }
  };
  struct Delayed {
    double time;
    uint64_t order;
    Job job;
    bool operator>(const Delayed& o) const {
      return time != o.time ? time > o.time : order > o.order;
    }
  };

  double draw(const Service& v);
  int process(Role role, int who) const;
  Job job(double work, Role role, int who) const {
    return {work, role, who, now(), process(role, who)};
  }
  double now() const { return cpu_.now(); }
  void wake(const Job& job) { cpu_.wake(job); }
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
  Scheduler<Job> cpu_;  // its tasks: actors, then server and learner
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double device_until_ = 0, first_request_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<Delayed>> delayed_;
  std::deque<Job> device_waiting_;
  Job on_device_{};
  bool device_busy_ = false, server_busy_ = false, server_blocked_ = false, learner_busy_ = false;
  std::deque<int> requests_;
  std::vector<int> in_batch_;
  std::vector<double> requested_at_, granted_;
  int64_t done_steps_ = 0, counted_ = 0, batches_ = 0, trains_ = 0, batch_sum_ = 0;
  double unrolls_ = 0, pending_unrolls_ = 0;
  double busy_device_ = 0, busy_server_ = 0, blocked_ = 0, wait_inference_ = 0, cycles_ = 0;
};

inline double Simulation::draw(const Service& v) {
  if (v.mean <= 0 || v.cv <= 0) return v.mean;
  const double sigma2 =
      std::log1p(v.cv * v.cv);  // log-normal: positive, right-skewed as service times are
  return v.mean * std::exp(std::sqrt(sigma2) * normal_(random_) - sigma2 / 2);
}

inline int Simulation::process(Role role, int who) const {
  if (role == kActor) return who;
  return s_.actors + (role == kTrainHost || role == kTrainDevice);
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
    device_until_ = now() + s_.slice;
    on_device_.work -= s_.slice;
  } else {
    device_until_ = now() + job.work;
    on_device_.work = 0;
  }
}

inline void Simulation::request(int actor) {
  if (requests_.empty()) first_request_ = now();
  requests_.push_back(actor);
  requested_at_[actor] = now();
  start_batch();
}

inline void Simulation::start_batch() {
  if (server_busy_ || server_blocked_ || requests_.empty()) return;
  const int per = s_.envs_per_actor;
  const int have = static_cast<int>(requests_.size()) * per;
  const bool timed_out = s_.timeout >= 0 && now() >= first_request_ + s_.timeout - 1e-12;
  if (have < s_.batch && !timed_out) return;
  const int take = std::min<int>(requests_.size(), std::max(1, s_.batch / per));
  in_batch_.assign(requests_.begin(), requests_.begin() + take);
  requests_.erase(requests_.begin(), requests_.begin() + take);
  if (!requests_.empty()) first_request_ = now();
  server_busy_ = true;
  const int n = take * per;
  ++batches_;
  batch_sum_ += n;
  serve(kServerHost, n, s_.host);
}

// One stretch of the server's CPU work; one that costs nothing is over at once, without waiting for
// a thread.
inline void Simulation::serve(Role role, int n, const Line& seconds) {
  const Job one = job(draw({seconds(n), s_.inference_cv}), role, n);
  if (one.work > 0)
    wake(one);
  else
    finished(one);
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
  if (learner_busy_ || s_.steps_per_train <= 0 ||
      unrolls_ + 1e-9 < std::min<double>(wants, s_.queue))
    return;
  unrolls_ -= std::min<double>(wants, s_.queue);
  learner_busy_ = true;
  wake(job(draw(s_.train_host), kTrainHost, 0));
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
    wait_inference_ += now() - requested_at_[actor];
    double work = draw(s_.actor_overhead);
    for (int e = 0; e < s_.envs_per_actor; ++e) work += draw(s_.env_step);
    Job next = job(work, kActor, actor);
    next.arrived += s_.latency;
    if (s_.latency > 0)
      delayed_.push({next.arrived, order_++, next});
    else
      wake(next);
    granted_[actor] = now();
  }
  done_steps_ += static_cast<int64_t>(in_batch_.size()) * s_.envs_per_actor;
}

inline void Simulation::batch_done() {
  server_busy_ = false;
  offer_unrolls();
  start_batch();
}

inline void Simulation::finished(const Job& ended) {
  switch (ended.role) {
    case kActor:
      cycles_ += now() - granted_[ended.who];
      request(ended.who);
      break;
    case kServerHost:
      use_device(job(draw({s_.device(ended.who), s_.inference_cv}), kServerDevice, ended.who));
      break;
    case kServerDevice:
      serve(kServerReply, ended.who, s_.reply);
      break;
    case kServerReply: {
      const double after = s_.after(ended.who);
      if (after > 0) wake(job(draw({after, s_.inference_cv}), kServerAfter, ended.who));
      replies();
      if (after <= 0) batch_done();
      break;
    }
    case kServerAfter:
      batch_done();
      break;
    case kTrainHost:
      use_device(job(draw(s_.train_device), kTrainDevice, 0));
      break;
    case kTrainDevice:
      learner_busy_ = false;
      ++trains_;
      learn();
      break;
  }
}

inline void Simulation::advance(double to) {
  const double dt = to - now();
  if (device_busy_) busy_device_ += dt;
  if (server_busy_) busy_server_ += dt;
  if (server_blocked_) blocked_ += dt;
  cpu_.advance(to);
}

inline Result Simulation::run(int64_t warmup_steps, int64_t steps) {
  requested_at_.assign(s_.actors, 0);
  granted_.assign(s_.actors, 0);
  for (int a = 0; a < s_.actors;
       ++a) {  // start spread over one step, as real actors are after a while
    const double part = std::uniform_real_distribution<double>(0.05, 1)(random_);
    wake(job(part * draw(s_.env_step) * s_.envs_per_actor + draw(s_.actor_overhead), kActor, a));
  }
  double start = 0;
  bool warm = warmup_steps <= 0;
  Result result;
  while (done_steps_ < warmup_steps + steps) {
    const double next_cpu = cpu_.next();
    const double next_device = device_busy_ ? device_until_ : INFINITY;
    double next_timeout = INFINITY;
    if (s_.timeout >= 0 && !server_busy_ && !server_blocked_ && !requests_.empty())
      next_timeout = std::max(now(), first_request_ + s_.timeout);
    const double next_delayed = delayed_.empty() ? INFINITY : delayed_.top().time;
    const double next = std::min({next_cpu, next_device, next_timeout, next_delayed});
    if (std::isinf(next)) break;  // nothing can happen any more: a batch that never fills
    advance(std::max(next, now()));
    if (next == next_cpu) {
      Job done;
      int thread;
      if (cpu_.settle(&done, &thread)) {
        finished(done);  // what it goes on with finds its thread free
        cpu_.refill(thread);
      }
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
    } else {
      start_batch();
    }
    if (!warm && done_steps_ >= warmup_steps) {
      warm = true;
      start = now();
      counted_ = done_steps_;
      cpu_.forget();
      busy_device_ = busy_server_ = blocked_ = wait_inference_ = cycles_ = 0;
      batches_ = batch_sum_ = trains_ = 0;
    }
  }
  const double span = now() - start;
  if (span <= 0) return result;
  result.steps_per_s = static_cast<double>(done_steps_ - counted_) / span;
  result.cpu_busy = cpu_.busy() / span;
  result.device_busy = busy_device_ / span;
  result.server_busy = busy_server_ / span;
  result.queue_full = blocked_ / span;
  result.mean_batch = batches_ ? static_cast<double>(batch_sum_) / batches_ : 0;
  result.train_per_s = trains_ / span;
  const double whole = span * s_.actors;
  result.wait_cpu = cpu_.waited() / whole;
  result.wait_inference = wait_inference_ / whole;
  return result;
}

}  // namespace cutaway::balance
