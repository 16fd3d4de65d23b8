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

/*
 * What tarry_server_evolve makes of the server's plan, with chunks of more than twice the mean cost
 * split, those of less than a quarter merged, and no worker given more than 1.5 times the mean of
 * the data, with `rack` as tarry_plan_evolution has it; moves that would make sums of several parts
 * imprecise are left out. *next is NULL if nothing changes; the caller frees it. Errors: as
 * tarry_server_evolve.
 */
int adapt_plan(const adapt_rule *rule, const tarry_server *server, const tarry_plan *plan,
               const uint32_t *rack, tarry_plan **next, tarry_plan_changes *changes,
               tarry_diagnostic *diagnostic);

#endif
