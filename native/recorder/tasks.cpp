// asyncio: tasks interleave on one thread, and each has operations of its own. TaskRunner stands in
// for asyncio.events.Handle._run, which runs one step of a task: what the step leaves open is
// closed when it returns and opened again when the same task goes on. Each such stretch is recorded
// as an operation of its own. Greenlets are followed in the same way, switch by switch.
#include <Python.h>
#include <structmember.h>

#include "recorder/operations.h"
#include "recorder/weak.h"

namespace cutaway {

namespace {

struct TaskRunner {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;  // the original _run
  PyTypeObject* type;  // asyncio.Task
};

PyObject *callback_name, *self_name;

// The task whose step this handle runs, borrowed, or null.
PyObject* task_of(const TaskRunner* runner, PyObject* handle) {
  PyObject* callback = PyObject_GetAttr(handle, callback_name);
  PyObject* task = callback ? PyObject_GetAttr(callback, self_name) : nullptr;
  if (!task) PyErr_Clear();
  Py_XDECREF(callback);
  // The handle holds the callback, and the callback the task.
  Py_XDECREF(task);
  return task && PyObject_TypeCheck(task, runner->type) ? task : nullptr;
}

void drop(std::vector<SuspendedTask>& tasks, size_t i) {
  Py_XDECREF(tasks[i].weak);
  tasks.erase(tasks.begin() + static_cast<ptrdiff_t>(i));
}

bool is_alive(const SuspendedTask& s) {
  PyObject* target = strong(s.weak);
  Py_XDECREF(target);
  return target == s.task;
}

void go_on(ThreadState* t, PyObject* task) {
  for (size_t i = 0; i < t->tasks.size(); ++i) {
    if (!is_alive(t->tasks[i])) {
      drop(t->tasks, i--);
    } else if (t->tasks[i].task == task) {
      const std::vector<OpenOperation> open = std::move(t->tasks[i].operations);
      drop(t->tasks, i);
      for (const OpenOperation& o : open) enter_operation(t, o.name, o.depth);
      return;
    }
  }
}

void suspend(ThreadState* t, PyObject* task, size_t below) {
  PyObject* weak = PyWeakref_NewRef(task, nullptr);
  if (!weak) PyErr_Clear();
  SuspendedTask s{
      task, weak, {t->operations.begin() + static_cast<ptrdiff_t>(below), t->operations.end()}};
  while (t->operations.size() > below) exit_operation(t, t->operations.back().name);
  if (weak) t->tasks.push_back(std::move(s));
}

PyObject* run_step(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* runner = reinterpret_cast<TaskRunner*>(self);
  ThreadState* t = PyVectorcall_NARGS(nargsf) == 1 ? this_thread() : nullptr;
  if (!t) return PyObject_Vectorcall(runner->function, args, nargsf, names);
  PyObject* handle = args[0];
  const size_t below = t->operations.size();
  if (!t->tasks.empty()) {
    if (PyObject* task = task_of(runner, handle)) go_on(t, task);
  }
  Py_INCREF(self);
  Py_INCREF(handle);
  PyObject* result = PyObject_Vectorcall(runner->function, args, nargsf, names);
  if (result && t->operations.size() > below) {
    if (PyObject* task = task_of(runner, handle)) suspend(t, task, below);
  }
  Py_DECREF(handle);
  Py_DECREF(self);
  return result;
}

// Given to greenlet.settrace: (event, (from, to)) at each switch. Each greenlet has operations of
// its own.
PyObject* switched(PyObject*, PyObject* args) {
  PyObject *event, *from, *to;
  if (!PyArg_ParseTuple(args, "O(OO):switched", &event, &from, &to)) return nullptr;
  if (ThreadState* t = this_thread()) {
    if (!t->operations.empty()) suspend(t, from, 0);
    if (!t->tasks.empty()) go_on(t, to);
  }
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"switched", switched, METH_VARARGS, nullptr}, {}};

PyObject* runner_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *task_type;
  if (!PyArg_ParseTuple(args, "OO!:TaskRunner", &function, &PyType_Type, &task_type))
    return nullptr;
  auto* runner = reinterpret_cast<TaskRunner*>(type->tp_alloc(type, 0));
  if (!runner) return nullptr;
  runner->call = run_step;
  runner->function = Py_NewRef(function);
  runner->type = reinterpret_cast<PyTypeObject*>(Py_NewRef(task_type));
  return reinterpret_cast<PyObject*>(runner);
}

void runner_dealloc(PyObject* self) {
  auto* runner = reinterpret_cast<TaskRunner*>(self);
  Py_CLEAR(runner->function);
  Py_CLEAR(runner->type);
  Py_TYPE(self)->tp_free(self);
}

PyObject* bind_runner(PyObject* self, PyObject* object, PyObject*) {
  return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyMemberDef runner_members[] = {
    {const_cast<char*>("__wrapped__"), T_OBJECT, offsetof(TaskRunner, function), READONLY, nullptr},
    {}};

PyTypeObject TaskRunnerType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool ready_tasks(PyObject* module) {
  PyTypeObject& type = TaskRunnerType;
  type.tp_name = "cutaway._recorder.TaskRunner";
  type.tp_basicsize = sizeof(TaskRunner);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  type.tp_vectorcall_offset = offsetof(TaskRunner, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_descr_get = bind_runner;
  type.tp_members = runner_members;
  type.tp_new = runner_new;
  type.tp_dealloc = runner_dealloc;
  callback_name = PyUnicode_InternFromString("_callback");
  self_name = PyUnicode_InternFromString("__self__");
  if (!callback_name || !self_name || PyType_Ready(&type) != 0) return false;
  if (PyModule_AddFunctions(module, functions) != 0) return false;
  return PyModule_AddObject(module, "TaskRunner", Py_NewRef(reinterpret_cast<PyObject*>(&type))) ==
         0;
}

}  // namespace cutaway
