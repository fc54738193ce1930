// Reads the Python stack of another thread while that thread runs: without the GIL and without
// stopping it. Every read that could go astray goes through the kernel, so memory that was freed
// meanwhile gives an error, never a crash. Reads that cannot be a stack (the thread was changing
// it) are refused; the caller counts them.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "intercept/frame_layout.h"
#include "memory/heap.h"

namespace cutaway {

// A code object as it was when first seen. `identity` tells it from a later one at the same
// address.
struct CodeText {
  struct Identity {
    const void *file, *lines;
    int first_line;
    bool operator==(const Identity& o) const {
      return file == o.file && lines == o.lines && first_line == o.first_line;
    }
  } identity;
  std::string file, function;
  std::vector<std::pair<uint32_t, int>> lines;  // (first byte of the instructions, line), ascending
  int line_at(int64_t offset) const;
};

struct Place {
  uint32_t code;  // position in Stacks::codes
  int line;
};

class Stacks {
 public:
  // The frames of a thread, outermost first. False if they could not be read. `ident` is the
  // thread's own identity: the state may have been freed and taken by another thread.
  bool read(const PyThreadState* state, unsigned long ident, std::vector<Place>* places);

  // The places of frames that their own thread read, innermost first; some of their functions may
  // be gone.
  bool look_up(const RawFrame* frames, size_t count, std::vector<Place>* places);

  std::vector<CodeText> codes;
  uint64_t time = 0;  // ticks at which the last stack was read

 private:
  bool frames(const PyThreadState* state, unsigned long ident);
  bool places_of_frames(std::vector<Place>* places);
  uint32_t find_code(const void* at, const PyCodeObject& code);

  // Where the frames of a thread lay last time: mostly they still lie there, and one system call
  // gets all.
  struct Hint {
    const void *inner = nullptr, *chunk = nullptr;
    size_t size = 0;
  };
  std::unordered_map<const void*, uint32_t> known_;
  std::unordered_map<const PyThreadState*, Hint> hints_;
  std::vector<RawFrame> frames_;     // innermost first
  std::vector<char> chunk_, heads_;  // room for copies
};

bool stacks_can_be_read();  // some containers forbid the system call

}  // namespace cutaway
