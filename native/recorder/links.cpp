#include "recorder/links.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>

#include "recorder/addresses.h"
#include "recorder/state.h"

namespace cutaway {

namespace {

constexpr size_t kMostLinks = 16;      // a process that talks to more says enough with these
constexpr uint64_t kManyLines = 6000;  // from here on only one look in thirty is written
constexpr uint64_t kSeldom = 30;

uint64_t inode_of(int fd) {
  struct stat s;
  return fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode) ? s.st_ino : 0;
}

}  // namespace

void Links::find() {
  std::vector<Link> found;
  DIR* folder = opendir("/proc/self/fd");
  if (!folder) return;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.' || found.size() >= kMostLinks) continue;
    const int fd = atoi(entry->d_name);
    const uint64_t inode = inode_of(fd);
    if (!inode) continue;
    const auto known = std::find_if(links_.begin(), links_.end(),
                                    [&](const Link& l) { return l.fd == fd && l.inode == inode; });
    if (known != links_.end()) {
      found.push_back(*known);
      continue;
    }
    const Connection c = connection_of(fd);
    // Between two addresses of one machine there is one clock.
    if (!c.connected || address_text(c.own, false) == address_text(c.other, false)) continue;
    found.push_back(
        {fd, inode, "tcp:" + address_text(c.own) + ">" + address_text(c.other), 0, 0, 0});
  }
  closedir(folder);
  links_.swap(found);
}

void Links::write(Link& link) {
  tcp_info info{};
  socklen_t size = sizeof info;
  const uint64_t before = monotonic_ns();
  if (inode_of(link.fd) != link.inode ||
      getsockopt(link.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return;
  const uint64_t after = monotonic_ns();
  if (size < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans) return;
  const uint64_t sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  if (sent == link.sent && info.tcpi_bytes_acked == link.acked &&
      info.tcpi_bytes_received == link.got)
    return;
  link.sent = sent;
  link.acked = info.tcpi_bytes_acked;
  link.got = info.tcpi_bytes_received;
  ++lines_;
  recorder.log.line("\"k\":\"link\",\"on\":\"" + link.name + "\",\"t\":" + std::to_string(before) +
                    ",\"until\":" + std::to_string(after) + ",\"sent\":" + std::to_string(sent) +
                    ",\"acked\":" + std::to_string(link.acked) +
                    ",\"got\":" + std::to_string(link.got));
}

void Links::look(bool for_new_ones) {
  if (for_new_ones) find();
  if (lines_ > kManyLines && ++looks_ % kSeldom) return;
  for (Link& link : links_) write(link);
}

}  // namespace cutaway
