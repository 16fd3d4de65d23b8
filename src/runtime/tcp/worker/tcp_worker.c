/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/worker/tcp_worker.h"

#include <assert.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "plan/rack/rack.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/direct.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/channel_in.h"
#include "runtime/tcp/net/notice.h"
#include "runtime/tcp/net/session.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/roster_file.h"
#include "runtime/worker/executor.h"
#include "straggler/straggler.h"

enum { LEAST_TALLY = 16 };

/* Whether this was finished in the round before, which is noted otherwise. Without memory it is not
 * noted: it is only counted. */
static bool was_finished(tarry_tcp_worker *worker, uint64_t round, const tarry_span *span)
{
    worker_tally *tally = &worker->tally;
    if (round != tally->round)
        tally->count = 0;
    tally->round = round;
    for (size_t i = 0; i < tally->count; i++)
        if (memcmp(&tally->spans[i], span, sizeof(*span)) == 0)
            return true;
    if (tally->count == tally->room) {
        size_t room = memory_room(tally->room, tally->count + 1, LEAST_TALLY);
        tarry_span *grown =
            memory_grow(&worker->allocator, tally->spans, tally->count, room, sizeof(*grown));
        if (grown == NULL)
            return false;
        tally->spans = grown;
        tally->room = room;
    }
    tally->spans[tally->count++] = *span;
    return false;
}

/* The executor's `given`, which counts. */
static void tcp_worker_given(void *user, const tarry_task *task, int result)
{
    tarry_tcp_worker *worker = user;
    /* Chunks of a plan begin apart. */
    bool computed = task->step == 0 && result == 0;
    bool again = computed && was_finished(worker, task->round, &task->spans[0]);
    pthread_mutex_lock(&worker->lock);
    worker->pull.out = false;
    worker->work.chunks += computed;
    worker->work.computed_again += again;
    pthread_mutex_unlock(&worker->lock);
}

/* From the executor's threads to the loop's: messages are copied, numbers are not. */

enum { LEAST_UPLINK_ROOM = 1024 };

/* What workers send has no sets, for which a shape would be needed. */
static const codec_shape NO_SETS;

