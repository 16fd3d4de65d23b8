/* SPDX-License-Identifier: Apache-2.0 */
/* Which refused connections are printed: each address and reason once in a while, and few lines in
 * all, however many come. */
#ifndef CLI_REFUSALS_H
#define CLI_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REFUSALS_KEPT = 16,  /* address and reason that are not printed again soon */
    REFUSALS_LINES = 8,  /* printed in REFUSALS_NS, at most */
    REFUSALS_TEXT = 160, /* bytes of an address or a reason that are looked at */
    REFUSALS_LINE = 512,
};
#define REFUSALS_NS UINT64_C(10000000000)

typedef struct refusals {
    struct {
        uint64_t at_ns; /* when it was printed; 0: none was */
        char from[REFUSALS_TEXT], why[REFUSALS_TEXT];
    } said[REFUSALS_KEPT];
    uint64_t since_ns;    /* from this moment on */
    uint32_t lines;       /* so many lines were printed, */
    unsigned long unsaid; /* and so many refusals were not */
} refusals;

/*
 * True if this refusal is to be printed: `line` says so. peer is an address, whose port does not
 * count, as each attempt has another; "": several. worker: UINT32_MAX: not known. Zero all of
 * *self before the first call; now_ns must be above 0.
 */
bool refusals_line(refusals *self, uint64_t now_ns, uint32_t worker, const char *peer,
                   const char *why, char line[REFUSALS_LINE]);

#endif
