/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into how many parts the gradient is cut in a round: more parts mean shorter uploads, but each
 * chunk has to be finished by more workers first.
 */
#ifndef PROTOCOL_CHOOSE_PARTS_H
#define PROTOCOL_CHOOSE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of one number of parts. */
typedef struct parts_prospect {
    bool met;         /* the stop rule is met with it now */
    double wait_ns;   /* predicted time until it will be; not read if it is met */
    double upload_ns; /* predicted time from the signal to the end of the round */
} parts_prospect;

/*
 * The index of the prospect with the least time to the end of the round, the last one of equals,
 * among those that are met and those whose wait is no longer than the patience. At least one is
 * met; prospects stand in ascending order of parts.
 */
uint32_t choose_parts(const parts_prospect *prospects, uint32_t count, double patience_ns);

#endif
