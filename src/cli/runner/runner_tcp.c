/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/runner_tcp.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/job/numerics.h"
#include "cli/job/shipped_data.h"
#include "cli/output/file_limit.h"
#include "cli/runner/mixture.h"
#include "cli/runner/refusals.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"
#include "plan/rack/rack.h"
#include "runtime/clock.h"

#define SLICE_NS UINT64_C(100000000) /* between two looks at who can be expected */
#define AWAITED_NS UINT64_C(60000000000)

enum {
    FILES_PER_WORKER = 4, /* where it changes over to another connection, or is a child */
    OTHER_FILES = 64,
    LEAST_PER_WORKER = 3, /* of a child: its connection, its process, and memory to share */
    LEAST_FILES = 24,     /* of a server without connections, and of a worker */
};

/* Of what happened so far; counted in the server's thread. */
typedef struct event_counts {
    atomic_ulong arrivals[TARRY_ARRIVAL_RESTARTED + 1]; /* of each kind */
    atomic_ulong left, refused, gone, silent, late, failed, differs;
    atomic_ulong without_estimate; /* rounds */
} event_counts;

struct runner_network {
    const runner_tcp_settings *settings;
    tarry_runtime *server; /* the runner's */
    shipped_data *shipped;
    uint8_t *state;         /* that the server hands out; NULL: none */
    const tarry_plan *plan; /* in force */
    uint32_t workers;
    void (*say)(void *user, const char *line);
    void *say_user;
    bool begun;
    /* How the workers compute, as far as copies of it meet. */
    objective_settings model;
    bool sparse;
    double conditioning_limit;
    uint64_t *numerics; /* of each worker, as they stood after so many arrivals: */
    unsigned long looked;
    bool mixed;         /* copies of different ones met in a round of 2 parts or more */
    double mixed_bound; /* of those rounds' errors; NaN: not known */
    event_counts counts;
    refusals refused; /* the server's thread's */
};

/* ---- what is told ---- */

__attribute__((format(printf, 2, 3))) static void tell(const runner_network *own,
                                                       const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    own->say(own->say_user, line);
}

static void count_absence(event_counts *counts, tarry_absence absence)
{
    switch (absence) {
    case TARRY_ABSENT_GONE:
        atomic_fetch_add(&counts->gone, 1);
        break;
    case TARRY_ABSENT_SILENT:
        atomic_fetch_add(&counts->silent, 1);
        break;
    case TARRY_ABSENT_LATE:
        atomic_fetch_add(&counts->late, 1);
        break;
    case TARRY_ABSENT_FAILED:
        atomic_fetch_add(&counts->failed, 1);
        break;
    case TARRY_ABSENT_DIFFERS:
        atomic_fetch_add(&counts->differs, 1);
        break;
    }
}

static void tell_waiting(const runner_network *own, const tarry_tcp_notice *notice)
{
    char patience[NUMBER_TEXT_SIZE];
    seconds_text((double)notice->waited_ns * 1e-9, patience);
    const char *what = notice->result->error == TARRY_ERROR_LINKS ? "tries again, for up to"
                                                                  : "waits for workers, up to";
    tell(own, "%s; %s %s", notice->text, what, patience);
}

static void tell_refused(runner_network *own, const tarry_tcp_notice *notice)
{
    char line[REFUSALS_LINE];
    if (own->settings->announce &&
        refusals_line(&own->refused, clock_now_ns(), notice->worker,
                      notice->peer != NULL ? notice->peer : "", notice->text, line))
        tell(own, "%s", line);
}

static void observe(void *user, const tarry_tcp_notice *notice)
{
    runner_network *own = user;
    event_counts *counts = &own->counts;
    if (notice->type == TARRY_TCP_WAITING) {
        tell_waiting(own, notice);
        return;
    }
    if (notice->type == TARRY_TCP_ROUND && (notice->result->error == TARRY_ERROR_COVERAGE ||
                                            notice->result->error == TARRY_ERROR_LINKS))
        atomic_fetch_add(&counts->without_estimate, 1);
    if (notice->type == TARRY_TCP_JOINED)
        atomic_fetch_add(&counts->arrivals[notice->arrival], 1);
    else if (notice->type == TARRY_TCP_LEFT)
        atomic_fetch_add(&counts->left, 1);
    else if (notice->type == TARRY_TCP_REFUSED)
        atomic_fetch_add(&counts->refused, 1);
    if (notice->type == TARRY_TCP_REFUSED)
        tell_refused(own, notice);
    if (notice->type == TARRY_TCP_LEFT_OUT)
        count_absence(counts, notice->absence);
    event_log_notice(own->settings->log, notice);
}