static int tcp_worker_init_uplink(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    up->has_lock = pthread_mutex_init(&up->lock, NULL) == 0;
    up->has_released = pthread_cond_init(&up->released, NULL) == 0;
    return up->has_lock && up->has_released ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

static void tcp_worker_destroy_uplink(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    assert(up->loads == NULL);
    while (up->spare != NULL) {
        worker_load *load = up->spare;
        up->spare = load->next;
        memory_release(&worker->allocator, load);
    }
    memory_release(&worker->allocator, up->bytes);
    if (up->has_released)
        pthread_cond_destroy(&up->released);
    if (up->has_lock)
        pthread_mutex_destroy(&up->lock);
}

static void wake(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

/* ---- the executor's side; `up->lock` is never held together with another one ---- */

static bool reserve(tarry_tcp_worker *worker, size_t size)
{
    worker_uplink *up = &worker->uplink;
    if (up->size + size <= up->room)
        return true;
    size_t room = memory_room(up->room, up->size + size, LEAST_UPLINK_ROOM);
    uint8_t *grown = memory_grow(&worker->allocator, up->bytes, up->size, room, 1);
    if (grown == NULL)
        return false;
    up->bytes = grown;
    up->room = room;
    return true;
}

/* With the lock held: a frame without numbers. */
static void put(tarry_tcp_worker *worker, const uint8_t *frame, size_t size)
{
    worker_uplink *up = &worker->uplink;
    if (reserve(worker, size)) {
        memcpy(up->bytes + up->size, frame, size);
        up->size += size;
    } else {
        up->lost = true;
    }
}

void tcp_worker_put_reports(tarry_tcp_worker *worker)
{
    report_batch *reports = &worker->uplink.reports;
    size_t size = report_batch_close(reports);
    if (size > 0)
        put(worker, reports->frame, size);
}

/* With the lock held: at once, without a change of thread, where nothing else waits. Whether it is
 * sent. */
static bool send_aside(worker_uplink *up, const uint8_t *frame, size_t size)
{
    if (up->aside == NULL || up->size > 0 || up->lost)
        return false;
    size_t sent = channel_send_aside(up->aside, frame, size);
    up->lost = sent > 0 && sent < size; /* no frame makes sense behind a piece of one */
    return sent == size;
}

/* With the lock held. Gives back whether the loop has to be told. */
static bool put_report(tarry_tcp_worker *worker, const tarry_message *report, bool more)
{
    worker_uplink *up = &worker->uplink;
    report_batch *reports = &up->reports;
    const uint32_t most = worker->job.offer.welcome.terms.server.reports_per_frame;
    bool first = up->size == 0;
    if (!report_batch_fits(reports, report))
        tcp_worker_put_reports(worker);
    more = more && reports->held.count + 1 < most;
    if (report_batch_put(reports, report, more, clock_now_ns()))
        return !up->ticking || (first && up->size > 0);
    size_t size = report_batch_close(reports);
    if (send_aside(up, reports->frame, size))
        return false;
    put(worker, reports->frame, size);
    return first;
}

/* With the lock held. Gives back whether the loop has to be told. */
static bool put_message(tarry_tcp_worker *worker, const tarry_message *message)
{
    worker_uplink *up = &worker->uplink;
    uint8_t frame[WIRE_HEAD_BYTES + CODEC_MOST_WORKER_BYTES];
    size_t size = codec_size(&NO_SETS, message);
    assert(size <= CODEC_MOST_WORKER_BYTES);
    wire_message_head(size, 0, frame);
    codec_encode(&NO_SETS, message, frame + WIRE_HEAD_BYTES);
    bool first = up->size == 0;
    tcp_worker_put_reports(worker);
    if (send_aside(up, frame, WIRE_HEAD_BYTES + size))
        return false;
    put(worker, frame, WIRE_HEAD_BYTES + size);
    return first;
}

static void post(void *user, const tarry_message *message, bool more)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    bool news = false;
    pthread_mutex_lock(&up->lock);
    if (up->open && message->type == TARRY_MESSAGE_REPORT)
        news = put_report(worker, message, more);
    else if (up->open)
        news = put_message(worker, message);
    pthread_mutex_unlock(&up->lock);
    if (news)
        wake(worker);
}

/* With the lock held. */
static worker_load *take_load(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    worker_load *load = up->spare;
    if (load == NULL)
        return memory_allocate(&worker->allocator, 1, sizeof(*load));
    up->spare = load->next;
    return load;
}

/* With the lock held. */
static bool put_load(tarry_tcp_worker *worker, const tarry_message *message,
                     const executor_stripe *part)
{
    worker_uplink *up = &worker->uplink;
    worker_load *load = up->open ? take_load(worker) : NULL;
    up->lost = up->lost || (up->open && load == NULL);
    if (load == NULL)
        return up->open;
    tcp_worker_put_reports(worker);
    if (++up->tags == 0)
        up->tags = 1;
    *load = (worker_load){
        .worker = worker,
        .tag = up->tags,
        .stripe = *part,
    };
    wire_message_head(CODEC_HEADER_BYTES, part->size, load->prefix);
    codec_encode(&NO_SETS, message, load->prefix + WIRE_HEAD_BYTES);
    worker_load **at = &up->loads;
    while (*at != NULL)
        at = &(*at)->next;
    *at = load;
    return true;
}

static void post_part(void *user, const tarry_message *message, const executor_stripe *part)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool news = put_load(worker, message, part);
    pthread_mutex_unlock(&up->lock);
    if (news)
        wake(worker);
}

bool tcp_worker_is_claimed(const worker_uplink *up, const worker_load *load)
{
    const executor_stripe *its = &load->stripe;
    return up->claiming && its->first < up->claim_end && up->claim_first < its->first + its->count;
}

