/* SPDX-License-Identifier: Apache-2.0 */
/* A file of its own: the kernel's header, which knows the least round trip, is not to be had beside
 * the C library's. */
#include "runtime/tcp/net/latency.h"

#include <stddef.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { NS_PER_US = 1000, WAYS = 2 };

uint64_t latency_of(int fd)
{
    struct tcp_info told = {.tcpi_min_rtt = 0};
    socklen_t size = sizeof(told);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &told, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof(told.tcpi_min_rtt) ||
        told.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return (uint64_t)told.tcpi_min_rtt * NS_PER_US / WAYS;
}
