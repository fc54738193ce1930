// The events of one thread as everything offline sees them: decoded, in order, in nanoseconds.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sweep/archive.h"
#include "sweep/blocks.h"
#include "sweep/clock.h"
#include "sweep/naming.h"

namespace cutaway {

// What the records of a process need in order to be read. The instants `first`
// and `last` are those between which its records can lie: a live segment has no
// checksum, and one flipped bit in a time must not stretch a life to centuries.
struct ProcessFiles {
  std::vector<std::string> paths;
  std::vector<ClockMap> clocks;  // by Clock
  std::vector<uint8_t> layers;   // of each call id
  uint64_t first = 0, last = UINT64_MAX;
  NamingFacts naming;
  std::vector<Source> samples;  // of Python stacks

  uint8_t layer_of(uint32_t call) const {
    if (call >= kBlockedCall) return kWait;
    return call < layers.size() ? layers[call] : uint8_t{0};
  }
};
using SharedFiles = std::shared_ptr<const ProcessFiles>;

struct Event {
  uint64_t time, end;  // nanoseconds; end == time unless the record is a Call
  uint32_t value, tag;
};

struct ReadCounts {
  uint64_t events = 0, disordered = 0, implausible = 0, damaged = 0, missing = 0;
};

// A stream of events, handed out from a small window that `refill` fills: no virtual call for each
// event.
class Events {
 public:
  Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  virtual ~Events() = default;

  // The next event, or nullptr at the end; it stays where it is
  // until the one after it is asked for. Times never go back.
  const Event* next() {
    if (__builtin_expect(at_ == end_, 0) && !refill()) return nullptr;
    return at_++;
  }

  // Goes on after the end with what the process has written meanwhile: `sources` are all of this
  // thread, in order of their sequence numbers; what was read of them is not read again.
  virtual void follow(SharedFiles files, std::vector<Source> sources) = 0;

  // From here on, until the next call: only what has ended before `until`, and more will come.
  // `open` are Enter records of calls that the thread is in and has not written.
  virtual void bound(uint64_t until, std::vector<Record> open) = 0;

  // How far it has read: the sequence number of a source, and how many records of it.
  virtual std::pair<uint32_t, uint64_t> position() const = 0;

  virtual const ReadCounts& counts() const = 0;

  // After the end: no event that comes later begins before this instant.
  virtual uint64_t frontier() const { return UINT64_MAX; }

  // What was read and not handed out yet, with what it depends on. What is loaded goes on behind it
  // in its sources.
  virtual void save(Saver&) = 0;
  virtual void load(Loader&) = 0;

  // Everything that is decoded, at once; empty at the end.
  std::pair<const Event*, const Event*> take_window() {
    if (at_ == end_ && !refill()) return {nullptr, nullptr};
    return {std::exchange(at_, end_), end_};
  }

 protected:
  // Sets at_ and end_ to at least one event, or returns false at the end.
  virtual bool refill() = 0;

  const Event* at_ = nullptr;
  const Event* end_ = nullptr;
};

// The one place where the events of a thread come from: its records, and names for what has none.
std::unique_ptr<Events> open_events(SharedFiles files, std::vector<Source> sources);
// Records as they are: of the sampler, whose stream is no thread's.
std::unique_ptr<Events> open_samples(SharedFiles files, std::vector<Source> sources);

}  // namespace cutaway
