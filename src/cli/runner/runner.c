/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <tarry/error.h>
#include <tarry/event.h>
#include <tarry/local.h>
#include <tarry/plan.h>
#include <tarry/runtime.h>
#include <tarry/secure.h>
#include <tarry/sum_log.h>
#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/job/gradients.h"
#include "cli/job/job.h"
#include "cli/options/machine_room.h"
#include "cli/output/event_log.h"
#include "cli/text/numbers.h"
#include "learn/dataset.h"
#include "pki/authority.h"
#include "plan/rack/rack.h"
#include "runtime/clock.h"
#include "runtime/tcp/trust/private_file.h"

/* The request's settings of the server, but for all that the runtime chooses itself, which stays as
 * it came in *settings. */
static inline void runner_server_settings(const runner_request *request,
                                          tarry_server_settings *settings)
{
    const tarry_server_settings chosen = *settings;
    *settings = *request->server;
    settings->dimension = chosen.dimension;
    settings->stripe_length = chosen.stripe_length;
}

/* ---- crew keys ---- */

enum { FILE_PATH = CREW_KEYS_PATH + 40 };

static const char *const files[CREW_FILES] = {"ca.pem", "cert.pem", "key.pem"};

static int make_folder(char folder[CREW_KEYS_PATH], tarry_diagnostic *diagnostic)
{
    const char *place = getenv("TMPDIR");
    int length = snprintf(folder, CREW_KEYS_PATH, "%s/tarry-keys-XXXXXX",
                          place != NULL && *place != '\0' ? place : "/tmp");
    if (length >= CREW_KEYS_PATH)
        errno = ENAMETOOLONG;
    if (length >= CREW_KEYS_PATH || mkdtemp(folder) == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "credentials of worker processes: %s",
                        strerror(errno));
    return TARRY_OK;
}

int crew_keys_make(uint32_t workers, char folder[CREW_KEYS_PATH], tarry_diagnostic *diagnostic)
{
    static const authority_hosts none = {0};
    const int64_t now = (int64_t)time(NULL);
    authority_rostered made;
    int error = make_folder(folder, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = authority_init(folder, workers, none, now, NULL, diagnostic);
    if (error == TARRY_OK)
        error = authority_roster(folder, now, &made, diagnostic);
    if (error != TARRY_OK)
        authority_remove(folder);
    return error;
}

void crew_keys_remove(const char *folder)
{
    authority_remove(folder);
}

int crew_keys_take(const char *folder, uint32_t worker, crew_member *out,
                   tarry_diagnostic *diagnostic)
{
    for (int i = 0; i < CREW_FILES; i++) {
        char path[FILE_PATH];
        BIO *content;
        snprintf(path, sizeof(path), "%s/worker-%" PRIu32 "/%s", folder, worker, files[i]);
        int error = private_file_read(path, true, &content, NULL, diagnostic);
        if (error != TARRY_OK)
            return error;
        int size = BIO_read(content, out->bytes[i], CREW_FILE_BYTES);
        bool whole = size > 0 && BIO_pending(content) == 0;
        BIO_free(content);
        if (!whole)
            return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: not 1 to %d bytes", path,
                            CREW_FILE_BYTES);
        out->size[i] = (uint32_t)size;
    }
    return TARRY_OK;
}

