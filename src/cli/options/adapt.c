/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/adapt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "cli/options/parse.h"

#define DEFAULT_SHARE 0.01
#define MOST_ROUNDS 1000000
/* Of a plan that copies moved for, if that makes it worse: sums of float32 keep 5 digits then. */
#define MOST_CONDITIONING 100
/* Costs that are in the data need no more than that (the sum of cost / mean is the number of
 * chunks). Others find no end: the first chunk of a round takes the longest, however small it is
 * cut, where chunks take less than the way to the worker. */
#define MOST_GROWTH 2

int adapt_read(const char *text, adapt_rule *rule, tarry_diagnostic *diagnostic)
{
    adapt_rule read = {.share = DEFAULT_SHARE};
    char rounds[32];
    size_t length = strcspn(text, ",");
    uint64_t every;
    if (length >= sizeof(rounds))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%.200s' is not K or K,SHARE", text);
    snprintf(rounds, sizeof(rounds), "%.*s", (int)length, text);
    int error = parse_whole(rounds, 0, MOST_ROUNDS, &every, diagnostic);
    if (error == TARRY_OK && text[length] == ',')
        error = parse_real(text + length + 1, 0, 1, false, &read.share, diagnostic);
    if (error != TARRY_OK)
        return error;
    read.every = (uint32_t)every;
    *rule = read;
    return TARRY_OK;
}

bool adapt_due(const adapt_rule *rule, uint64_t round)
{
    return rule->every != 0 && round > 0 && round % rule->every == 0;
}

static uint64_t count_copies(const tarry_plan *plan)
{
    uint64_t copies = 0;
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++)
        copies += tarry_plan_load(plan, worker);
    return copies;
}

/* The decode matrix was made for the sets of workers that shared chunks at first. */
static bool grows_worse(const tarry_plan *plan, const tarry_plan *next)
{
    double worst = tarry_plan_conditioning(next).worst;
    return worst > MOST_CONDITIONING && worst > tarry_plan_conditioning(plan).worst;
}

int adapt_plan(const adapt_rule *rule, const tarry_server *server, const tarry_plan *plan,
               const uint32_t *rack, tarry_plan **next, tarry_plan_changes *changes,
               tarry_diagnostic *diagnostic)
{
    tarry_plan_evolution limits;
    tarry_plan_evolution_init(&limits);
    limits.heaviest = 2;
    limits.most_chunks = MOST_GROWTH * tarry_plan_origins(plan);
    limits.lightest = 0.25;
    limits.most_load = 1.5;
    limits.rack = rack;
    limits.most_moves = (uint32_t)ceil(rule->share * (double)count_copies(plan));
    tarry_plan *made;
    int error = tarry_server_evolve(server, &limits, NULL, &made, changes, diagnostic);
    if (error == TARRY_OK && changes->moved > 0 && grows_worse(plan, made)) {
        tarry_plan_free(made);
        limits.most_moves = 0;
        error = tarry_server_evolve(server, &limits, NULL, &made, changes, diagnostic);
    }
    if (error != TARRY_OK)
        return error;
    bool same = changes->split == 0 && changes->merged == 0 && changes->moved == 0;
    *next = same ? NULL : made;
    if (same)
        tarry_plan_free(made);
    return TARRY_OK;
}