/* With the lock held. */
static bool has_claimed(const worker_uplink *up)
{
    for (const worker_load *load = up->loads; load != NULL; load = load->next)
        if (tcp_worker_is_claimed(up, load))
            return true;
    return false;
}

static void claim(void *user, size_t first, size_t count)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    up->claiming = true;
    up->claim_first = first;
    up->claim_end = first + count;
    if (has_claimed(up)) {
        pthread_mutex_unlock(&up->lock);
        wake(worker);
        pthread_mutex_lock(&up->lock);
    }
    while (has_claimed(up))
        pthread_cond_wait(&up->released, &up->lock);
    up->claiming = false;
    pthread_mutex_unlock(&up->lock);
}

/* From now on nothing is sent over this connection, whatever else is on its way to that. */
static void give_up(void *user, int error, const char *why)
{
    tarry_tcp_worker *worker = user;
    worker_uplink *up = &worker->uplink;
    if (error != TARRY_OK)
        tcp_worker_end(worker, error,
                       worker->job.masking != NULL ? "secure sums: %s" : "what it steps: %s", why);
    pthread_mutex_lock(&up->lock);
    up->lost = up->open;
    pthread_mutex_unlock(&up->lock);
    wake(worker);
}

/* It leaves, and is done with its last round. */
static void changed(void *user)
{
    tarry_tcp_worker *worker = user;
    pthread_mutex_lock(&worker->lock);
    pthread_cond_broadcast(&worker->changed);
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

static void voided(void *user, uint32_t count)
{
    tarry_tcp_worker *worker = user;
    pthread_mutex_lock(&worker->lock);
    worker->work.voided_residuals += count;
    pthread_mutex_unlock(&worker->lock);
}

executor_uplink tcp_worker_uplink(tarry_tcp_worker *worker)
{
    return (executor_uplink){
        .post = post,
        .post_part = post_part,
        .claim = claim,
        .give_up = give_up,
        .changed = changed,
        .user = worker,
        .given = tcp_worker_given,
        .voided = voided,
    };
}

/* What the caller's threads may ask of a worker. */

#define PATIENCE_NS UINT64_C(300000000000)

void tarry_tcp_worker_settings_init_sized(tarry_tcp_worker_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = (tarry_tcp_worker_settings){
        .size = size,
        .worker = TARRY_TCP_NO_WORKER,
        .share = true,
        .patience_ns = PATIENCE_NS,
    };
}

/* ---- creation ---- */

static int check_settings(const tarry_tcp_worker_settings *settings, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (settings->connect == NULL)
        fault = "there is no address to connect to";
    else if (settings->secure.required && settings->security.credentials == NULL)
        fault = "secure sums need credentials";
    else if (settings->security.insecure && settings->security.credentials != NULL)
        fault = "credentials are of no use in plain text";
    else if (settings->rack != NULL && !rack_is_name(settings->rack))
        fault = "its rack is no name";
    else if (settings->engine != NULL && !paired_address_may_name(settings->engine->methods->name))
        fault = "its engine's name is none";
    if (fault != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "network worker: %s", fault);
    int error = straggler_check_mortal(settings->straggler, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_diagnostic why;
    return address_check(settings->connect, false, &why) == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s", why.text);
}

/* The id that the worker asks for is that of its credential, if that is bound to one. */
static int load_credential(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    const char *directory = worker->settings.security.credentials;
    if (directory == NULL)
        return TARRY_OK;
    int error = credential_load(directory, &worker->allocator, &worker->credential, diagnostic);
    if (error != TARRY_OK)
        return error;
    credential_identity own = credential_own(worker->credential);
    if (own.role != CREDENTIAL_WORKER)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: not the credentials of a worker",
                        directory);
    if (worker->settings.secure.required && own.worker == CREDENTIAL_ANY_ID)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: secure sums need credentials that name their worker", directory);
    if (worker->settings.secure.required) {
        error =
            credential_roster(worker->credential, &worker->allocator, &worker->roster, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    if (own.worker == CREDENTIAL_ANY_ID)
        return TARRY_OK;
    if (worker->settings.worker != TARRY_TCP_NO_WORKER && worker->settings.worker != own.worker)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: the credentials of worker %u, not of worker %u", directory, own.worker,
                        worker->settings.worker);
    worker->settings.worker = own.worker;
    return TARRY_OK;
}

/* NULL stays so. */
static bool copy_text(const tarry_tcp_worker *worker, const char *text, char **copy)
{
    if (text == NULL)
        return true;
    *copy = memory_allocate(&worker->allocator, strlen(text) + 1, 1);
    if (*copy != NULL)
        memcpy(*copy, text, strlen(text));
    return *copy != NULL;
}

static int init_quietly(tarry_tcp_worker *worker)
{
    worker->has_lock = pthread_mutex_init(&worker->lock, NULL) == 0;
    worker->has_changed = clock_init_condition(&worker->changed) == 0;
    if (!worker->has_lock || !worker->has_changed ||
        RAND_bytes(worker->instance, WIRE_ID_BYTES) != 1)
        return TARRY_ERROR_SYSTEM;
    worker->read_buffer = memory_allocate(&worker->allocator, CHANNEL_SHARED_BYTES, 1);
    if (worker->read_buffer == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const tarry_tcp_worker_settings *settings = &worker->settings;
    if (!copy_text(worker, settings->connect, &worker->connect) ||
        !copy_text(worker, settings->listen, &worker->listen) ||
        !copy_text(worker, settings->advertise, &worker->advertise) ||
        !copy_text(worker, settings->security.credentials, &worker->credentials))
        return TARRY_ERROR_NO_MEMORY;
    /* Workers without an id of their own, and with the same seed, don't wait for the same times. */
    uint32_t life = 0;
    if (worker->settings.worker == TARRY_TCP_NO_WORKER)
        memcpy(&life, worker->instance, sizeof(life));
    backoff_init(&worker->backoff, worker->settings.seed, worker->settings.worker, life);
    return tcp_worker_init_uplink(worker);
}

int tarry_tcp_worker_create(const tarry_tcp_worker_settings *settings,
                            const tarry_allocator *allocator, tarry_tcp_worker **worker,
                            tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "network worker", diagnostic);
    if (error == TARRY_OK)
        error = check_settings(settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_tcp_worker *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "network worker");
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    if (settings->rack != NULL)
        memcpy(made->rack, settings->rack, strlen(settings->rack));
    made->work.worker = TARRY_TCP_NO_WORKER;
    error = init_quietly(made);
    if (error != TARRY_OK)
        diagnose(diagnostic, error, "network worker: %s", tarry_error_text(error));
    else
        error = load_credential(made, diagnostic);
    if (error != TARRY_OK) {
        tarry_tcp_worker_free(made);
        return error;
    }
    made->settings.connect = NULL; /* the caller's for the time of this call */
    made->settings.security.credentials = NULL;
    made->settings.rack = made->settings.listen = made->settings.advertise = NULL;
    *worker = made;
    return TARRY_OK;
}

/* Ends the thread of the run, if there is one. */
static void tcp_worker_end_pull(tarry_tcp_worker *worker)
{
    worker_pull *pull = &worker->pull;
    if (!pull->started)
        return;
    tcp_worker_end(worker, TARRY_ERROR_INTERRUPTED, "%s", "the worker was freed");
    pthread_mutex_lock(&worker->lock);
    if (pull->out)
        executor_abandon(&worker->job.executor);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(pull->thread, NULL);
}

void tarry_tcp_worker_free(tarry_tcp_worker *worker)
{
    if (worker == NULL)
        return;
    tarry_allocator allocator = worker->allocator;
    tcp_worker_end_pull(worker);
    tcp_worker_drop_job(worker);
    tcp_worker_release_offer(worker, &worker->offers.waiting);
    tcp_worker_destroy_uplink(worker);
    roster_file_free(worker->roster);
    credential_free(worker->credential);
    if (worker->has_changed)
        pthread_cond_destroy(&worker->changed);
    if (worker->has_lock)
        pthread_mutex_destroy(&worker->lock);
    memory_release(&allocator, worker->tally.spans);
    memory_release(&allocator, worker->read_buffer);
    memory_release(&allocator, worker->credentials);
    memory_release(&allocator, worker->advertise);
    memory_release(&allocator, worker->listen);
    memory_release(&allocator, worker->connect);
    memory_release(&allocator, worker);
}

/* ---- the run ---- */

void tcp_worker_wake(tarry_tcp_worker *worker)
{
    if (worker->loop.listens)
        uv_async_send(&worker->loop.wake);
}

void tcp_worker_end(tarry_tcp_worker *worker, int outcome, const char *format, ...)
{
    pthread_mutex_lock(&worker->lock);
    if (!worker->run.ended) {
        worker->run.ended = true;
        worker->run.outcome = outcome;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(worker->run.why.text, sizeof(worker->run.why.text), format, arguments);
        va_end(arguments);
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->lock);
}

void tcp_worker_notify(tarry_tcp_worker *worker, tarry_tcp_notice *notice)
{
    if (worker->settings.observe == NULL)
        return;
    tarry_tcp_work now = tarry_tcp_worker_work(worker);
    notice->now_ns = clock_now_ns();
    notice->worker = now.worker;
    notice->round = now.round;
    notice_tell(worker->settings.observe, worker->settings.observe_user, notice);
}

/* Waits for the next offer. False: the run has ended. */
static bool take_offer(tarry_tcp_worker *worker, worker_offer *offer)
{
    pthread_mutex_lock(&worker->lock);
    while (!worker->run.ended && worker->offers.waiting.number == 0)
        pthread_cond_wait(&worker->changed, &worker->lock);
    bool ended = worker->run.ended;
    if (!ended) {
        *offer = worker->offers.waiting;
        worker->offers.waiting = (worker_offer){0};
        worker->samples.open =
            worker->samples.open && tcp_worker_is_same_job(&worker->samples.of, &offer->welcome);
    }
    pthread_mutex_unlock(&worker->lock);
    return !ended;
}

/* What could not be prepared because the server, or the caller, wants something else by now. */
static bool is_superseded(tarry_tcp_worker *worker, const wire_welcome *failed)
{
    pthread_mutex_lock(&worker->lock);
    const worker_offer *next = &worker->offers.waiting;
    bool another = next->number != 0 && !tcp_worker_is_same_job(&next->welcome, failed);
    bool superseded = worker->run.ended || worker->run.leaving || another;
    pthread_mutex_unlock(&worker->lock);
    return superseded;
}

static void work(tarry_tcp_worker *worker)
{
    worker_offer offer;
    while (take_offer(worker, &offer)) {
        const wire_welcome wanted = offer.welcome;
        tarry_diagnostic why = {{0}};
        int error = tcp_worker_prepare(worker, &offer, &why);
        if (error != TARRY_OK && !is_superseded(worker, &wanted))
            tcp_worker_end(worker, error, "%s",
                           why.text[0] != '\0' ? why.text : tarry_error_text(error));
    }
}

int tcp_worker_run(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    pthread_mutex_lock(&worker->lock);
    bool used = worker->run.used;
    worker->run.used = true;
    pthread_mutex_unlock(&worker->lock);
    if (used)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "network worker: it ran already");
    int error = tcp_worker_start_loop(worker);
    if (error == TARRY_OK)
        work(worker);
    tcp_worker_stop_loop(worker);
    pthread_mutex_lock(&worker->lock);
    worker->job.executor_runs = false;
    pthread_mutex_unlock(&worker->lock);
    executor_close(&worker->job.executor);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "network worker: %s", tarry_error_text(error));
    return worker->run.outcome == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, worker->run.outcome, "%s", worker->run.why.text);
}