int crew_keys_put(const crew_member *from, char folder[CREW_KEYS_PATH],
                  tarry_diagnostic *diagnostic)
{
    int error = make_folder(folder, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (int i = 0; i < CREW_FILES && error == TARRY_OK; i++) {
        char path[FILE_PATH];
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        BIO *content = BIO_new_mem_buf(from->bytes[i], (int)from->size[i]);
        error = content != NULL ? private_file_create(path, content, diagnostic)
                                : diagnose_no_memory(diagnostic, "credentials");
        BIO_free(content);
    }
    if (error != TARRY_OK)
        authority_remove(folder);
    return error;
}

/* ---- crew room ---- */

/* Measured with a model of 100 parameters: 0.26 to 0.41 MB for 500 to 4,000 threads, and 0.5 to
 * 1.15 MB where they sum among themselves, which also know each other. */
static const double THREAD_WORKER_BYTES = 0.25e6;
static const double MEMBER_BYTES = 0.2e6, ACQUAINTANCE_BYTES = 100;
/* 8 MB of its 17 MB are a process's own. */
static const double PROCESS_WORKER_BYTES = 6e6;

enum {
    THREADS_PER_WORKER = 2, /* one talks, one computes, */
    MEMBER_THREADS = 3,     /* and one sums with others */
    PROCESS_THREADS = 5,    /* those, one of the network, the first, and one that waits for them */
};

double crew_room_bytes(const crew_size *crew)
{
    const double workers = crew->workers;
    double bytes = workers * (crew->processes ? PROCESS_WORKER_BYTES : THREAD_WORKER_BYTES);
    if (crew->everywhere && !crew->processes)
        bytes += workers * (MEMBER_BYTES + ACQUAINTANCE_BYTES * workers);
    return bytes;
}

static double threads_of(const crew_size *crew)
{
    int each = crew->processes    ? PROCESS_THREADS
               : crew->everywhere ? MEMBER_THREADS
                                  : THREADS_PER_WORKER;
    return (double)crew->workers * each;
}

int crew_room_check(const crew_size *crew, double bytes, const char *what, bool tell,
                    tarry_diagnostic *diagnostic)
{
    const machine_room room = machine_room_find("", crew->processes);
    char need[NUMBER_TEXT_SIZE], have[NUMBER_TEXT_SIZE];
    const double threads = threads_of(crew);
    if (threads > room.threads) {
        whole_text((uint64_t)threads, need);
        whole_text((uint64_t)room.threads, have);
        return diagnose(diagnostic, TARRY_ERROR_NO_MEMORY,
                        "%u workers take %s threads, and %s are allowed (%s); use fewer workers, "
                        "or allow more",
                        crew->workers, need, have, room.threads_by);
    }
    bytes_text(bytes, need);
    bytes_text(room.free_bytes, have);
    if (tell && bytes > room.free_bytes / 2 && bytes <= room.free_bytes)
        fprintf(stderr, "%s take at least %s of memory; %s are %s\n", what, need, have,
                room.free_by);
    if (bytes <= room.free_bytes)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_NO_MEMORY, "%s take at least %s, and %s are %s", what,
                    need, have, room.free_by);
}

/* ---- refusals ---- */

/* True if the same was printed a short while ago; else it is remembered as printed now. */
static bool is_known(refusals *self, uint64_t now_ns, const char *from, const char *why)
{
    size_t oldest = 0;
    for (size_t i = 0; i < REFUSALS_KEPT; i++) {
        if (self->said[i].at_ns != 0 && now_ns - self->said[i].at_ns < REFUSALS_NS &&
            strcmp(self->said[i].from, from) == 0 && strcmp(self->said[i].why, why) == 0)
            return true;
        if (self->said[i].at_ns < self->said[oldest].at_ns)
            oldest = i;
    }
    self->said[oldest].at_ns = now_ns;
    strcpy(self->said[oldest].from, from);
    strcpy(self->said[oldest].why, why);
    return false;
}

/* An address without its port: of a Unix socket all of it. */
static void cut_port(const char *peer, char from[REFUSALS_TEXT])
{
    const char *port = strncmp(peer, "unix:", 5) == 0 ? NULL : strrchr(peer, ':');
    const size_t length = port != NULL ? (size_t)(port - peer) : strlen(peer);
    snprintf(from, REFUSALS_TEXT, "%.*s", (int)length, peer);
}

bool refusals_line(refusals *self, uint64_t now_ns, uint32_t worker, const char *peer,
                   const char *why, char line[REFUSALS_LINE])
{
    char from[REFUSALS_TEXT], reason[REFUSALS_TEXT], who[32] = "", more[64] = "";
    cut_port(peer, from);
    snprintf(reason, sizeof(reason), "%s", why);
    if (now_ns - self->since_ns >= REFUSALS_NS) {
        self->since_ns = now_ns;
        self->lines = 0;
    }
    if (self->lines >= REFUSALS_LINES || is_known(self, now_ns, from, reason)) {
        self->unsaid++;
        return false;
    }
    self->lines++;
    if (worker != UINT32_MAX)
        snprintf(who, sizeof(who), " worker %" PRIu32, worker);
    if (self->unsaid > 0)
        snprintf(more, sizeof(more), " (%lu more refusals were not printed)", self->unsaid);
    self->unsaid = 0;
    snprintf(line, REFUSALS_LINE, "refused%s%s%s: %s%s", who,
             from[0] == '\0'  ? " connections"
             : who[0] != '\0' ? " from "
                              : " ",
             from, reason, more);
    return true;
}

/* What workers have after a round. A large state comes over several calls, which go on as long as
 * bytes arrive. */

/* A state over the network, or a sum. */
typedef struct copy {
    void *bytes;
    uint64_t size;
    float *sum; /* NULL: a state is wanted */
} copy;

