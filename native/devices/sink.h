// The one writer of device.bin in a process, used by every collector of this folder and, through
// sink_api.cpp, by the Python routes. Records go straight into file-backed memory, so that a kill
// loses none of them. Invariant: everything behind the mutex belongs to the folder `folder_` of
// process `pid`; a fork or a new recording starts afresh.
#pragma once
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "trace/format.h"

namespace cutaway {

class Sink {
 public:
  static Sink& get();  // never destroyed: callbacks may come while the process exits

  void write(const ApiRecord& record, Clock clock);
  void write(const DeviceRecord& record,
             Clock clock);  // a record with impossible times is counted, not written

  uint32_t name(const std::string& text);       // log "name", asked of the recorder once
  void lose(const char* what, uint64_t count);  // log "loss", said at most every tenth of a second
  void log(const std::string& json);
  void flush();  // writes pending loss counts
  void close();  // end of the recording

 private:
  struct Chunk {
    uint8_t* base = nullptr;
    uint32_t used = 0;
  };

  Sink();
  void append(Stream stream, Clock clock, const void* record, uint32_t size, uint64_t start,
              uint64_t end);
  static bool outside(uint64_t start, Clock clock);
  bool open_file();
  bool next_chunk(Chunk* chunk, Stream stream, Clock clock);
  void count_loss(const char* what, uint64_t count);
  void say_losses();
  void forget();
  static void before_fork();
  static void after_fork();
  static void in_child();

  std::mutex mutex_;
  int file_ = -1;
  bool full_ = false;
  uint64_t size_ = 0;
  uint32_t blocks_ = 0;
  std::array<std::array<Chunk, 4>, 2> chunks_;  // by stream and clock
  std::unordered_map<std::string, uint32_t> names_;
  std::map<std::string, uint64_t> losses_;
  uint64_t said_ = 0;
};

}  // namespace cutaway
