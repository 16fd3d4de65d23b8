/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/command_work.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarry/secure.h>
#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/job/gradients.h"
#include "cli/job/job.h"
#include "cli/options/data_options.h"
#include "cli/options/gone.h"
#include "cli/options/network_options.h"
#include "cli/options/secure_options.h"
#include "cli/output/clock.h"
#include "cli/output/event_log.h"
#include "cli/output/interrupt.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "learn/dataset.h"
#include "plan/rack/rack.h"
#include "runtime/tcp/net/address.h"
#include "straggler/straggler.h"

typedef struct work_line {
    pthread_mutex_t lock;
    bool quiet, terminal, drawn, leaving;
    double last; /* when it was drawn, by clock_seconds */
    char state[320];
    char reason[256]; /* why there was no connection last, or none any more */
} work_line;

enum { WORK_GROUPS = 4 + NETWORK_GROUPS };

struct work_job {
    const work_options *options;
    work_secure *secure;  /* says the rules of each job; borrowed; NULL: sums are not secure */
    const uint8_t *draws; /* the key that this process was started with, for jobs with differential
                             privacy alone; borrowed; NULL: for jobs without */
    sampler sampler;      /* of the job, by that key or the one that comes with the job */
    tarry_tcp_worker *worker;
    job_spec spec;
    objective *model;
    dataset *brought;          /* for the job to come; NULL: the file is read */
    dataset *data;             /* NULL: it is fetched */
    dataset **fetched;         /* by origin; NULL: not yet */
    chunk_gradient *gradients; /* NULL: the samples are not those of the job */
    job_replicas *replicas;    /* the one of this worker; NULL: the server has the parameters */
    tarry_straggler *straggler;
    char mismatch[256];
};

int work_job_create(const work_options *options, work_job **out)
{
    work_job *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    own->options = options;
    *out = own;
    return TARRY_OK;
}

static void drop(work_job *own)
{
    for (uint32_t i = 0; own->fetched != NULL && i < own->spec.batch.chunks; i++)
        dataset_free(own->fetched[i]);
    memory_release(NULL, own->fetched);
    job_replicas_free(own->replicas);
    chunk_gradient_free(own->gradients);
    dataset_free(own->data);
    objective_free(own->model);
    tarry_straggler_free(own->straggler);
    *own = (work_job){.options = own->options,
                      .secure = own->secure,
                      .draws = own->draws,
                      .brought = own->brought};
}

void work_job_free(work_job *own)
{
    if (own == NULL)
        return;
    drop(own);
    dataset_free(own->brought);
    memory_release(NULL, own);
}

void work_job_bring(work_job *own, dataset *samples)
{
    own->brought = samples;
}

const char *work_job_mismatch(const work_job *own)
{
    return own->mismatch;
}

/* ---- the samples ---- */

static int read_samples(work_job *own, dataset **data, tarry_diagnostic *diagnostic)
{
    const work_options *options = own->options;
    const job_spec *spec = &own->spec;
    const label_kind labels = objective_labels(spec->model.model);
    if (own->brought != NULL) {
        *data = own->brought;
        own->brought = NULL;
        return TARRY_OK;
    }
    if (options->source.path != NULL) {
        dataset_source source = options->source;
        source.labels = labels;
        return dataset_read(&source, NULL, data, diagnostic);
    }
    if (spec->made_samples == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "needs --data: the server has its samples from a file and ships none");
    const synthetic_settings settings = {
        .rows = spec->made_samples,
        .features = spec->model.features,
        .labels = labels,
        .classes = spec->model.classes,
        .seed = spec->batch.seed,
    };
    return dataset_synthetic(&settings, NULL, data, diagnostic);
}

/* What the server's test data widened there is as wide here; the digest covers both. */
static void widen(dataset *data, const objective_settings *model)
{
    if (data->sparse && data->features < model->features)
        data->features = model->features;
    if (data->classes < model->classes)
        data->classes = model->classes;
}

/* A server of secure sums may have no samples, and then nothing to compare them with. */
static bool is_told(const uint8_t digest[JOB_DIGEST_SIZE])
{
    static const uint8_t none[JOB_DIGEST_SIZE];
    return memcmp(digest, none, sizeof(none)) != 0;
}

