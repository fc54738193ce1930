// Operations, phases, iterations and steps: the program's annotations.
#pragma once
#include <Python.h>

#include "recorder/abi.h"
#include "recorder/state.h"

namespace cutaway {

// The built-in names are interned first, so their ids are 1 … kBuiltInNames (BuiltInName).
static_assert(kBuiltInNames < 32, "sets of built-in names are masks of 32 bits");
void intern_built_in_names();

// Chosen by what the structure has, so that a Python newer than those we know compiles: it has one
// depth then.
template <class State>
auto recursion_of(const State* s, int)
    -> decltype(static_cast<uint32_t>(s->py_recursion_limit - s->py_recursion_remaining)) {
  return static_cast<uint32_t>(s->py_recursion_limit - s->py_recursion_remaining);
}
template <class State>
auto recursion_of(const State* s, int)
    -> decltype(static_cast<uint32_t>(s->recursion_limit - s->recursion_remaining)) {
  return static_cast<uint32_t>(s->recursion_limit - s->recursion_remaining);
}
template <class State>
auto recursion_of(const State* s, int) -> decltype(static_cast<uint32_t>(s->recursion_depth)) {
  return static_cast<uint32_t>(s->recursion_depth);
}
template <class State>
uint32_t recursion_of(const State*, long) {
  return 0;
}

// How deep Python's own stack is; equal in two places of the same function body. Any unit, only
// compared.
inline uint32_t python_depth() { return recursion_of(PyThreadState_Get(), 0); }

// Null when nothing records.
inline ThreadState* this_thread() {
  Thread* t = current;
  return state_of(__builtin_expect(t && recorder.recording, 1) ? t : attach());
}

// Published: a collector may set them from a thread without the GIL, after what they use.
extern Watched<cutaway_operation_hook> operation_hook;
extern Watched<cutaway_phase_hook> phase_hook;
extern bool
    iterations_are_the_users;  // the program calls iteration() itself, so frameworks need not guess

// The record comes first: if it is the first of this thread, it begins with the operations already
// open.
inline void enter_operation(ThreadState* t, uint32_t name, uint32_t depth) {
  t->python = PyThreadState_Get();  // C++ may lend a thread to Python with another state each time
  const OpenOperation opened = {name, depth};
  mark(t, ticks(), why_of(opened), make_tag(kOpEnter, name));
  t->operations.push_back(opened);
  const cutaway_operation_hook hook = operation_hook.look();
  if (__builtin_expect(hook != nullptr, 0)) hook(name, 1);
}
void exit_operation(ThreadState* t, uint32_t name);
bool automatic_may_open(const ThreadState* t, uint32_t name,
                        uint32_t depth);  // see docs/operations.md
void count_steps(ThreadState* t, uint64_t n);
void count_iteration(ThreadState* t);

uint32_t name_id(PyObject* text);  // of any str, also one with lone surrogates
extern PyTypeObject OperationType, GateType, PhaseType, SpanType;
bool is_operation(PyObject* o);
uint32_t operation_id(PyObject* o);
PyObject* operation_of(PyObject* module, PyObject* name);
PyObject* set_phase(PyObject* module, PyObject* name);
PyObject* make_span(PyObject* function, uint32_t name, bool automatic);
PyObject* change_rule(PyObject* module, PyObject* args,
                      PyObject* kwargs);  // of a Span, from its next call on
bool ready_operations();
bool ready_span();
bool ready_tasks(PyObject* module);

}  // namespace cutaway
