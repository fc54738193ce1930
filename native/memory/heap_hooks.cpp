// Our malloc, free and so on, and how the objects of the program come to call them: each loaded
// object keeps the addresses of the functions it imports in slots of its own, and these are
// exchanged. So it works in a process that runs already, with any allocator, and can be undone. A
// slot is changed only if it leads where our own calls lead; one that is not bound yet waits until
// it is.
#include <Python.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "memory/heap.h"

namespace cutaway {

namespace {

// The bytes are counted first, so that the usual call ends in a jump to malloc.
__attribute__((cold, noinline)) void* malloc_at_a_point(size_t n) {
  void* p = malloc(n);
  count_down(p, n, kMallocated);
  return p;
}

void* our_malloc(size_t n) {
  if (__builtin_expect((heap_thread.left -= static_cast<int64_t>(n)) >= 0, 1)) return malloc(n);
  return malloc_at_a_point(n);
}

void our_free(void* p) {
  freed(p);
  free(p);
}

void* our_calloc(size_t n, size_t size) {
  void* p = calloc(n, size);
  if (p) allocated(p, n * size);
  return p;
}

void* our_realloc(void* before, size_t n) {
  freed(before);
  void* p = realloc(before, n);
  allocated(p, n);
  return p;
}

int our_posix_memalign(void** p, size_t alignment, size_t n) {
  const int error = posix_memalign(p, alignment, n);
  if (!error) allocated(*p, n);
  return error;
}

void* our_aligned_alloc(size_t alignment, size_t n) {
  void* p = aligned_alloc(alignment, n);
  allocated(p, n);
  return p;
}

void* our_memalign(size_t alignment, size_t n) {
  void* p = memalign(alignment, n);
  allocated(p, n);
  return p;
}

// Memory of the process's own; files and shared memory are counted elsewhere, address space that is
// only reserved not at all.
bool is_heap(int protection, int flags) {
  return flags & MAP_ANONYMOUS && flags & MAP_PRIVATE && protection & PROT_WRITE &&
         !(flags & MAP_STACK);
}

void* our_mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  void* p = mmap(at, n, protection, flags, fd, offset);
  if (p != MAP_FAILED && is_heap(protection, flags)) allocated(p, n, kMapped);
  return p;
}

int our_munmap(void* p, size_t n) {
  freed(p);
  return munmap(p, n);
}

struct Function {
  const char* name;
  void* ours;
  void* known[2] = {nullptr, nullptr};  // where our own calls lead
};

template <typename F>
void* address(F* f) {
  return reinterpret_cast<void*>(f);
}

Function functions[] = {{"malloc", address(our_malloc)},
                        {"free", address(our_free)},
                        {"calloc", address(our_calloc)},
                        {"realloc", address(our_realloc)},
                        {"posix_memalign", address(our_posix_memalign)},
                        {"aligned_alloc", address(our_aligned_alloc)},
                        {"memalign", address(our_memalign)},
                        {"mmap", address(our_mmap)},
                        {"mmap64", address(our_mmap)},
                        {"munmap", address(our_munmap)}};

Function* function_named(const char* name) {
  if (!strchr("mfcrpa", name[0])) return nullptr;
  for (Function& f : functions)
    if (!strcmp(name, f.name)) return &f;
  return nullptr;
}

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kJumpSlot = 0, kGlobalData = 0;
#endif

// The parts of a loaded object that say which functions it imports, and where their addresses are.
struct Object {
  ElfW(Addr) base = 0, from = ~ElfW(Addr){0}, to = 0;
  ElfW(Addr) sealed_from = 0, sealed_to = 0;  // made read-only after the object was loaded
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  struct Relocations {
    const ElfW(Rela) * first = nullptr;
    size_t count = 0;
  } calls, others;
  size_t relative = 0;  // of the others, so many at the beginning name no symbol

  explicit Object(const dl_phdr_info& info) : base(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr) & part = info.dlpi_phdr[i];
      const ElfW(Addr) at = base + part.p_vaddr;
      if (part.p_type == PT_LOAD && at < from) from = at;
      if (part.p_type == PT_LOAD && at + part.p_memsz > to) to = at + part.p_memsz;
      if (part.p_type == PT_GNU_RELRO) sealed_from = at, sealed_to = at + part.p_memsz;
    }
    for (int i = 0; i < info.dlpi_phnum; ++i)
      if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
        read_dynamic(reinterpret_cast<const ElfW(Dyn)*>(base + info.dlpi_phdr[i].p_vaddr));
  }

  bool holds(const void* p) const {
    const auto at = reinterpret_cast<ElfW(Addr)>(p);
    return at >= from && at < to;
  }

 private:
  void read_dynamic(const ElfW(Dyn) * entry) {
    bool plain_calls = true;
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_ptr, at = value < base ? base + value : value;
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols = reinterpret_cast<const ElfW(Sym)*>(at);
          break;
        case DT_STRTAB:
          names = reinterpret_cast<const char*>(at);
          break;
        case DT_JMPREL:
          calls.first = reinterpret_cast<const ElfW(Rela)*>(at);
          break;
        case DT_PLTRELSZ:
          calls.count = value / sizeof(ElfW(Rela));
          break;
        case DT_PLTREL:
          plain_calls = value == DT_RELA;
          break;
        case DT_RELA:
          others.first = reinterpret_cast<const ElfW(Rela)*>(at);
          break;
        case DT_RELASZ:
          others.count = value / sizeof(ElfW(Rela));
          break;
        case DT_RELACOUNT:
          relative = value;
          break;
        default:
          break;
      }
    }
    if (!calls.first || !plain_calls) calls = {};
    if (!others.first) others = {};
    if (relative > others.count) relative = others.count;
    if (!symbols || !names) calls = others = {}, relative = 0;
  }
};

