/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime that computes a training run's sums, and what the tool adds to it: waiting for
 * workers that come from elsewhere, before the run and when too few are left, and a report of them.
 * Its workers are threads of this process (runner_local.h), or come over the network
 * (runner_tcp.h).
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include <jansson.h>

#include <tarry/compute.h>
#include <tarry/runtime.h>
#include <tarry/secure.h>
#include <tarry/straggler.h>
#include <tarry/sum_log.h>

#include "cli/job/job_code.h"
#include "cli/job/job_replicas.h"

typedef struct runner_network runner_network;

typedef struct runner {
    tarry_runtime *runtime;
    runner_network *network; /* NULL: its workers don't come over the network */
    uint32_t awaited; /* so many workers are waited for before the first round; 0: none, or as the
                         network says */
    bool asks;        /* workers are asked for their states, by the runtime */
    /* Ends the runtime, and frees what belongs to it; NULL: tarry_runtime_free does. */
    void (*end)(void *user, bool finished);
    void *end_user;
    job_replicas *replicas; /* everyone gets the sum: what the workers of this process hold, or
                               one to look at what others hold */
} runner;

/* Waits for workers as the first round would. Errors: INTERRUPTED. */
int runner_gather(runner *self, tarry_diagnostic *diagnostic);
/* As tarry_runtime_round, after runner_gather; where everyone gets the sum, the workers have the
 * parameters, and neither they nor the sum are looked at. */
int runner_round(runner *self, const float *parameters, float *sum, tarry_round_result *result,
                 tarry_diagnostic *diagnostic);
/* Where everyone gets the sum, between two rounds: copies what the workers have after so many
 * steps, all that were taken; `state` is of an optimizer of their kind. Errors: STATE (nothing of
 * it came for wait_ns), FORMAT (what came is no such state), NO_MEMORY, SYSTEM. */
int runner_look(runner *self, uint64_t steps, uint64_t wait_ns, float *parameters,
                optimizer_state *state, tarry_diagnostic *diagnostic);
/* The last sum that the workers made, as tarry_runtime_sum; waits as runner_look. */
int runner_last_sum(runner *self, uint64_t wait_ns, float *sum, tarry_diagnostic *diagnostic);
/* As tarry_runtime_replan. */
int runner_replan(runner *self, const tarry_plan *next, tarry_diagnostic *diagnostic);
/* Sets rack[j] of each worker, as tarry_plan_evolution has it, to what the workers say, and for
 * those that say nothing to what the plan has; *said: whether any says something. Errors:
 * NO_MEMORY. */
int runner_racks(runner *self, const tarry_plan *plan, uint32_t *rack, bool *said);
/* What happened between the machines, for the report; null where there are none. NULL is given back
 * where there is no memory. */
json_t *runner_describe(runner *self);
/* `finished`: the run is over; else it may be resumed. NULL is allowed. */
void runner_free(runner *self, bool finished);

/* What to run; all of it is borrowed, and what is not said otherwise must outlive the runner. */
typedef struct runner_request {
    const tarry_plan *plan;
    size_t dimension;                    /* numbers in the parameters, and in a gradient, */
    size_t riding;                       /* behind which so many ride */
    const tarry_server_settings *server; /* for the call; its dimension and stripe length are the
                                            runtime's to choose */
    tarry_compute *compute;
    void *user; /* of compute */
    const tarry_straggler *straggler;
    /* The same for workers that compute elsewhere; its digest of the data is not filled in. For the
     * call. */
    const job_spec *job;
    const dataset *data;       /* that is trained on; NULL: the workers alone have them */
    tarry_secure_rules secure; /* of secure sums; bits 0: they are not */
    const uint8_t *draws;      /* the key of draws, with differential privacy, for workers that
                                  are trusted with it; for the call. NULL: without */
    /* With TARRY_SUM_EVERYWHERE, for the call; else NULL. */
    const job_replicas_settings *replicas;
    /* The same: where the sums are noted, and what it says of those before. */
    tarry_sum_log sums;
    /* The same: the sum after which the state of `replicas` is. It is before the last one of `sums`
     * if workers may have a newer state. */
    tarry_sum_id state_after;
    /* Tells the user a line; called within `create` and `round`. */
    void (*say)(void *user, const char *line);
    void *say_user;
    /* Called about once a second within a round, where workers may come back again and again. */
    void (*attend)(void *user);
    void *attend_user;
    /* To go on from: what the runtime for the same plan and settings gave; for the call. NULL: a
     * new job. */
    const uint8_t *checkpoint;
    size_t checkpoint_size;
    const uint8_t *job_id;
    tarry_view view; /* the same, where it has one */
} runner_request;

/* The request's settings of the server, but for all that the runtime chooses itself, which stays as
 * it came in *settings. */
static inline void runner_server_settings(const runner_request *request,
                                          tarry_server_settings *settings)
{
    const tarry_server_settings chosen = *settings;
    *settings = *request->server;
    settings->dimension = chosen.dimension;
    settings->stripe_length = chosen.stripe_length;
}

/* Makes a runner that the caller frees. Errors: as tarry_local_create. */
typedef int runner_create(void *user, const runner_request *request, runner **out,
                          tarry_diagnostic *diagnostic);

#endif
