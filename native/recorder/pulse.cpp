#include "recorder/pulse.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "trace/crc.h"

namespace cutaway {

namespace {

constexpr uint64_t kEvery = 400000000;  // ns; the system calls of many idle threads add up

}  // namespace

// Read while the thread may be writing. Anything it does changes one of these fields, so two equal
// looks mean that it did nothing in between, and that everything read between them is consistent.
Pulses::Seen Pulses::see(const ThreadState* t) {
  Seen seen;
  seen.segment = t->segment.look();
  seen.cursor = t->cursor.look();
  seen.depth = t->depth.look();
  seen.written = t->written.look();
  if (seen.depth && seen.depth <= kMaxOpen) seen.start = t->open[seen.depth - 1].start.look();
  return seen;
}

void Pulses::look() {
  std::vector<ThreadState*> threads;
  {
    Locked locked;
    threads = recorder.threads;
  }
  // Thread states are freed by this thread only; so is what describes a segment, though not its
  // memory.
  for (const ThreadState* t : threads) {
    if (t->session != recorder.session || t->id > kMaxId) continue;
    if (slots_.size() <= t->id) slots_.resize(t->id + 1);
    Slot& slot = slots_[t->id];
    const Seen now = see(t);
    const bool same = now == slot.seen;
    if (!same) slot = {now, 0};
    const uint64_t now_ns = monotonic_ns();
    if (!same || !now.segment || !now.cursor || now_ns - slot.told_ns < kEvery) continue;
    tell(t, now);
    slot.told_ns = now_ns;
  }
}

void Pulses::tell(const ThreadState* t, const Seen& seen) {
  alignas(Pulse) char slot[kPulseSlot] = {};
  auto* pulse = reinterpret_cast<Pulse*>(slot);
  pulse->magic = kPulseMagic;
  pulse->version = kFormatVersion;
  pulse->clock = kTicks;
  pulse->thread = t->id;
  pulse->seq = seen.segment->seq;
  pulse->count = static_cast<uint32_t>(seen.cursor - seen.segment->first());
  const uint32_t depth = seen.depth < kMaxOpen ? seen.depth : kMaxOpen;
  for (uint32_t i = seen.written; i < depth; ++i) {
    const Open& open = t->open[i];
    pulse->records[pulse->used++] = {open.start.look(), 0, make_tag(kEnter, open.call.look())};
  }
  pulse->records[pulse->used++] = {ticks(), 0, make_tag(kEnd, 0)};
  if (depth) {
    pulse->call = t->open[depth - 1].call.look();
    pulse->since = t->open[depth - 1].start.look();
  }
  if (!(see(t) == seen)) return;
  pulse->crc = crc32c(slot, sizeof slot);
  const int fd =
      recorder.pulses.open_if_needed(recorder.process_folder + "/pulse.bin", O_CREAT | O_RDWR);
  if (fd >= 0 && pwrite(fd, slot, sizeof slot, static_cast<off_t>(t->id) * kPulseSlot) < 0) return;
}

}  // namespace cutaway
