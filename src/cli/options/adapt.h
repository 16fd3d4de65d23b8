/* SPDX-License-Identifier: Apache-2.0 */
/* --adapt: how often, and by how much, the plan follows what the server has learned. */
#ifndef CLI_ADAPT_H
#define CLI_ADAPT_H

#include <tarry/server.h>

typedef struct adapt_rule {
    uint32_t every; /* rounds; 0: the plan stays */
    double share;   /* of all copies: so many, rounded up, may change their worker at a time */
} adapt_rule;

/* Reads K or K,SHARE; without SHARE it is 1 %. Errors: FORMAT, with a diagnostic; nothing changes
 * then. */
int adapt_read(const char *text, adapt_rule *rule, tarry_diagnostic *diagnostic);

/* Whether the plan is looked at before `round`, which counts from 0. */
bool adapt_due(const adapt_rule *rule, uint64_t round);

#endif
