/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/runner_processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/data_options.h"
#include "cli/runner/children.h"
#include "cli/runner/runner_tcp.h"
#include "cli/train/train_options.h"

#define WAIT_NS UINT64_C(60000000000)
/* In which a worker that was killed is there again. */
#define PATIENCE_NS UINT64_C(10000000000)

enum { RANDOM_BYTES = 16, SOCKET_SIZE = 64, ARGUMENTS = 24, NUMBER_SIZE = 24 };

typedef struct runner_processes {
    runner_tcp_settings settings;
    runner_crew crew;
    char socket[SOCKET_SIZE]; /* "unix:@...", in no folder */
    const char *listen[1];
    char seed[NUMBER_SIZE], column[NUMBER_SIZE];
    char *arguments[ARGUMENTS];
    children *workers; /* NULL: not started yet */
} runner_processes;

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
    snprintf(own->column, sizeof(own->column), "%d", options->source.label_column);
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
    if (options->source.path != NULL) {
        const char *const data[] = {"--data", options->source.path, "--format",
                                    data_format_name(options->source.format)};
        for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++)
            own->arguments[count++] = (char *)data[i];
        own->arguments[count++] = "--label-column";
        own->arguments[count++] = own->column;
    }
    if (options->source.labels_path != NULL) {
        own->arguments[count++] = "--labels";
        own->arguments[count++] = (char *)options->source.labels_path;
    }
    own->arguments[count] = "--worker";
}

static uint32_t expected(void *user)
{
    const runner_processes *own = user;
    return children_left(own->workers);
}

static void retire(void *user)
{
    runner_processes *own = user;
    if (own->workers != NULL)
        children_retire(own->workers);
}

static void end(void *user)
{
    runner_processes *own = user;
    children_end(own->workers);
    memory_release(NULL, own);
}

int runner_processes_create(void *user, const runner_request *request, runner **out,
                            tarry_diagnostic *diagnostic)
{
    const train_options *options = user;
    runner_processes *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL)
        return diagnose_no_memory(diagnostic, "worker processes");
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
        .crew = &own->crew,
    };
    own->crew = (runner_crew){.user = own, .expected = expected, .retire = retire, .end = end};
    runner *server;
    error = runner_tcp_create(&own->settings, request, &server, diagnostic);
    if (error != TARRY_OK)
        goto release;
    write_arguments(own, options);
    error = children_start(tarry_plan_workers(request->plan), own->arguments, options->quiet,
                           &own->workers, diagnostic);
    if (error == TARRY_OK)
        *out = server;
    else
        runner_free(server, true); /* and its crew */
    return error;

release:
    memory_release(NULL, own);
    return error;
}
