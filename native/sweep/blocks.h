// Finding and reading the blocks of events.bin and device.bin and the records of live segments.
// Nothing in a file is trusted: what fails a check is counted and stepped over, and no size read
// from a file is allocated before it was compared with the size of that file. Files are read, not
// mapped: a mapping of a file that somebody truncates would kill the reader.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trace/codec.h"
#include "trace/format.h"

namespace cutaway {

struct Scan {
  std::vector<Source> sources;
  uint64_t damaged =
      0;  // heads that failed their check, payloads that go beyond the end of the file
  uint64_t damaged_bytes = 0;  // stepped over
};

// A file that closes itself.
class File {
 public:
  explicit File(const std::string& path);
  ~File();
  File(File&& other) noexcept : fd_(other.fd_), size_(other.size_) { other.fd_ = -1; }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return fd_ >= 0; }
  uint64_t size() const { return size_; }
  // Where the next bytes lie that are not a hole of a sparse file; its size if there are none.
  uint64_t next_data(uint64_t offset) const;
  // How many bytes could be read.
  size_t read(void* to, size_t bytes, uint64_t offset) const;

 private:
  int fd_ = -1;
  uint64_t size_ = 0;
};

// From `start` on. `chunked`: each block starts at a multiple of kDeviceChunk (device.bin).
Scan scan_blocks(const std::string& path, bool chunked, uint64_t start = 0);

// Decodes the source into `out` (replacing what is there); false if its payload is damaged. What
// was decoded before the damage of a live segment stays; a packed payload with a wrong checksum
// gives nothing.
bool read_records(const File& file, const Source& source, std::vector<uint8_t>& scratch,
                  std::vector<Record>& out);

// The payload as it is; false if damaged.
bool read_payload(const File& file, const Source& source, std::vector<uint8_t>& out);

}  // namespace cutaway
