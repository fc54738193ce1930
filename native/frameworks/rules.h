// When a hook in a framework opens an operation, and what it counts. Used by Span (functions) and
// calls.cpp (classes). Everything here runs with the GIL held and leaves Python's error state as it
// was.
#pragma once
#include <Python.h>

#include "recorder/operations.h"

namespace cutaway {

struct Rule {
  uint32_t name = 0;  // operation to open, 0 for none
  uint32_t hidden_in =
      0;  // operations (bits by name id) inside which nothing is opened and nothing counted
  uint32_t steps = 0;  // environment steps each call makes …
  PyObject* steps_of =
      nullptr;        // … or the attribute of the first argument, or the function that tells
  uint32_t mark = 0;  // a Mark each outermost call leaves
  PyObject* gradients =
      nullptr;  // for kNetworkBegins: the built-in that says whether gradients are recorded
  PyObject* unless = nullptr;    // nothing is done if this built-in returns True
  PyObject* on_enter = nullptr;  // called with the first argument
  PyObject* on_exit =
      nullptr;             // called with the first argument and the result, unless the call raised
  bool iteration = false;  // a call begins an iteration
  bool update = false;     // a call changes the weights: see change_weights
  bool alone = false;      // a function of simulation: its first argument is no environment
};

// (subject, operation | None, *, hidden_in=(), steps=0, mark=…, gradients=…,
// unless=…, on_enter=…, on_exit=…, iteration=…, update=…, alone=…) New references are held
// by the rule; `subject` is borrowed. -1 and an exception if something is wrong.
int read_rule(PyObject* args, PyObject* kwargs, Rule* rule, PyObject** subject);
void clear_rule(Rule* rule);
int visit_rule(const Rule& rule, visitproc visit, void* arg);

// Operations a hook has opened, or would have opened were it not inside one of the user's; bits by
// name id.
extern __thread uint32_t open_kinds;
extern __thread uint32_t open_marks;  // bits by Mark: only the outermost call leaves one

inline bool hidden(const Rule& rule) {
  return (open_kinds & rule.hidden_in) || (open_marks & 1u << rule.mark);
}

struct Entered {
  bool counts;  // the outermost call of its kind: leave must be called
  bool opened;  // and an operation was opened for it
  bool marked;  // … a mark says that it began; another one says that it ends
  bool steps;   // … it makes steps of the training
};
Entered enter(const Rule& rule, ThreadState* t, PyObject* first,
              uint32_t depth);  // depth: of the caller
void leave(const Rule& rule, Entered entered, ThreadState* t, PyObject* first, PyObject* result);

// Where no environment is stepped and no network acts, an iteration begins with the first work for
// the update after the last one of the first optimizer (or compiled function).
void begin_update(ThreadState* t);
void change_weights(PyObject* optimizer);

int add_frameworks(PyObject* module);  // puts what follows into cutaway._recorder
PyObject* cover_calls(PyObject*, PyObject* args, PyObject* kwargs);
PyObject* cover_calls_of(PyObject*, PyObject* cls);
PyObject* uncover_calls(PyObject*, PyObject*);
PyObject* watch_classes(PyObject*, PyObject* args);  // classes.cpp

}  // namespace cutaway
