// Packs the Records of one segment, losslessly, into 4 to 6 bytes each; the readable twin is
// tests/record/codec_twin.py and docs/format.md explains it. Both directions keep the same small
// state, so a payload stands alone: nothing outside it is needed to unpack it.
//
// A packed record is   control byte | gap and value, little-endian, side by side | tag bytes
//   gap     time minus the end of the record before (its time, plus its value if it was a Call);
//   modulo 2^64 control low 5 bits: a Layout, how many bits gap and value take; high 3 bits: a
//   TagMode
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

// Ordered by size; the packer takes the first that fits. The value of the first ones is 0 and not
// stored.
inline constexpr std::array<Layout, 32> kLayouts = {{
    {8, 0, 1},   {16, 0, 2},  {8, 8, 2},   {10, 6, 2},   {6, 10, 2},  {24, 0, 3},  {12, 12, 3},
    {10, 14, 3}, {14, 10, 3}, {8, 16, 3},  {16, 8, 3},   {18, 6, 3},  {6, 18, 3},  {32, 0, 4},
    {16, 16, 4}, {14, 18, 4}, {18, 14, 4}, {12, 20, 4},  {20, 12, 4}, {10, 22, 4}, {22, 10, 4},
    {20, 20, 5}, {16, 24, 5}, {24, 16, 5}, {12, 28, 5},  {28, 12, 5}, {24, 24, 6}, {16, 32, 6},
    {32, 16, 6}, {32, 32, 8}, {64, 0, 8},  {64, 32, 12},
}};
constexpr uint8_t kWidest = 31;  // the one layout that does not fit a 64-bit load

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
    uint64_t seen;  // low half: the most recent; high half: the one before that was another
    uint32_t recent() const { return static_cast<uint32_t>(seen); }
    uint32_t old() const { return static_cast<uint32_t>(seen >> 32); }
    void push(uint32_t tag) {
      const uint64_t pushed = seen << 32 | tag;
      seen = recent() == tag ? seen : pushed;  // no branch: nobody could foretell it
    }
  };

  // The two tags before this one: they travel beside the tables, so that a loop can keep them in
  // registers.
  struct Before {
    uint32_t last = 0, second = 0;
  };

  Successors& by_pair(Before b) {
    return pair_[(b.last * 0x9e3779b1u ^ b.second * 0x85ebca6bu) >> 20];
  }
  Successors& by_last(Before b) { return last_table_[b.last * 0x9e3779b1u >> 22]; }
  static uint8_t slot_of(uint32_t tag) { return static_cast<uint8_t>(tag * 0x9e3779b1u >> 24); }
  const uint32_t& slot(uint8_t i) const { return slots_[i]; }

  void push(Before& before, Successors& pair, Successors& last, uint32_t tag) {
    pair.push(tag);
    last.push(tag);
    slots_[slot_of(tag)] = tag;
    before = {tag, before.last};
  }

 private:
  Successors pair_[4096] = {};
  Successors last_table_[1024] = {};
  uint32_t slots_[256] = {};
};

inline uint32_t length_of(const Record& r) { return kind_of(r.tag) == kCall ? r.value : 0; }
inline uint64_t end_of(const Record& r) { return r.time + length_of(r); }

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
  if (pair.recent() == tag) return kByPair;
  if (last.recent() == tag) return kByLast;
  if (pair.old() == tag) return kByPairOld;
  if (last.old() == tag) return kByLastOld;
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
  if (layout.gap < 64)
    return put(p, gap | static_cast<uint64_t>(value) << layout.gap, layout.bytes);
  return put(put(p, gap, 8), value, layout.bytes - 8);
}

}  // namespace codec

// Appends `n` packed records to `out`.
inline void pack(const Record* records, size_t n, std::vector<uint8_t>& out) {
  TagModel model;
  TagModel::Before before;
  uint64_t end = 0;
  constexpr size_t kRun = 512, kSlack = 16;
  for (size_t done = 0; done < n;) {
    const size_t run = n - done < kRun ? n - done : kRun;
    const size_t size = out.size();
    out.resize(size + run * kMaxPacked + kSlack);
    uint8_t* p = out.data() + size;
    for (const Record* r = records + done; r < records + done + run; ++r) {
      const uint64_t gap = r->time - end;
      auto& pair = model.by_pair(before);
      auto& last = model.by_last(before);
      const uint8_t layout = codec::kBestLayout.at[codec::bits_of(gap)][codec::bits_of(r->value)];
      const TagMode mode = codec::mode_of(model, pair, last, r->tag);
      *p++ = static_cast<uint8_t>(layout | mode << 5);
      p = codec::put_times(p, kLayouts[layout], gap, r->value);
      p = codec::put_tag(p, mode, r->tag);
      model.push(before, pair, last, r->tag);
      end = end_of(*r);
    }
    out.resize(static_cast<size_t>(p - out.data()));
    done += run;
  }
}