// Calls `visit(slot, function)` for each slot of one of our functions that the object imports.
template <typename Visit>
void for_each_slot(const Object& object, const Visit& visit) {
  const auto look = [&](const ElfW(Rela)* at, const ElfW(Rela)* end) {
    for (; at != end; ++at) {
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(at->r_info));
      if (type != kJumpSlot && type != kGlobalData) continue;
      const ElfW(Sym) & symbol = object.symbols[ELF64_R_SYM(at->r_info)];
      if (symbol.st_shndx != SHN_UNDEF) continue;
      if (Function* f = function_named(object.names + symbol.st_name))
        visit(reinterpret_cast<void**>(object.base + at->r_offset), *f);
    }
  };
  look(object.calls.first, object.calls.first + object.calls.count);
  look(object.others.first + object.relative, object.others.first + object.others.count);
}

// The writable parts of the address space, in ascending order.
class Writable {
 public:
  void read() {
    parts_.clear();
    FILE* file = fopen("/proc/self/maps", "re");
    if (!file) return;
    char line[512];
    bool whole = true;  // a long line comes in pieces
    while (fgets(line, sizeof line, file)) {
      unsigned long from, to;
      char flags[8];
      if (whole && sscanf(line, "%lx-%lx %4s", &from, &to, flags) == 3 && flags[1] == 'w')
        parts_.emplace_back(from, to);
      whole = strchr(line, '\n') != nullptr;
    }
    fclose(file);
  }
  bool holds(ElfW(Addr) at) const {
    const auto after =
        std::upper_bound(parts_.begin(), parts_.end(), std::make_pair(at, ~ElfW(Addr){0}));
    return after != parts_.begin() && at < std::prev(after)->second;
  }

 private:
  std::vector<std::pair<ElfW(Addr), ElfW(Addr)>> parts_;
};

// The loader makes a part of an object read-only as the last thing before it is ready. What is
// still writable there belongs to an object that another thread is loading: it must be left alone.
enum Slot { kPlain, kSealed, kLoading };

Slot slot_kind(const Object& object, void** slot, const Writable& writable) {
  const auto at = reinterpret_cast<ElfW(Addr)>(slot);
  const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
  if (at < object.sealed_from || at >= (object.sealed_to & ~(page - 1))) return kPlain;
  return writable.holds(at) ? kLoading : kSealed;
}

