/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCP_LATENCY_H
#define TCP_LATENCY_H

#include <stdint.h>

/* Half of the least round trip that the kernel has seen on a TCP connection within some minutes;
 * 0: it knows none, or it is no such connection. */
uint64_t latency_of(int fd);

#endif
