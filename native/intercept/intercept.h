// Native calls intercepted in place: the function pointer inside the existing
// Python object is exchanged for a thunk, so that every reference sees it and
// nothing about the object changes. Everything here runs under the GIL.
#pragma once
#include <Python.h>

#include <string>

#include "intercept/thunks.h"
#include "recorder/recorder.h"

namespace cutaway {

enum class Role : uint8_t {
  kPlain,      // one function, one name
  kShared,     // one function behind many objects; the first argument says which one is meant
  kCompiled,   // … and it may be an update: a function compiled by JAX
  kWait,       // may block
  kFeed,       // ends the wait of another: a release, a put
  kCallback,   // a Python function that native code calls: back to layer python while it runs
  kWatched,    // a Python observer sees the arguments and the result, also while recording
               // pauses
  kAwaited,    // … sees the arguments before the call
  kSized,      // recorded only when it is given large arrays
  kSubscript,  // of an array: recorded when it is large and indexed with an array
  kOperator,   // part of a library that is Python above: an argument names the call, the site lies
               // outside
  kApply,      // autograd.Function.apply: its class's forward is about to be called back
};

enum class WaitOn : uint8_t {
  kNothing,
  kFdArgument,
  kFdSelf,
  kReady,
  kPid,
  kSemaphore,
  kObject,
  kQueue,
  kTold
};

// How the arguments of a call are passed; for observers and waits.
enum class Convention : uint8_t { kNone, kOne, kTuple, kFast, kMethod, kVectorcall, kSetter };

// What the hook needs of a patched function, in one cache line: between two calls the program's own
// work has emptied the caches, so every line that is touched costs more than a dozen instructions.
struct alignas(64) Target {
  Native original;
  const char* site;   // the instruction that called it last, or kNowhere …
  uint32_t called;    // … and the id of that call
  uint32_t siteless;  // its id without a site, once there are too many sites
  uint32_t calls;     // through a cold thunk
  Role role;
  WaitOn on;
  Convention convention;
  uint8_t least;       // kSized, kSubscript: elements that make an array large, as a power of two
                       // kOperator: one more than the position of the name, 0 if none
                       // kWait: 1 if the call also feeds what others wait for (a write)
  PyMethodDef method;  // stands in for the library's, so the interpreter has just read this line
};
static_assert(sizeof(Target) == 64, "one cache line");

// What is needed of it only once for each call site.
struct Description {
  std::string name;
  std::string layer;
  PyObject* observer = nullptr;
};

inline const char* const kNowhere = reinterpret_cast<const char*>(1);
extern Target targets[kMaxTargets];
Description& describe(uint32_t index);
// The number of a new target, a cold one, or 0 when all are taken (counted as refused).
uint32_t new_target(Native original, Role role, Convention convention, Description description);

// What the hooks of the thunks hand on.
CUTAWAY_HOT Word hook_slowly(Word a, Word b, Word c, Word d, Word e, uint32_t index);
Word hook_rare(Word a, Word b, Word c, Word d, Word e, uint32_t index);
Word hook_feed(Word a, Word b, Word c, Word d, Word e, uint32_t index);
Word hook_wait(Word a, Word b, Word c, Word d, Word e, uint32_t index);
PyObject* gave(PyObject*, PyObject* queue);
PyObject* took(PyObject*, PyObject* queue);
Word hook_operator(Word a, Word b, Word c, Word d, Word e, uint32_t index);

// From inside a compiled function: each call of it changes the weights.
PyObject* compiled_updates(PyObject*, PyObject*);
PyObject* running_compiled(PyObject*, PyObject*);

// The arguments of a call as a tuple (new reference), values of keywords last.
PyObject* arguments(Convention convention, Word a, Word b, Word c, Word d, Word e);

// A recorded native call for as long as it lives: also when
// a C++ exception or a thread's end unwinds through it.
class OpenCall {
 public:
  OpenCall(Thread* thread, uint32_t call) : thread_(thread) { enter_call(thread, ticks(), call); }
  ~OpenCall() {
    // After a fork inside the call the buffer belongs to the parent.
    if (__builtin_expect(current == thread_, 1)) exit_call(thread_, ticks());
  }
  OpenCall(const OpenCall&) = delete;

 private:
  Thread* const thread_;
};

inline Thread* recording_thread() {
  Thread* t = current;
  return __builtin_expect(t != nullptr, 1) ? t : attach();
}

// Adds the functions of this folder to cutaway._recorder; -1 with an exception set on failure.
int add_intercept(PyObject* module);

}  // namespace cutaway
