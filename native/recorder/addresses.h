// A TCP connection by its two addresses, as both of its ends write them.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace cutaway {

struct Connection {
  sockaddr_storage own{}, other{};
  bool is_tcp = false, connected = false;
};

inline Connection connection_of(int fd) {
  Connection c;
  socklen_t size = sizeof c.own;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&c.own), &size) != 0) return c;
  c.is_tcp = c.own.ss_family == AF_INET || c.own.ss_family == AF_INET6;
  size = sizeof c.other;
  c.connected = c.is_tcp && getpeername(fd, reinterpret_cast<sockaddr*>(&c.other), &size) == 0;
  return c;
}

// IPv4 in the clothes of IPv6 is written as IPv4: the two ends of a connection need not agree on
// it.
inline std::string address_text(const sockaddr_storage& address, bool with_port = true) {
  char host[INET6_ADDRSTRLEN] = "";
  uint16_t port;
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
    port = in.sin_port;
  } else {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr))
      inet_ntop(AF_INET, &in.sin6_addr.s6_addr[12], host, sizeof host);
    else
      inet_ntop(AF_INET6, &in.sin6_addr, host, sizeof host);
    port = in.sin6_port;
  }
  return with_port ? std::string(host) + ":" + std::to_string(ntohs(port)) : host;
}

}  // namespace cutaway
