#include "recorder/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/codec.h"

namespace cutaway {

namespace {

void file_name(char (&out)[64], uint32_t thread, uint32_t number) {
  snprintf(out, sizeof out, "live-%u-%u.seg", thread, number);
}

// A file with holes would turn a full disk into SIGBUS, so every block is reserved before the first
// store.
bool reserve(int fd, size_t size) {
  if (fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) return false;
  static const char zeros[16384] = {};
  for (size_t done = 0; done < size;) {
    const ssize_t n = pwrite(fd, zeros, size - done < sizeof zeros ? size - done : sizeof zeros,
                             static_cast<off_t>(done));
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) done += static_cast<size_t>(n);
  }
  return true;
}

char* map_file(int fd, size_t size) {
  if (!reserve(fd, size)) return nullptr;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? nullptr : static_cast<char*>(base);
}

bool write_all(int fd, const uint8_t* p, size_t n) {
  while (n) {
    const ssize_t done = write(fd, p, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    p += done;
    n -= static_cast<size_t>(done);
  }
  return true;
}

}  // namespace

Segment* make_segment(int folder, uint32_t thread, uint32_t number, size_t size) {
  char name[64];
  file_name(name, thread, number);
  const int fd = openat(folder, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  char* base = map_file(fd, size);
  const int error = errno;
  close(fd);
  if (!base) {
    unlinkat(folder, name, 0);
    errno = error;
    return nullptr;
  }
  for (size_t at = 0; at < size; at += 4096)
    *static_cast<volatile char*>(base + at) = 0;  // fault in now
  auto* head = reinterpret_cast<SegmentHead*>(base);
  head->version = kFormatVersion;
  head->clock = kTicks;
  head->thread = thread;
  head->seq = kUnusedSeq;
  __atomic_store_n(&head->magic, kSegmentMagic, __ATOMIC_RELEASE);
  return new Segment{base, size, thread, number, kUnusedSeq, nullptr};
}

void unmap_segment(Segment* segment) {
  munmap(segment->base, segment->size);
  segment->base = nullptr;
}

void unlink_segment(int folder, const Segment* segment) {
  char name[64];
  file_name(name, segment->thread, segment->number);
  unlinkat(folder, name, 0);
}

void remove_segment(int folder, Segment* segment) {
  unlink_segment(folder, segment);
  unmap_segment(segment);
  delete segment;
}

// Records are written in order, so the first one without a time is the end.
size_t complete_records(const Segment* segment) {
  const Record* low = segment->first();
  const Record* high = segment->last();
  while (low < high) {
    const Record* middle = low + (high - low) / 2;
    if (__atomic_load_n(&middle->time, __ATOMIC_ACQUIRE)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return static_cast<size_t>(low - segment->first());
}

std::vector<uint8_t> pack_segment(const Segment* segment, uint64_t* count) {
  const size_t n = *count = complete_records(segment);
  if (n == 0) return {};
  const Record* records = segment->first();
  BlockHead head = {};
  std::vector<uint8_t> out(sizeof head);
  out.reserve(sizeof head + n * 6);
  pack(records, n, out);
  head.magic = kBlockMagic;
  head.version = kFormatVersion;
  head.stream = kThreadStream;
  head.clock = kTicks;
  head.id = segment->thread;
  head.seq = segment->head()->seq;
  head.count = static_cast<uint32_t>(n);
  head.bytes = static_cast<uint32_t>(out.size() - sizeof head);
  head.first = records[0].time;
  for (const Record* r = records; r < records + n; ++r) {
    if (r->time < head.first) head.first = r->time;
    if (end_of(*r) > head.last) head.last = end_of(*r);
  }
  head.payload_crc = crc32c(out.data() + sizeof head, head.bytes);
  head.head_crc = crc32c(&head, sizeof head - sizeof head.head_crc);
  memcpy(out.data(), &head, sizeof head);
  return out;
}

bool append_block(int events, const std::vector<uint8_t>& block) {
  const off_t before = lseek(events, 0, SEEK_END);
  if (write_all(events, block.data(), block.size())) return true;
  const int error = errno;
  if (before >= 0 && ftruncate(events, before) != 0) errno = error;
  errno = error;
  return false;
}

}  // namespace cutaway
