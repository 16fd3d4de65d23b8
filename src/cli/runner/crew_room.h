/* SPDX-License-Identifier: Apache-2.0 */
/* What workers on this machine take beside their vectors, held against what there is. */
#ifndef CLI_CREW_ROOM_H
#define CLI_CREW_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>

typedef struct crew_size {
    uint32_t workers; /* on this machine; 0: they are elsewhere, or start by themselves */
    bool processes;   /* else threads of this process */
    bool everywhere;  /* they sum among themselves */
} crew_size;

/* Bytes that the crew takes at least, whatever it trains. */
double crew_room_bytes(const crew_size *crew);
/* Whether there is room for its threads, and for these bytes in all, which take in those above.
 * `what` names what takes them. tell: if that is more than half of what is free, a line on stderr
 * says so. Errors: NO_MEMORY, with the need and the limit. */
int crew_room_check(const crew_size *crew, double bytes, const char *what, bool tell,
                    tarry_diagnostic *diagnostic);

#endif
