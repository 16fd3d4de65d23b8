/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/runner_processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "base/memory.h"
#include "cli/job/draws_key.h"
#include "cli/options/data_options.h"
#include "cli/runner/children.h"
#include "cli/runner/crew_keys.h"
#include "cli/runner/runner_tcp.h"
#include "cli/train/train_options.h"

#define WAIT_NS UINT64_C(60000000000)
/* In which a worker that was killed is there again. */
#define PATIENCE_NS UINT64_C(10000000000)

enum {
    RANDOM_BYTES = 16,
    SOCKET_SIZE = 128,
    ARGUMENTS = 32,
    NUMBER_SIZE = 24,
    FOLDER_SIZE = CREW_KEYS_PATH + 40,
};

typedef struct runner_processes {
    runner_tcp_settings settings;
    runner_crew crew;
    char socket[SOCKET_SIZE]; /* "unix:@...", in no folder; of secure sums an address on loopback */
    const char *listen[1];
    char seed[NUMBER_SIZE], column[NUMBER_SIZE], colluders[NUMBER_SIZE], least[NUMBER_SIZE];
    char bits[NUMBER_SIZE], bound[NUMBER_SIZE], chunk_samples[NUMBER_SIZE];
    /* Of secure sums: the folder of all credentials ("": there is none), that of the server, and
     * what those of a worker begin with. */
    char keys[CREW_KEYS_PATH], server_keys[FOLDER_SIZE], worker_keys[FOLDER_SIZE];
    int draws; /* with differential privacy: the key of draws, which workers inherit; else -1 */
    char *arguments[ARGUMENTS];
    children *workers; /* NULL: not started yet */
} runner_processes;

/* A name that nobody else has. It goes with this process, however that ends. */
static int name_socket(runner_processes *own, tarry_diagnostic *diagnostic)
{
    uint8_t random[RANDOM_BYTES];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "worker processes: %s", strerror(errno));
    hex_put(stpcpy(own->socket, "unix:@tarry-"), random, sizeof(random));
    return TARRY_OK;
}

/* Secure sums are made over TLS, by workers with credentials of their own. */
static int make_keys(runner_processes *own, uint32_t workers, tarry_diagnostic *diagnostic)
{
    int error = crew_keys_make(workers, own->keys, diagnostic);
    if (error != TARRY_OK) {
        own->keys[0] = '\0';
        return error;
    }
    snprintf(own->server_keys, sizeof(own->server_keys), "%s/server", own->keys);
    snprintf(own->worker_keys, sizeof(own->worker_keys), "--credentials=%s/worker-", own->keys);
    snprintf(own->socket, sizeof(own->socket), "127.0.0.1:0");
    return TARRY_OK;
}

/* What a worker of secure sums insists on, and who it is. Its owner is the one who runs this, and
 * so wants what the server does. */
static size_t write_secure_arguments(runner_processes *own, const secure_options *options,
                                     const tarry_secure_rules *rules, size_t count)
{
    snprintf(own->bits, sizeof(own->bits), "%" PRIu32, rules->bits);
    snprintf(own->bound, sizeof(own->bound), "%.17g", rules->bound);
    snprintf(own->chunk_samples, sizeof(own->chunk_samples), "%" PRIu64, options->chunk_samples);
    snprintf(own->colluders, sizeof(own->colluders), "%" PRIu32, rules->colluders);
    snprintf(own->least, sizeof(own->least), "%" PRIu64, rules->least);
    const char *const words[] = {
        "--secure", "--secure-colluders",     own->colluders,     "--secure-least",
        own->least, "--secure-bits",          own->bits,          "--secure-bound",
        own->bound, "--secure-chunk-samples", own->chunk_samples, own->worker_keys};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        own->arguments[count++] = (char *)words[i];
    return count;
}

/* The command line of a worker, up to its number. */
static void write_arguments(runner_processes *own, const train_options *options,
                            const tarry_secure_rules *rules)
{
    size_t count = 0;
    snprintf(own->seed, sizeof(own->seed), "%" PRIu64, options->run.settings.plan.seed);
    snprintf(own->column, sizeof(own->column), "%d", options->source.label_column);
    const char *const always[] = {"tarry",     "work",        "--connect",
                                  own->socket, "--quiet",     "--straggler-seed",
                                  own->seed,   "--straggler", options->straggler};
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
    if (options->source.zero_based)
        own->arguments[count++] = "--zero-based";
    if (options->source.labels_path != NULL) {
        own->arguments[count++] = "--labels";
        own->arguments[count++] = (char *)options->source.labels_path;
    }
    if (rules->bits != 0) {
        write_secure_arguments(own, &options->secure, rules, count);
        return;
    }
    if (own->draws >= 0) {
        own->arguments[count++] = "--dp-key";
        own->arguments[count++] = "/dev/stdin";
    }
    own->arguments[count++] = "--insecure";
    own->arguments[count] = "--worker=";
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

static void release(runner_processes *own)
{
    if (own->draws >= 0)
        close(own->draws);
    if (own->keys[0] != '\0')
        crew_keys_remove(own->keys);
    memory_release(NULL, own);
}

static void end(void *user)
{
    runner_processes *own = user;
    children_end(own->workers);
    release(own);
}

static const char protects_nobody[] =
    "--secure: the workers' credentials are made for this run alone, by this process: secure sums "
    "as they are for trying, which protect nobody here";

int runner_processes_create(void *user, const runner_request *request, runner **out,
                            tarry_diagnostic *diagnostic)
{
    const train_options *options = user;
    runner_processes *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL)
        return diagnose_no_memory(diagnostic, "worker processes");
    own->draws = -1;
    const bool secure = request->secure.bits != 0;
    int error = secure ? make_keys(own, tarry_plan_workers(request->plan), diagnostic)
                       : name_socket(own, diagnostic);
    if (error == TARRY_OK && request->draws != NULL)
        error = draws_key_share(request->draws, &own->draws, diagnostic);
    if (error != TARRY_OK)
        goto release_own;
    own->listen[0] = own->socket;
    own->settings = (runner_tcp_settings){
        .listen = own->listen,
        .listen_count = 1,
        .security = {.credentials = secure ? own->server_keys : NULL, .insecure = !secure},
        .share = !secure,
        .wait_ns = WAIT_NS,
        .patience_ns = PATIENCE_NS,
        .crew = &own->crew,
    };
    own->crew = (runner_crew){.user = own, .expected = expected, .retire = retire, .end = end};
    runner *server;
    error = runner_tcp_create(&own->settings, request, &server, diagnostic);
    if (error != TARRY_OK)
        goto release_own;
    if (secure) {
        request->say(request->say_user, protects_nobody);
        snprintf(own->socket, sizeof(own->socket), "%s", tarry_runtime_address(server->runtime, 0));
    }
    write_arguments(own, options, &request->secure);
    error = children_start(tarry_plan_workers(request->plan), own->arguments, own->draws,
                           options->quiet, &own->workers, diagnostic);
    if (error == TARRY_OK)
        *out = server;
    else
        runner_free(server, true); /* and its crew */
    return error;

release_own:
    release(own);
    return error;
}