static json_t *counted(const atomic_ulong *count)
{
    return json_integer((json_int_t)atomic_load(count));
}

static json_t *worker_json(runner_network *own, uint32_t worker)
{
    tarry_worker_state state = tarry_runtime_worker(own->server, worker);
    return json_pack("{s:I, s:b, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "worker",
                     (json_int_t)worker, "present", state.present, "near", state.shares_memory,
                     "rack", json_text(state.rack[0] != '\0' ? state.rack : NULL), "arrivals",
                     (json_int_t)state.arrivals, "gone", (json_int_t)state.gone, "silent",
                     (json_int_t)state.silent, "late", (json_int_t)state.late, "failed",
                     (json_int_t)state.failed, "received_bytes", (json_int_t)state.received,
                     "sent_bytes", (json_int_t)state.sent, "numerics",
                     json_fingerprint(state.numerics));
}

/* ---- copies that are not the same to the bit ---- */

static unsigned long count_arrivals(const runner_network *own)
{
    const event_counts *counts = &own->counts;
    unsigned long sum = 0;
    for (size_t kind = 0; kind <= TARRY_ARRIVAL_RESTARTED; kind++)
        sum += atomic_load(&counts->arrivals[kind]);
    return sum;
}

static void look_at_numerics(runner_network *own)
{
    for (uint32_t worker = 0; worker < own->workers; worker++)
        own->numerics[worker] = tarry_runtime_worker(own->server, worker).numerics;
}

/* Of a round with more than one part; says it once. */
static void watch_numerics(runner_network *own, const tarry_round_result *result)
{
    unsigned long arrivals = count_arrivals(own);
    uint32_t one, other;
    if (result->parts < 2 || own->mixed || arrivals == own->looked)
        return;
    own->looked = arrivals;
    look_at_numerics(own);
    own->mixed = mixture_meets(own->plan, own->numerics, &one, &other);
    if (!own->mixed)
        return;
    double rounding;
    char bound[64] = "";
    if (numerics_rounding(&own->model, own->sparse, &rounding) == TARRY_OK) {
        own->mixed_bound =
            mixture_bound(own->plan, result->parts, rounding, own->conditioning_limit);
        snprintf(bound, sizeof(bound), " by up to about %.2g of the chunks' sizes",
                 own->mixed_bound);
    }
    tell(own,
         "workers %" PRIu32 " and %" PRIu32 " compute the same chunks to different bits: their "
         "machines differ; in %" PRIu32 " parts, that can put the sum off%s",
         one, other, result->parts, bound);
}

static json_t *numerics_json(runner_network *own)
{
    look_at_numerics(own);
    return json_pack("{s:I, s:b, s:o}", "kinds",
                     (json_int_t)mixture_kinds(own->numerics, own->workers), "meet", own->mixed,
                     "error_bound", number_json(own->mixed_bound));
}

json_t *runner_describe(runner *self)
{
    runner_network *own = self->network;
    if (own == NULL)
        return json_null();
    const event_counts *counts = &own->counts;
    json_t *listen = json_array(), *workers = json_array();
    const char *address;
    for (uint32_t i = 0;
         listen != NULL && (address = tarry_runtime_address(own->server, i)) != NULL; i++)
        listen = json_append(listen, json_text(address));
    for (uint32_t i = 0; workers != NULL && i < own->workers; i++)
        workers = json_append(workers, worker_json(own, i));
    json_t *events = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "joined",
                               counted(&counts->arrivals[TARRY_ARRIVAL_FIRST]), "joined_again",
                               counted(&counts->arrivals[TARRY_ARRIVAL_AGAIN]), "restarted",
                               counted(&counts->arrivals[TARRY_ARRIVAL_RESTARTED]), "left",
                               counted(&counts->left), "refused", counted(&counts->refused), "gone",
                               counted(&counts->gone), "silent", counted(&counts->silent), "late",
                               counted(&counts->late), "failed", counted(&counts->failed),
                               "differs", counted(&counts->differs));
    return json_pack("{s:o, s:I, s:o, s:o, s:o}", "listen", listen, "rounds_without_estimate",
                     (json_int_t)atomic_load(&counts->without_estimate), "events", events,
                     "workers", workers, "numerics", numerics_json(own));
}

