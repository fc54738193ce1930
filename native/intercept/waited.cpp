#include "intercept/waited.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "recorder/addresses.h"
#include "recorder/state.h"

namespace cutaway {
namespace {

constexpr int kKnownDescriptors = 1024;
constexpr size_t kMostSemaphores = 1024;

struct Known {
  ino_t inode = 0;
  mode_t mode = 0;
  std::string on, peer;  // of a socket
};
Known* const known = new Known[kKnownDescriptors];  // never destroyed: hooks run until the end

// The kernel knows both ends of a socket pair; it tells by netlink, without privileges. 0 if it
// does not.
uint32_t peer_of(ino_t inode) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return 0;
  struct {
    nlmsghdr head;
    unix_diag_req request;
  } ask{};
  ask.head = {sizeof ask, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0};
  ask.request.sdiag_family = AF_UNIX;
  ask.request.udiag_states = ~0u;
  ask.request.udiag_ino = static_cast<uint32_t>(inode);
  ask.request.udiag_show = UDIAG_SHOW_PEER;
  ask.request.udiag_cookie[0] = ask.request.udiag_cookie[1] = ~0u;
  alignas(nlmsghdr) char answer[512];
  uint32_t peer = 0;
  ssize_t size = -1;
  if (send(fd, &ask, sizeof ask, MSG_DONTWAIT) == sizeof ask)
    size = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
  close(fd);
  const auto* head = reinterpret_cast<const nlmsghdr*>(answer);
  const auto fixed = static_cast<ssize_t>(NLMSG_LENGTH(sizeof(unix_diag_msg)));
  if (size < fixed || head->nlmsg_type != SOCK_DIAG_BY_FAMILY) return 0;
  for (ssize_t at = NLMSG_ALIGN(fixed); at + static_cast<ssize_t>(sizeof(nlattr)) <= size;) {
    const auto* attribute = reinterpret_cast<const nlattr*>(answer + at);
    if (attribute->nla_len < sizeof(nlattr)) break;
    if (attribute->nla_type == UNIX_DIAG_PEER &&
        at + static_cast<ssize_t>(sizeof(nlattr) + 4) <= size) {
      memcpy(&peer, answer + at + sizeof(nlattr), sizeof peer);
    }
    at += NLA_ALIGN(attribute->nla_len);
  }
  return peer;
}

// A connection over TCP is named by its two addresses; both ends know them.
void name_socket(int fd, Known* k) {
  const Connection connection = connection_of(fd);
  if (connection.is_tcp) {
    const std::string here = address_text(connection.own);
    k->on = "tcp:" + here;  // listens, or is not connected yet
    if (connection.connected) {
      const std::string there = address_text(connection.other);
      k->on = "tcp:" + here + ">" + there;
      k->peer = "tcp:" + there + ">" + here;
    }
    return;
  }
  k->on = "socket:" + std::to_string(k->inode);
  const uint32_t peer = peer_of(k->inode);
  if (peer != 0) k->peer = "socket:" + std::to_string(peer);
}

Known look(int fd) {
  struct stat s;
  if (fstat(fd, &s) != 0) return {};
  Known k{s.st_ino, s.st_mode, "", ""};
  if (S_ISSOCK(s.st_mode)) name_socket(fd, &k);
  return k;
}

void look_again(int fd, Known* k) {
  struct stat s;
  if (fstat(fd, &s) != 0)
    *k = {};
  else if (s.st_ino != k->inode || s.st_mode != k->mode || (S_ISSOCK(s.st_mode) && k->peer.empty()))
    *k = look(fd);
}

long item(PyObject* tuple, Py_ssize_t index) {
  PyObject* value = PySequence_GetItem(tuple, index);
  const long number = value ? PyLong_AsLong(value) : -1;
  Py_XDECREF(value);
  if (PyErr_Occurred()) PyErr_Clear();
  return number;
}

std::string attribute_text(PyObject* object, const char* attribute) {
  PyObject* value = PyObject_GetAttrString(object, attribute);
  PyObject* text = value ? PyObject_Str(value) : nullptr;
  const char* s = text ? PyUnicode_AsUTF8(text) : nullptr;
  const std::string out = s ? s : "";
  Py_XDECREF(text);
  Py_XDECREF(value);
  PyErr_Clear();
  return out;
}

// The file behind a mapping of shared memory, as "device:inode"; empty if the address is not
// mapped.
std::string mapped_file(uint64_t address) {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return "";
  char line[512], device[32];
  unsigned long long from, to, inode;
  std::string found;
  while (found.empty() && fgets(line, sizeof line, maps) != nullptr) {
    const int fields = sscanf(line, "%llx-%llx %*s %*s %31s %llu", &from, &to, device, &inode);
    if (fields == 4 && from <= address && address < to)
      found = device + (":" + std::to_string(inode));
  }
  fclose(maps);
  return found;
}

// A semaphore inherited by fork has no name, and its address may mean another one in another
// process: the shared memory it lies in tells. The object is held, so that its address means one
// thing for good.
std::string unnamed_semaphore(PyObject* semaphore) {
  static auto& held = *new std::unordered_map<PyObject*, std::string>;
  const auto found = held.find(semaphore);
  if (found != held.end()) return found->second;
  if (held.size() >= kMostSemaphores) return "";
  const std::string handle = attribute_text(semaphore, "handle");
  const std::string file = mapped_file(strtoull(handle.c_str(), nullptr, 10));
  Py_INCREF(semaphore);
  return held[semaphore] = file.empty() ? "" : "sem:" + file;
}

}  // namespace

