/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a training run, as it follows what the server learns. */
#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "cli/text/complain.h"
#include "cli/train/train_job_state.h"
#include "cli/train/train_secure.h"

/* A look at what the server has learned, for the plan's sake. */
typedef struct adaptation {
    const adapt_rule *rule;
    const uint32_t *rack;
    tarry_plan *next;
    tarry_plan_changes *changes;
    tarry_diagnostic *why;
} adaptation;

static int look_and_adapt(void *user, const tarry_server *server)
{
    adaptation *look = user;
    return tarry_server_adapt(server, look->rule->share, look->rack, NULL, &look->next,
                              look->changes, look->why);
}

/* Turns to the plan that the rule makes of what is known, unless workers of secure sums would
 * refuse it. rack: NULL for the racks of the plan. */
static int turn(train_job *job, const adapt_rule *rule, const uint32_t *rack,
                tarry_plan_changes *changes, tarry_diagnostic *why)
{
    runner *runs = runner_of(job);
    adaptation look = {rule, rack, NULL, changes, why};
    int error = tarry_runtime_visit(runs->runtime, look_and_adapt, &look);
    if (error != TARRY_OK || look.next == NULL)
        return error;
    if (!train_secure_allows(job, look.next)) {
        tarry_plan_free(look.next);
        *changes = (tarry_plan_changes){0};
        return TARRY_OK;
    }
    error = runner_replan(runs, look.next, why);
    if (error != TARRY_OK) {
        tarry_plan_free(look.next);
        return error;
    }
    error = train_scores_replan(job->scores, look.next);
    tarry_plan_free(job->evolved);
    job->evolved = look.next;
    return error == TARRY_OK ? train_job_mark_checkpoint(job) : error;
}

/* Sets *rack to what the workers say of their racks, which the caller releases; NULL: nothing. */
static int ask_racks(train_job *job, uint32_t **rack)
{
    runner *runs = runner_of(job);
    *rack = NULL;
    bool said = false;
    uint32_t *list = memory_allocate(NULL, job->past->workers, sizeof(*list));
    int error =
        list != NULL ? runner_racks(runs, train_job_plan(job), list, &said) : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK && said)
        *rack = list;
    else
        memory_release(NULL, list);
    return error;
}

/* A checkpoint holds nothing that was learned: a resumed server first learns for as many rounds as
 * lie between two changes. */
int train_job_adapt(train_job *job, tarry_plan_changes *changes, tarry_diagnostic *why)
{
    const adapt_rule *rule = &job->inputs.options->run.adapt_rule;
    uint64_t round = job->past->count;
    if (!adapt_due(rule, round) || round - job->first_round < rule->every)
        return TARRY_OK;
    uint32_t *rack;
    int error = ask_racks(job, &rack);
    if (error == TARRY_OK)
        error = turn(job, rule, rack, changes, why);
    memory_release(NULL, rack);
    return error;
}

static bool all_are_there(const train_job *job)
{
    const runner *runs = runner_of(job);
    for (uint32_t worker = 0; worker < job->past->workers; worker++)
        if (!tarry_runtime_worker(runs->runtime, worker).present)
            return false;
    return true;
}

/* How many chunks have two copies in one rack. */
static int count_crowded(const tarry_plan *plan, const uint32_t *rack, uint32_t *crowded)
{
    uint32_t chunks = tarry_plan_chunks(plan);
    uint32_t *seen = memory_allocate(NULL, tarry_plan_workers(plan), sizeof(*seen));
    if (seen == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *crowded = 0;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        bool shared = false;
        for (uint32_t i = 0; i < tarry_plan_replication(plan, chunk); i++) {
            uint32_t in = rack[tarry_plan_holder(plan, chunk, i)];
            if (in == TARRY_NO_RACK)
                continue;
            shared |= seen[in] == chunk + 1;
            seen[in] = chunk + 1;
        }
        *crowded += shared;
    }
    memory_release(NULL, seen);
    return TARRY_OK;
}

static int warn(train_job *job, const uint32_t *rack)
{
    const tarry_plan *plan = train_job_plan(job);
    uint32_t crowded;
    int error = count_crowded(plan, rack, &crowded);
    if (error == TARRY_OK && crowded > 0)
        complain(EXIT_DONE,
                 "by what the workers say of their racks, %u of %u chunks have two copies in one",
                 crowded, tarry_plan_chunks(plan));
    return error;
}

int train_job_settle_racks(train_job *job, tarry_plan_changes *changes, tarry_diagnostic *why)
{
    static const adapt_rule at_once = {.every = 1, .share = 1};
    runner *runs = runner_of(job);
    double asked = clock_seconds();
    uint32_t *rack = NULL;
    int error = runner_gather(runs, why);
    progress_pass_over(&job->progress, fmax(clock_seconds() - asked, 0));
    if (error == TARRY_OK)
        error = ask_racks(job, &rack);
    if (error != TARRY_OK || rack == NULL)
        return error;
    bool anew = job->first_round == 0 && job->inputs.options->run.adapt_rule.every != 0;
    if (anew && all_are_there(job))
        error = turn(job, &at_once, rack, changes, why);
    if (error == TARRY_OK)
        error = warn(job, rack);
    memory_release(NULL, rack);
    return error;
}