static void compare(work_job *own, const uint8_t *digest)
{
    const job_spec *spec = &own->spec;
    const dataset *data = own->data;
    const char *name =
        own->options->source.path != NULL ? own->options->source.path : "what was made up";
    if (data->rows != spec->batch.rows || data->features != spec->model.features)
        snprintf(own->mismatch, sizeof(own->mismatch),
                 "%s: %zu samples of %" PRIu32 " features, where the server has %zu of %" PRIu32,
                 name, data->rows, data->features, spec->batch.rows, spec->model.features);
    else if ((!spec->secure || is_told(spec->data)) &&
             memcmp(digest, spec->data, JOB_DIGEST_SIZE) != 0)
        snprintf(own->mismatch, sizeof(own->mismatch), "%s: other samples than the server's", name);
}

/* The samples of a server that has read, or made up, the same. */
static int load(work_job *own, uint8_t digest[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    const job_spec *spec = &own->spec;
    dataset *held_out = NULL;
    int error = read_samples(own, &own->data, diagnostic);
    if (error == TARRY_OK && spec->holdout > 0)
        error =
            dataset_hold_out(&own->data, spec->holdout, spec->batch.seed, &held_out, diagnostic);
    dataset_free(held_out);
    if (error != TARRY_OK)
        return error;
    widen(own->data, &spec->model);
    if (dataset_digest(own->data, digest) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "digest of the data");
    compare(own, digest);
    return TARRY_OK;
}

/* A chunk_fetch; called by the one thread that computes. */
static int fetch(void *user, uint32_t origin, const dataset **data)
{
    work_job *own = user;
    if (own->fetched[origin] == NULL) {
        const void *bytes;
        size_t size, first, count;
        dataset *read;
        if (tarry_tcp_worker_fetch(own->worker, origin, &bytes, &size) != TARRY_OK ||
            dataset_decode(bytes, size, objective_labels(own->spec.model.model), NULL, &read,
                           NULL) != TARRY_OK)
            return -1;
        batch_chunk(&own->spec.batch, origin, &first, &count);
        if (read->rows != count || read->features != own->spec.model.features ||
            read->classes != own->spec.model.classes) {
            dataset_free(read);
            return -1;
        }
        own->fetched[origin] = read;
    }
    *data = own->fetched[origin];
    return 0;
}

/* ---- the job ---- */

/* A worker with a key sends no gradient of samples that were not drawn and clipped. */
static int check_privacy(const work_job *own, tarry_diagnostic *diagnostic)
{
    const bool noised = own->spec.clip > 0, has_key = own->draws != NULL;
    const char *fault = NULL;
    if (has_key && !noised)
        fault = "--dp-key: the server's job says nothing of differential privacy";
    else if (has_key && own->spec.tells_draws)
        fault = "--dp-key: the server tells its workers the key of its draws";
    else if (noised && !has_key && !own->spec.tells_draws)
        fault = "the server trains with differential privacy, and this worker has no key of its "
                "draws (--dp-key)";
    return fault == NULL ? TARRY_OK : diagnose(diagnostic, TARRY_ERROR_STATE, "%s", fault);
}

static int sample_by_key(work_job *own)
{
    const uint8_t *key = own->spec.tells_draws ? own->spec.draws : own->draws;
    own->sampler.rate = own->spec.sample;
    memcpy(own->sampler.key, key, sizeof(own->sampler.key));
    return chunk_gradient_sample(own->gradients, &own->sampler, own->spec.clip);
}

static int make_gradients(work_job *own, bool ships)
{
    const job_spec *spec = &own->spec;
    int error = TARRY_OK;
    if (ships) {
        own->fetched = memory_allocate(NULL, spec->batch.chunks, sizeof(dataset *));
        error = own->fetched == NULL
                    ? TARRY_ERROR_NO_MEMORY
                    : chunk_gradient_create_fetching(own->model, fetch, own, &spec->batch, 1,
                                                     &own->gradients);
    } else if (own->mismatch[0] == '\0') {
        error = chunk_gradient_create(own->model, own->data, &spec->batch, 1, &own->gradients);
    }
    if (error == TARRY_OK && own->gradients != NULL && spec->local.steps > 0)
        error = chunk_gradient_step_locally(own->gradients, &spec->local);
    if (error == TARRY_OK && own->gradients != NULL && spec->clip > 0)
        error = sample_by_key(own);
    return error;
}

static int say_numerics(const work_job *own)
{
    uint64_t fingerprint;
    int error = numerics_fingerprint(&own->spec.model, own->spec.sparse, &fingerprint);
    if (error == TARRY_OK)
        tarry_tcp_worker_numerics(own->worker, fingerprint);
    return error;
}

static int make_model(work_job *own, const tarry_tcp_job *job, tarry_diagnostic *diagnostic)
{
    int error = job_decode(job->job, job->job_size, &own->spec, diagnostic);
    if (error == TARRY_OK)
        error = objective_create(&own->spec.model, NULL, &own->model, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (objective_dimension(own->model) != job->parameters || job->parameters != job->dimension ||
        own->spec.batch.chunks != tarry_plan_origins(job->plan))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "the server's job does not go with its plan and parameters");
    return TARRY_OK;
}

static int make_replica(work_job *own, const tarry_tcp_job *job, tarry_diagnostic *diagnostic)
{
    const job_spec *spec = &own->spec;
    if (spec->everywhere != (job->sum == TARRY_SUM_EVERYWHERE))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "the server's job does not say who has the parameters");
    if (!spec->everywhere)
        return TARRY_OK;
    const job_replicas_settings settings = {
        .model = own->model,
        .optimizer = spec->optimizer,
        .local = spec->local,
        .samples = local_samples(&spec->local, &spec->batch),
        .seed = spec->batch.seed,
    };
    if (job_replicas_create(&settings, 1, &own->replicas) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "parameters");
    tarry_tcp_worker_replica(own->worker, job_replicas_list(own->replicas), NULL);
    return TARRY_OK;
}