/* ---- waiting for workers ---- */

static uint32_t count_present(runner_network *own)
{
    uint32_t present = 0;
    for (uint32_t worker = 0; worker < own->workers; worker++)
        present += tarry_runtime_worker(own->server, worker).present;
    return present;
}

static uint64_t later(uint64_t now, uint64_t ns)
{
    return ns < TARRY_NEVER - now ? now + ns : TARRY_NEVER;
}

/* Waits until all that can be expected are there, or the time is over. Errors: INTERRUPTED. */
static int wait_for_all(runner_network *own, tarry_diagnostic *diagnostic)
{
    const runner_tcp_settings *settings = own->settings;
    uint64_t until = later(clock_now_ns(), settings->wait_ns);
    uint32_t expected = own->workers;
    int error = TARRY_ERROR_STATE;
    if (settings->announce && settings->wait_ns > 0) {
        char wait[NUMBER_TEXT_SIZE];
        seconds_text((double)settings->wait_ns * 1e-9, wait);
        tell(own, "waits for %" PRIu32 " worker%s, up to %s", expected, expected == 1 ? "" : "s",
             wait);
    }
    while (error == TARRY_ERROR_STATE) {
        if (settings->crew != NULL)
            expected = settings->crew->expected(settings->crew->user);
        uint64_t now = clock_now_ns();
        uint64_t slice = until > now ? until - now : 0;
        if (settings->crew != NULL && slice > SLICE_NS)
            slice = SLICE_NS;
        error = tarry_runtime_wait(own->server, expected, slice, diagnostic);
        if (slice < SLICE_NS)
            break;
    }
    if (error == TARRY_OK || error == TARRY_ERROR_STATE) {
        uint32_t present = count_present(own);
        event_log_add(own->settings->log, "begin",
                      json_pack("{s:I, s:I}", "present", (json_int_t)present, "workers",
                                (json_int_t)own->workers));
        const unsigned long refused = atomic_load(&own->counts.refused);
        if (present == 0 && refused > 0)
            tell(own, "no worker is there yet; %lu connection%s refused", refused,
                 refused == 1 ? " was" : "s were");
        else if (present == 0)
            tell(own, "no worker is there yet");
        else if (present < own->workers)
            tell(own, "%" PRIu32 " of %" PRIu32 " workers are there; begins with them", present,
                 own->workers);
        return TARRY_OK;
    }
    return error;
}

/* Who is not there by then may come later. */
static int await_workers(runner *self, tarry_diagnostic *diagnostic)
{
    uint32_t awaited = self->awaited;
    self->awaited = 0;
    int error =
        awaited > 0 ? tarry_runtime_wait(self->runtime, awaited, AWAITED_NS, diagnostic) : TARRY_OK;
    return error == TARRY_ERROR_STATE ? TARRY_OK : error;
}

int runner_gather(runner *self, tarry_diagnostic *diagnostic)
{
    runner_network *own = self->network;
    if (own == NULL)
        return await_workers(self, diagnostic);
    int error = own->begun ? TARRY_OK : wait_for_all(own, diagnostic);
    own->begun = true;
    return error;
}

int runner_round(runner *self, const float *parameters, float *sum, tarry_round_result *result,
                 tarry_diagnostic *diagnostic)
{
    int error = runner_gather(self, diagnostic);
    if (error == TARRY_OK)
        error = tarry_runtime_round(self->runtime, parameters, sum, result, diagnostic);
    if (error == TARRY_OK && self->network != NULL)
        watch_numerics(self->network, result);
    return error;
}

int runner_replan(runner *self, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    int error = tarry_runtime_replan(self->runtime, next, diagnostic);
    if (error == TARRY_OK && self->network != NULL) {
        self->network->plan = next;
        self->network->looked = 0;
    }
    return error;
}

/* ---- racks ---- */

