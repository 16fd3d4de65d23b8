/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of memory that it shares (share.h): a place for each near worker's coded part,
 * which is summed where it lies, and one place where all of them read a round's parameters. The
 * loop thread's, but that decode threads read stripes that are lent.
 */
#ifndef TCP_SHM_H
#define TCP_SHM_H

#include <tarry/allocator.h>

#include "coding/layout.h"
#include "runtime/sum/stripes.h"
#include "runtime/tcp/net/share.h"

typedef struct shm_part {
    tarry_allocator allocator;
    share memory;
    stripe *items; /* twice as many as stripes: those of an attempt that is withdrawn may be read */
    stripe *spare;
    uint32_t lent;
    bool retired;
} shm_part;

/* Room for a part of this layout, which is that into the least number of parts. Errors: NO_MEMORY,
 * SYSTEM. */
int shm_part_create(const layout *cut, const sealed_pause *pause, const tarry_allocator *allocator,
                    shm_part **made);
/* Its worker is gone: it is freed once nothing of it is lent. NULL is allowed. */
void shm_part_retire(shm_part *part);
/* A stripe of a layout of at most so many stripes; given back by shm_part_give. NULL: too many are
 * lent. */
stripe *shm_part_take(shm_part *part, const layout *cut, uint32_t index);
void shm_part_give(shm_part *part, stripe *item);

typedef struct shm_parameters {
    share memory;   /* its name stays as long as the server: others may come */
    bool published; /* the parameters of the round in progress */
} shm_parameters;

#endif
