/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/diagnostic.h"
#include "cli/command.h"
#include "cli/options/network_options.h"
#include "cli/runner/runner.h"
#include "cli/text/complain.h"
#include "cli/train/train_run.h"
#include "runtime/tcp/net/address.h"

/* Addresses to listen on, of flags that may be given several times, each with a list. */

enum { LISTEN_LIST_MOST = 8, LISTEN_LIST_SIZE = 128 };

typedef struct listen_list {
    char text[LISTEN_LIST_MOST][LISTEN_LIST_SIZE];
    const char *address[LISTEN_LIST_MOST]; /* in text, or the caller's own */
    uint32_t count;
} listen_list;

typedef struct serve_options {
    network_options network;
    const char *listen; /* the last --listen; taken apart into `where` */
    listen_list where;  /* or the default */
    bool ship_data;
    double wait, patience; /* seconds */
} serve_options;

enum { SERVE_GROUPS = 1 + NETWORK_GROUPS };

/* The options of tarry serve beside those of training. */

#define MOST_SECONDS 1e9

/* Adds the addresses of "ADDRESS,ADDRESS,...". Errors: FORMAT. */
static int listen_list_add(listen_list *list, const char *text, tarry_diagnostic *diagnostic)
{
    while (text != NULL) {
        if (list->count == LISTEN_LIST_MOST)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d addresses",
                            LISTEN_LIST_MOST);
        char *own = list->text[list->count];
        if (!list_next(&text, ',', own, LISTEN_LIST_SIZE))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "an address is too long");
        tarry_diagnostic why;
        if (address_check(own, true, &why) != TARRY_OK)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s", why.text);
        list->address[list->count++] = own;
    }
    return TARRY_OK;
}

static int read_listen(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    serve_options *options = values;
    return listen_list_add(&options->where, text, diagnostic);
}

static void forget_listen(void *values)
{
    serve_options *options = values;
    options->where.count = 0;
}

#define FIELD(name) .offset = offsetof(serve_options, name)

static const option_entry serve_entries[] = {
    {.name = "listen",
     .argument = "ADDRESS,...",
     .help = "Where workers connect: HOST:PORT, :PORT for all of the machine's addresses, or "
             "unix:PATH; may be given several times (default 127.0.0.1:7077)",
     .kind = OPTION_TEXT,
     .read = read_listen,
     .forget = forget_listen,
     FIELD(listen)},
    {.name = "ship-data",
     .help = "Send workers the samples of their chunks; else they have the data",
     .kind = OPTION_FLAG,
     FIELD(ship_data)},
    {.name = "wait",
     .argument = "SECONDS",
     .help = "How long to wait for all workers before the first round (default 60)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(wait)},
    {.name = "patience",
     .argument = "SECONDS",
     .help = "How long to wait for workers to come back when too few are left for a sum (default "
             "600; 0: the run ends)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(patience)},
};

static void serve_options_init(serve_options *options)
{
    *options = (serve_options){.wait = 60, .patience = 600};
}

static void serve_options_groups(serve_options *options, option_group groups[SERVE_GROUPS])
{
    groups[0] = OPTION_GROUP("Workers", serve_entries, options);
    network_options_groups(&options->network, groups + 1);
}

/* Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
static int serve_options_check(serve_options *options)
{
    if (options->where.count == 0)
        options->where.address[options->where.count++] = "127.0.0.1:7077";
    return network_options_check(&options->network, "serve", options->where.address,
                                 options->where.count, true);
}

/* tarry serve: the workers are processes on other machines, or on this one. */

static int check(const train_options *training, serve_options *serving)
{
    if (strcmp(training->straggler, "none") != 0)
        return complain(EXIT_USAGE, "--straggler: is for the workers here: give it to tarry work");
    const secure_options *secure = &training->secure;
    if (secure->secure && serving->ship_data)
        return complain(EXIT_USAGE, "--secure: cannot be combined with --ship-data: the server has "
                                    "no samples");
    if (secure->secure && serving->network.security.insecure)
        return complain(EXIT_USAGE, "--secure: cannot be combined with --insecure: workers know "
                                    "each other by their credentials");
    if (secure->secure && training->source.path != NULL)
        return complain(EXIT_USAGE,
                        "--secure: cannot be combined with --data: the server is to have no "
                        "samples; --secure-data says what the workers have");
    if (training->dp != NULL && serving->network.security.insecure)
        return complain(EXIT_USAGE, "--dp: cannot be combined with --insecure: workers are told "
                                    "over the network which samples are drawn");
    return serve_options_check(serving);
}

/* How long workers of a process before this one are waited for. They know the address that it had,
 * which is another one if the system chooses the port. */
static uint64_t outlived_ns(const serve_options *serving)
{
    for (uint32_t i = 0; i < serving->where.count; i++) {
        const char *at = serving->where.address[i];
        const size_t length = strlen(at);
        if (length >= 2 && strcmp(at + length - 2, ":0") == 0)
            return 0;
    }
    const uint64_t wait = network_ns(serving->wait);
    return wait > 0 ? wait : 1;
}

static int serve(const option_command *command, train_options *training,
                 const serve_options *serving)
{
    event_log *log = NULL;
    tarry_diagnostic why;
    const char *path = serving->network.log;
    if (path != NULL && event_log_open(path, &log, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--log: %s", why.text);
    runner_tcp_settings settings = {
        .listen = serving->where.address,
        .listen_count = serving->where.count,
        .security = serving->network.security,
        .announce = true,
        .ship = serving->ship_data,
        .tells_draws = true,
        .wait_ns = network_ns(serving->wait),
        .patience_ns = network_ns(serving->patience),
        .log = log,
    };
    training->outlived_ns = outlived_ns(serving);
    int status = train_run(command, training, runner_tcp_create, &settings);
    event_log_add(log, "end", json_pack("{s:i}", "status", status));
    if (!event_log_close(log))
        status = complain(EXIT_FAILED, "--log: %s could not be written to its end", path);
    return status;
}

int command_serve(int argc, char **argv)
{
    train_options training;
    serve_options serving;
    train_options_init(&training);
    serve_options_init(&serving);
    option_group groups[SERVE_GROUPS + TRAIN_GROUPS + 2];
    serve_options_groups(&serving, groups);
    train_options_groups(&training, groups + SERVE_GROUPS);
    groups[SERVE_GROUPS + TRAIN_GROUPS] = train_options_dp_group(&training);
    groups[SERVE_GROUPS + TRAIN_GROUPS + 1] = secure_options_group(&training.secure, true);
    const option_command command = {
        "serve",
        "Trains a model as tarry train does, over workers that connect from other machines (tarry "
        "work).",
        groups, SERVE_GROUPS + TRAIN_GROUPS + 2};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = check(&training, &serving);
    if (status == OPTIONS_PROCEED)
        status = serve(&command, &training, &serving);
    config_free(file);
    return status;
}