/* A name that no worker can say, so that those that say none are where the plan has them. */
static void name_by_plan(const tarry_plan *plan, rack_entry *entry)
{
    if (tarry_plan_racks(plan) == 0)
        snprintf(entry->name, sizeof(entry->name), "-");
    else
        snprintf(entry->name, sizeof(entry->name), " %" PRIu32,
                 tarry_plan_rack(plan, entry->worker));
}

int runner_racks(runner *self, const tarry_plan *plan, uint32_t *rack, bool *said)
{
    uint32_t workers = tarry_plan_workers(plan);
    rack_entry *entries = memory_allocate(NULL, workers, sizeof(*entries));
    if (entries == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *said = false;
    for (uint32_t worker = 0; worker < workers; worker++) {
        tarry_worker_state state = tarry_runtime_worker(self->runtime, worker);
        entries[worker].worker = worker;
        if (state.rack[0] != '\0')
            memcpy(entries[worker].name, state.rack, sizeof(state.rack));
        else
            name_by_plan(plan, &entries[worker]);
        *said |= state.rack[0] != '\0';
    }
    rack_join(entries, workers, rack);
    memory_release(NULL, entries);
    return TARRY_OK;
}

/* ---- creation and the end ---- */

/* But for the runtime, which is gone. */
static void release(runner *self)
{
    runner_network *own = self->network;
    if (own != NULL) {
        shipped_data_free(own->shipped);
        memory_release(NULL, own->state);
        memory_release(NULL, own->numerics);
    }
    job_replicas_free(self->replicas);
    memory_release(NULL, own);
    memory_release(NULL, self);
}

void runner_free(runner *self, bool finished)
{
    if (self == NULL)
        return;
    runner_network *own = self->network;
    const runner_crew *crew = own != NULL ? own->settings->crew : NULL;
    if (crew != NULL)
        crew->retire(crew->user);
    if (self->end != NULL)
        self->end(self->end_user, finished);
    else
        tarry_runtime_free(self->runtime, finished || crew != NULL);
    if (crew != NULL)
        crew->end(crew->user);
    release(self);
}

/* Encodes the job with the digest of the data, by which workers are known to have the same, and
 * with the key by which they are to draw samples. */
static int make_job(const runner_tcp_settings *settings, const runner_request *request, char **text,
                    uint8_t digest[TARRY_DIGEST_SIZE])
{
    job_spec spec = *request->job;
    spec.tells_draws = settings->tells_draws && request->draws != NULL;
    if (spec.tells_draws)
        memcpy(spec.draws, request->draws, sizeof(spec.draws));
    int error = request->data != NULL ? dataset_digest(request->data, spec.data) : TARRY_OK;
    if (error == TARRY_OK)
        error = job_encode(&spec, text);
    if (error == TARRY_OK)
        memcpy(digest, spec.data, TARRY_DIGEST_SIZE);
    return error;
}

static int create_server(runner_network *own, const runner_request *request,
                         tarry_diagnostic *diagnostic)
{
    const runner_tcp_settings *wanted = own->settings;
    char *job = NULL;
    tarry_tcp_server_settings settings;
    tarry_tcp_server_settings_init(&settings);
    runner_server_settings(request, &settings.server);
    settings.parameters = request->dimension;
    settings.dimension = request->dimension + request->riding;
    settings.listen = wanted->listen;
    settings.listen_count = wanted->listen_count;
    settings.security = wanted->security;
    settings.decode_threads = wanted->decode_threads;
    settings.patience_ns = wanted->patience_ns;
    settings.share = wanted->share;
    settings.checkpoint = request->checkpoint;
    settings.checkpoint_size = request->checkpoint_size;
    settings.view = request->view;
    settings.secure = request->secure;
    settings.log = request->sums;
    settings.observe = observe;
    settings.observe_user = own;
    settings.attend = request->attend;
    settings.attend_user = request->attend_user;
    if (request->job_id != NULL)
        memcpy(settings.job_id, request->job_id, TARRY_JOB_ID_SIZE);
    tarry_diagnostic why = {{0}};
    int error = make_job(wanted, request, &job, settings.data);
    if (error == TARRY_OK && wanted->ship)
        error = shipped_data_create(request->data, &request->job->batch, &own->shipped, &why);
    if (error != TARRY_OK) {
        free(job);
        return diagnose(diagnostic, error, "network server: %s",
                        why.text[0] != '\0' ? why.text : tarry_error_text(error));
    }
    settings.job = job;
    settings.job_size = strlen(job);
    settings.ship = own->shipped != NULL ? shipped_data_give : NULL;
    settings.ship_user = own->shipped;
    error = tarry_tcp_server_create(request->plan, &settings, NULL, &own->server, diagnostic);
    free(job);
    return error;
}

static void announce(const runner_network *own)
{
    const char *address;
    for (uint32_t i = 0; (address = tarry_runtime_address(own->server, i)) != NULL; i++) {
        event_log_add(own->settings->log, "listening",
                      json_pack("{s:o}", "peer", json_text(address)));
        tell(own, "listening on %s", address);
    }
}

/*
 * Who can't connect for want of descriptors is not even heard of. A run that starts its
 * processes itself would wait for them until it gives up.
 */
static int allow_files(const runner_network *own, tarry_diagnostic *diagnostic)
{
    const uint64_t wanted = (uint64_t)own->workers * FILES_PER_WORKER + OTHER_FILES;
    const uint64_t limit = file_limit_raise(wanted);
    const bool crew = own->settings->crew != NULL;
    const uint64_t least = LEAST_FILES + (crew ? (uint64_t)own->workers * LEAST_PER_WORKER : 0);
    if (limit < least)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM,
                        "a server of %" PRIu32 " workers opens up to %" PRIu64
                        " files at once, and %" PRIu64
                        " are allowed (ulimit -n); allow more, or use fewer workers",
                        own->workers, wanted, limit);
    if (limit < (uint64_t)own->workers + OTHER_FILES)
        tell(own,
             "no more than %" PRIu64 " files may be open at once (see ulimit -n): too few for "
             "%" PRIu32 " workers",
             limit, own->workers);
    return TARRY_OK;
}