static int receive(runner *self, uint64_t wait_ns, copy *wanted, tarry_diagnostic *diagnostic)
{
    tarry_sum_id after;
    uint64_t copied;
    int error;
    do {
        copied = tarry_runtime_copied(self->runtime);
        error = wanted->sum != NULL
                    ? tarry_runtime_sum(self->runtime, wait_ns, wanted->sum, diagnostic)
                    : tarry_runtime_state(self->runtime, wait_ns, &after, &wanted->bytes,
                                          &wanted->size, diagnostic);
    } while (error == TARRY_ERROR_STATE && tarry_runtime_copied(self->runtime) > copied);
    return error;
}

int runner_last_sum(runner *self, uint64_t wait_ns, float *sum, tarry_diagnostic *diagnostic)
{
    return receive(self, wait_ns, &(copy){.sum = sum}, diagnostic);
}

int runner_look(runner *self, uint64_t steps, uint64_t wait_ns, float *parameters,
                optimizer_state *state, tarry_diagnostic *diagnostic)
{
    if (!self->asks) {
        job_replicas_look(self->replicas, steps, parameters, state);
        return TARRY_OK;
    }
    copy came = {0};
    int error = receive(self, wait_ns, &came, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = job_replicas_read(self->replicas, steps, came.bytes, came.size, parameters, state);
    tarry_runtime_release_state(self->runtime, came.bytes);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "what a worker sent is no state after step %" PRIu64,
                          steps);
}

/* ---- local ---- */

/* What each worker holds, all with the same steps behind them. *last is the caller's to release. */
static int hold_everywhere(const runner_request *request, runner *made,
                           tarry_local_settings *settings, tarry_sum_id **last)
{
    uint32_t workers = tarry_plan_workers(request->plan);
    *last = memory_allocate(NULL, workers, sizeof(**last));
    if (*last == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i < workers; i++)
        (*last)[i] = request->sums.last[0];
    settings->log = request->sums;
    settings->last = *last;
    int error = job_replicas_create(request->replicas, workers, &made->replicas);
    if (error == TARRY_OK)
        settings->replicas = job_replicas_list(made->replicas);
    return error;
}

int runner_local_create(void *user, const runner_request *request, runner **out,
                        tarry_diagnostic *diagnostic)
{
    (void)user;
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    runner_server_settings(request, &settings.server);
    settings.parameters = request->dimension;
    settings.dimension = request->dimension;
    settings.compute = request->compute;
    settings.user = request->user;
    settings.straggler = request->straggler;
    settings.checkpoint = request->checkpoint;
    settings.checkpoint_size = request->checkpoint_size;
    settings.view = request->view;
    tarry_sum_id *last = NULL;
    runner *made = memory_allocate(NULL, 1, sizeof(*made));
    int error = made == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    if (error == TARRY_OK && request->replicas != NULL)
        error = hold_everywhere(request, made, &settings, &last);
    if (error != TARRY_OK)
        diagnose_no_memory(diagnostic, "local runtime");
    else
        error = tarry_local_create(request->plan, &settings, NULL, &made->runtime, diagnostic);
    memory_release(NULL, last);
    if (error == TARRY_OK) {
        *out = made;
        return TARRY_OK;
    }
    if (made != NULL)
        job_replicas_free(made->replicas);
    memory_release(NULL, made);
    return error;
}

/* ---- shipped data ---- */

typedef struct shipped_chunk {
    uint8_t *bytes; /* NULL: nobody asked for them */
    size_t size;
} shipped_chunk;

struct shipped_data {
    const dataset *data;
    batch_settings batch;
    shipped_chunk *chunk;
};

static size_t encoded_size_of(const dataset *data, const batch_settings *batch, uint32_t chunk)
{
    size_t first, count;
    batch_chunk(batch, chunk, &first, &count);
    return dataset_encoded_size(data, first, count);
}

static int check_sizes(const dataset *data, const batch_settings *batch,
                       tarry_diagnostic *diagnostic)
{
    for (uint32_t chunk = 0; chunk < batch->chunks; chunk++) {
        size_t size = encoded_size_of(data, batch, chunk);
        if (size > TARRY_TCP_SHIP_MOST)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "the samples of chunk %" PRIu32 " are %zu bytes, and no more than "
                            "%" PRIu64 " can be shipped: more chunks are needed",
                            chunk, size, TARRY_TCP_SHIP_MOST);
    }
    return TARRY_OK;
}

