// Packs the Records of one segment, losslessly, into 4 to 6 bytes each; the readable twin is
// tests/record/codec_twin.py and docs/format.md explains it. Both directions keep the same small state, so a
// payload stands alone: nothing outside it is needed to unpack it.
//
// A packed record is   control byte | gap and value, little-endian, side by side | tag bytes
//   gap     time minus the end of the record before (its time, plus its value if it was a Call); modulo 2^64
//   control low 5 bits: a Layout, how many bits gap and value take; high 3 bits: a TagMode
#pragma once
#include <array>
#include <cstring>
#include <vector>

#include "trace/crc.h"
#include "trace/format.h"

namespace cutaway {

struct Layout {
  uint8_t gap, value, bytes;  // bits, bits, and both together in bytes
};

// Ordered by size; the packer takes the first that fits. The value of the first ones is 0 and not stored.
inline constexpr std::array<Layout, 32> kLayouts = {{
    {8, 0, 1},   {16, 0, 2},  {8, 8, 2},   {10, 6, 2},  {6, 10, 2},  {24, 0, 3},  {12, 12, 3}, {10, 14, 3},
    {14, 10, 3}, {8, 16, 3},  {16, 8, 3},  {18, 6, 3},  {6, 18, 3},  {32, 0, 4},  {16, 16, 4}, {14, 18, 4},
    {18, 14, 4}, {12, 20, 4}, {20, 12, 4}, {10, 22, 4}, {22, 10, 4}, {20, 20, 5}, {16, 24, 5}, {24, 16, 5},
    {12, 28, 5}, {28, 12, 5}, {24, 24, 6}, {16, 32, 6}, {32, 16, 6}, {32, 32, 8}, {64, 0, 8},  {64, 32, 12},
}};
constexpr uint8_t kFirstWide = 30;  // layouts from here on do not fit one 64-bit load

enum TagMode : uint8_t {
  kByPair = 0,     // what last followed the two tags before
  kByPairOld = 1,  // what followed them before that
  kByLast = 2,     // what last followed the tag before
  kByLastOld = 3,  // what followed it before that
  kBySlot = 4,     // one byte: a slot of the table of tags seen
  kShort = 5,      // two bytes: kind in 4 bits, id in 12
  kFull = 6,       // four bytes
};
constexpr size_t kMaxPacked = 1 + 12 + 4;
constexpr size_t kMinPacked = 2;  // so a payload of n bytes holds at most n / 2 records

// What both directions remember. 41 KB, cleared for each payload.
class TagModel {
 public:
  struct Successors {
    uint32_t recent, old;
    void push(uint32_t tag) {
      old = recent == tag ? old : recent;
      recent = tag;
    }
  };

  Successors& by_pair() { return pair_[(last_ * 0x9e3779b1u ^ before_ * 0x85ebca6bu) >> 20]; }
  Successors& by_last() { return last_table_[last_ * 0x9e3779b1u >> 22]; }
  static uint8_t slot_of(uint32_t tag) { return static_cast<uint8_t>(tag * 0x9e3779b1u >> 24); }
  uint32_t slot(uint8_t i) const { return slots_[i]; }

  void push(Successors& pair, Successors& last, uint32_t tag) {
    pair.push(tag);
    last.push(tag);
    slots_[slot_of(tag)] = tag;
    before_ = last_;
    last_ = tag;
  }