int tarry_tcp_worker_run(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic)
{
    return worker->settings.compute != NULL
               ? tcp_worker_run(worker, diagnostic)
               : diagnose(diagnostic, TARRY_ERROR_STATE,
                          "network worker: there is nothing to compute with: tasks are taken");
}

void tarry_tcp_worker_leave(tarry_tcp_worker *worker, uint64_t grace_ns)
{
    uint64_t until = clock_from_now(grace_ns);
    pthread_mutex_lock(&worker->lock);
    worker->run.leaving = true;
    worker->run.leaving_news = true;
    worker->run.grace_until_ns = until;
    pthread_cond_broadcast(&worker->changed);
    tcp_worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

void tarry_tcp_worker_straggle(tarry_tcp_worker *worker, const tarry_straggler *straggler)
{
    worker->settings.straggler = straggler; /* the running thread's, like what it prepares */
}

void tarry_tcp_worker_numerics(tarry_tcp_worker *worker, uint64_t fingerprint)
{
    pthread_mutex_lock(&worker->lock);
    worker->held.numerics = fingerprint;
    pthread_mutex_unlock(&worker->lock);
}

tarry_tcp_work tarry_tcp_worker_work(const tarry_tcp_worker *worker)
{
    tarry_tcp_worker *locked = (tarry_tcp_worker *)worker;
    pthread_mutex_lock(&locked->lock);
    tarry_tcp_work work = worker->work;
    pthread_mutex_unlock(&locked->lock);
    return work;
}

/* ---- report batch ---- */

enum { SHORT_FRACTION = 4 }; /* of REPORT_BATCH_NS: how long a short piece takes at most */

void report_batch_clear(report_batch *self)
{
    self->held.count = 0;
    self->begun = false;
}

bool report_batch_fits(const report_batch *self, const tarry_message *message)
{
    const wire_batch *held = &self->held;
    return message->type == TARRY_MESSAGE_REPORT &&
           (held->count == 0 || (held->count < REPORT_BATCH_MOST && held->round == message->round &&
                                 held->term == message->term));
}

static uint64_t wait_ns(const report_batch *self, uint64_t now_ns)
{
    uint64_t wait = (now_ns - self->began_ns) / REPORT_BATCH_FRACTION;
    return wait < REPORT_BATCH_NS ? wait : REPORT_BATCH_NS;
}

bool report_batch_put(report_batch *self, const tarry_message *report, bool more, uint64_t now_ns)
{
    assert(report_batch_fits(self, report));
    bool first = !self->begun || self->round != report->round;
    if (first) {
        self->begun = true;
        self->round = report->round;
        self->began_ns = now_ns;
    }
    if (self->held.count == 0) {
        self->held = (wire_batch){.round = report->round, .term = report->term};
        self->due_ns = now_ns + wait_ns(self, now_ns);
    }
    wire_batch_put(self->frame, self->held.count++, report);
    uint64_t piece_ns = now_ns - self->last_ns;
    self->last_ns = now_ns;
    /* Nothing waits in vain: the next one is there in time if its piece takes as long. */
    return !first && more && !report->failed && self->held.count < REPORT_BATCH_MOST &&
           piece_ns < REPORT_BATCH_NS / SHORT_FRACTION && now_ns + piece_ns <= self->due_ns;
}

size_t report_batch_close(report_batch *self)
{
    const codec_shape no_sets = {0};
    wire_batch held = self->held;
    self->held.count = 0;
    if (held.count > 1)
        return wire_batch_encode(&held, self->frame);
    if (held.count == 0)
        return 0;
    /* One alone is shorter as a message. */
    tarry_message report;
    held.reports = self->frame + WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES;
    wire_batch_get(&held, 0, &report);
    size_t size = codec_size(&no_sets, &report);
    wire_message_head(size, 0, self->frame);
    codec_encode(&no_sets, &report, self->frame + WIRE_HEAD_BYTES);
    return WIRE_HEAD_BYTES + size;
}