/* Where everyone gets the sum: to look at what workers have. */
static int hold_one(runner *made, const runner_request *request, tarry_diagnostic *diagnostic)
{
    if (request->replicas == NULL)
        return TARRY_OK;
    return job_replicas_create(request->replicas, 1, &made->replicas) == TARRY_OK
               ? TARRY_OK
               : diagnose_no_memory(diagnostic, "network server");
}

/* Workers of a run that goes on may all be new: they begin with the checkpoint's state, which is
 * that of the one replica here. */
static int hand_out_state(runner *made, const runner_request *request, tarry_diagnostic *diagnostic)
{
    runner_network *own = made->network;
    const tarry_sum_id *after = &request->state_after;
    uint64_t size;
    if (request->replicas == NULL || after->step == 0)
        return TARRY_OK;
    if (job_replicas_copy(made->replicas, &own->state, &size) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "network server");
    return tarry_runtime_vectors(own->server, after, own->state, size, diagnostic);
}

int runner_tcp_create(void *user, const runner_request *request, runner **out,
                      tarry_diagnostic *diagnostic)
{
    runner *made = memory_allocate(NULL, 1, sizeof(*made));
    runner_network *own = memory_allocate(NULL, 1, sizeof(*own));
    if (made == NULL || own == NULL) {
        memory_release(NULL, own);
        memory_release(NULL, made);
        return diagnose_no_memory(diagnostic, "network server");
    }
    made->network = own;
    made->asks = true;
    own->settings = user;
    own->plan = request->plan;
    own->workers = tarry_plan_workers(request->plan);
    own->say = request->say;
    own->say_user = request->say_user;
    own->model = request->job->model;
    own->sparse = request->job->sparse;
    own->conditioning_limit = request->server->conditioning_limit;
    own->mixed_bound = NAN;
    own->numerics = memory_allocate(NULL, own->workers, sizeof(*own->numerics));
    int error = own->numerics == NULL ? diagnose_no_memory(diagnostic, "network server")
                                      : allow_files(own, diagnostic);
    if (error == TARRY_OK)
        error = hold_one(made, request, diagnostic);
    if (error == TARRY_OK)
        error = create_server(own, request, diagnostic);
    if (error == TARRY_OK)
        error = hand_out_state(made, request, diagnostic);
    if (error != TARRY_OK) {
        tarry_runtime_free(own->server, true);
        release(made);
        return error;
    }
    made->runtime = own->server;
    if (own->settings->announce)
        announce(own);
    *out = made;
    return TARRY_OK;
}