bool write_slot(void** slot, void* value, Slot kind) {
  const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
  void* start = reinterpret_cast<void*>(reinterpret_cast<ElfW(Addr)>(slot) & ~(page - 1));
  if (kind == kLoading) return false;
  if (kind == kSealed && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return true;
  __atomic_store_n(slot, value, __ATOMIC_RELAXED);
  if (kind == kSealed) mprotect(start, page, PROT_READ);
  return true;
}

bool known_target(const Function& f, const void* target) {
  return target && (target == f.known[0] || target == f.known[1]);
}

bool is_ours(const Object& object) { return object.holds(address(our_malloc)); }

void learn_targets(const Object& ours) {
  for_each_slot(ours, [&](void** slot, Function& f) {
    void* target = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (ours.holds(target)) return;  // not bound
    if (!f.known[0]) f.known[0] = target;
    if (f.known[0] != target) f.known[1] = target;
  });
}

// True if that was all: its slots are bound, and nobody is loading it.
bool hook_object(const Object& object, const Writable& writable) {
  bool all = true;
  for_each_slot(object, [&](void** slot, Function& f) {
    void* target = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (target == f.ours) return;
    if (!known_target(f, target)) {
      all = false;  // not bound, not relocated, or another function for good
      return;
    }
    all &= write_slot(slot, f.ours, slot_kind(object, slot, writable));
  });
  return all;
}

// The loader's own slots must not be changed.
bool left_out(const dl_phdr_info& info) {
  const char* name = info.dlpi_name ? info.dlpi_name : "";
  return strstr(name, "/ld-linux") || strstr(name, "linux-vdso") || strstr(name, "libasan");
}

constexpr unsigned kFirstPatience = 3, kMostPatience = 600;

// Which objects have been looked at. All again when one was unloaded: another may lie in its place.
struct Seen {
  std::set<std::pair<ElfW(Addr), const void*>> objects;
  unsigned long long adds = 0, subs = 0;
  bool learnt = false;
  // Looks until those that were not ready are looked at again, ever more; 0: there are none.
  unsigned unready = 0, patience = kFirstPatience;
  Writable writable;
};
Seen& seen = *new Seen();
pthread_mutex_t hooks_lock = PTHREAD_MUTEX_INITIALIZER;
bool hooked = false;
bool wanted = true;

int count_loads(dl_phdr_info* info, size_t, void* counts) {
  auto* found = static_cast<unsigned long long*>(counts);
  found[0] = info->dlpi_adds;
  found[1] = info->dlpi_subs;
  return 1;
}

int learn(dl_phdr_info* info, size_t, void*) {
  const Object object(*info);
  if (!is_ours(object)) return 0;
  learn_targets(object);
  return 1;
}

// What is writable was read before: an object that came since may lie where another was.
int hook_one(dl_phdr_info* info, size_t, void*) {
  if (info->dlpi_adds != seen.adds) {
    seen.adds = 0;
    return 1;
  }
  const auto key = std::make_pair(info->dlpi_addr, static_cast<const void*>(info->dlpi_phdr));
  if (left_out(*info) || seen.objects.count(key)) return 0;
  const Object object(*info);
  if (!is_ours(object) && !hook_object(object, seen.writable)) {
    seen.unready = seen.patience;
    return 0;
  }
  seen.objects.insert(key);
  return 0;
}

int unhook_one(dl_phdr_info* info, size_t, void*) {
  const Object object(*info);
  for_each_slot(object, [&](void** slot, Function& f) {
    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == f.ours && f.known[0])
      write_slot(slot, f.known[0], slot_kind(object, slot, seen.writable));
  });
  return 0;
}

struct HooksLocked {
  HooksLocked() { pthread_mutex_lock(&hooks_lock); }
  ~HooksLocked() { pthread_mutex_unlock(&hooks_lock); }
};

// Python's own pools: arenas of a megabyte, each with the line that needed one more. Python takes
// them from mmap, where they must not be counted a second time.
PyObjectArenaAllocator arenas = {};

void* arena_alloc(void* context, size_t n) {
  const int64_t left = heap_thread.left;
  heap_thread.left = INT64_MAX;
  void* p = arenas.alloc(context, n);
  heap_thread.left = left;
  if (p && n >= kInterval / 2) keep_sample(p, n, n, kPythonPool);
  return p;
}

void arena_free(void* context, void* p, size_t n) {
  freed(p);
  arenas.free(context, p, n);
}

}  // namespace

void lock_hooks() { pthread_mutex_lock(&hooks_lock); }
void unlock_hooks() { pthread_mutex_unlock(&hooks_lock); }

void hook_new_objects() {
  if (!kJumpSlot) return;
  HooksLocked locked;
  if (!wanted) return;
  unsigned long long counts[2] = {};
  dl_iterate_phdr(count_loads, counts);
  if (!seen.learnt) dl_iterate_phdr(learn, nullptr);
  seen.learnt = true;
  const bool again = seen.unready && --seen.unready == 0;
  if (hooked && counts[0] == seen.adds && counts[1] == seen.subs && !again) return;
  seen.patience = again ? std::min(2 * seen.patience, kMostPatience) : kFirstPatience;
  if (counts[1] != seen.subs) seen.objects.clear();
  seen.adds = counts[0];
  seen.subs = counts[1];
  hooked = true;
  seen.writable.read();
  dl_iterate_phdr(hook_one, nullptr);
}

void hook_arenas() {
  PyObjectArenaAllocator now;
  PyObject_GetArenaAllocator(&now);
  if (now.alloc == arena_alloc) return;
  arenas = now;
  now.alloc = arena_alloc;
  now.free = arena_free;
  PyObject_SetArenaAllocator(&now);
}

void unhook_heap() {
  PyObjectArenaAllocator now;
  PyObject_GetArenaAllocator(&now);
  if (now.alloc == arena_alloc) PyObject_SetArenaAllocator(&arenas);
  HooksLocked locked;
  if (hooked) seen.writable.read();
  if (hooked) dl_iterate_phdr(unhook_one, nullptr);
  hooked = false;
  seen.objects.clear();
}

void switch_heap_hooks(bool now_wanted) {
  {
    HooksLocked locked;
    wanted = now_wanted;
  }
  if (!now_wanted) return unhook_heap();
  hook_arenas();
  hook_new_objects();
}

}  // namespace cutaway
