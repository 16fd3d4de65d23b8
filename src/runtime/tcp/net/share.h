/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the server shares with a worker on its machine. The server makes a segment, tells its
 * name (wire_share) over a connection on which both know whom they talk to, and takes the name away
 * as soon as the worker has opened it or said that it can't. A segment is a memfd, which has no
 * place in any folder: its name is that of the maker's descriptor, /proc/PID/fd/N, and what it must
 * say of itself. So it is gone with the processes that use it, however they end; and it is sealed,
 * so that nobody can take bytes from under those who map it. Whoever opens one checks that it is
 * the one that is meant, whose it is, and its size; what lies in it is only numbers.
 */
#ifndef TCP_SHARE_H
#define TCP_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarry/error.h>

#include "memory/sealed.h"

enum {
    SHARE_NAME_BYTES = 72, /* "PID/N/", 32 hexadecimal digits and the NUL */
    SHARE_HOST_BYTES = 16,
    SHARE_HEAD_BYTES = 64, /* before shared parameters */
};

typedef struct share {
    void *memory; /* begins at a page; NULL: there is none */
    size_t bytes;
    char name[SHARE_NAME_BYTES]; /* "" once it is taken away, and for those who opened it */
    int fd;                      /* as long as it has a name */
} share;

/*
 * What is equal for all processes of one machine and its present boot, and differs from all others:
 * from the kernel's boot_id. Zeros if that can't be read.
 */
void share_host(uint8_t host[SHARE_HOST_BYTES]);

/* A new segment of zeroed bytes, for this user alone. `pause` may be NULL. Errors: SYSTEM. */
int share_create(size_t bytes, const sealed_pause *pause, share *made);
/* Maps the segment that `owner` has made. Errors: FORMAT (no name of a segment, of another owner or
 * size), SYSTEM. */
int share_open(const char *name, size_t bytes, uid_t owner, share *opened);
/* Nobody finds it by its name any more. */
void share_unlink(share *self);
/* Unmaps it, and takes its name away. */
void share_close(share *self);

/* ---- parameters: a head and then the numbers, of one round at a time ---- */

/* Bytes of a segment for `count` numbers. */
size_t share_parameters_bytes(size_t count);
/* The server's: the numbers are those of `round` from now on. `pause` may be NULL. */
void share_publish(share *self, uint64_t round, const float *numbers, size_t count,
                   const sealed_pause *pause);
/* A worker's: copies them. False: they are of another round, or were overwritten during the copy.
 * `pause` may be NULL. */
bool share_copy(const share *self, uint64_t round, float *numbers, size_t count,
                const sealed_pause *pause);

#endif
