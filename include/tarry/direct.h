/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tarry's own engine of sums among workers (tarry/engine.h): direct reduce-scatter and all-gather.
 * Where all members of a group are on one machine and of one user the numbers pass through shared
 * memory, else over connections between them: TLS 1.3 with certificates on both sides, or plain
 * text. A member's address says both. Only members of a group are talked to: who hands out the
 * addresses says who takes part.
 */
#ifndef TARRY_DIRECT_H
#define TARRY_DIRECT_H

#include <stdbool.h>
#include <stddef.h>

#include <tarry/allocator.h>
#include <tarry/api.h>
#include <tarry/engine.h>
#include <tarry/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_direct_settings {
    size_t size;             /* of this structure: its init sets it */
    const char *listen;      /* HOST:PORT, port 0: any that is free; NULL: no connections */
    const char *advertise;   /* where others reach it, HOST:PORT, port 0: that which is listened on;
                                NULL: where it listens */
    const char *credentials; /* directory of a worker's (tarry-keys(1)); NULL: plain text */
    bool no_shared_memory;   /* connections on one machine, too. The same at all members */
} tarry_direct_settings;

/* Shared memory, and plain text on a free port of 127.0.0.1. */
#define tarry_direct_settings_init(settings)                                                       \
    tarry_direct_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_direct_settings_init_sized(tarry_direct_settings *settings, size_t size);

/* It listens from now on; waits for the resolver. The caller owns *out, and frees it by its method.
 * Errors: ARGUMENT (neither connections nor shared memory), FORMAT and FILE (an address, the
 * credentials), SYSTEM, NO_MEMORY, with a diagnostic. */
TARRY_API int tarry_direct_create(const tarry_direct_settings *settings,
                                  const tarry_allocator *allocator, tarry_engine **out,
                                  tarry_diagnostic *diagnostic);

#ifdef __cplusplus
}
#endif

#endif
