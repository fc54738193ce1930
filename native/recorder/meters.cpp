#include "recorder/meters.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "recorder/state.h"

namespace cutaway {

namespace {

constexpr uint64_t kSharingNs = 2'000'000'000;  // between two looks at what memory is shared
constexpr uint64_t kSharingCost = 2000;         // and so many times what a look takes
constexpr uint64_t kFirstForeignNs = 300'000'000, kForeignNs = 1'000'000'000;

uint64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000ull + static_cast<uint64_t>(t.tv_nsec);
}

bool read_small(const char* path, char* buffer, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, buffer, size - 1);
  close(fd);
  if (n <= 0) return false;
  buffer[n] = 0;
  return true;
}

bool schedstat(int tid, uint64_t* cpu, uint64_t* waited) {
  char path[64], text[96];
  snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
  unsigned long long a, b;
  if (!read_small(path, text, sizeof text) || sscanf(text, "%llu %llu", &a, &b) != 2) return false;
  *cpu = a;
  *waited = b;
  return true;
}

std::vector<int> tids(bool all) {
  std::vector<int> out;
  if (!all) {
    Locked locked;
    for (const ThreadState* t : recorder.threads) out.push_back(t->tid);
    return out;
  }
  DIR* folder = opendir("/proc/self/task");
  if (!folder) return out;
  while (const dirent* entry = readdir(folder))
    if (const int tid = atoi(entry->d_name)) out.push_back(tid);
  closedir(folder);
  return out;
}

// The recorder's own threads are no part of the program; `own` tells what they use.
bool is_ours(int tid) { return tid == syscall(SYS_gettid) || tid == recorder.sampler_tid; }

// In all, and without pages of files and of shared memory; and the address space, touched or not.
struct Resident {
  unsigned long long all = 0, anonymous = 0, mapped = 0;
};

Resident resident_bytes() {
  char text[96];
  unsigned long long total, resident, shared;
  if (!read_small("/proc/self/statm", text, sizeof text)) return {};
  if (sscanf(text, "%llu %llu %llu", &total, &resident, &shared) != 3) return {};
  const auto page = static_cast<unsigned long long>(sysconf(_SC_PAGESIZE));
  return {resident * page, (resident - std::min(resident, shared)) * page, total * page};
}

// The number behind a word at the beginning of a line of /proc/self/smaps_rollup, in bytes.
uint64_t rolled_up(const char* text, const char* word) {
  const char* at = strstr(text, word);
  unsigned long long kilobytes = 0;
  if (at) sscanf(at + strlen(word), "%llu", &kilobytes);
  return kilobytes * 1024;
}