int shipped_data_create(const dataset *data, const batch_settings *batch, shipped_data **out,
                        tarry_diagnostic *diagnostic)
{
    int error = check_sizes(data, batch, diagnostic);
    if (error != TARRY_OK)
        return error;
    shipped_data *shipped = memory_allocate(NULL, 1, sizeof(*shipped));
    if (shipped == NULL)
        return diagnose_no_memory(diagnostic, "shipped data");
    *shipped = (shipped_data){.data = data, .batch = *batch};
    shipped->chunk = memory_allocate(NULL, batch->chunks, sizeof(*shipped->chunk));
    if (shipped->chunk == NULL) {
        memory_release(NULL, shipped);
        return diagnose_no_memory(diagnostic, "shipped data");
    }
    *out = shipped;
    return TARRY_OK;
}

void shipped_data_free(shipped_data *shipped)
{
    if (shipped == NULL)
        return;
    for (uint32_t i = 0; i < shipped->batch.chunks; i++)
        memory_release(NULL, shipped->chunk[i].bytes);
    memory_release(NULL, shipped->chunk);
    memory_release(NULL, shipped);
}

int shipped_data_give(void *user, uint32_t origin, const void **bytes, size_t *size)
{
    shipped_data *shipped = user;
    if (origin >= shipped->batch.chunks)
        return TARRY_ERROR_ARGUMENT;
    shipped_chunk *chunk = &shipped->chunk[origin];
    if (chunk->bytes == NULL) {
        size_t first, count;
        batch_chunk(&shipped->batch, origin, &first, &count);
        chunk->size = encoded_size_of(shipped->data, &shipped->batch, origin);
        chunk->bytes = memory_allocate(NULL, chunk->size, 1);
        if (chunk->bytes == NULL)
            return TARRY_ERROR_NO_MEMORY;
        dataset_encode(shipped->data, first, count, chunk->bytes);
    }
    *bytes = chunk->bytes;
    *size = chunk->size;
    return TARRY_OK;
}

/* ---- tcp ---- */

#define SLICE_NS UINT64_C(100000000) /* between two looks at who can be expected */
#define AWAITED_NS UINT64_C(60000000000)

enum {
    FILES_PER_WORKER = 4, /* where it changes over to another connection, or is a child */
    OTHER_FILES = 64,
    LEAST_PER_WORKER = 2, /* of a child: its connection and its process */
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
    uint8_t *state; /* that the server hands out; NULL: none */
    uint32_t workers;
    void (*say)(void *user, const char *line);
    void *say_user;
    bool begun;
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
    return json_pack(
        "{s:I, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "worker", (json_int_t)worker,
        "present", state.present, "rack", json_text(state.rack[0] != '\0' ? state.rack : NULL),
        "arrivals", (json_int_t)state.arrivals, "gone", (json_int_t)state.gone, "silent",
        (json_int_t)state.silent, "late", (json_int_t)state.late, "failed",
        (json_int_t)state.failed, "received_bytes", (json_int_t)state.received, "sent_bytes",
        (json_int_t)state.sent, "numerics", json_fingerprint(state.numerics));
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
    return json_pack("{s:o, s:I, s:o, s:o}", "listen", listen, "rounds_without_estimate",
                     (json_int_t)atomic_load(&counts->without_estimate), "events", events,
                     "workers", workers);
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
static void release_network(runner *self)
{
    runner_network *own = self->network;
    if (own != NULL) {
        shipped_data_free(own->shipped);
        memory_release(NULL, own->state);
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
    release_network(self);
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
    settings.dimension = request->dimension;
    settings.listen = wanted->listen;
    settings.listen_count = wanted->listen_count;
    settings.security = wanted->security;
    settings.patience_ns = wanted->patience_ns;
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

/* Raises the limit of this process to `wanted` files, as far as it may; gives back what it is then,
 * which is more where it was more before. */
static uint64_t file_limit_raise(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    const rlim_t before = limit.rlim_cur;
    if (before >= wanted)
        return before;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : (rlim_t)wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
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
    own->workers = tarry_plan_workers(request->plan);
    own->say = request->say;
    own->say_user = request->say_user;
    int error = allow_files(own, diagnostic);
    if (error == TARRY_OK)
        error = hold_one(made, request, diagnostic);
    if (error == TARRY_OK)
        error = create_server(own, request, diagnostic);
    if (error == TARRY_OK)
        error = hand_out_state(made, request, diagnostic);
    if (error != TARRY_OK) {
        tarry_runtime_free(own->server, true);
        release_network(made);
        return error;
    }
    made->runtime = own->server;
    if (own->settings->announce)
        announce(own);
    *out = made;
    return TARRY_OK;
}
