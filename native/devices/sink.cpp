#include "devices/sink.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "devices/host.h"
#include "devices/text.h"
#include "trace/crc.h"

namespace cutaway {

Sink& Sink::get() {
  static Sink* sink = new Sink;
  return *sink;
}

Sink::Sink() { pthread_atfork(before_fork, after_fork, in_child); }

void Sink::before_fork() { get().mutex_.lock(); }
void Sink::after_fork() { get().mutex_.unlock(); }
void Sink::in_child() {
  get().forget();
  get().losses_.clear();
  get().mutex_.unlock();
}

void Sink::write(const ApiRecord& record, Clock clock) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (record.start == 0 || record.end < record.start)
    return count_loss("API calls with impossible times", 1);
  if (outside(record.start, clock)) return;
  append(kApiStream, clock, &record, sizeof record, record.start, record.end);
}

void Sink::write(const DeviceRecord& record, Clock clock) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (record.start == 0 || record.end < record.start) {
    return count_loss("device records with impossible times", 1);
  }
  if (outside(record.start, clock)) return;
  append(kDeviceStream, clock, &record, sizeof record, record.start, record.end);
}

// Work that began before the pause is told of later, and belongs to the recording.
bool Sink::outside(uint64_t start, Clock clock) {
  const uint64_t since = host().outside_since();
  if (!since) return false;
  if (clock == kMonotonic) return start >= since;
  const clockid_t id = clock == kRealtime ? CLOCK_REALTIME : CLOCK_MONOTONIC_RAW;
  return start + now_ns(CLOCK_MONOTONIC) >= since + now_ns(id);
}

void Sink::append(Stream stream, Clock clock, const void* record, uint32_t size, uint64_t start,
                  uint64_t end) {
  Chunk& chunk = chunks_[stream - 1][clock];
  if ((!chunk.base || chunk.used + size > kDeviceChunk) && !next_chunk(&chunk, stream, clock))
    return;
  memcpy(chunk.base + chunk.used, record, size);
  chunk.used += size;
  BlockHead head;
  memcpy(&head, chunk.base, sizeof head);
  head.first = head.count == 0 || start < head.first ? start : head.first;
  head.last = end > head.last ? end : head.last;
  ++head.count;
  head.bytes += size;
  head.payload_crc = crc32c(record, size, head.payload_crc);
  head.head_crc = crc32c(&head, offsetof(BlockHead, head_crc));
  // A reader of the live run that sees the new head also sees the record.
  std::atomic_thread_fence(std::memory_order_release);
  memcpy(chunk.base, &head, sizeof head);
}

bool Sink::open_file() {
  if (file_ >= 0) return true;
  const char* folder = host().folder();
  if (!folder) return false;
  const std::string path = std::string(folder) + "/device.bin";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) return false;
  const off_t end = lseek(file_, 0, SEEK_END);
  size_ =
      (static_cast<uint64_t>(end < 0 ? 0 : end) + kDeviceChunk - 1) / kDeviceChunk * kDeviceChunk;
  return true;
}

bool Sink::next_chunk(Chunk* chunk, Stream stream, Clock clock) {
  if (!open_file()) return false;
  if (chunk->base) munmap(chunk->base, kDeviceChunk);
  *chunk = {};
  // The space is reserved first: writing to a mapped hole on a full disk would kill the program.
  void* base = MAP_FAILED;
  if (!full_ && posix_fallocate(file_, static_cast<off_t>(size_), kDeviceChunk) == 0) {
    base = mmap(nullptr, kDeviceChunk, PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                static_cast<off_t>(size_));
  }
  if (base == MAP_FAILED) {
    full_ = true;
    count_loss("device records, disk full", 1);
    return false;
  }
  chunk->base = static_cast<uint8_t*>(base);
  chunk->used = sizeof(BlockHead);
  size_ += kDeviceChunk;
  host().count_bytes(kDeviceChunk);
  BlockHead head{};
  head.magic = kBlockMagic;
  head.version = kFormatVersion;
  head.stream = stream;
  head.clock = clock;
  head.seq = blocks_++;
  head.head_crc = crc32c(&head, offsetof(BlockHead, head_crc));
  memcpy(chunk->base, &head, sizeof head);
  return true;
}

uint32_t Sink::name(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = names_.find(text);
  if (known != names_.end()) return known->second;
  const uint32_t id = host().folder() ? host().intern(text.data(), text.size()) : 0;
  if (id) names_.emplace(text, id);
  return id;
}

void Sink::lose(const char* what, uint64_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (count) count_loss(what, count);
}

void Sink::count_loss(const char* what, uint64_t count) {
  losses_[what] += count;
  if (now_ns(CLOCK_MONOTONIC) - said_ > 100000000u) say_losses();
}

void Sink::say_losses() {
  if (losses_.empty() || !host().folder()) return;
  said_ = now_ns(CLOCK_MONOTONIC);
  for (const auto& [what, count] : losses_) {
    const std::string json = R"({"k":"loss","what":)" + json_text(what) + R"(,"n":)" +
                             std::to_string(count) + R"(,"t":)" + std::to_string(said_) + "}";
    host().log(json.c_str());
  }
  losses_.clear();
}

void Sink::log(const std::string& json) {
  if (host().folder()) host().log(json.c_str());
}

void Sink::flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  say_losses();
}

void Sink::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  say_losses();
  forget();
}

void Sink::forget() {
  for (auto& clocks : chunks_) {
    for (Chunk& chunk : clocks) {
      if (chunk.base) munmap(chunk.base, kDeviceChunk);
      chunk = {};
    }
  }
  if (file_ >= 0) ::close(file_);
  file_ = -1;
  full_ = false;
  blocks_ = 0;
  names_.clear();
}

}  // namespace cutaway
