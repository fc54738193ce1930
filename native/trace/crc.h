// CRC-32C (Castagnoli): by the processor's instruction where there is one, by tables elsewhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cutaway {

struct CrcTables {
  uint32_t at[8][256];
  constexpr CrcTables() : at() {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0);
      at[0][i] = c;
    }
    for (int t = 1; t < 8; ++t)
      for (uint32_t i = 0; i < 256; ++i)
        at[t][i] = (at[t - 1][i] >> 8) ^ at[0][at[t - 1][i] & 0xff];
  }
};
inline constexpr CrcTables kCrcTables{};

// Eight bytes a round ("slicing by 8").
inline uint32_t crc32c_table(uint32_t crc, const uint8_t* p, size_t n) {
  const auto& at = kCrcTables.at;
  for (; n >= 8; p += 8, n -= 8) {
    const uint32_t low = crc ^ (p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24);
    crc = at[7][low & 0xff] ^ at[6][low >> 8 & 0xff] ^ at[5][low >> 16 & 0xff] ^ at[4][low >> 24] ^
          at[3][p[4]] ^ at[2][p[5]] ^ at[1][p[6]] ^ at[0][p[7]];
  }
  for (; n; ++p, --n) crc = (crc >> 8) ^ at[0][(crc ^ *p) & 0xff];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) inline uint32_t crc32c_hardware(uint32_t crc, const uint8_t* p,
                                                                  size_t n) {
  uint64_t wide = crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; n; ++p, --n) crc = __builtin_ia32_crc32qi(crc, *p);
  return crc;
}
inline bool crc32c_has_hardware() { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__)
// Optional in ARMv8.0, so asked for at run time.
__attribute__((target("+crc"))) inline uint32_t crc32c_hardware(uint32_t crc, const uint8_t* p,
                                                                size_t n) {
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    crc = __crc32cd(crc, word);
  }
  for (; n; ++p, --n) crc = __crc32cb(crc, *p);
  return crc;
}
inline bool crc32c_has_hardware() {
  static const bool has = getauxval(AT_HWCAP) & HWCAP_CRC32;
  return has;
}
#else
inline uint32_t crc32c_hardware(uint32_t crc, const uint8_t* p, size_t n) {
  return crc32c_table(crc, p, n);
}
inline bool crc32c_has_hardware() { return false; }
#endif

// `before` is the checksum of what precedes these bytes, 0 at the start.
inline uint32_t crc32c(const void* data, size_t n, uint32_t before = 0) {
  const auto* p = static_cast<const uint8_t*>(data);
  return ~(crc32c_has_hardware() ? crc32c_hardware(~before, p, n) : crc32c_table(~before, p, n));
}

}  // namespace cutaway
