/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/runner_processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/runner/children.h"
#include "cli/runner/runner_tcp.h"
#include "cli/train/train_options.h"

#define WAIT_NS UINT64_C(60000000000)
/* In which a worker that was killed is there again. */
#define PATIENCE_NS UINT64_C(10000000000)

enum { RANDOM_BYTES = 16, SOCKET_SIZE = 64, ARGUMENTS = 24, NUMBER_SIZE = 24 };

typedef struct runner_processes {
    runner base;
    runner *server;
    runner_tcp_settings settings;
    char socket[SOCKET_SIZE]; /* "unix:@...", in no folder */
    const char *listen[1];
    char seed[NUMBER_SIZE], column[NUMBER_SIZE];
    char *arguments[ARGUMENTS];
    children *workers; /* NULL: not started yet */
} runner_processes;

static runner_processes *own_of(const runner *self)
{
    return (runner_processes *)self;
}

/* ---- what the server does ---- */

static void open_doors(runner *self)
{
    runner *server = own_of(self)->server;
    server->methods->open(server);
}

static int run_round(runner *self, const float *parameters, float *sum, tarry_round_result *result,
                     tarry_diagnostic *diagnostic)
{
    runner *server = own_of(self)->server;
    return server->methods->round(server, parameters, sum, result, diagnostic);
}

static int set_costs(runner *self, const double *costs)
{
    runner *server = own_of(self)->server;
    return server->methods->costs(server, costs);
}

static int replan(runner *self, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    runner *server = own_of(self)->server;
    return server->methods->replan(server, next, diagnostic);
}

static int visit(runner *self, int (*look)(void *user, const tarry_server *server), void *user)
{
    runner *server = own_of(self)->server;
    return server->methods->visit(server, look, user);
}

static int checkpoint(runner *self, uint8_t *bytes)
{
    runner *server = own_of(self)->server;
    return server->methods->checkpoint(server, bytes);
}

static void stored(runner *self, const uint8_t *bytes)
{
    runner *server = own_of(self)->server;
    server->methods->stored(server, bytes);
}

static void interrupt(runner *self)
{
    runner *server = own_of(self)->server;
    server->methods->interrupt(server);
}

static tarry_local_worker worker_state(const runner *self, uint32_t worker)
{
    const runner *server = own_of(self)->server;
    return server->methods->worker(server, worker);
}

static void job_id(const runner *self, uint8_t id[RUNNER_JOB_ID_SIZE])
{
    const runner *server = own_of(self)->server;
    server->methods->job_id(server, id);
}

static json_t *describe(const runner *self)
{
    const runner *server = own_of(self)->server;
    return server->methods->describe(server);
}

/* ---- and around it ---- */

/* Workers of another process could not know of a run that goes on: for them this one is over. */
static void release(runner *self, bool finished)
{
    (void)finished;
    runner_processes *own = own_of(self);
    if (own->workers != NULL)
        children_retire(own->workers);
    if (own->server != NULL)
        own->server->methods->free(own->server, true);
    children_end(own->workers);
    memory_release(NULL, own);
}

static const runner_methods methods = {
    .open = open_doors,
    .round = run_round,
    .costs = set_costs,
    .replan = replan,
    .visit = visit,
    .checkpoint = checkpoint,
    .stored = stored,
    .interrupt = interrupt,
    .worker = worker_state,
    .job_id = job_id,
    .describe = describe,
    .free = release,
};

/* A name that nobody else has. It goes with this process, however that ends. */
static int name_socket(runner_processes *own, tarry_diagnostic *diagnostic)
{
    uint8_t random[RANDOM_BYTES];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "worker processes: %s", strerror(errno));
    int at = snprintf(own->socket, sizeof(own->socket), "unix:@tarry-");
    for (size_t i = 0; i < sizeof(random); i++)
        at += snprintf(own->socket + at, sizeof(own->socket) - (size_t)at, "%02x", random[i]);
    return TARRY_OK;
}

/* The command line of a worker, up to its number. */
static void write_arguments(runner_processes *own, const train_options *options)
{
    size_t count = 0;
    snprintf(own->seed, sizeof(own->seed), "%" PRIu64, options->run.settings.plan.seed);
    snprintf(own->column, sizeof(own->column), "%d", options->label_column);
    const char *const always[] = {"tarry",
                                  "work",
                                  "--connect",
                                  own->socket,
                                  "--insecure",
                                  "--quiet",
                                  "--straggler-seed",
                                  own->seed,
                                  "--straggler",
                                  options->straggler};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        own->arguments[count++] = (char *)always[i];
    if (options->data != NULL) {
        const char *const data[] = {"--data", options->data, "--format",
                                    train_format_name(options->format)};
        for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++)
            own->arguments[count++] = (char *)data[i];
        own->arguments[count++] = "--label-column";
        own->arguments[count++] = own->column;
    }
    if (options->labels != NULL) {
        own->arguments[count++] = "--labels";
        own->arguments[count++] = (char *)options->labels;
    }
    own->arguments[count] = "--worker";
}

static uint32_t expected(void *user)
{
    const runner_processes *own = user;
    return children_left(own->workers);
}

int runner_processes_create(void *user, const runner_request *request, runner **out,
                            tarry_diagnostic *diagnostic)
{
    const train_options *options = user;
    runner_processes *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL)
        return diagnose_no_memory(diagnostic, "worker processes");
    own->base.methods = &methods;
    int error = name_socket(own, diagnostic);
    if (error != TARRY_OK)
        goto release;
    own->listen[0] = own->socket;
    own->settings = (runner_tcp_settings){
        .listen = own->listen,
        .listen_count = 1,
        .security.insecure = true,
        .share = true,
        .wait_ns = WAIT_NS,
        .patience_ns = PATIENCE_NS,
        .expected = expected,
        .expected_user = own,
    };
    error = runner_tcp_create(&own->settings, request, &own->server, diagnostic);
    if (error != TARRY_OK)
        goto release;
    write_arguments(own, options);
    error = children_start(tarry_plan_workers(request->plan), own->arguments, options->quiet,
                           &own->workers, diagnostic);
    if (error != TARRY_OK)
        goto release;
    *out = &own->base;
    return TARRY_OK;

release:
    release(&own->base, true);
    return error;
}
