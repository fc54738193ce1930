// Turns the events of one host thread, in any order, into streams of Records as
// native/trace/format.h wants them: ordered by time and properly nested. Calls that overlap without
// nesting go to a further lane (a stream of its own), so that no time and no call is lost.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cutaway::imports {

enum class Item : uint8_t {
  kCall = 0,       // name: function; becomes Call or Enter … Exit
  kOperation = 1,  // name: operation
  kFrame = 2,      // name: a Python frame; not written, but the call site of the calls inside it
  kApi = 3,        // accelerator API call; not written, but told which operation it is in
  kIteration = 4,  // name: its number
};

struct Events {
  const int64_t *start, *end;
  const uint8_t* item;
  const uint32_t* name;
  size_t size;
};

struct Lane {
  std::vector<uint64_t> time;
  std::vector<uint32_t> value, id;  // id of a call: position in Nested::calls
  std::vector<uint8_t> kind;
};

struct Nested {
  static constexpr uint32_t kNowhere = UINT32_MAX;
  std::vector<Lane> lanes;
  std::vector<uint32_t> function,
      site;                         // of each distinct call; site is a frame's name or kNowhere
  std::vector<uint32_t> operation;  // for each event: innermost operation around it or kNowhere
  uint64_t dropped = 0;  // events that found no place: absurdly deep, or in absurdly many lanes
};

// More lanes, or more events open at once, come only from files that mean harm or are broken.
constexpr size_t kMaxLanes = 64, kMaxOpenEvents = 2048;

Nested nest(const Events& events);

}  // namespace cutaway::imports