// CPU time of the whole machine that was not idle, in ns; it counts in hundredths of a second.
uint64_t machine_busy_ns() {
  char text[512];
  unsigned long long user, nice, system, idle, iowait, irq, softirq;
  if (!read_small("/proc/stat", text, sizeof text)) return 0;
  if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait,
             &irq, &softirq) != 7)
    return 0;
  return (user + nice + system + irq + softirq) *
         (1000000000ull / static_cast<uint64_t>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

Meters::Meters() { measure_cores(monotonic_ns()); }

std::string Meters::threads(bool all) {
  std::string out;
  std::map<int, uint64_t> before = cpu_of_;
  if (all) cpu_of_.clear();  // forgets threads that have ended
  for (const int tid : tids(all)) {
    uint64_t cpu, waited;
    if (is_ours(tid) || !schedstat(tid, &cpu, &waited)) continue;
    const auto known = before.find(tid);
    cpu_of_[tid] = cpu;
    if (known != before.end() && known->second == cpu) continue;
    char text[96];
    snprintf(text, sizeof text, "%s\"%d\":[%llu,%llu]", out.empty() ? "" : ",", tid,
             static_cast<unsigned long long>(cpu), static_cast<unsigned long long>(waited));
    out += text;
  }
  return out;
}

// Cores: this process since the last sample. Foreign: the machine less all processes of the run,
// over a second at least, because the machine's own figure is counted in hundredths of a second. A
// short run would end before that, so the first figure is a coarser one; before it there is none.
void Meters::measure_cores(uint64_t now) {
  process_cpu_ns_ = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  if (cores_from_ && now > cores_from_)
    cores_ =
        static_cast<double>(process_cpu_ns_ - cores_cpu_) / static_cast<double>(now - cores_from_);
  cores_from_ = now;
  cores_cpu_ = process_cpu_ns_;
  if (foreign_from_ && now - foreign_from_ < (foreign_ < 0 ? kFirstForeignNs : kForeignNs)) return;
  const uint64_t busy = machine_busy_ns(), run = recorder.shared.cpu_ns();
  if (foreign_from_) {
    const double other =
        static_cast<double>(busy - busy_from_) - static_cast<double>(run - run_cpu_);
    foreign_ = other > 0 ? other / static_cast<double>(now - foreign_from_) : 0;
  }
  foreign_from_ = now;
  busy_from_ = busy;
  run_cpu_ = run;
}

// How much of its memory a process shares with no other: pages shared with others (after a fork,
// in /dev/shm) count in the resident bytes of each. The kernel walks all pages for it, so it is
// asked the more seldom the longer that takes.
std::string Meters::sharing(uint64_t now) {
  char text[2048], out[160];
  const uint64_t before = thread_cpu_ns();
  if (now < sharing_next_ || !read_small("/proc/self/smaps_rollup", text, sizeof text)) return "";
  sharing_next_ = now + std::max(kSharingNs, kSharingCost * (thread_cpu_ns() - before));
  const uint64_t own = rolled_up(text, "\nPrivate_Clean:") + rolled_up(text, "\nPrivate_Dirty:");
  snprintf(out, sizeof out, ",\"pss\":%llu,\"private\":%llu,\"shmem\":%llu",
           static_cast<unsigned long long>(rolled_up(text, "\nPss:")),
           static_cast<unsigned long long>(own),
           static_cast<unsigned long long>(rolled_up(text, "\nPss_Shmem:")));
  return out;
}

void Meters::sample(bool all_threads) {
  const uint64_t now = monotonic_ns();
  measure_cores(now);
  const Resident resident = resident_bytes();
  recorder.anonymous_bytes = static_cast<int64_t>(resident.anonymous);
  char foreign[32] = "", numbers[280];
  if (foreign_ >= 0) snprintf(foreign, sizeof foreign, ",\"foreign\":%.2f", foreign_);
  snprintf(numbers, sizeof numbers,
           "},\"rss\":%llu,\"anon\":%llu,\"mapped\":%llu,\"cores\":%.3f%s,\"own\":%llu",
           resident.all, resident.anonymous, resident.mapped, cores_, foreign,
           static_cast<unsigned long long>(recorder.own_cpu_before + thread_cpu_ns() +
                                           recorder.sampler_cpu_ns));
  recorder.log.line("\"k\":\"sample\",\"t\":" + std::to_string(now) + ",\"threads\":{" +
                    threads(all_threads) + numbers + (all_threads ? sharing(monotonic_ns()) : ""));
}

// All four clocks between two readings of the ticks; of several tries the one with the least time
// between.
void write_anchor() {
  uint64_t best = ~0ull, at = 0, mono = 0, real = 0, raw = 0;
  for (int i = 0; i < 16; ++i) {
    const uint64_t a = ticks();
    const uint64_t m1 = clock_ns(CLOCK_MONOTONIC);
    const uint64_t b = ticks();
    const uint64_t r = clock_ns(CLOCK_REALTIME);
    const uint64_t w = clock_ns(CLOCK_MONOTONIC_RAW);
    const uint64_t m2 = clock_ns(CLOCK_MONOTONIC);
    const uint64_t c = ticks();
    if (c - a >= best) continue;
    best = c - a;
    at = a + (b - a) / 2;
    mono = m1;
    real =
        r - (m2 - m1) /
                3;  // read a third and two thirds of the way from one reading of mono to the next
    raw = w - (m2 - m1) * 2 / 3;
  }
  recorder.log.line("\"k\":\"anchor\",\"mono\":" + std::to_string(mono) +
                    ",\"real\":" + std::to_string(real) + ",\"raw\":" + std::to_string(raw) +
                    ",\"ticks\":" + std::to_string(at));
}

}  // namespace cutaway