 private:
  Successors pair_[4096] = {};
  Successors last_table_[1024] = {};
  uint32_t slots_[256] = {};
  uint32_t last_ = 0, before_ = 0;
};

inline uint64_t end_of(const Record& r) { return kind_of(r.tag) == kCall ? r.time + r.value : r.time; }

namespace codec {

inline unsigned bits_of(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }

// For each pair (bits of gap, bits of value) the first layout that holds it.
struct BestLayout {
  uint8_t at[65][33];
  constexpr BestLayout() : at() {
    for (unsigned gap = 0; gap <= 64; ++gap)
      for (unsigned value = 0; value <= 32; ++value) {
        uint8_t i = 0;
        while (kLayouts[i].gap < gap || kLayouts[i].value < value) ++i;
        at[gap][value] = i;
      }
  }
};
inline constexpr BestLayout kBestLayout{};

inline TagMode mode_of(const TagModel& model, const TagModel::Successors& pair,
                       const TagModel::Successors& last, uint32_t tag) {
  if (pair.recent == tag) return kByPair;
  if (last.recent == tag) return kByLast;
  if (pair.old == tag) return kByPairOld;
  if (last.old == tag) return kByLastOld;
  if (model.slot(TagModel::slot_of(tag)) == tag) return kBySlot;
  return (tag & 0xff) < 16 && id_of(tag) < 4096 ? kShort : kFull;
}

inline uint8_t* put(uint8_t* p, uint64_t v, unsigned bytes) {
  memcpy(p, &v, 8);  // the buffer always has room for a whole word
  return p + bytes;
}

inline uint8_t* put_tag(uint8_t* p, TagMode mode, uint32_t tag) {
  switch (mode) {
    case kBySlot:
      return put(p, TagModel::slot_of(tag), 1);
    case kShort:
      return put(p, (tag & 0xf) | id_of(tag) << 4, 2);
    case kFull:
      return put(p, tag, 4);
    default:
      return p;
  }
}

inline uint8_t* put_times(uint8_t* p, const Layout& layout, uint64_t gap, uint32_t value) {
  if (layout.gap < 64) return put(p, gap | static_cast<uint64_t>(value) << layout.gap, layout.bytes);
  return put(put(p, gap, 8), value, layout.bytes - 8);
}

}  // namespace codec

// Appends `n` packed records to `out`.
inline void pack(const Record* records, size_t n, std::vector<uint8_t>& out) {
  TagModel model;
  uint64_t end = 0;
  constexpr size_t kRun = 512, kSlack = 16;
  for (size_t done = 0; done < n;) {
    const size_t run = n - done < kRun ? n - done : kRun;
    const size_t before = out.size();
    out.resize(before + run * kMaxPacked + kSlack);
    uint8_t* p = out.data() + before;
    for (const Record* r = records + done; r < records + done + run; ++r) {
      const uint64_t gap = r->time - end;
      auto& pair = model.by_pair();
      auto& last = model.by_last();
      const uint8_t layout = codec::kBestLayout.at[codec::bits_of(gap)][codec::bits_of(r->value)];
      const TagMode mode = codec::mode_of(model, pair, last, r->tag);
      *p++ = static_cast<uint8_t>(layout | mode << 5);
      p = codec::put_times(p, kLayouts[layout], gap, r->value);
      p = codec::put_tag(p, mode, r->tag);
      model.push(pair, last, r->tag);
      end = end_of(*r);
    }
    out.resize(static_cast<size_t>(p - out.data()));
    done += run;
  }
}

// Unpacks step by step: `while (unpacker.next(record)) …`. Never reads outside the payload, whatever it
// holds; at a byte that makes no sense it stops and `broken()` is true. Little-endian machines only, as the
// format.
class Unpacker {
 public:
  Unpacker(const uint8_t* payload, size_t bytes, uint32_t count)
      : p_(payload), end_(payload + bytes), left_(count) {}
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  bool broken() const { return broken_; }

  bool next(Record& out) {
    if (left_ == 0) return stop(p_ != end_);
    if (__builtin_expect(static_cast<size_t>(end_ - p_) < kMaxPacked + 8, 0) && !in_tail_) move_to_tail();
    if (p_ >= end_) return stop(true);
    const uint8_t control = *p_++;
    const Layout layout = kLayouts[control & 31];
    uint64_t gap, value;
    if (__builtin_expect((control & 31) < kFirstWide, 1)) {
      const uint64_t word = load(p_);
      gap = word & ((1ull << layout.gap) - 1);
      value = word >> layout.gap & ((1ull << layout.value) - 1);
    } else {
      gap = load(p_);
      value = layout.value ? load(p_ + 8) & 0xffffffff : 0;
    }
    p_ += layout.bytes;
    auto& pair = model_.by_pair();
    auto& last = model_.by_last();
    if (!read_tag(control >> 5, pair, last, out.tag) || p_ > end_) return stop(true);
    out.time = end_time_ + gap;
    out.value = static_cast<uint32_t>(value);
    model_.push(pair, last, out.tag);
    end_time_ = end_of(out);
    --left_;
    return true;
  }

 private:
  static uint64_t load(const uint8_t* p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
  }

  bool read_tag(unsigned mode, const TagModel::Successors& pair, const TagModel::Successors& last,
                uint32_t& tag) {
    switch (mode) {
      case kByPair:
        tag = pair.recent;
        return true;
      case kByPairOld:
        tag = pair.old;
        return true;
      case kByLast:
        tag = last.recent;
        return true;
      case kByLastOld:
        tag = last.old;
        return true;
      case kBySlot:
        tag = model_.slot(*p_++);
        return true;
      case kShort: {
        const uint32_t v = static_cast<uint32_t>(load(p_) & 0xffff);
        tag = (v & 0xf) | (v >> 4) << 8;
        p_ += 2;
        return true;
      }
      case kFull:
        tag = static_cast<uint32_t>(load(p_));
        p_ += 4;
        return true;
      default:
        return false;
    }
  }

  // The last bytes are read from a copy with zeros behind it, so that whole words may be loaded.
  void move_to_tail() {
    const size_t rest = static_cast<size_t>(end_ - p_);
    memcpy(tail_, p_, rest);
    p_ = tail_;
    end_ = tail_ + rest;
    in_tail_ = true;
  }

  bool stop(bool broken) {
    broken_ |= broken;
    left_ = 0;
    p_ = end_;
    return false;
  }

  const uint8_t* p_;
  const uint8_t* end_;
  uint32_t left_;
  uint64_t end_time_ = 0;
  bool in_tail_ = false, broken_ = false;
  uint8_t tail_[2 * kMaxPacked + 24] = {};
  TagModel model_;
};

// Calls `sink(const Record&)` for each record; returns how many there were before the end or the first fault.
template <typename Sink>
uint32_t unpack(const uint8_t* payload, size_t bytes, uint32_t count, Sink&& sink) {
  Unpacker unpacker(payload, bytes, count);
  Record record;
  uint32_t done = 0;
  for (; unpacker.next(record); ++done) sink(static_cast<const Record&>(record));
  return done;
}

}  // namespace cutaway
