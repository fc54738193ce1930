// log.jsonl: one checksummed line each, written by one write(2), so that a kill can tear only the
// last line.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <string>

namespace cutaway {

int move_up(int fd);  // the same file under a number that programs do not count on

// A file or folder of ours, kept at a high descriptor. Programs that close or
// reuse descriptors they do not own (daemons) must not make us write into their files, so each
// write first checks that the descriptor is still ours.
class OwnFile {
 public:
  bool open(const std::string& path, int flags);
  int open_if_needed(const std::string& path, int flags);  // its descriptor, or -1
  void close();
  int fd();  // -1 if it is gone

 private:
  bool still_ours() const;
  bool take(int fd);
  std::string path_;
  int flags_ = 0;
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

class Log {
 public:
  bool open(const std::string& folder);
  void close();
  void line(const std::string& fields);  // without the braces
  void lines(const std::string& many);   // already checksummed lines
  static std::string checked(const std::string& fields);
  uint64_t bytes() const { return bytes_; }
  uint64_t lost() const { return lost_; }

 private:
  void write(const std::string& text, uint64_t count);
  void reserve();
  OwnFile file_;
  std::atomic<uint64_t> bytes_{0}, reserved_{0}, lost_{0};
  std::atomic<bool> torn_{false};
};

}  // namespace cutaway
