/* SPDX-License-Identifier: Apache-2.0 */
/* Stands between workers and their server, hands bytes on, and cuts connections. */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct proxy proxy;

/* Listens on loopback, and connects to `to` ("127.0.0.1:PORT") for each connection. */
proxy *proxy_begin(const char *to);
/* "127.0.0.1:PORT" */
const char *proxy_address(const proxy *its);
/* Cuts one of those that are there; any thread. */
void proxy_cut(proxy *its, uint32_t which);
/* Cuts that which the server sees come from `seen` ("127.0.0.1:PORT"); any thread. False: there is
 * none. */
bool proxy_cut_as(proxy *its, const char *seen);
/* Cuts all that are there once so many more bytes were handed on, so that both sides hear of an
 * error; any thread. */
void proxy_reset_after(proxy *its, uint64_t bytes);
/* Hands nothing on from here on, and keeps all connections, and those that come; or does so again;
 * any thread. */
void proxy_mute(proxy *its, bool mute);
/* Ends all that are there, and those that come, at once; or does so no more; any thread. */
void proxy_refuse(proxy *its, bool refuse);
/* How many connections there have been. */
uint32_t proxy_connections(proxy *its);
/* Whether that which the server sees come from `seen` is there, and not cut. */
bool proxy_holds(proxy *its, const char *seen);
void proxy_end(proxy *its);

#endif
