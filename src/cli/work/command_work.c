/* SPDX-License-Identifier: Apache-2.0 */
/* tarry work: one worker of a tarry serve. */
#include <stdatomic.h>
#include <string.h>

#include "base/diagnostic.h"
#include "cli/command.h"
#include "cli/job/draws_key.h"
#include "cli/output/event_log.h"
#include "cli/output/interrupt.h"
#include "cli/output/write_signals.h"
#include "cli/text/complain.h"
#include "cli/text/report_json.h"
#include "cli/work/work_job.h"
#include "cli/work/work_line.h"
#include "cli/work/work_options.h"

typedef struct work_run {
    const work_options *options;
    event_log *log;
    work_job *job;
    work_secure *secure; /* NULL: sums are not secure */
    work_line line;
    tarry_tcp_work done; /* at its end */
    _Atomic(tarry_tcp_worker *) worker;
} work_run;

static void observe(void *user, const tarry_tcp_notice *notice)
{
    work_run *run = user;
    event_log_notice(run->log, notice);
    work_line_notice(&run->line, notice);
}

static int begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                 uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    work_run *run = user;
    event_log_add(run->log, "job",
                  json_pack("{s:I, s:I, s:b}", "worker", (json_int_t)job->worker, "workers",
                            (json_int_t)job->workers, "ships", job->ships));
    return work_job_begin(run->job, worker, job, data, diagnostic);
}

static int compute(void *user, const tarry_task *task)
{
    work_run *run = user;
    int failed = work_job_compute(run->job, task);
    tarry_tcp_work work = tarry_tcp_worker_work(atomic_load(&run->worker));
    work_line_update(&run->line, &work);
    return failed;
}

static void leave(void *user)
{
    work_run *run = user;
    tarry_tcp_worker *worker = atomic_load(&run->worker);
    work_line_leave(&run->line);
    if (worker != NULL)
        tarry_tcp_worker_leave(worker, network_ns(run->options->grace));
}

static int create(work_run *run, tarry_tcp_worker **worker, tarry_diagnostic *why)
{
    const work_options *options = run->options;
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = options->connect;
    settings.security = network_security(&options->network);
    settings.worker = options->worker;
    settings.rack = options->rack;
    settings.listen = options->listen;
    settings.advertise = options->advertise;
    settings.share = !options->network.no_share;
    settings.begin = begin;
    settings.compute = compute;
    settings.user = run;
    settings.patience_ns = network_ns(options->patience);
    settings.observe = observe;
    settings.observe_user = run;
    if (run->secure != NULL)
        settings.secure = (tarry_secure_member){
            .required = true,
            .agree = work_secure_agree,
            .lock = work_secure_lock,
            .bound_name = "--secure-bound",
            .user = run->secure,
        };
    return tarry_tcp_worker_create(&settings, NULL, worker, why);
}

/* Runs to its end; *why says what went wrong. */
static int run_worker(work_run *run, tarry_diagnostic *why)
{
    tarry_tcp_worker *worker = NULL;
    interrupt *signals = NULL;
    int error = interrupt_begin(leave, run, &signals);
    if (error == TARRY_OK)
        error = create(run, &worker, why);
    if (error == TARRY_OK) {
        atomic_store(&run->worker, worker);
        /* A signal from before was not for anybody yet. */
        if (interrupt_seen(signals))
            leave(run);
        error = tarry_tcp_worker_run(worker, why);
    }
    interrupt_end(signals);
    if (worker != NULL) {
        tarry_tcp_work work = run->done = tarry_tcp_worker_work(worker);
        event_log_add(run->log, "end",
                      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "chunks",
                                (json_int_t)work.chunks, "computed_again",
                                (json_int_t)work.computed_again, "voided_residuals",
                                (json_int_t)work.voided_residuals, "connections",
                                (json_int_t)work.connections, "received_bytes",
                                (json_int_t)work.received, "sent_bytes", (json_int_t)work.sent,
                                "text", error == TARRY_OK ? json_null() : json_text(why->text)));
    }
    tarry_tcp_worker_free(worker);
    return error;
}

static int work(const work_options *options)
{
    work_run run = {.options = options};
    tarry_diagnostic why = {""};
    uint8_t key[KEYSTREAM_KEY_BYTES];
    const char *path = options->network.log;
    /* To the end of the process: its last event comes when the run is over. */
    write_signals_ignore(NULL);
    if (path != NULL && event_log_open(path, &run.log, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--log: %s", why.text);
    int error = TARRY_OK;
    if (options->secure.secure)
        error = work_secure_create(&options->secure, options->network.credentials, options->quiet,
                                   &run.secure, &why);
    if (error == TARRY_OK)
        error = work_job_create(options, &run.job);
    if (error == TARRY_OK && options->dp_key != NULL) {
        tarry_diagnostic reason;
        error = draws_key_read(options->dp_key, key, &reason);
        if (error != TARRY_OK)
            diagnose(&why, error, "--dp-key: %s", reason.text);
        work_job_draws(run.job, key);
    }
    if (error == TARRY_OK) {
        work_job_secure(run.job, run.secure);
        work_line_begin(&run.line, options->quiet);
        error = run_worker(&run, &why);
        work_line_end(&run.line, error == TARRY_OK ? &run.done : NULL);
    }
    int status = EXIT_DONE;
    if (error == TARRY_ERROR_STATE && run.job != NULL && work_job_mismatch(run.job)[0] != '\0')
        status = complain(EXIT_FAILED, "work: refused: %s", work_job_mismatch(run.job));
    else if (error != TARRY_OK)
        status = complain(EXIT_FAILED, "work: %s",
                          why.text[0] != '\0' ? why.text : tarry_error_text(error));
    work_job_free(run.job);
    work_secure_free(run.secure);
    explicit_bzero(key, sizeof(key));
    if (!event_log_close(run.log))
        status = complain(EXIT_FAILED, "--log: %s could not be written to its end", path);
    return status;
}

int command_work(int argc, char **argv)
{
    work_options options;
    work_options_init(&options);
    option_group groups[WORK_GROUPS];
    work_options_groups(&options, groups);
    const option_command command = {"work", "Computes for a tarry serve, until its run is over.",
                                    groups, WORK_GROUPS};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = work_options_check(&options);
    if (status == OPTIONS_PROCEED)
        status = work(&options);
    config_free(file);
    return status;
}