namespace codec {

// What a control byte says, looked up at once; `bytes` is the length of the whole packed record. A
// gap of 64 bits stands before no value, or before one that is loaded by itself: nothing is shifted
// out for it.
struct Control {
  uint64_t gap_mask;
  uint32_t value_mask;
  uint8_t shift, times, bytes;
};
struct Controls {
  Control of[256];
  constexpr Controls() : of() {
    constexpr uint8_t kTagBytes[8] = {0, 0, 0, 0, 1, 2, 4, 0};
    for (unsigned i = 0; i < 256; ++i) {
      const Layout l = kLayouts[i & 31];
      of[i].gap_mask = ~0ull >> (64 - l.gap);
      of[i].value_mask = static_cast<uint32_t>((1ull << l.value) - 1);
      of[i].shift = l.gap < 64 ? l.gap : uint8_t{0};
      of[i].times = l.bytes;
      of[i].bytes = static_cast<uint8_t>(1 + l.bytes + kTagBytes[i >> 5]);
    }
  }
};
inline constexpr Controls kControls{};

inline uint64_t load(const uint8_t* p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

}  // namespace codec

// Unpacks a payload piece by piece. Never reads outside it, whatever it holds; at a byte that makes
// no sense it stops and `broken()` is true. Little-endian machines only, as the format.
class Unpacker {
 public:
  Unpacker(const uint8_t* payload, size_t bytes, uint32_t count)
      : p_(payload), end_(payload + bytes), left_(count) {}
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  bool broken() const { return broken_; }

  // The next records, up to `room` of them; fewer only at the end or at a fault.
  size_t fill(Record* out, size_t room) {
    return each(room, [&out](const Record& r) { *out++ = r; });
  }

  // The same, handed to `sink(const Record&)` one by one.
  template <typename Sink>
  size_t each(size_t most, Sink&& sink) {
    const size_t wanted = most < left_ ? most : left_;
    size_t n = 0;
    while (n < wanted && !broken_ && p_ < end_) {
      if (!in_tail_ && static_cast<size_t>(end_ - p_) <= kReach) move_to_tail();
      n += unpack_until(in_tail_ ? end_ : end_ - kReach, wanted - n, sink);
    }
    left_ -= static_cast<uint32_t>(n);
    broken_ |= n < wanted || (left_ == 0 && p_ != end_);
    if (broken_) left_ = 0;
    return n;
  }

 private:
  static constexpr size_t kReach =
      kMaxPacked + 8;  // as far as loads look from the start of a record

  // Records that start before `limit`; whole words can be loaded there. Works on copies of the
  // members, which the compiler could not keep in registers.
  template <typename Sink>
  size_t unpack_until(const uint8_t* limit, size_t wanted, Sink&& sink) {
    const uint8_t* p = p_;
    const uint8_t* const end = end_;
    uint64_t end_time = end_time_;
    TagModel::Before before = before_;
    size_t n = 0;
    for (; n < wanted && p < limit; ++n) {
      const codec::Control& control = codec::kControls.of[*p];
      const unsigned mode = *p >> 5;
      const uint8_t* times = p + 1;
      const uint8_t* tags = times + control.times;
      const uint64_t word = codec::load(times);
      const uint64_t gap = word & control.gap_mask;
      auto value = static_cast<uint32_t>(word >> control.shift) & control.value_mask;
      if (__builtin_expect((*p & 31) == kWidest, 0))
        value = static_cast<uint32_t>(codec::load(times + 8));
      auto& pair = model_.by_pair(before);
      auto& last = model_.by_last(before);
      const uint64_t seen = mode & 2 ? last.seen : pair.seen;
      auto tag = static_cast<uint32_t>(seen >> (mode & 1) * 32);
      const uint32_t in_slot = model_.slot(*tags);
      tag = mode == kBySlot ? in_slot : tag;
      if (__builtin_expect(mode > kBySlot, 0)) tag = new_tag(mode, codec::load(tags));
      p += control.bytes;
      if (__builtin_expect(p > end || mode > kFull, 0)) {
        broken_ = true;
        break;
      }
      const Record record{end_time + gap, value, tag};
      model_.push(before, pair, last, tag);
      end_time = end_of(record);
      sink(record);
    }
    p_ = p;
    end_time_ = end_time;
    before_ = before;
    return n;
  }

  static uint32_t new_tag(unsigned mode, uint64_t word) {
    if (mode == kShort) return static_cast<uint32_t>((word & 0xf) | (word & 0xfff0) << 4);
    return static_cast<uint32_t>(word);
  }

  // The last bytes are read from a copy with zeros behind it, so that whole words may be loaded.
  void move_to_tail() {
    const size_t rest = static_cast<size_t>(end_ - p_);
    memcpy(tail_, p_, rest);
    p_ = tail_;
    end_ = tail_ + rest;
    in_tail_ = true;
  }

  const uint8_t* p_;
  const uint8_t* end_;
  uint32_t left_;
  uint64_t end_time_ = 0;
  TagModel::Before before_;
  bool in_tail_ = false, broken_ = false;
  uint8_t tail_[2 * kReach] = {};
  TagModel model_;
};

// Calls `sink(const Record&)` for each record; returns how many there were before the end or the
// first fault.
template <typename Sink>
uint32_t unpack(const uint8_t* payload, size_t bytes, uint32_t count, Sink&& sink) {
  Unpacker unpacker(payload, bytes, count);
  Record records[256];
  uint32_t done = 0;
  while (const size_t n = unpacker.fill(records, 256)) {
    for (size_t i = 0; i < n; ++i) sink(static_cast<const Record&>(records[i]));
    done += static_cast<uint32_t>(n);
  }
  return done;
}

}  // namespace cutaway
