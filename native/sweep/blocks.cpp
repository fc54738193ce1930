#include "sweep/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

namespace cutaway {

// Only a regular file: a pipe would wait for ever, a device never end.
File::File(const std::string& path)
    : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  struct stat info;
  if (fd_ < 0) return;
  if (fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) {
    size_ = static_cast<uint64_t>(info.st_size);
  } else {
    close(fd_);
    fd_ = -1;
  }
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

uint64_t File::next_data(uint64_t offset) const {
  const off_t found = lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
  if (found >= 0) return static_cast<uint64_t>(found);
  return errno == ENXIO ? size_ : offset;
}

size_t File::read(void* to, size_t bytes, uint64_t offset) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n =
        pread(fd_, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  // Of a live run: what is read next is at least as new as this. A head is read before what it
  // describes.
  std::atomic_thread_fence(std::memory_order_acquire);
  return done;
}

namespace {

bool valid_head(const BlockHead& head) {
  return head.magic == kBlockMagic && head.version == kFormatVersion &&
         head.head_crc == crc32c(&head, offsetof(BlockHead, head_crc));
}

bool plausible(const BlockHead& head) {
  switch (head.stream) {
    case kThreadStream:
      return head.count <= head.bytes / kMinPacked;
    case kApiStream:
      return uint64_t{head.count} * sizeof(ApiRecord) == head.bytes;
    case kDeviceStream:
      return uint64_t{head.count} * sizeof(DeviceRecord) == head.bytes;
    default:
      return false;
  }
}

bool is_zero(const BlockHead& head) {
  static const BlockHead zero{};
  return memcmp(&head, &zero, sizeof zero) == 0;
}

Source source_of(const BlockHead& head, uint64_t offset) {
  Source s{};
  s.count = head.count;
  s.offset = offset + sizeof(BlockHead);
  s.bytes = head.bytes;
  s.crc = head.payload_crc;
  s.packed = head.stream == kThreadStream;
  s.clock = head.clock;
  s.stream = head.stream;
  s.thread = head.id;
  s.seq = head.seq;
  s.last = head.last;
  return s;
}

// Offset of the next head that passes its check, or the file's size.
uint64_t find_head(const File& file, uint64_t from) {
  std::vector<uint8_t> window(1 << 20);
  while ((from = file.next_data(from)) + sizeof(BlockHead) <= file.size()) {
    const size_t n = file.read(window.data(), window.size(), from);
    if (n < sizeof(BlockHead)) break;
    for (size_t i = 0; i + sizeof(BlockHead) <= n; ++i) {
      uint32_t magic;
      memcpy(&magic, window.data() + i, sizeof magic);
      if (magic != kBlockMagic) continue;
      BlockHead head;
      memcpy(&head, window.data() + i, sizeof head);
      if (valid_head(head)) return from + i;
    }
    from += n - sizeof(BlockHead) + 1;
  }
  return file.size();
}

// Of a live segment. A record is complete once it has a time, but one copy may take its time before
// and its other fields after they were written, in any order: those with a time are read a second
// time.
void read_whole_records(const File& file, uint64_t offset, std::vector<Record>& out) {
  out.resize(file.read(out.data(), out.size() * sizeof(Record), offset) / sizeof(Record));
  const auto end =
      std::find_if(out.begin(), out.end(), [](const Record& r) { return r.time == 0; });
  out.erase(end, out.end());
  out.resize(file.read(out.data(), out.size() * sizeof(Record), offset) / sizeof(Record));
}

uint64_t round_up(uint64_t v, uint64_t step) { return (v + step - 1) / step * step; }

}  // namespace

Scan scan_blocks(const std::string& path, bool chunked, uint64_t start) {
  Scan scan;
  const File file(path);
  if (!file.ok()) return scan;
  const uint64_t size = file.size();
  uint64_t at = start;
  while (at < size) {
    BlockHead head{};
    const bool whole = file.read(&head, sizeof head, at) == sizeof head;
    if (whole && valid_head(head) && plausible(head) && at + sizeof head + head.bytes <= size) {
      if (head.count) scan.sources.push_back(source_of(head, at));
      at += sizeof head + head.bytes;
      if (chunked) at = round_up(at, kDeviceChunk);
      continue;
    }
    uint64_t next = chunked ? at + kDeviceChunk : find_head(file, at + 1);
    if (chunked && is_zero(head))
      next = std::max(next, file.next_data(next) / kDeviceChunk * kDeviceChunk);
    next = std::min(next, size);
    if (!(chunked && is_zero(head))) {
      ++scan.damaged;
      scan.damaged_bytes += next - at;
    }
    at = next;
  }
  return scan;
}

bool read_payload(const File& file, const Source& source, std::vector<uint8_t>& out) {
  if (!file.ok() || source.offset > file.size() || source.bytes > file.size() - source.offset)
    return false;
  out.resize(source.bytes);
  return file.read(out.data(), out.size(), source.offset) == out.size() &&
         crc32c(out.data(), out.size()) == source.crc;
}

bool read_records(const File& file, const Source& source, std::vector<uint8_t>& scratch,
                  std::vector<Record>& out) {
  out.clear();
  if (!source.packed) {
    if (!file.ok() || source.offset > file.size()) return false;
    const uint64_t room = (file.size() - source.offset) / sizeof(Record);
    out.resize(std::min<uint64_t>(source.count, room));
    read_whole_records(file, source.offset, out);
    return true;
  }
  if (!read_payload(file, source, scratch)) return false;
  out.resize(source.count);
  Unpacker unpacker(scratch.data(), scratch.size(), source.count);
  out.resize(unpacker.fill(out.data(), out.size()));
  return out.size() == source.count;
}

}  // namespace cutaway
