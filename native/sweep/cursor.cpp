#include "sweep/cursor.h"

#include <algorithm>

#include "sweep/namer.h"

namespace cutaway {

std::unique_ptr<Events> open_events(SharedFiles files, std::vector<Source> sources) {
  auto records = std::make_unique<Cursor>(files, std::move(sources));
  if (!files->naming.usable()) return records;
  return std::make_unique<Namer>(std::move(records), std::move(files));
}

// A segment may have been packed into a block meanwhile: both hold the same records.
void Cursor::follow(SharedFiles files, std::vector<Source> sources) {
  files_ = std::move(files);
  sources_ = std::move(sources);
  unpacker_.reset();
  open_ = false;
  follows_ = true;
  next_source_ = 0;
  if (!begun_) return;
  while (next_source_ < sources_.size() && sources_[next_source_].seq < source_.seq) ++next_source_;
  if (next_source_ == sources_.size()) return;
  const Source& here = sources_[next_source_];
  resumes_ = here.seq == source_.seq;
  if (resumes_ && here.packed && taken_ >= here.count) {
    ++next_source_;
    resumes_ = false;
  }
}

bool Cursor::refill() {
  for (;;) {
    if (!open_ && !open_source()) return false;
    read_window();
    convert_window();
    if (at_ != end_) return true;
  }
}

bool Cursor::open_source() {
  if (next_source_ == sources_.size()) return false;
  const Source& source = sources_[next_source_];
  file_.emplace(files_->paths[source.file]);
  if (follows_ && !file_->ok()) return false;  // packed a moment ago: its block is there at the next look
  if (begun_ && source.seq > source_.seq) counts_.missing += source.seq - source_.seq - 1;
  const uint64_t skip = resumes_ ? taken_ : 0;
  resumes_ = false;
  source_ = source;
  ++next_source_;
  taken_ = 0;
  open_ = begun_ = true;
  clock_.emplace(files_->clocks[source_.clock < files_->clocks.size() ? source_.clock : 0]);
  if (!source_.packed) {
    taken_ = skip;
    return true;
  }
  if (!read_payload(*file_, source_, payload_)) {
    ++counts_.damaged;
    payload_.clear();
    source_.count = 0;
  }
  unpacker_ = std::make_unique<Unpacker>(payload_.data(), payload_.size(), source_.count);
  for (window_.resize(kWindow); taken_ < skip;) {
    const size_t n = unpacker_->fill(window_.data(), std::min<uint64_t>(kWindow, skip - taken_));
    if (!n) break;
    taken_ += n;
  }
  return true;
}

void Cursor::read_window() {
  if (unpacker_) {
    window_.resize(kWindow);
    window_.resize(unpacker_->fill(window_.data(), kWindow));
  } else {
    Source part = source_;
    part.offset += taken_ * sizeof(Record);
    part.count = static_cast<uint32_t>(std::min<uint64_t>(kWindow, source_.count - taken_));
    read_records(*file_, part, payload_, window_);
  }
  taken_ += window_.size();
  if (window_.size() == kWindow) return;
  if (unpacker_) counts_.damaged += unpacker_->broken();
  unpacker_.reset();
  open_ = false;
}

// What goes back in time is moved to the time before.
void Cursor::convert_window() {
  ClockWalk clock = *clock_;  // in registers
  uint64_t before = before_;
  size_t n = 0;
  for (const Record& r : window_) {
    uint64_t time = clock.to_ns(r.time);
    uint64_t end = clock.to_ns(end_of(r));
    if (__builtin_expect(time < files_->first || end > files_->last, 0)) {
      ++counts_.implausible;
      continue;
    }
    if (__builtin_expect(time < before, 0)) {
      ++counts_.disordered;
      time = before;
      end = end < time ? time : end;
    }
    before = end;
    events_[n++] = {time, end, r.value, r.tag};
  }
  *clock_ = clock;
  before_ = before;
  counts_.events += n;
  at_ = events_.data();
  end_ = at_ + n;
}

}  // namespace cutaway
