#include "recorder/shared.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cutaway {

bool Shared::open(const std::string& run_folder) {
  close();
  const int fd = ::open((run_folder + "/shared").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return true;
  // fallocate keeps what another process has written, and reserves the blocks: no SIGBUS on a full
  // disk.
  if (fallocate(fd, 0, 0, sizeof(Table)) == 0) {
    void* at = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) table_ = static_cast<Table*>(at);
  }
  ::close(fd);
  if (!table_) return true;
  const uint32_t mine = table_->used.fetch_add(1);
  if (mine < 4095) slot_ = &table_->slots[mine];
  return mine == 0;
}

void Shared::close() {
  if (table_) munmap(table_, sizeof(Table));
  table_ = nullptr;
  slot_ = nullptr;
}

void Shared::tell(uint64_t cpu_ns, uint64_t bytes) {
  Slot* slot = slot_ ? slot_ : &alone_;
  slot->cpu_ns.store(cpu_ns, std::memory_order_relaxed);
  slot->bytes.store(bytes, std::memory_order_relaxed);
}

uint64_t Shared::cpu_ns() const {
  uint64_t sum = slot_ ? 0 : alone_.cpu_ns.load();
  for (uint32_t i = 0; table_ && i < table_->used && i < 4095; ++i) sum += table_->slots[i].cpu_ns;
  return sum;
}

uint64_t Shared::bytes(uint64_t mine) const {
  uint64_t sum = mine;
  for (uint32_t i = 0; table_ && i < table_->used && i < 4095; ++i)
    if (&table_->slots[i] != slot_) sum += table_->slots[i].bytes;
  return sum;
}

WindowState Shared::window() const {
  return table_ ? static_cast<WindowState>(table_->window.load()) : window_alone_.load();
}

void Shared::set_window(WindowState state) {
  window_alone_ = state;
  if (table_) table_->window = state;
}

}  // namespace cutaway