static int make_straggler(work_job *own, const tarry_tcp_job *job, tarry_diagnostic *diagnostic)
{
    const work_options *options = own->options;
    uint64_t seed = options->straggler_seeded ? options->straggler_seed : own->spec.batch.seed;
    tarry_diagnostic why;
    int error =
        tarry_straggler_create(options->straggler, job->workers, seed, NULL, &own->straggler, &why);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "--straggler: %s", why.text);
    tarry_tcp_worker_straggle(own->worker, own->straggler);
    return TARRY_OK;
}

int work_job_begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                   uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    work_job *own = user;
    drop(own);
    own->worker = worker;
    tarry_tcp_worker_straggle(worker, NULL);
    bool ships = job->ships && own->options->source.path == NULL;
    int error = make_model(own, job, diagnostic);
    if (error == TARRY_OK)
        error = check_privacy(own, diagnostic);
    if (error == TARRY_OK && own->secure != NULL)
        error = work_secure_job(own->secure, &own->spec);
    if (error == TARRY_OK)
        error = make_straggler(own, job, diagnostic);
    if (error == TARRY_OK)
        error = make_replica(own, job, diagnostic);
    if (error == TARRY_OK && !ships)
        error = load(own, data, diagnostic);
    /* The server, which may have no samples, does not notice; and nothing is agreed on. */
    if (error == TARRY_OK && own->secure != NULL && own->mismatch[0] != '\0')
        error = diagnose(diagnostic, TARRY_ERROR_STATE, "%s", own->mismatch);
    if (error != TARRY_OK)
        return error;
    error = make_gradients(own, ships);
    if (error == TARRY_OK)
        error = say_numerics(own);
    return error == TARRY_OK ? TARRY_OK : diagnose_no_memory(diagnostic, "chunks");
}

int work_job_compute(void *user, const tarry_task *task)
{
    const work_job *own = user;
    return own->gradients == NULL ? -1 : chunk_gradient_compute(own->gradients, task);
}

/* How a worker stands: one line redrawn in place on a terminal, elsewhere a line when it finds or
 * loses its server; and a line at its end. */

#define REDRAW_SECONDS 0.1

static void work_line_begin(work_line *line, bool quiet)
{
    *line = (work_line){.quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1};
    snprintf(line->state, sizeof(line->state), "connecting");
    pthread_mutex_init(&line->lock, NULL);
}

static void draw(work_line *line, const char *text)
{
    terminal_line_draw(text);
    line->drawn = true;
    line->last = clock_seconds();
}

static void describe(const tarry_tcp_notice *notice, char *text, size_t size)
{
    char wait[NUMBER_TEXT_SIZE];
    switch (notice->type) {
    case TARRY_TCP_CONNECTED:
        snprintf(text, size, "connected to %s", notice->peer);
        break;
    case TARRY_TCP_LOST:
        snprintf(text, size, "connection ended: %s", notice->text);
        break;
    case TARRY_TCP_WAITING:
        seconds_text((double)notice->waited_ns * 1e-9, wait);
        snprintf(text, size, "%s: %s; tries again in %s", notice->peer, notice->text, wait);
        break;
    case TARRY_TCP_OTHERS:
        snprintf(text, size, "sums with other workers: %s", notice->text);
        break;
    default:
        snprintf(text, size, "%s", notice->text);
        break;
    }
}

