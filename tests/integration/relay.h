/* SPDX-License-Identifier: Apache-2.0 */
/* Stands between workers and their server, hands bytes on, and cuts connections. */
#ifndef TEST_RELAY_H
#define TEST_RELAY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct relay relay;

/* Listens on loopback, and connects to `to` ("127.0.0.1:PORT") for each connection. */
relay *relay_begin(const char *to);
/* "127.0.0.1:PORT" */
const char *relay_address(const relay *its);
/* Cuts one of those that are there; any thread. */
void relay_cut(relay *its, uint32_t which);
/* Cuts that which the server sees come from `seen` ("127.0.0.1:PORT"); any thread. False: there is
 * none. */
bool relay_cut_as(relay *its, const char *seen);
/* Cuts all that are there once so many more bytes were handed on, so that both sides hear of an
 * error; any thread. */
void relay_reset_after(relay *its, uint64_t bytes);
/* Hands nothing on from here on, and keeps all connections, and those that come; or does so again;
 * any thread. */
void relay_mute(relay *its, bool mute);
/* Ends all that are there, and those that come, at once; or does so no more; any thread. */
void relay_refuse(relay *its, bool refuse);
/* How many connections there have been. */
uint32_t relay_connections(relay *its);
/* Whether that which the server sees come from `seen` is there, and not cut. */
bool relay_holds(relay *its, const char *seen);
void relay_end(relay *its);

#endif
