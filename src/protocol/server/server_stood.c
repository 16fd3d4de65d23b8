/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In forms of coded parts with feedback: which of a worker's parts stand in the sum. A part is
 * named by its round, worker, stripe and the epoch in which it was sent: of those that a worker
 * sends of a stripe in one epoch only the last one can stand, and no epoch is given out twice,
 * whatever becomes of the server.
 */
#include "protocol/server/server_state.h"

#include <string.h>

#include "base/memory.h"
#include "compress/compress.h"

int server_stood_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    if (!compress_feeds_back(server->settings.compress))
        return TARRY_OK;
    size_t each = (size_t)server->plan->workers * server->stripes;
    server->given = memory_allocate(allocator, each, sizeof(*server->given));
    server->stood = memory_allocate(allocator, each, sizeof(*server->stood));
    server->life = memory_allocate(allocator, server->plan->workers, sizeof(*server->life));
    if (server->given == NULL || server->stood == NULL || server->life == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        server->life[worker] = 1;
    return TARRY_OK;
}

static uint32_t *row_of(const tarry_server *server, uint32_t *of, uint32_t worker)
{
    return of + (size_t)worker * server->stripes;
}

void server_stood_open(tarry_server *server)
{
    if (server->given == NULL)
        return;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        for (uint32_t stripe = 0; stripe < server->stripes; stripe++)
            if (!bitset_test(server->complete, stripe))
                row_of(server, server->given, worker)[stripe] = 0;
}

void server_stood_take(tarry_server *server, uint32_t worker, uint32_t stripe, uint32_t epoch)
{
    if (server->given != NULL)
        row_of(server, server->given, worker)[stripe] = epoch;
}

void server_stood_finish(tarry_server *server, bool good)
{
    if (server->given == NULL)
        return;
    uint32_t *before = server->stood;
    server->stood = server->given;
    server->given = before;
    if (!good)
        memset(server->stood, 0,
               (size_t)server->plan->workers * server->stripes * sizeof(*server->stood));
}

void server_stood_tell(const tarry_server *server, uint32_t worker, tarry_message *message)
{
    if (server->stood == NULL)
        return;
    message->life = server->life[worker];
    message->stood = row_of(server, server->stood, worker);
}

void server_stood_begin_life(tarry_server *server, const tarry_server *from)
{
    for (uint32_t worker = 0; server->life != NULL && worker < server->plan->workers; worker++)
        server->life[worker] = from != NULL && from->life != NULL
                                   ? from->life[worker]
                                   : server->members[worker].epoch + 1;
}