/* Shows a state that is new. */
static void show(work_line *line, bool matters)
{
    if (line->terminal)
        draw(line, line->state);
    else if (matters)
        fprintf(stderr, "%s\n", line->state);
}

/* Why there is no connection is told once, however often it is tried. */
static bool is_new(work_line *line, const tarry_tcp_notice *notice)
{
    if (notice->type == TARRY_TCP_CONNECTED)
        line->reason[0] = '\0';
    bool known = notice->type != TARRY_TCP_CONNECTED && strcmp(line->reason, notice->text) == 0;
    if (notice->type == TARRY_TCP_LOST || notice->type == TARRY_TCP_WAITING ||
        notice->type == TARRY_TCP_OTHERS)
        snprintf(line->reason, sizeof(line->reason), "%s", notice->text);
    return !known;
}

/* What happened to the connection. Any thread. */
static void work_line_notice(work_line *line, const tarry_tcp_notice *notice)
{
    if (line->quiet)
        return;
    pthread_mutex_lock(&line->lock);
    describe(notice, line->state, sizeof(line->state));
    show(line, is_new(line, notice));
    pthread_mutex_unlock(&line->lock);
}

/* It was asked to leave, which may take a while. Any thread. */
static void work_line_leave(work_line *line)
{
    if (line->quiet)
        return;
    pthread_mutex_lock(&line->lock);
    line->leaving = true;
    snprintf(line->state, sizeof(line->state), "leaving");
    show(line, true);
    pthread_mutex_unlock(&line->lock);
}

/* Draws anew with the worker's figures, if there is a terminal and it is time to. Any thread. */
static void work_line_update(work_line *line, const tarry_tcp_work *work)
{
    if (line->quiet || !line->terminal)
        return;
    pthread_mutex_lock(&line->lock);
    if (!line->drawn || clock_seconds() - line->last >= REDRAW_SECONDS) {
        char text[384];
        snprintf(text, sizeof(text),
                 "worker %" PRIu32 "  round %" PRIu64 "  %" PRIu64 " chunks  %s", work->worker,
                 work->round, work->chunks, line->state);
        draw(line, text);
    }
    pthread_mutex_unlock(&line->lock);
}

static void tell_end(const work_line *line, const tarry_tcp_work *work)
{
    const char *how = line->leaving ? "left" : "the run is over";
    if (work->worker == TARRY_TCP_NO_WORKER)
        fprintf(stderr, "%s; no server had given an id\n", how);
    else
        fprintf(stderr, "worker %" PRIu32 ": %s; %" PRIu64 " chunks\n", work->worker, how,
                work->chunks);
}

/* Removes the line from the terminal, and says how it ended; `work` is NULL if that is told
 * otherwise. */
static void work_line_end(work_line *line, const tarry_tcp_work *work)
{
    if (line->drawn)
        terminal_line_remove();
    line->drawn = false;
    if (work != NULL && !line->quiet)
        tell_end(line, work);
    pthread_mutex_destroy(&line->lock);
}

/* ---- work options ---- */

#define MOST_SECONDS 1e9

