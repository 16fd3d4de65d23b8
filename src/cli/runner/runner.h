/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training run needs of the runtime that computes its sums: of workers in this process
 * (runner_local.h), or of others (runner_tcp.h, runner_processes.h). All but `interrupt` is called
 * by one thread, between rounds or from `attend`.
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include <jansson.h>

#include <tarry/local.h>

#include "cli/job/job_code.h"

#define RUNNER_JOB_ID_SIZE 16

typedef struct runner runner;

typedef struct runner_methods {
    bool computes_here; /* the request's compute function is called in this process */
    /* Workers may come from now on, at the latest when `round` is called: after the first
     * checkpoint is stored, if there are any. NULL: they are there. */
    void (*open)(runner *self);
    /* As tarry_local_round, tarry_local_costs and tarry_local_replan. */
    int (*round)(runner *self, const float *parameters, float *sum, tarry_round_result *result,
                 tarry_diagnostic *diagnostic);
    int (*costs)(runner *self, const double *costs);
    int (*replan)(runner *self, const tarry_plan *next, tarry_diagnostic *diagnostic);
    /* Waits for workers as the first round would. NULL: they are there. */
    int (*gather)(runner *self, tarry_diagnostic *diagnostic);
    /* Sets rack[j] of each worker, as tarry_plan_evolution has it, to what the workers say, and for
     * those that say nothing to what the plan has; *said: whether any says something. Errors:
     * NO_MEMORY. NULL: none can. */
    int (*racks)(runner *self, uint32_t *rack, bool *said);
    /* Calls `look` with the server's machine while nothing steps it, and gives back its result. */
    int (*visit)(runner *self, int (*look)(void *user, const tarry_server *server), void *user);
    /* As tarry_server_checkpoint and tarry_server_stored, of that machine. */
    int (*checkpoint)(runner *self, uint8_t *bytes);
    void (*stored)(runner *self, const uint8_t *bytes);
    /* The round in progress, or the next one, gives back TARRY_ERROR_INTERRUPTED. Any thread. */
    void (*interrupt)(runner *self);
    tarry_local_worker (*worker)(const runner *self, uint32_t worker);
    /* By which workers know the job again when it is resumed; zeros where none outlives it. */
    void (*job_id)(const runner *self, uint8_t id[RUNNER_JOB_ID_SIZE]);
    /* How the run stands, for those who watch it; NULL: nobody can. */
    void (*note)(runner *self, uint64_t done, uint64_t rounds, const char *text);
    /* What happened between the machines, for the report; NULL: there are none. NULL is given back
     * where there is no memory. */
    json_t *(*describe)(const runner *self);
    /* `finished`: the run is over; else it may be resumed. */
    void (*free)(runner *self, bool finished);
} runner_methods;

/* The first member of each kind of runner. */
struct runner {
    const runner_methods *methods;
};

/* What to run; all of it is borrowed, and what is not said otherwise must outlive the runner. */
typedef struct runner_request {
    const tarry_plan *plan;
    size_t dimension;                    /* numbers in the parameters, and in a gradient */
    const tarry_server_settings *server; /* for the call; its dimension and stripe length are the
                                            runtime's to choose */
    tarry_compute *compute;
    void *user; /* of compute */
    const tarry_straggler *straggler;
    /* The same for workers that compute elsewhere; its digest of the data is not filled in. For the
     * call. */
    const job_spec *job;
    const dataset *data; /* that is trained on */
    /* Tells the user a line; called within `create` and `round`. */
    void (*say)(void *user, const char *line);
    void *say_user;
    /* Called about once a second within `round`, where workers may come back again and again: then
     * `visit`, `worker`, `checkpoint` and `stored` are allowed. */
    void (*attend)(void *user);
    void *attend_user;
    /* To go on from: what `checkpoint` and `job_id` gave of a runner for the same plan and
     * settings; for the call. NULL: a new job. */
    const uint8_t *checkpoint;
    size_t checkpoint_size;
    const uint8_t *job_id;
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

/* Makes a runner that the caller frees by its method. Errors: as tarry_local_create. */
typedef int runner_create(void *user, const runner_request *request, runner **out,
                          tarry_diagnostic *diagnostic);

#endif
