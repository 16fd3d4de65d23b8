/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that processes of one machine share: a file without a name in any folder (memfd), which
 * others open through the /proc of its maker. It is gone with the last process that uses it,
 * however that ends; and it is sealed, so that nobody can take bytes from under those who map it.
 */
#ifndef MEMORY_SEALED_H
#define MEMORY_SEALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarry/error.h>

/* What others may do with it. */
typedef enum sealed_access {
    SEALED_READ, /* the maker's mapping stays the only one that can write */
    SEALED_WRITE,
} sealed_access;

enum { SEALED_BOOT_BYTES = 36 };

/* Called between two steps of a long operation, so that its thread can say that it is there. */
typedef struct sealed_pause {
    void (*call)(void *user);
    void *user;
} sealed_pause;

/* New memory of zeroed bytes, for this user alone, mapped to be written. It is taken from the
 * system now, as a write would end the process if there were none later. The caller owns the
 * mapping and *file. `label`: shown in /proc; `pause`: NULL is allowed. Errors: NO_MEMORY (or no
 * mapping or descriptor), SYSTEM. */
int sealed_make(const char *label, size_t bytes, sealed_access others, const sealed_pause *pause,
                void **memory, int *file);
/* Maps what `path`, a file in /proc, leads to. Errors: NO_MEMORY (or no mapping or
 * descriptor), SYSTEM (it can't be opened or mapped), FORMAT (it is another user's, of another
 * size, or could shrink). */
int sealed_open(const char *path, size_t bytes, uid_t owner, sealed_access access, void **memory);

/* The kernel's name of the time since this machine started. False: it can't be read. */
bool sealed_boot(uint8_t text[SEALED_BOOT_BYTES]);

#endif
