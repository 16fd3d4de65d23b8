/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a run whose server was killed between two checkpoints. Workers that outlived it have
 * the state after the last sum of the log, or hold that sum: the run continues from there, and the
 * server gets the state from them. If none of them comes, the run goes back to the checkpoint, as a
 * start of its own: with another term, so that what workers may still have of later steps is void.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/train/train_job_state.h"
#include "runtime/clock.h"

#define SLICE_NS 50000000
#define LEAST_NS UINT64_C(10000000000) /* for workers to find the server again */
#define ALL_NS UINT64_C(3000000000)    /* once all are there, for one to be ready */

/* Differentially private and secure sums have rules of their own on what is summed again. */
uint64_t train_job_most_ahead(const train_job *job)
{
    const train_options *options = job->inputs.options;
    const bool allowed = options->outlived_ns > 0 && sums_everywhere(job) && job->privacy == NULL &&
                         job->rules.bits == 0 && train_checkpoint_may_be_passed(job->inputs.keeper);
    return allowed ? options->rounds : 0;
}

__attribute__((format(printf, 2, 3))) static void tell(train_job *job, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    train_job_say(job, line);
}

/* Of the workers: */
typedef struct company {
    uint32_t workers, there, ready;
} company;

static int count_company(void *user, const tarry_server *machine)
{
    company *seen = user;
    for (uint32_t worker = 0; worker < seen->workers; worker++)
        seen->ready += tarry_server_ready(machine, worker);
    return TARRY_OK;
}

static company look_at_workers(const train_job *job)
{
    tarry_runtime *runtime = runner_of(job)->runtime;
    company seen = {.workers = job->past->workers};
    for (uint32_t worker = 0; worker < seen.workers; worker++)
        seen.there += tarry_runtime_worker(runtime, worker).present;
    tarry_runtime_visit(runtime, count_company, &seen);
    return seen;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SLICE_NS}, NULL);
}

/* Until a worker has stepped on the log's last sum. tarry_runtime_wait would not do: it counts all
 * who are there as soon as none of them has that state. Errors: INTERRUPTED, STATE (none has). */
static int await_state(train_job *job)
{
    const uint64_t patience = job->inputs.options->outlived_ns, begin = clock_now_ns();
    const uint64_t until = begin + (patience > LEAST_NS ? patience : LEAST_NS);
    uint64_t all_ns = 0; /* since when all are there; 0: they are not */
    while (clock_now_ns() < until) {
        const company seen = look_at_workers(job);
        if (seen.ready > 0)
            return TARRY_OK;
        if (interrupt_seen(job->signals))
            return TARRY_ERROR_INTERRUPTED;
        if (seen.there < seen.workers)
            all_ns = 0;
        else if (all_ns == 0)
            all_ns = clock_now_ns();
        else if (clock_now_ns() - all_ns > ALL_NS)
            break;
        pause_briefly();
    }
    return TARRY_ERROR_STATE;
}

static int go_ahead(train_job *job)
{
    history *past = job->past;
    const uint64_t lost = job->ahead - past->count;
    if (history_add_lost(past, (size_t)lost) != TARRY_OK)
        return complain(EXIT_FAILED, "%s: out of memory", job->inputs.command);
    job->first_round = job->ahead;
    past->resumed_after = past->count;
    tell(job,
         "continues after step %" PRIu64 ", which workers have; the report lacks %" PRIu64
         " round%s since the checkpoint",
         job->ahead, lost, lost == 1 ? "" : "s");
    return train_job_keep_start(job);
}

static int go_back(train_job *job)
{
    runner *before = runner_of(job);
    tell(job,
         "no worker has the state after step %" PRIu64 ": continues from the checkpoint, after "
         "step %" PRIu64,
         job->ahead, job->first_round);
    pthread_mutex_lock(&job->runs_lock);
    atomic_store(&job->runs, NULL);
    pthread_mutex_unlock(&job->runs_lock);
    runner_free(before, false);
    job->sums_most = 0;
    int status = train_job_make_runner(job, true);
    if (status == OPTIONS_PROCEED)
        status = train_job_keep_start(job);
    if (status == OPTIONS_PROCEED)
        tarry_runtime_open(runner_of(job)->runtime, NULL); /* what is wrong the round will tell */
    return status;
}

int train_job_settle_start(train_job *job)
{
    if (job->ahead == 0)
        return OPTIONS_PROCEED;
    tell(job,
         "the checkpoint is of step %" PRIu64 ", the log of sums of step %" PRIu64
         ": waits for a worker that has the later state",
         job->first_round, job->ahead);
    int error = await_state(job);
    if (error == TARRY_ERROR_INTERRUPTED)
        return OPTIONS_PROCEED; /* no round begins */
    if (error == TARRY_OK) {
        tarry_diagnostic why;
        job->committed = job->ahead;
        if (train_job_catch_up(job, &why) == TARRY_OK)
            return go_ahead(job);
        job->committed = job->steps;
    }
    return go_back(job);
}
