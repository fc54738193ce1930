// Stretches of Python that are too short to be sampled for certain (blocked.h has the long ones):
// how much of them the thread slept, from the share of their samples that found it asleep. Done
// once, when everything has been added up, so that all tables say the same and cells still add up
// to the nanosecond.
#include <cmath>
#include <map>

#include "sweep/blocked.h"
#include "sweep/ledger.h"

namespace cutaway {

// Of the samples in one context that found its thread in Python.
struct Ledger::Asleep {
  uint64_t all = 0;
  std::map<uint32_t, uint64_t> in;  // by call, as `blocked_in` has it
};

namespace {

bool is_divided(const SampleKey& key) {
  return key.layer == kPython && key.call == kNoCell && key.doing != kUntold;
}

uint32_t call_of(const SampleKey& key) {
  return blocked_in(key.frame | uint32_t{key.doing} << kSampleDoing);
}

// Half the 95 % interval of a share, squared, with the rule of succession: one of one sample is not
// certain.
double variance(uint64_t ns, uint64_t count, uint64_t all) {
  const double n = static_cast<double>(all), share = (static_cast<double>(count) + 1) / (n + 2);
  const double half = 1.96 * static_cast<double>(ns) * std::sqrt(share * (1 - share) / (n + 3));
  return half * half;
}

}  // namespace

void Ledger::divide_by_samples() {
  std::map<uint32_t, Asleep> found;
  for (const auto& [key, count] : samples.entries()) {
    if (!is_divided(key)) continue;
    Asleep& asleep = found[whole_of(key.context)];
    asleep.all += count;
    if (const uint32_t call = call_of(key)) asleep.in[call] += count;
  }
  const size_t known = cells.size();
  for (uint32_t at = 0; at < known; ++at) {
    const auto asleep = found.find(whole_of(cells[at].context));
    if (cells[at].state >> 3 == kPython && cells[at].ns && asleep != found.end())
      divide(at, asleep->second);
  }
  const auto old = std::exchange(samples, {}).entries();
  for (const auto& [key, count] : old) {
    SampleKey to = key;
    if (const uint32_t call = is_divided(key) ? call_of(key) : 0)
      to = {sleeper(key.context, call), call, key.frame, kWait, key.doing};
    samples[samples.find_or_add(to)] += count;
  }
}

// One iteration has too few samples of its own: it is divided as all of them are.
uint32_t Ledger::whole_of(uint32_t context) {
  if (slicing != kByIteration) return context;
  ContextKey key = contexts.entries()[context].key;
  key.slice = 0;
  return contexts.find_or_add(key);
}

// What a thread is doing while it sleeps: a name that only the rule gave (namer.h) does not hold
// then.
uint32_t Ledger::sleeper(uint32_t context, uint32_t call) {
  ContextKey key = contexts.entries()[context].key;
  if (call >= kGilCall || key.why <= kByFramework) return context;
  key.operation = key.why = 0;
  return contexts.find_or_add(key);
}

void Ledger::divide(uint32_t at, const Asleep& asleep) {
  const uint64_t ns = cells[at].ns;
  const uint32_t context = cells[at].context, busy = cells[at].state & 3;
  uint64_t counted = 0, moved = 0;
  for (const auto& [call, count] : asleep.in) {
    counted += count;
    const auto until =
        static_cast<uint64_t>(static_cast<unsigned __int128>(ns) * counted / asleep.all);
    const uint32_t to = sleeper(context, call);
    Cell& cell = cells[cell_of(to, uint32_t{kWait} << 3 | 1u << 2 | busy)];
    cell.ns += until - moved;
    cell.variance += variance(ns, count, asleep.all);
    sites[sites.find_or_add({slicing == kByStart ? to : 0, call, kPython})].ns += until - moved;
    moved = until;
  }
  cells[at].ns -= moved;
  if (moved) cells[at].variance += variance(ns, counted, asleep.all);
}

}  // namespace cutaway