uint64_t monotonic() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

Waited waited_descriptor(int fd, bool fresh) {
  if (fd < 0) return {};
  Known beyond;
  Known& now = fd < kKnownDescriptors ? known[fd] : beyond;
  if (now.mode == 0)
    now = look(fd);
  else if (fresh)
    look_again(fd, &now);
  Waited w;
  const std::string inode = std::to_string(now.inode);
  w.identity = now.inode;
  if (S_ISFIFO(now.mode)) {
    w.on = "pipe:" + inode;
  } else if (S_ISSOCK(now.mode)) {
    w.on = now.on;
    w.peer = now.peer;
  } else if (S_ISCHR(now.mode)) {
    w.on = "terminal:" + inode;
  } else {
    w.is_file = S_ISREG(now.mode) || S_ISDIR(now.mode) || S_ISBLK(now.mode);
  }
  return w;
}

Waited waited_thread(int tid) {
  Waited w;
  if (tid <= 0) return w;
  w.on = "thread:" + std::to_string(tid);
  w.identity = static_cast<uint64_t>(tid);
  return w;
}

Waited waited_process(PyObject* result, PyObject* asked) {
  long pid = -1;
  if (result != nullptr && PyTuple_Check(result)) pid = item(result, 0);
  if (pid <= 0 && asked != nullptr && PyLong_Check(asked)) {
    pid = PyLong_AsLong(asked);
    if (PyErr_Occurred()) PyErr_Clear();
  }
  Waited w;
  if (pid <= 0) return w;
  w.on = "pid:" + std::to_string(pid);
  w.identity = static_cast<uint64_t>(pid);
  return w;
}

Waited waited_semaphore(PyObject* semaphore) {
  Waited w;
  const std::string name = attribute_text(semaphore, "name");
  w.on = name.empty() || name == "None" ? unnamed_semaphore(semaphore) : "sem:" + name;
  w.identity = std::hash<std::string>{}(w.on);
  return w;
}

// A look that leaves the child to be waited for again (waitid with WNOWAIT) tells its end already:
// the wait that follows must not tell it a second time. A pid may come again, so it is forgotten
// then.
bool told_before(long pid, bool stays) {
  static auto& told = *new std::unordered_set<long>;
  if (stays) return !told.insert(pid).second;
  return told.erase(pid) != 0;
}

void log_child(PyObject* result, bool stays) {
  if (!PyTuple_Check(result) || PyTuple_GET_SIZE(result) < 2) return;
  const long pid = item(result, 0);
  if (pid <= 0) return;
  bool exited = false, killed = false;
  long code = 0;
  if (PyTuple_GET_SIZE(result) == 5) {  // waitid: pid, uid, signo, status, code
    const long how = item(result, 4);
    exited = how == CLD_EXITED;
    killed = how == CLD_KILLED || how == CLD_DUMPED;
    code = item(result, 3);
  } else {
    const int status = static_cast<int>(item(result, 1));
    exited = WIFEXITED(status);
    killed = WIFSIGNALED(status);
    code = exited ? WEXITSTATUS(status) : WTERMSIG(status);
  }
  if ((!exited && !killed) || told_before(pid, stays)) return;
  const std::string fields = "\"k\":\"child\",\"pid\":" + std::to_string(pid) + ",\"" +
                             (exited ? "code" : "signal") + "\":" + std::to_string(code) +
                             ",\"t\":" + std::to_string(monotonic());
  recorder.log.line(fields);
}

}  // namespace cutaway
