/* SPDX-License-Identifier: Apache-2.0 */
/* Stands between workers and their server, hands bytes on, and cuts connections. */
#ifndef TEST_RELAY_H
#define TEST_RELAY_H

#include <stdint.h>

typedef struct relay relay;

/* Listens on loopback, and connects to `to` ("127.0.0.1:PORT") for each connection. */
relay *relay_begin(const char *to);
/* "127.0.0.1:PORT" */
const char *relay_address(const relay *its);
/* Cuts one of those that are there; any thread. */
void relay_cut(relay *its, uint32_t which);
/* How many connections there have been. */
uint32_t relay_connections(relay *its);
void relay_end(relay *its);

#endif
