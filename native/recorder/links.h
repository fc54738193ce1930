// How far each connection to another machine has got: bytes sent, acknowledged and received, as the
// kernel counts them. What one side has received the other has sent before, so these lines tell
// readers how far the clocks of two hosts lie apart. Written by the background thread; it sees
// every connection of the process, whichever library opened it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cutaway {

class Links {
 public:
  void look(bool for_new_ones);

 private:
  struct Link {
    int fd;
    uint64_t inode;
    std::string name;
    uint64_t sent, acked, got;
  };
  void find();
  void write(Link& link);
  std::vector<Link> links_;
  uint64_t lines_ = 0, looks_ = 0;
};

}  // namespace cutaway
