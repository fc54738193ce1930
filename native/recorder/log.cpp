#include "recorder/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/crc.h"

namespace cutaway {

namespace {

constexpr int kLowestFd = 700;  // above what programs count on, below the usual limit of 1024
constexpr uint64_t kLogReserve =
    64 << 10;  // so that the end of a run on a full disk can still be logged

}  // namespace

int move_up(int fd) {
  int high = fcntl(fd, F_DUPFD_CLOEXEC, kLowestFd);
  if (high < 0) return fd;
  ::close(fd);
  return high;
}

bool OwnFile::open(const std::string& path, int flags) {
  path_ = path;
  flags_ = flags & ~(O_CREAT | O_EXCL);
  if (!take(::open(path.c_str(), flags | O_CLOEXEC, 0600))) return false;
  struct stat s;
  if (fstat(fd_, &s) != 0) return false;
  device_ = s.st_dev;
  inode_ = s.st_ino;
  return true;
}

int OwnFile::open_if_needed(const std::string& path, int flags) {
  return fd_ >= 0 || open(path, flags) ? fd() : -1;
}

bool OwnFile::take(int fd) {
  fd_ = fd < 0 ? -1 : move_up(fd);
  return fd_ >= 0;
}

void OwnFile::close() {
  if (fd_ >= 0 && still_ours()) ::close(fd_);
  fd_ = -1;
}

bool OwnFile::still_ours() const {
  struct stat s;
  return fstat(fd_, &s) == 0 && s.st_dev == device_ && s.st_ino == inode_;
}

int OwnFile::fd() {
  if (fd_ < 0 || still_ours()) return fd_;
  if (take(::open(path_.c_str(), flags_ | O_CLOEXEC)) && !still_ours()) {
    ::close(fd_);
    fd_ = -1;
  }
  return fd_;
}

bool Log::open(const std::string& folder) {
  bytes_ = reserved_ = lost_ = 0;
  torn_ = false;
  if (!file_.open(folder + "/log.jsonl", O_CREAT | O_RDWR | O_APPEND)) return false;
  reserve();
  return true;
}

void Log::close() { file_.close(); }

// Blocks behind the end of the file, which stays as long as it is.
void Log::reserve() {
  const uint64_t at = bytes_;
  reserved_ = at + kLogReserve;
  if (fallocate(file_.fd(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), kLogReserve) != 0)
    errno = 0;
}

std::string Log::checked(const std::string& fields) {
  std::string json = "{" + fields + "}";
  char crc[16];
  snprintf(crc, sizeof crc, "%08x ", crc32c(json.data(), json.size()));
  return crc + json + "\n";
}

void Log::line(const std::string& fields) { write(checked(fields), 1); }

void Log::lines(const std::string& many) {
  if (!many.empty()) write(many, 1);
}

void Log::write(const std::string& text, uint64_t count) {
  const int fd = file_.fd();
  const std::string& whole = torn_.exchange(false) ? "\n" + text : text;
  size_t done = 0;
  while (fd >= 0 && done < whole.size()) {
    const ssize_t n = ::write(fd, whole.data() + done, whole.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  bytes_ += done;
  if (done < whole.size()) {
    torn_ = done > 0;
    lost_ += count;
  } else if (bytes_ + kLogReserve / 2 > reserved_) {
    reserve();
  }
}

}  // namespace cutaway
