/* SPDX-License-Identifier: Apache-2.0 */
/* Whose copies a secure sum has; nothing where sums are not secure. */
#ifndef PROTOCOL_SERVER_SECURE_H
#define PROTOCOL_SERVER_SECURE_H

#include "protocol/server/server_state.h"

static inline bool server_is_secure(const tarry_server *server)
{
    return server->settings.secure != 0;
}
int server_secure_allocate(tarry_server *server, const tarry_allocator *allocator);
/* An attempt begins: settles whose copies it sums, one of each chunk. */
void server_secure_begin(tarry_server *server);
/* Bytes of a stripe of a part, with the numbers that count. */
uint64_t server_secure_bytes(const tarry_server *server, const layout *cut, uint32_t stripe);

#endif
