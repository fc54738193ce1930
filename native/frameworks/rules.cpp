#include "frameworks/rules.h"

#include <string.h>

#include <utility>

#include "frameworks/environments.h"

namespace cutaway {

__thread uint32_t open_kinds, open_marks;

namespace {

// What begins an iteration: only the best source seen so far counts.
enum Source { kNobody, kUpdates, kFramework };
struct Progress {
  Source source = kNobody;
  bool begins = false;      // the next environment step, or update without one, begins an iteration
  bool stepped = false;     // an environment has been stepped
  uint32_t actions = 0;     // networks called without gradients since the last update
  bool acts = false;        // these were more than an update needs
  uint32_t seen_kinds = 0;  // operations that have been opened in this process
  PyObject* optimizer = nullptr;  // identity of the first that changed the weights
  uint64_t changes = 0;           // of the weights
  PyObject* on_first = nullptr;
};
Progress progress;

uint32_t bit(uint32_t name) { return name && name <= kBuiltInNames ? 1u << name : 0; }

// Nothing inside a user's own evaluation or checkpoint belongs to the training either.
uint32_t set_apart(const ThreadState* t) {
  constexpr uint32_t kApart = 1u << kEvaluationName | 1u << kCheckpointName;
  uint32_t found = 0;
  for (const OpenOperation& o : t->operations) found |= bit(o.name) & kApart;
  return found;
}

// Errors of a hook must not reach the program; they are only noted in the trace.
void call_hook(PyObject* hook, PyObject* first, PyObject* second) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_INCREF(hook);  // it may change the rule that holds it
  PyObject* arguments[] = {first ? first : Py_None, second};
  PyObject* out = PyObject_Vectorcall(hook, arguments, second ? 2 : 1, nullptr);
  if (!out) {
    PyErr_Clear();
    recorder.log.line("\"k\":\"note\",\"text\":\"a hook in a framework failed\"");
  }
  Py_XDECREF(out);
  Py_DECREF(hook);
  PyErr_Restore(type, value, trace);
}

bool says_true(PyObject* builtin) {
  PyObject* answer = PyObject_CallNoArgs(builtin);
  if (!answer) PyErr_Clear();
  Py_XDECREF(answer);  // True is never freed
  return answer == Py_True;
}

uint32_t steps_made(const Rule& rule, PyObject* first, PyObject* result) {
  if (!rule.steps_of) return rule.steps;
  if (!first) return 1;
  PyObject* width = PyUnicode_Check(rule.steps_of)
                        ? PyObject_GetAttr(first, rule.steps_of)
                        : PyObject_CallFunctionObjArgs(rule.steps_of, first, result, nullptr);
  const long steps = width ? PyLong_AsLong(width) : 1;
  Py_XDECREF(width);
  if (PyErr_Occurred()) PyErr_Clear();
  return steps > 0 ? static_cast<uint32_t>(steps) : 1;
}

void begin_iteration(ThreadState* t, Source source) {
  if (source < progress.source || iterations_are_the_users) return;
  progress.source = source;
  progress.begins = false;
  count_iteration(t);
}

void tell_first(uint32_t name) {
  progress.seen_kinds |= bit(name);
  if (!progress.on_first) return;
  PyObject* id = PyLong_FromUnsignedLong(name);
  if (id) call_hook(progress.on_first, id, nullptr);
  Py_XDECREF(id);
}

PyObject* on_first_operation(PyObject*, PyObject* callback) {
  PyObject* old = progress.on_first;
  progress = Progress();
  progress.on_first = callback == Py_None ? nullptr : Py_NewRef(callback);
  open_kinds = open_marks = 0;
  forget_environments();
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyObject* count_weight_changes(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(progress.changes);
}

PyObject* expect_updates(PyObject*, PyObject*) {
  if (progress.source < kUpdates) {
    progress.source = kUpdates;
    progress.begins = true;
  }
  Py_RETURN_NONE;
}

// For hooks that see where something begins and where it ends, but have no function to cover.
struct Begun {
  uint32_t calls;
  bool opened;
};
static __thread Begun begun[kBuiltInNames + 1];

PyObject* begin_operation(PyObject*, PyObject* text) {
  ThreadState* t = this_thread();
  const uint32_t name = PyUnicode_Check(text) ? name_id(text) : 0;
  if (!t || !bit(name) || begun[name].calls++) Py_RETURN_NONE;
  begun[name].opened = automatic_may_open(t, name, python_depth());
  if (begun[name].opened) enter_operation(t, name, kAutomatic);
  Py_RETURN_NONE;
}

PyObject* end_operation(PyObject*, PyObject* text) {
  const uint32_t name = PyUnicode_Check(text) ? name_id(text) : 0;
  if (!bit(name) || !begun[name].calls || --begun[name].calls) Py_RETURN_NONE;
  Thread* t = current;
  if (begun[name].opened && t && recorder.recording) exit_operation(state_of(t), name);
  Py_RETURN_NONE;
}

int read_hidden(PyObject* names, uint32_t* mask) {
  if (!names) return 0;
  PyObject* list = PySequence_Fast(names, "hidden_in must be a sequence of operations");
  if (!list) return -1;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i) {
    PyObject* name = PySequence_Fast_GET_ITEM(list, i);
    if (PyUnicode_Check(name)) *mask |= bit(name_id(name));
  }
  Py_DECREF(list);
  return 0;
}

int read_steps(PyObject* steps, Rule* rule) {
  if (!steps) return 0;
  if (PyUnicode_Check(steps) || PyCallable_Check(steps)) {
    rule->steps_of = Py_NewRef(steps);
    return 0;
  }
  rule->steps = static_cast<uint32_t>(PyLong_AsUnsignedLong(steps));
  return PyErr_Occurred() ? -1 : 0;
}

int read_mark(const char* word, Rule* rule) {
  if (!word) return 0;
  for (const auto& [name, mark] : {std::pair{"network", kNetworkBegins},
                                   {"batch", kBatch},
                                   {"random", kRandom},
                                   {"log", kLogBegins}})
    if (strcmp(word, name) == 0) rule->mark = mark;
  if (!rule->mark)
    PyErr_SetString(PyExc_ValueError, "mark must be 'network', 'batch', 'random' or 'log'");
  return rule->mark ? 0 : -1;
}

// Where no environment is known, the first action after an update begins an iteration: the
// minibatches of a rollout are not passes of the training loop.
void begin_acting(ThreadState* t) {
  progress.acts |= ++progress.actions > kMostTargets;
  if (progress.acts && progress.begins && !progress.stepped) begin_iteration(t, kUpdates);
}

// A network call reveals the role of a process, as an operation would.
bool leave_mark(const Rule& rule, ThreadState* t, uint32_t depth) {
  if (rule.mark != kNetworkBegins) {
    mark(t, ticks(), 0, make_tag(kMark, rule.mark));
    return rule.mark == kLogBegins;
  }
  if (!automatic_may_open(t, kInferenceName, depth)) return false;
  const bool gradients = rule.gradients && says_true(rule.gradients);
  if (gradients) begin_update(t);
  if (!gradients) begin_acting(t);
  mark(t, ticks(), gradients, make_tag(kMark, kNetworkBegins));
  if (!gradients && (bit(kInferenceName) & ~progress.seen_kinds)) tell_first(kInferenceName);
  return true;
}

PyObject* given(PyObject* hook) { return hook && hook != Py_None ? Py_NewRef(hook) : nullptr; }

}  // namespace

