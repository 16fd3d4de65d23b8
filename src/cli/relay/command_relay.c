/* SPDX-License-Identifier: Apache-2.0 */
/* tarry relay: between a tarry serve and its workers. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output/event_log.h"
#include "cli/output/file_limit.h"
#include "cli/output/interrupt.h"
#include "cli/output/write_signals.h"
#include "cli/relay/relay_options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"
#include "runtime/tcp/relay/relay.h"

enum { MOST_FILES = 65536 + 64 };

typedef struct relay_run {
    const relay_options *options;
    event_log *log;
    char reason[256]; /* why there was no connection last, or none any more */
    _Atomic(tcp_relay *) relay;
} relay_run;

/* Why there is no connection is told once, however often it is tried. */
static bool is_new(relay_run *run, const tarry_tcp_notice *notice)
{
    if (notice->type == TARRY_TCP_CONNECTED || notice->type == TARRY_TCP_LISTENING) {
        run->reason[0] = '\0';
        return true;
    }
    bool known = strcmp(run->reason, notice->text) == 0;
    snprintf(run->reason, sizeof(run->reason), "%s", notice->text);
    return !known;
}

/* Of its own connections; children are for the log. */
static void print_notice(relay_run *run, const tarry_tcp_notice *notice)
{
    char wait[NUMBER_TEXT_SIZE];
    bool own = notice->type == TARRY_TCP_LISTENING || notice->type == TARRY_TCP_CONNECTED ||
               notice->type == TARRY_TCP_LOST || notice->type == TARRY_TCP_WAITING;
    if (run->options->quiet || !own || !is_new(run, notice))
        return;
    seconds_text((double)notice->waited_ns * 1e-9, wait);
    if (notice->type == TARRY_TCP_LISTENING)
        fprintf(stderr, "listening on %s\n", notice->peer);
    else if (notice->type == TARRY_TCP_CONNECTED)
        fprintf(stderr, "connected to %s\n", notice->peer);
    else if (notice->type == TARRY_TCP_LOST)
        fprintf(stderr, "connection ended: %s\n", notice->text);
    else
        fprintf(stderr, "%s: %s; tries again in %s\n", notice->peer, notice->text, wait);
}

static void observe(void *user, const tarry_tcp_notice *notice)
{
    relay_run *run = user;
    if (notice->type == TARRY_TCP_JOINED || notice->type == TARRY_TCP_LEFT)
        event_log_add(run->log, notice->type == TARRY_TCP_JOINED ? "joined" : "left",
                      json_pack("{s:o, s:o}", "peer", json_text(notice->peer), "text",
                                json_text(notice->text[0] != '\0' ? notice->text : NULL)));
    else
        event_log_notice(run->log, notice);
    print_notice(run, notice);
}

static void leave(void *user)
{
    relay_run *run = user;
    tcp_relay *relay = atomic_load(&run->relay);
    if (relay != NULL)
        tcp_relay_leave(relay);
}

static int create(relay_run *run, tcp_relay **relay, tarry_diagnostic *why)
{
    const relay_options *options = run->options;
    const tcp_relay_settings settings = {
        .connect = options->connect,
        .listen = options->where.address,
        .listen_count = options->where.count,
        .advertise = options->advertise,
        .security = network_security(&options->network),
        .patience_ns = network_ns(options->patience),
        .observe = observe,
        .observe_user = run,
    };
    return tcp_relay_create(&settings, NULL, relay, why);
}

static void tell_end(relay_run *run, const tcp_relay_work *work, const char *why)
{
    event_log_add(run->log, "end",
                  json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "arrivals",
                            (json_int_t)work->arrivals, "connections",
                            (json_int_t)work->connections, "reports", (json_int_t)work->reports,
                            "batches", (json_int_t)work->batches, "parts", (json_int_t)work->parts,
                            "sums", (json_int_t)work->sums, "received_bytes",
                            (json_int_t)work->received, "sent_bytes", (json_int_t)work->sent,
                            "text", json_text(why)));
    if (!run->options->quiet && why == NULL)
        fprintf(stderr, "%" PRIu64 " reports in %" PRIu64 " messages\n", work->reports,
                work->batches);
}

/* Runs to its end; *why says what went wrong. */
static int run_relay(relay_run *run, tarry_diagnostic *why)
{
    tcp_relay *relay = NULL;
    interrupt *signals = NULL;
    int error = interrupt_begin(leave, run, &signals);
    if (error == TARRY_OK)
        error = create(run, &relay, why);
    if (error == TARRY_OK) {
        atomic_store(&run->relay, relay);
        /* A signal from before was not for anybody yet. */
        if (interrupt_seen(signals))
            leave(run);
        error = tcp_relay_run(relay, why);
    }
    interrupt_end(signals);
    if (relay != NULL) {
        const tcp_relay_work work = tcp_relay_count(relay);
        tell_end(run, &work, error == TARRY_OK ? NULL : why->text);
    }
    tcp_relay_free(relay);
    return error;
}

static int relay(const relay_options *options)
{
    relay_run run = {.options = options};
    tarry_diagnostic why = {""};
    const char *path = options->network.log;
    /* To the end of the process: its last event comes when the run is over. */
    write_signals_ignore(NULL);
    if (path != NULL && event_log_open(path, &run.log, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--log: %s", why.text);
    file_limit_raise(MOST_FILES); /* one for each worker */
    int status = EXIT_DONE;
    int error = run_relay(&run, &why);
    if (error != TARRY_OK)
        status = complain(EXIT_FAILED, "relay: %s",
                          why.text[0] != '\0' ? why.text : tarry_error_text(error));
    if (!event_log_close(run.log))
        status = complain(EXIT_FAILED, "--log: %s could not be written to its end", path);
    return status;
}

int command_relay(int argc, char **argv)
{
    relay_options options;
    relay_options_init(&options);
    option_group groups[RELAY_GROUPS];
    relay_options_groups(&options, groups);
    const option_command command = {
        "relay",
        "Stands between a tarry serve and workers that connect to it in its place, until the run "
        "is over.",
        groups, RELAY_GROUPS};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = relay_options_check(&options);
    if (status == OPTIONS_PROCEED)
        status = relay(&options);
    config_free(file);
    return status;
}
