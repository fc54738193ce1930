#include "frameworks/environments.h"

#include <Python.h>
#include <frameobject.h>  // PyFrame_GetBack, up to 3.10
#include <string.h>

#include <unordered_map>

#include "recorder/operations.h"

namespace cutaway {

namespace {

struct Environment {
  uint32_t number = 0;
  uint64_t intervals = 0;  // between two updates in which it was stepped
  uint64_t last = 0;       // the last of these
  uint64_t visits = 0;
};

// By address. An environment that takes the place of a dead one takes its number, too.
constexpr size_t kMostEnvironments = 1024;
std::unordered_map<PyObject*, Environment>& known() {
  static auto* table = new std::unordered_map<PyObject*, Environment>();
  return *table;
}

uint64_t interval = 1;           // counts the stretches between updates
bool changed = false;            // the weights, since the last step
bool learns = false;             // they have ever been changed
PyObject* stepped = nullptr;     // identity of the environment that was stepped last
PyObject* trained = nullptr;     // … and of the one whose step came before the last update
static __thread PyObject* used;  // by this thread; identity only
static __thread uint32_t written, written_session;  // what this thread's last mark says
static __thread bool evaluating;

// run_evaluation and _evaluate do, train_and_eval does not.
bool names_evaluation(const char* name) {
  if (strstr(name, "train")) return false;
  for (const char* at = name; (at = strstr(at, "eval")) != nullptr; ++at)
    if (at == name || at[-1] == '_') return true;
  return false;
}

bool in_evaluation() {
  bool found = false;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  for (int depth = 0; frame && !found && depth < 48; ++depth) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* name = PyUnicode_AsUTF8(code->co_name);
    if (!name) PyErr_Clear();
    found = name && names_evaluation(name);
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return found;
}

void log_environment(const Environment& e, PyObject* environment) {
  if (e.visits > 16 && (e.visits & (e.visits - 1))) return;
  const char* name = Py_TYPE(environment)->tp_name;
  recorder.log.line("\"k\":\"environment\",\"id\":" + std::to_string(e.number) +
                    ",\"name\":" + json_text(name, strlen(name)) +
                    ",\"intervals\":" + std::to_string(e.intervals));
}

void count_interval(Environment& e) {
  if (e.last != interval) ++e.intervals;
  e.last = interval;
}

}  // namespace

bool use_environment(ThreadState* t, PyObject* environment, bool steps) {
  if (steps && changed) {
    changed = false;
    ++interval;
  }
  const bool same = environment == used && written_session == recorder.session;
  auto found = known().find(environment);
  if (found == known().end()) {
    if (known().size() >= kMostEnvironments) return false;
    const auto number = static_cast<uint32_t>(known().size() + 1);
    found = known().emplace(environment, Environment{number}).first;
  }
  Environment& e = found->second;
  // A search without gradients (ARS) learns by evaluating.
  if (!same || !steps) evaluating = learns && in_evaluation();
  if (steps && !evaluating) {
    count_interval(e);
    stepped = environment;
  }
  if (!same) {
    ++e.visits;
    log_environment(e, environment);
    used = environment;
  }
  const uint32_t now = e.number | (evaluating ? kEvaluating : 0);
  if ((written != now || written_session != recorder.session) && !recorder.paused) {
    mark(t, ticks(), now, make_tag(kMark, kEnvironment));
    written = now;
    written_session = recorder.session;
  }
  return evaluating;
}

bool trained_on(PyObject* environment) { return !trained || environment == trained; }

void weights_changed() {
  changed = learns = true;
  if (stepped) trained = stepped;
}

void forget_environments() {
  known().clear();
  interval = 1;
  changed = learns = false;
  stepped = trained = used = nullptr;
  written = written_session = 0;
  evaluating = false;
}

}  // namespace cutaway
