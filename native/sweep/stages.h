// Where start-up ends. This is the one place that says so (docs/analysis.md has it in words):
//
// - with the second iteration of a process; one without iterations follows the first process that
// has them;
// - in a run of one iteration, with the first operation, and after what is compiled in that;
// - a run without iterations has no start-up.
//
// A process can tell its own second iteration while it is swept. What it must know of the others is
// looked for before the sweep, in as few records as possible.
#pragma once
#include <vector>

#include "sweep/events.h"

namespace cutaway {

// The start-up of one process, by its own iterations.
struct StartUp {
  uint32_t iterations = 0;  // that began so far
  uint64_t over_since = 0;  // 0: it is not over

  // An iteration begins. True if it ends the start-up: the second one does, and one whose number
  // says that there were others before the recording.
  bool begin_iteration(uint32_t number, uint64_t time) {
    ++iterations;
    if (over_since || (iterations < 2 && number <= 2)) return false;
    over_since = time;
    return true;
  }
};

// The first work of a thread: when its first operation began, or when the last function was
// compiled in it. Compiling alone is no work.
struct FirstWork {
  uint64_t time = 0;
  uint32_t depth = 0;
  bool found = false, over = false;

  void note(uint64_t at, bool enters, bool compiles) {
    if (over) return;
    if (found) depth += enters ? 1 : -1;
    if (!found && enters && !compiles) {
      time = at ? at - 1 : 0;  // the operation lies behind it
      depth = 1;
      found = true;
    } else if (found && !enters && compiles) {
      time = at;
    }
    over = found && !depth;
  }
};

// What is on disk of a process.
struct ProcessRecords {
  SharedFiles files;
  std::vector<std::vector<Source>> threads;
  // What its past knows, if it has one: when its first iteration began (0: not yet), where the past
  // ends, and which threads calibration had paused then.
  uint64_t first_iteration = 0, since = 0;
  std::vector<uint8_t> paused = {};
};

struct Iterations {
  std::vector<uint64_t> first;  // of each process; 0: none
  uint64_t second = 0;          // when the first process began its second one; 0: none did
};

Iterations find_iterations(std::vector<ProcessRecords> processes);
uint64_t find_first_work(std::vector<ProcessRecords> processes);  // of the run; 0: there is none

}  // namespace cutaway