void begin_update(ThreadState* t) {
  if (progress.begins && !progress.stepped && !progress.acts) begin_iteration(t, kUpdates);
}

void change_weights(PyObject* optimizer) {
  weights_changed();
  ++progress.changes;
  progress.actions = 0;
  if (!progress.optimizer) progress.optimizer = optimizer;
  if (!progress.stepped && progress.optimizer != optimizer) return;
  if (progress.source < kUpdates) progress.source = kUpdates;
  progress.begins = progress.source == kUpdates;
}

Entered enter(const Rule& rule, ThreadState* t, PyObject* first, uint32_t depth) {
  if (hidden(rule)) return {};
  if (rule.unless && says_true(rule.unless)) return {};
  if (!t->operations.empty() && (set_apart(t) & rule.hidden_in)) return {};
  if (rule.on_enter) call_hook(rule.on_enter, first, nullptr);
  if (rule.iteration) begin_iteration(t, kFramework);
  Entered out = {true, false, false, rule.steps || rule.steps_of};
  PyObject* environment = rule.alone ? Py_None : first;
  if (rule.name == kSimulationName && environment && use_environment(t, environment, out.steps))
    out.steps = false;
  if (out.steps) {
    progress.stepped = true;
    if (progress.begins && trained_on(environment)) begin_iteration(t, kUpdates);
  }
  if (rule.update || rule.name == kBackpropagationName) begin_update(t);
  if (rule.mark) {
    out.marked = leave_mark(rule, t, depth);
    open_marks |= 1u << rule.mark;
  }
  open_kinds |= bit(rule.name);
  out.opened = rule.name && automatic_may_open(t, rule.name, depth);
  if (out.opened) {
    enter_operation(t, rule.name, kAutomatic);
    if (bit(rule.name) & ~progress.seen_kinds) tell_first(rule.name);
  }
  return out;
}