static int read_connect(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    if (strchr(text, ',') != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s", gone_option("connect:LIST"));
    return address_check(text, false, diagnostic);
}

/* Workers meet over TCP. */
static int check_tcp(const char *text, bool listening, tarry_diagnostic *diagnostic)
{
    if (strncmp(text, "unix:", 5) == 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: workers meet at HOST:PORT", text);
    return address_check(text, listening, diagnostic);
}

static int read_listen(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return check_tcp(text, true, diagnostic);
}

static int read_advertise(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    return check_tcp(text, false, diagnostic);
}

static int read_straggler_seed(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    work_options *options = values;
    int error = parse_whole(text, 0, UINT64_MAX, &options->straggler_seed, diagnostic);
    options->straggler_seeded = error == TARRY_OK;
    return error;
}

static int read_rack(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    if (text[0] != '\0' && rack_is_name(text))
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "'%.100s' is not 1 to %d printable characters without blanks", text,
                    TARRY_RACK_BYTES);
}

#define FIELD(name) .offset = offsetof(work_options, name)

static const option_entry server_entries[] = {
    {.name = "connect",
     .argument = "ADDRESS",
     .help = "The server: HOST:PORT or unix:PATH (default 127.0.0.1:7077)",
     .kind = OPTION_TEXT,
     .read = read_connect,
     FIELD(connect)},
    {.name = "worker",
     .argument = "ID",
     .help = "The worker to be, from 0 (default: that of the credentials, or any)",
     .kind = OPTION_U32,
     .most = TARRY_TCP_NO_WORKER - 1,
     FIELD(worker)},
    {.name = "rack",
     .argument = "NAME",
     .help = "The rack or host that this worker shares its fate with: the server's next plan "
             "spreads copies over racks; the host's name is a sensible value (default: none)",
     .kind = OPTION_TEXT,
     .read = read_rack,
     FIELD(rack)},
    {.name = "listen",
     .argument = "ADDRESS",
     .help = "With --sum everywhere of the server: where the other workers connect, HOST:PORT, "
             "port 0 for any (default: this machine's address towards the server, any port)",
     .kind = OPTION_TEXT,
     .read = read_listen,
     FIELD(listen)},
    {.name = "advertise",
     .argument = "ADDRESS",
     .help = "Where the other workers are told to connect instead, HOST:PORT",
     .kind = OPTION_TEXT,
     .read = read_advertise,
     FIELD(advertise)},
    {.name = "no-share",
     .help = "Send sums among workers of one machine over connections instead of through "
             "shared memory",
     .kind = OPTION_FLAG,
     FIELD(no_share)},
    {.name = "dp-key",
     .argument = "FILE",
     .help = "Take part in trainings with differential privacy alone: the key of 32 bytes by which "
             "samples are drawn, which tarry train --processes hands to its workers",
     .kind = OPTION_TEXT,
     FIELD(dp_key)},
    {.name = "patience",
     .argument = "SECONDS",
     .help = "How long to try to reach the server, at first and whenever the connection is lost "
             "(default 300)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(patience)},
    {.name = "grace",
     .argument = "SECONDS",
     .help = "On SIGTERM or Ctrl-C: how long the chunk in hand may take and the round may ask for "
             "what is finished (default 10)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(grace)},
    {.name = "quiet", .help = "Print nothing but errors", .kind = OPTION_FLAG, FIELD(quiet)},
};

static const option_words secure_words[] = {
    {"secure", "Take part in secure sums alone, and hold the server to their rules: needs "
               "credentials with an id, and a roster (tarry keys roster)"},
    {NULL, NULL},
};

static const option_words data_words[] = {
    {"data", "Training samples, the same as the server's, gzip or plain (default: what the server "
             "ships, or makes up)"},
    {NULL, NULL},
};

static const option_entry straggler_entries[] = {
    {.name = "straggler",
     .argument = "SPEC",
     .help = "Make this worker slow or dead for a test, as tarry train --straggler says of all "
             "(default none)",
     .kind = OPTION_TEXT,
     FIELD(straggler)},
    {.name = "straggler-seed",
     .argument = "N",
     .help = "Seed of the SPEC's draws (default: the --seed of the server)",
     .kind = OPTION_TEXT,
     .read = read_straggler_seed,
     FIELD(straggler_seed_text)},
};

void work_options_init(work_options *options)
{
    *options = (work_options){
        .connect = "127.0.0.1:7077",
        .worker = TARRY_TCP_NO_WORKER,
        .patience = 300,
        .grace = 10,
        .straggler = "none",
    };
    secure_options_init(&options->secure);
}

static option_group secure_options_insist_group(secure_options *options)
{
    option_group group = secure_options_group(options, false);
    group.words = secure_words;
    return group;
}

static void work_options_groups(work_options *options, option_group groups[WORK_GROUPS])
{
    groups[0] = OPTION_GROUP("The server", server_entries, options);
    option_group *more = groups + 1 + NETWORK_GROUPS;
    network_options_groups(&options->network, groups + 1);
    more[0] = data_options_group(&options->source);
    more[0].words = data_words;
    more[1] = OPTION_GROUP("Stragglers", straggler_entries, options);
    more[2] = secure_options_insist_group(&options->secure);
}

enum { MANY_WORKERS = 65536 };

/* All that can be told of a SPEC before it is known how many workers there are. */
static int check_straggler(const work_options *options)
{
    tarry_straggler *straggler;
    tarry_diagnostic why;
    int error = tarry_straggler_create(options->straggler, MANY_WORKERS, 0, NULL, &straggler, &why);
    if (error == TARRY_ERROR_ARGUMENT)
        return OPTIONS_PROCEED;
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "--straggler: %s",
                        why.text);
    const char *mortal = straggler_mortal_term(straggler);
    tarry_straggler_free(straggler);
    return mortal == NULL
               ? OPTIONS_PROCEED
               : complain(EXIT_USAGE, "--straggler: term '%s' is for tarry simulate", mortal);
}

/* Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
static int work_options_check(const work_options *options)
{
    if (options->source.labels_path != NULL && options->source.path == NULL)
        return complain(EXIT_USAGE, "--labels: has no meaning without --data");
    if (options->secure.secure && options->network.security.credentials == NULL)
        return complain(EXIT_USAGE,
                        "--secure: needs --credentials: workers know each other by them");
    if (options->secure.secure && options->dp_key != NULL)
        return complain(EXIT_USAGE, "--dp-key: cannot be combined with --secure");
    int status = secure_options_check(&options->secure);
    if (status == OPTIONS_PROCEED)
        status = check_straggler(options);
    if (status == OPTIONS_PROCEED)
        status = network_options_check(&options->network, "work", &options->connect, 1, false);
    if (status == OPTIONS_PROCEED && options->listen != NULL && options->network.security.insecure)
        status = network_options_check(&options->network, "work", &options->listen, 1, true);
    return status;
}

/* tarry work: one worker of a tarry serve. */

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
    settings.security = options->network.security;
    settings.worker = options->worker;
    settings.rack = options->rack;
    settings.listen = options->listen;
    settings.advertise = options->advertise;
    settings.share = !options->no_share;
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
        error = work_secure_create(&options->secure, options->network.security.credentials,
                                   options->quiet, &run.secure, &why);
    if (error == TARRY_OK)
        error = work_job_create(options, &run.job);
    if (error == TARRY_OK && options->dp_key != NULL) {
        tarry_diagnostic reason;
        error = draws_key_read(options->dp_key, key, &reason);
        if (error != TARRY_OK)
            diagnose(&why, error, "--dp-key: %s", reason.text);
        run.job->draws = key;
    }
    if (error == TARRY_OK) {
        run.job->secure = run.secure;
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

/* ---- work secure ---- */

struct work_secure {
    tarry_secure_memory *memory;
    job_spec spec;
};

static void tell(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

int work_secure_create(const secure_options *options, const char *credentials, bool quiet,
                       work_secure **out, tarry_diagnostic *diagnostic)
{
    tarry_secure_memory_settings settings;
    tarry_secure_memory_settings_init(&settings);
    settings.credentials = credentials;
    settings.colluders = options->colluders;
    settings.least = options->least;
    settings.colluders_name = "--secure-colluders";
    settings.least_name = "--secure-least";
    settings.bits = (uint32_t)options->bits;
    settings.bits_name = "--secure-bits";
    settings.bound = options->bound;
    settings.bound_name = "--secure-bound";
    settings.chunk_samples = options->chunk_samples;
    settings.chunk_samples_name = "--secure-chunk-samples";
    settings.tell = quiet ? NULL : tell;
    work_secure *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "secure sums");
    int error = tarry_secure_memory_open(&settings, &made->memory, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, made);
        return error;
    }
    *out = made;
    return TARRY_OK;
}

void work_secure_free(work_secure *own)
{
    if (own == NULL)
        return;
    tarry_secure_memory_close(own->memory);
    memory_release(NULL, own);
}

int work_secure_job(work_secure *own, const job_spec *spec)
{
    own->spec = *spec;
    return tarry_secure_memory_samples(own->memory, spec->batch.rows, spec->batch.chunks, NULL);
}

/* The samples are all of them in every round, whatever the server writes into its job. */
static int check_job(const work_secure *own, tarry_diagnostic *diagnostic)
{
    const job_spec *spec = &own->spec;
    const char *wrong = !spec->secure            ? "its job says nothing of secure sums"
                        : spec->batch.batch != 0 ? "sums over batches can be solved for samples"
                        : spec->local.steps != 0 ? "sums of local steps are none of gradients"
                        : spec->everywhere       ? "workers would get the sum"
                                                 : NULL;
    return wrong == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_STATE, "secure sums: %s", wrong);
}

int work_secure_agree(void *user, const tarry_secure_offer *offer,
                      uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    work_secure *own = user;
    int error = check_job(own, diagnostic);
    return error == TARRY_OK ? tarry_secure_memory_agree(own->memory, offer, target, diagnostic)
                             : error;
}

int work_secure_lock(void *user, const tarry_secure_attempt *attempt, tarry_diagnostic *diagnostic)
{
    const work_secure *own = user;
    return tarry_secure_memory_lock(own->memory, attempt, diagnostic);
}
