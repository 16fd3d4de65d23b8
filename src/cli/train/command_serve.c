/* SPDX-License-Identifier: Apache-2.0 */
/* tarry serve: the workers are processes on other machines, or on this one. */
#include <string.h>

#include "cli/command.h"
#include "cli/runner/runner_tcp.h"
#include "cli/text/complain.h"
#include "cli/train/serve_options.h"
#include "cli/train/train_run.h"

static int check(const train_options *training, serve_options *serving)
{
    if (strcmp(training->straggler, "none") != 0)
        return complain(EXIT_USAGE, "--straggler: is for the workers here: give it to tarry work");
    const secure_options *secure = &training->secure;
    if (secure->secure && serving->ship_data)
        return complain(EXIT_USAGE, "--secure: cannot be combined with --ship-data: the server has "
                                    "no samples");
    if (secure->secure && serving->network.insecure)
        return complain(EXIT_USAGE, "--secure: cannot be combined with --insecure: workers know "
                                    "each other by their credentials");
    if (secure->secure && training->source.path != NULL)
        return complain(EXIT_USAGE,
                        "--secure: cannot be combined with --data: the server is to have no "
                        "samples; --secure-data says what the workers have");
    if (training->dp != NULL && serving->network.insecure)
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
        .security = network_security(&serving->network),
        .share = !serving->network.no_share && !training->secure.secure,
        .announce = true,
        .ship = serving->ship_data,
        .tells_draws = true,
        .wait_ns = network_ns(serving->wait),
        .patience_ns = network_ns(serving->patience),
        .decode_threads = serving->decode_threads,
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