void leave(const Rule& rule, Entered entered, ThreadState* t, PyObject* first, PyObject* result) {
  if (entered.opened) exit_operation(t, rule.name);
  if (entered.marked) {
    const Mark ends = rule.mark == kLogBegins ? kLogEnds : kNetworkEnds;
    mark(t, ticks(), 0, make_tag(kMark, ends));
  }
  open_kinds &= ~bit(rule.name);
  if (rule.mark) open_marks &= ~(1u << rule.mark);
  if (!result) return;
  if (entered.steps) count_steps(t, steps_made(rule, first, result));
  if (rule.update) change_weights(first);
  if (rule.on_exit) call_hook(rule.on_exit, first, result);
}

int read_rule(PyObject* args, PyObject* kwargs, Rule* rule, PyObject** subject) {
  static const char* keywords[] = {"subject",  "operation", "hidden_in", "steps", "unless",
                                   "on_enter", "on_exit",   "gradients", "mark",  "iteration",
                                   "update",   "alone",     nullptr};
  PyObject *operation = Py_None, *hidden = nullptr, *steps = nullptr, *unless = nullptr,
           *on_enter = nullptr, *on_exit = nullptr, *gradients = nullptr;
  const char* word = nullptr;
  int iteration = 0, update = 0, alone = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$OOOOOOzppp:rule",
                                   const_cast<char**>(keywords), subject, &operation, &hidden,
                                   &steps, &unless, &on_enter, &on_exit, &gradients, &word,
                                   &iteration, &update, &alone))
    return -1;
  if (!PyCallable_Check(*subject)) {
    PyErr_SetString(PyExc_TypeError, "a rule needs something that can be called");
    return -1;
  }
  if (read_hidden(hidden, &rule->hidden_in) < 0 || read_steps(steps, rule) < 0 ||
      read_mark(word, rule) < 0)
    return -1;
  rule->name = PyUnicode_Check(operation) ? name_id(operation) : 0;
  rule->gradients = given(gradients);
  rule->unless = given(unless);
  rule->on_enter = given(on_enter);
  rule->on_exit = given(on_exit);
  rule->iteration = iteration != 0;
  rule->update = update != 0;
  rule->alone = alone != 0;
  return 0;
}

void clear_rule(Rule* rule) {
  Py_CLEAR(rule->steps_of);
  Py_CLEAR(rule->gradients);
  Py_CLEAR(rule->unless);
  Py_CLEAR(rule->on_enter);
  Py_CLEAR(rule->on_exit);
}

int visit_rule(const Rule& rule, visitproc visit, void* arg) {
  Py_VISIT(rule.steps_of);
  Py_VISIT(rule.gradients);
  Py_VISIT(rule.unless);
  Py_VISIT(rule.on_enter);
  Py_VISIT(rule.on_exit);
  return 0;
}

int add_frameworks(PyObject* module) {
  static PyMethodDef functions[] = {
      {"cover_calls", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(cover_calls)),
       METH_VARARGS | METH_KEYWORDS, nullptr},
      {"cover_calls_of", cover_calls_of, METH_O, nullptr},
      {"uncover_calls", uncover_calls, METH_NOARGS, nullptr},
      {"watch_classes", watch_classes, METH_VARARGS, nullptr},
      {"change_rule", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(change_rule)),
       METH_VARARGS | METH_KEYWORDS, nullptr},
      {"weight_changes", count_weight_changes, METH_NOARGS, nullptr},
      {"on_first_operation", on_first_operation, METH_O, nullptr},
      {"expect_updates", expect_updates, METH_NOARGS, nullptr},
      {"begin_operation", begin_operation, METH_O, nullptr},
      {"end_operation", end_operation, METH_O, nullptr},
      {nullptr, nullptr, 0, nullptr},
  };
  return PyModule_AddFunctions(module, functions);
}

}  // namespace cutaway
