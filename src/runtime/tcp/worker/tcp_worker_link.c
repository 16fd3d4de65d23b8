/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "coding/coefficients.h"
#include "protocol/form.h"
#include "protocol/wire/codec.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/direct.h"
#include "runtime/tcp/net/session.h"
#include "runtime/tcp/worker/tcp_worker.h"

/* The connection: from an address to WELCOME, and to its end. */

#define GREETING_NS UINT64_C(10000000000) /* until WELCOME has come */

enum {
    MOST_WAITING = 16 << 20, /* bytes of messages that the server does not take */
    MOST_LENGTH = (16 << 20) + WIRE_SMALL_BYTES,
};

static void tcp_worker_forget_asked(tarry_tcp_worker *worker);
static void tcp_worker_offer(tarry_tcp_worker *worker);
static worker_fault tcp_worker_take_frame(tarry_tcp_worker *worker, const wire_head *head,
                                          const uint8_t *body);
static worker_fault tcp_worker_begin_large(tarry_tcp_worker *worker, const wire_head *head,
                                           const uint8_t *fixed, void **place);
static worker_fault tcp_worker_complete_large(tarry_tcp_worker *worker, const wire_head *head,
                                              const uint8_t *fixed);
static void tcp_worker_answer(tarry_tcp_worker *worker);
static void tcp_worker_forget_round(tarry_tcp_worker *worker);
static worker_fault tcp_worker_take_message(tarry_tcp_worker *worker, const uint8_t *frame,
                                            size_t size);
static bool tcp_worker_begin_parameters(tarry_tcp_worker *worker, const wire_parameters *parameters,
                                        void **place);
static worker_fault tcp_worker_add_parameters(tarry_tcp_worker *worker, uint64_t count);
static worker_fault tcp_worker_begin_view(tarry_tcp_worker *worker, const view_piece *piece,
                                          void **place);
static worker_fault tcp_worker_add_view(tarry_tcp_worker *worker);
static void tcp_worker_forget_view(tarry_tcp_worker *worker);

/* A frame that has no place here. */
static const char NOT_HERE[] = "what came is not of this protocol";

/* ---- the uplink: what the executor's side (tcp_worker.c) has put there ---- */

/* With the lock held: nobody reads its numbers. */
static void forget(worker_uplink *up, worker_load *load)
{
    worker_load **at = &up->loads;
    while (*at != load)
        at = &(*at)->next;
    *at = load->next;
    load->next = up->spare;
    up->spare = load;
    pthread_cond_signal(&up->released);
}

/* The channel does not read a load any more. */
static void tcp_worker_load_released(void *user, void *owner)
{
    (void)user;
    worker_load *load = owner;
    tarry_tcp_worker *worker = load->worker;
    worker_uplink *up = &worker->uplink;
    worker->link.machine_ns = clock_now_ns();
    pthread_mutex_lock(&up->lock);
    forget(up, load);
    pthread_mutex_unlock(&up->lock);
}

/* With the lock held. What the channel has not is forgotten. */
static void forget_waiting(worker_uplink *up, bool claimed)
{
    for (worker_load *load = up->loads, *next; load != NULL; load = next) {
        next = load->next;
        if (!load->handed_on && (!claimed || tcp_worker_is_claimed(up, load)))
            forget(up, load);
    }
}

/* From now on messages are taken, or dropped, with all that wait. */
static void tcp_worker_open_uplink(tarry_tcp_worker *worker, bool open)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    up->open = open;
    up->aside = open && worker->link.welcome.terms.server.sum == TARRY_SUM_EVERYWHERE
                    ? worker->link.channel
                    : NULL;
    up->lost = false;
    up->size = 0;
    report_batch_clear(&up->reports);
    forget_waiting(up, false);
    pthread_mutex_unlock(&up->lock);
}

/* Whether reports have begun to wait: they are to be taken each REPORT_BATCH_NS from now on. */
static bool tcp_worker_hold_reports(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool begins = !up->ticking && up->reports.held.count > 0;
    up->ticking = up->ticking || begins;
    pthread_mutex_unlock(&up->lock);
    return begins;
}

/* What waits is to be handed on. False: nothing waited, and nobody has to look again before
 * tcp_worker_hold_reports says so. */
static bool tcp_worker_take_reports(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    up->ticking = up->reports.held.count > 0;
    bool any = up->ticking;
    tcp_worker_put_reports(worker);
    pthread_mutex_unlock(&up->lock);
    return any;
}

/* Whether no part waits or is being sent. */
static bool tcp_worker_is_drained(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool drained = up->loads == NULL;
    pthread_mutex_unlock(&up->lock);
    return drained;
}

/* The first load that the channel has and that is claimed, or any; 0: there is none. */
static uint32_t find_handed_on(worker_uplink *up, bool claimed, uint32_t after)
{
    uint32_t tag = 0;
    pthread_mutex_lock(&up->lock);
    bool behind = after == 0;
    for (const worker_load *load = up->loads; load != NULL && tag == 0; load = load->next) {
        if (behind && load->handed_on && (!claimed || tcp_worker_is_claimed(up, load)))
            tag = load->tag;
        behind = behind || load->tag == after;
    }
    pthread_mutex_unlock(&up->lock);
    return tag;
}

static worker_fault let_go(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    forget_waiting(up, true);
    bool claiming = up->claiming;
    pthread_mutex_unlock(&up->lock);
    if (!claiming)
        return NULL;
    for (uint32_t tag; (tag = find_handed_on(up, true, 0)) != 0;) {
        if (!channel_drop(worker->link.channel, tag))
            continue;
        if (!channel_detach(worker->link.channel, tag))
            return "out of memory";
    }
    return NULL;
}

/* Parts that wait are outdated: the server wants another attempt, or none. */
static void tcp_worker_drop_parts(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    forget_waiting(up, false);
    pthread_mutex_unlock(&up->lock);
    /* The one that is on its way stays. */
    uint32_t kept = 0;
    for (uint32_t tag; (tag = find_handed_on(up, false, kept)) != 0;)
        if (channel_drop(worker->link.channel, tag))
            kept = tag;
}

/* The next load that the channel is to get. */
static worker_load *next_load(worker_uplink *up)
{
    pthread_mutex_lock(&up->lock);
    worker_load *load = up->loads;
    while (load != NULL && load->handed_on)
        load = load->next;
    if (load != NULL)
        load->handed_on = true;
    pthread_mutex_unlock(&up->lock);
    return load;
}

static bool send_loads(tarry_tcp_worker *worker)
{
    for (worker_load *load; (load = next_load(&worker->uplink)) != NULL;) {
        const channel_load wanted = {
            .bytes = load->stripe.bytes,
            .size = load->stripe.size,
            .tag = load->tag,
            .released = tcp_worker_load_released,
            .owner = load,
        };
        if (channel_send_load(worker->link.channel, load->prefix, sizeof(load->prefix), &wanted))
            continue;
        tcp_worker_load_released(NULL, load);
        return false;
    }
    return true;
}

static bool send_messages(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    pthread_mutex_lock(&up->lock);
    bool good = up->size == 0 || channel_send(worker->link.channel, up->bytes, up->size);
    if (up->size > 0)
        worker->link.machine_ns = clock_now_ns();
    up->size = 0;
    pthread_mutex_unlock(&up->lock);
    return good;
}

/* Hands on what waits, and lets go of what the executor claims. */
static worker_fault tcp_worker_flush(tarry_tcp_worker *worker)
{
    worker_uplink *up = &worker->uplink;
    worker_fault fault = let_go(worker);
    pthread_mutex_lock(&up->lock);
    bool open = up->open, lost = up->lost;
    pthread_mutex_unlock(&up->lock);
    if (fault != NULL || !open)
        return fault;
    if (lost)
        return "can't go on in this round";
    if (send_messages(worker))
        send_loads(worker);
    return NULL;
}

/* ---- the end ---- */

static bool is_everywhere(const worker_link *link)
{
    return link->welcome.terms.server.sum == TARRY_SUM_EVERYWHERE;
}

static void count_bytes(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    const channel *its = session_channel(link->session);
    if (its == NULL)
        return;
    uint64_t received = channel_received(its), sent = channel_sent(its);
    pthread_mutex_lock(&worker->lock);
    worker->work.received += received - link->counted_received;
    worker->work.sent += sent - link->counted_sent;
    pthread_mutex_unlock(&worker->lock);
    link->counted_received = received;
    link->counted_sent = sent;
}

/* Nothing of the connection is left but the channel itself. */
static void detach(tarry_tcp_worker *worker, worker_stage next)
{
    worker_link *link = &worker->link;
    count_bytes(worker);
    if (link->stage == WORKER_READY && is_everywhere(link))
        executor_cut(&worker->job.executor);
    tcp_worker_open_uplink(worker, false);
    tcp_worker_forget_round(worker);
    tcp_worker_forget_view(worker);
    tcp_worker_forget_asked(worker);
    assembly_clear(&link->plan, &worker->allocator);
    assembly_clear(&link->job, &worker->allocator);
    link->channel = NULL;
    link->intake = INTAKE_NOTHING;
    link->offered = link->answered = 0;
    link->turn = 0;
    link->in_round = link->signalled = false;
    link->counted_received = link->counted_sent = 0;
    link->stage = next;
}

/* Loses the connection if there is a fault with it. Gives back whether it goes on. */
static bool tcp_worker_settle(tarry_tcp_worker *worker, worker_fault fault)
{
    if (fault == NOT_HERE)
        session_misfit(worker->link.session);
    else if (fault != NULL && fault[0] != '\0')
        session_lose(worker->link.session, "%s", fault);
    return fault == NULL;
}

/* Ends the session, with a last word to a server that knows it; there will be no other one. */
static void tcp_worker_leave_server(tarry_tcp_worker *worker)
{
    if (worker->link.session == NULL)
        return;
    detach(worker, WORKER_OVER);
    session_close(worker->link.session, WIRE_BYE_LEAVING);
    worker->link.session = NULL;
}

/* ---- WELCOME ---- */

static void say_hello(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_WORKER,
        .ranking = COEFFICIENTS_VERSION,
        .worker = worker->settings.worker,
    };
    memcpy(hello.instance, worker->instance, WIRE_ID_BYTES);
    memcpy(hello.rack, worker->rack, sizeof(hello.rack));
    pthread_mutex_lock(&worker->lock);
    if (hello.worker == WIRE_ANY_WORKER && !link->seat_taken)
        hello.worker = worker->work.worker;
    memcpy(hello.job, worker->held.job, WIRE_ID_BYTES);
    memcpy(hello.plan, worker->held.plan, WIRE_DIGEST_BYTES);
    pthread_mutex_unlock(&worker->lock);
    link->seat_taken = false;
    link->claimed_worker = hello.worker;
    memcpy(link->claimed_job, hello.job, WIRE_ID_BYTES);
    channel_send(link->channel, frame, wire_encode(WIRE_HELLO, &hello, frame));
}

/* Why the worker can't work by what the server announced; NULL: it can. `changed` has room for the
 * words. */
static const char *rules_fault(tarry_tcp_worker *worker, const run_terms *terms,
                               const uint8_t job[WIRE_ID_BYTES], char changed[2 * TERMS_TEXT_BYTES])
{
    const tarry_secure_rules *rules = &terms->secure;
    const tarry_server_settings *server = &terms->server;
    char what[TERMS_TEXT_BYTES];
    if (!worker->settings.secure.required)
        return rules->bits == 0 ? NULL : "its sums are secure, and the worker is not set for that";
    if (rules->bits == 0)
        return "its sums are not secure, as the worker wants them";
    if (memcmp(rules->roster, worker->roster->digest, sizeof(rules->roster)) != 0)
        return "it goes by another list of workers (" ROSTER_FILE_NAME ") than the worker";
    if (server->keep != TARRY_KEEP_CREDITED || server->sum != TARRY_SUM_SERVER || terms->ships ||
        server->fill == TARRY_FILL_STALE || server->compress != TARRY_COMPRESS_NONE ||
        server->compress_down != TARRY_COMPRESS_NONE)
        return "it wants sums of a kind that can't be secure";
    pthread_mutex_lock(&worker->lock);
    const bool differs = memcmp(worker->held.job, job, WIRE_ID_BYTES) == 0 &&
                         worker->held.agreed.secure.bits != 0 &&
                         terms_differ(terms, &worker->held.agreed, TERMS_AGREED, what);
    pthread_mutex_unlock(&worker->lock);
    if (!differs)
        return NULL;
    snprintf(changed, 2 * TERMS_TEXT_BYTES, RULES_CHANGED "%s", what);
    return changed;
}

/* Whether the worker works by what WELCOME says of secure sums: if not, the run ends. */
static bool tcp_worker_accepts_rules(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    char changed[2 * TERMS_TEXT_BYTES];
    const char *fault = rules_fault(worker, &welcome->terms, welcome->job, changed);
    if (fault == NULL)
        return true;
    tcp_worker_end(worker, TARRY_ERROR_STATE, "%s: %s", worker->connect, fault);
    return false;
}

static worker_fault take_welcome(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    worker_link *link = &worker->link;
    if (welcome->worker == WIRE_ANY_WORKER)
        return "the server gives no id";
    if (!tcp_worker_accepts_rules(worker, welcome))
        return "its rules are not taken";
    link->welcome = *welcome;
    link->stage = WORKER_PREPARING;
    session_up(link->session, welcome->terms.server.silence_ns);
    pthread_mutex_lock(&worker->lock);
    worker->work.connections++;
    worker->work.worker = welcome->worker;
    pthread_mutex_unlock(&worker->lock);
    tcp_worker_notify(worker, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_CONNECTED,
                                  .peer = channel_peer(link->channel),
                              });
    link->welcome_blobs = welcome->plan_bytes > 0 || welcome->job_bytes > 0;
    if (!link->welcome_blobs)
        tcp_worker_offer(worker);
    return NULL;
}

static worker_fault take_answer(tarry_tcp_worker *worker, const wire_head *head,
                                const uint8_t *body)
{
    wire_welcome welcome;
    tarry_diagnostic why = {0};
    if (head->kind == WIRE_WELCOME && wire_welcome_decode(head, body, &welcome, &why) == TARRY_OK)
        return take_welcome(worker, &welcome);
    if (why.text[0] == 0)
        return NOT_HERE;
    session_end(worker->link.session, TARRY_ERROR_FORMAT, why.text); /* again would be the same */
    return "";
}

/* ---- the session's handlers ---- */

static void on_greet(void *user)
{
    tarry_tcp_worker *worker = user;
    worker_link *link = &worker->link;
    link->channel = session_channel(link->session);
    link->stage = WORKER_GREETING;
    link->key_said = false;
    say_hello(worker);
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    tarry_tcp_worker *worker = user;
    worker_fault fault = worker->link.stage == WORKER_GREETING
                             ? take_answer(worker, head, body)
                             : tcp_worker_take_frame(worker, head, body);
    char text[WIRE_TEXT_BYTES];
    if (fault != NULL && fault[0] != '\0' && wire_explain(head, body, text, sizeof(text)))
        fault = text; /* says more than that it makes no sense */
    return tcp_worker_settle(worker, fault);
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    (void)bytes;
    tarry_tcp_worker *worker = user;
    worker_fault fault = worker->link.stage == WORKER_GREETING
                             ? NOT_HERE
                             : tcp_worker_begin_large(worker, head, fixed, place);
    return tcp_worker_settle(worker, fault) ? CHANNEL_TAKE : CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    tarry_tcp_worker *worker = user;
    return tcp_worker_settle(worker, tcp_worker_complete_large(worker, head, fixed));
}

/* Somebody else may have the id that the worker only remembers. */
static bool on_refused(void *user, const wire_refused *refused)
{
    tarry_tcp_worker *worker = user;
    worker_link *link = &worker->link;
    link->seat_taken =
        link->stage == WORKER_GREETING && worker->settings.worker == TARRY_TCP_NO_WORKER &&
        link->claimed_worker != WIRE_ANY_WORKER &&
        (refused->reason == WIRE_REFUSED_TAKEN || refused->reason == WIRE_REFUSED_RANGE);
    return link->seat_taken || wire_reason_passes(refused->reason);
}

static void on_lost(void *user, bool up, const char *why)
{
    tarry_tcp_worker *worker = user;
    if (up) {
        tcp_worker_notify(worker, &(tarry_tcp_notice){
                                      .type = TARRY_TCP_LOST,
                                      .peer = channel_peer(worker->link.channel),
                                      .text = why,
                                  });
        worker->link.apart_ns = clock_now_ns();
    }
    detach(worker, WORKER_APART);
}

/* No longer than the worker's patience lasts. */
static bool on_waits(void *user, const char *why, uint64_t *wait_ns)
{
    tarry_tcp_worker *worker = user;
    uint64_t patience = worker->settings.patience_ns;
    uint64_t apart = clock_now_ns() - worker->link.apart_ns;
    pthread_mutex_lock(&worker->lock);
    bool ended = worker->run.ended;
    pthread_mutex_unlock(&worker->lock);
    if (ended)
        return false;
    if (apart >= patience) {
        tcp_worker_end(worker, TARRY_ERROR_SYSTEM, "%s: no connection for %.3g s: %s",
                       worker->connect, (double)apart / 1e9, why);
        return false;
    }
    if (*wait_ns > patience - apart)
        *wait_ns = patience - apart;
    tcp_worker_notify(worker, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_WAITING,
                                  .peer = worker->connect,
                                  .waited_ns = *wait_ns,
                                  .text = why,
                              });
    return true;
}

static void on_ended(void *user, int error, const char *why)
{
    tarry_tcp_worker *worker = user;
    worker->link.stage = WORKER_OVER;
    if (error == TARRY_OK)
        tcp_worker_end(worker, TARRY_OK, "%s", "");
    else
        tcp_worker_end(worker, error, "%s: %s", worker->connect, why);
}

/* Errors: NO_MEMORY. */
static int tcp_worker_connect(tarry_tcp_worker *worker)
{
    const tarry_tcp_security *security = &worker->settings.security;
    const session_settings settings = {
        .connect = worker->connect,
        .insecure = security->insecure,
        .force = security->force,
        .credential = worker->credential,
        .channel =
            {
                .most_waiting = MOST_WAITING,
                .most_length = MOST_LENGTH,
                .shared = worker->read_buffer,
            },
        .greeting_ns = GREETING_NS,
        .wait = &worker->backoff,
        .allocator = &worker->allocator,
    };
    const session_handlers handlers = {
        .user = worker,
        .greet = on_greet,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .refused = on_refused,
        .lost = on_lost,
        .waits = on_waits,
        .ended = on_ended,
    };
    worker->link.apart_ns = clock_now_ns();
    return session_connect(&worker->loop.uv, &settings, &handlers, &worker->link.session);
}

/* Samples that the server ships: each is asked for once, when it is first needed. */

_Static_assert(ASSEMBLY_MOST_BYTES >= TARRY_TCP_SHIP_MOST, "what is shipped is taken");

enum { ASKED_MOST = 16 }; /* at a time; a server takes no more than twice as many */

/* With the lock held. */
static void want(tarry_tcp_worker *worker, worker_chunk *chunk)
{
    if (chunk->wanted)
        return;
    chunk->wanted = true;
    chunk->next = worker->samples.wanted;
    worker->samples.wanted = chunk;
    tcp_worker_wake(worker);
}

int tarry_tcp_worker_fetch(tarry_tcp_worker *worker, uint32_t origin, const void **bytes,
                           size_t *size)
{
    pthread_mutex_lock(&worker->lock);
    int error = TARRY_OK;
    if (!worker->samples.open || !worker->samples.of.terms.ships || origin >= worker->samples.count)
        error = TARRY_ERROR_STATE;
    while (error == TARRY_OK && !worker->samples.chunks[origin].complete) {
        /* If a third job came before this thread looked, chunks_void is not of these chunks. */
        if (worker->run.ended || worker->run.leaving || worker->samples.outdated ||
            !worker->samples.open) {
            error = TARRY_ERROR_INTERRUPTED;
            break;
        }
        want(worker, &worker->samples.chunks[origin]);
        pthread_cond_wait(&worker->changed, &worker->lock);
    }
    if (error == TARRY_OK) {
        *bytes = worker->samples.chunks[origin].bytes.bytes;
        *size = worker->samples.chunks[origin].bytes.size;
    }
    pthread_mutex_unlock(&worker->lock);
    return error;
}

/* With the lock held. Chunks are freed only once the server's job is another one; what was offered
 * before it is asked is not taken for the present one any more then. */
static bool may_ask(const tarry_tcp_worker *worker)
{
    const worker_link *link = &worker->link;
    return link->offered != 0 && worker->samples.open && worker->samples.wanted != NULL &&
           tcp_worker_is_same_job(&worker->samples.of, &link->welcome);
}

/* Asks for what is wanted, as far as it may. The loop thread's, as the next ones. */
static void tcp_worker_ask_chunks(tarry_tcp_worker *worker)
{
    uint32_t asked = 0;
    pthread_mutex_lock(&worker->lock);
    worker_chunk *chunk = may_ask(worker) ? worker->samples.wanted : NULL;
    for (; chunk != NULL; chunk = chunk->next) {
        if (!chunk->asked && asked < ASKED_MOST) {
            uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
            const wire_fetch fetch = {.kind = WIRE_BLOB_DATA, .index = chunk->origin};
            chunk->asked =
                channel_send(worker->link.channel, frame, wire_encode(WIRE_FETCH, &fetch, frame));
        }
        asked += chunk->asked;
    }
    pthread_mutex_unlock(&worker->lock);
}

/* The connection is gone: nothing is asked for. */
static void tcp_worker_forget_asked(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    for (worker_chunk *chunk = worker->samples.wanted; chunk != NULL; chunk = chunk->next)
        chunk->asked = false;
    pthread_mutex_unlock(&worker->lock);
}

static assembly *tcp_worker_chunk_room(tarry_tcp_worker *worker, uint32_t origin)
{
    pthread_mutex_lock(&worker->lock);
    bool waits = origin < worker->samples.count && worker->samples.chunks[origin].asked &&
                 !worker->samples.chunks[origin].complete;
    assembly *room = waits ? &worker->samples.chunks[origin].bytes : NULL;
    pthread_mutex_unlock(&worker->lock);
    return room;
}

static void tcp_worker_chunk_complete(tarry_tcp_worker *worker, uint32_t origin)
{
    pthread_mutex_lock(&worker->lock);
    worker_chunk *chunk = &worker->samples.chunks[origin];
    chunk->complete = true;
    worker_chunk **at = &worker->samples.wanted;
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    tcp_worker_ask_chunks(worker);
}

/* What the server may say once the worker is welcome. */

/* What the server sends once per connection goes on with the next offer of that, if nobody has
 * taken the one before yet. With the lock held. */
static void inherit(const worker_link *link, worker_offer *before, worker_offer *offer)
{
    if (before->number == 0 || before->number != link->offered)
        return;
    if (offer->job == NULL) {
        offer->job = before->job;
        offer->job_size = before->job_size;
        before->job = NULL;
    }
}

/* What WELCOME announced is there: it is offered to the running thread. */
static void tcp_worker_offer(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    worker_offer offer = {
        .welcome = link->welcome,
        .claimed_job = memcmp(link->claimed_job, link->welcome.job, WIRE_ID_BYTES) == 0,
        .plan = link->plan.bytes,
        .plan_size = link->plan.size,
        .job = link->job.bytes,
        .job_size = link->job.size,
    };
    address_text_without_port(session_local(link->session), offer.local);
    link->plan = (assembly){0};
    link->job = (assembly){0};
    pthread_mutex_lock(&worker->lock);
    inherit(link, &worker->offers.waiting, &offer);
    tcp_worker_release_offer(worker, &worker->offers.waiting);
    offer.number = ++worker->offers.made;
    worker->offers.waiting = offer;
    worker->samples.outdated =
        worker->samples.open && !tcp_worker_is_same_job(&worker->samples.of, &link->welcome);
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    link->offered = offer.number;
    /* What was wanted over the connection before still is. */
    tcp_worker_ask_chunks(worker);
}

/* ---- blobs ---- */

/* Where it goes; NULL: nowhere. */
static assembly *blob_room(tarry_tcp_worker *worker, const wire_blob *blob)
{
    worker_link *link = &worker->link;
    switch (blob->kind) {
    case WIRE_BLOB_PLAN:
        return &link->plan;
    case WIRE_BLOB_JOB:
        return link->welcome_blobs ? &link->job : NULL;
    case WIRE_BLOB_DATA:
        return tcp_worker_chunk_room(worker, blob->index);
    case WIRE_BLOBS:
        break;
    }
    return NULL;
}

static bool is_complete(const assembly *self, uint64_t wanted)
{
    return wanted == 0 || (self->begun && self->size == self->total);
}

/* Something large is there. A plan may come at any time; those that WELCOME announced are offered
 * together. */
static void take_blob(tarry_tcp_worker *worker, const wire_blob *blob)
{
    worker_link *link = &worker->link;
    if (blob->kind == WIRE_BLOB_DATA) {
        tcp_worker_chunk_complete(worker, blob->index);
        return;
    }
    if (blob->kind == WIRE_BLOB_PLAN)
        link->turn = blob->index;
    if (link->welcome_blobs && (!is_complete(&link->plan, link->welcome.plan_bytes) ||
                                !is_complete(&link->job, link->welcome.job_bytes)))
        return;
    link->welcome_blobs = false;
    tcp_worker_offer(worker);
}

static worker_fault begin_blob(tarry_tcp_worker *worker, const wire_blob *blob, void **place)
{
    worker_link *link = &worker->link;
    *place = NULL;
    link->intake = INTAKE_NOTHING;
    assembly *room = blob_room(worker, blob);
    if (room == NULL)
        return NULL;
    *place = assembly_reserve(room, blob->first, blob->count, blob->total, &worker->allocator);
    if (*place == NULL)
        return "something large did not come in order, or is too large";
    link->intake = INTAKE_BLOB;
    link->intake_blob = room;
    return NULL;
}

/* One without bytes is no large frame. */
static void take_empty_blob(tarry_tcp_worker *worker, const wire_blob *blob)
{
    if (blob->kind == WIRE_BLOB_DATA && tcp_worker_chunk_room(worker, blob->index) != NULL)
        tcp_worker_chunk_complete(worker, blob->index);
}

/* ---- what other workers say ---- */

static const char NO_KEY[] = "the server sent a frame that makes no sense here";

/* Why the key is not taken; NULL: it is good. */
static const char *check_key(const tarry_tcp_worker *worker, const wire_key *words,
                             char text[CREDENTIAL_REFUSAL_SIZE])
{
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
    key_claim claim = {.worker = words->worker, .numerics = words->numerics};
    memcpy(claim.job, worker->link.welcome.job, sizeof(claim.job));
    memcpy(claim.instance, words->instance, sizeof(claim.instance));
    memcpy(claim.key, words->key, sizeof(claim.key));
    int error =
        key_proof_verify(worker->credential, words->certificate, words->certificate_size,
                         words->signature, words->signature_size, &claim, fingerprint, text);
    if (error != TARRY_OK)
        return text;
    const uint8_t *listed = roster_file_find(worker->roster, words->worker);
    return listed != NULL && memcmp(listed, fingerprint, sizeof(fingerprint)) == 0
               ? NULL
               : "its certificate is not in the list of workers (" ROSTER_FILE_NAME ")";
}

/* Workers that work out other bits for a chunk don't hide each other's copies. */
static bool has_own_numerics(tarry_tcp_worker *worker, uint64_t other)
{
    pthread_mutex_lock(&worker->lock);
    uint64_t own = worker->held.numerics;
    pthread_mutex_unlock(&worker->lock);
    return own == other;
}

static worker_fault tcp_worker_take_key(tarry_tcp_worker *worker, const wire_head *head,
                                        const uint8_t *body)
{
    wire_key words;
    char text[CREDENTIAL_REFUSAL_SIZE] = "";
    if (worker->link.stage != WORKER_READY || worker->job.masking == NULL ||
        wire_decode(head, body, &words) != TARRY_OK)
        return NO_KEY;
    const char *fault = check_key(worker, &words, text);
    if (fault == NULL && !has_own_numerics(worker, words.numerics))
        fault = "it computes chunks to other bits than this worker";
    if (fault == NULL &&
        masking_hear(worker->job.masking, words.worker, words.epoch, words.key) != TARRY_OK)
        fault = "it is none";
    if (fault == NULL)
        return NULL;
    tcp_worker_end(worker, TARRY_ERROR_STATE, "%s: the key of worker %u: %s", worker->connect,
                   words.worker, fault);
    return "the key of another worker is not good";
}

static const char NO_MEMBER[] = "the server tells of a member that makes no sense";

/* What the address of another worker says is that one's word: if it makes no sense, sums with it
 * fail, and name it. */
static worker_fault tcp_worker_take_member(tarry_tcp_worker *worker, const wire_head *head,
                                           const uint8_t *body)
{
    const worker_link *link = &worker->link;
    worker_job *job = &worker->job;
    wire_member member;
    if (link->stage != WORKER_READY || link->welcome.terms.server.sum != TARRY_SUM_EVERYWHERE ||
        wire_decode(head, body, &member) != TARRY_OK || member.worker > link->welcome.terms.workers)
        return NO_MEMBER;
    bool known =
        member.present && paired_address_admit(job->mesh, member.worker, member.address,
                                               member.size, member.fingerprint) == TARRY_OK;
    if (!known)
        mesh_remove(job->mesh, member.worker);
    if (member.worker == link->welcome.terms.workers)
        return NULL; /* the server itself, which holds states */
    int error = collective_meet(job->executor.collective, member.worker, member.address,
                                known ? member.size : 0);
    return error == TARRY_OK ? NULL : "out of memory";
}

/* ---- handlers ---- */

static worker_fault tcp_worker_take_frame(tarry_tcp_worker *worker, const wire_head *head,
                                          const uint8_t *body)
{
    wire_blob blob;
    switch (head->kind) {
    case WIRE_HEARTBEAT:
        return NULL;
    case WIRE_MESSAGE:
        return tcp_worker_take_message(worker, body, head->length);
    case WIRE_BLOB:
        if (wire_decode(head, body, &blob) != TARRY_OK)
            return NOT_HERE;
        take_empty_blob(worker, &blob);
        return NULL;
    case WIRE_KEY:
        return tcp_worker_take_key(worker, head, body);
    case WIRE_MEMBER:
        return tcp_worker_take_member(worker, head, body);
    default:
        return NOT_HERE;
    }
}

static worker_fault tcp_worker_begin_large(tarry_tcp_worker *worker, const wire_head *head,
                                           const uint8_t *fixed, void **place)
{
    worker_link *link = &worker->link;
    wire_parameters parameters;
    view_piece seen;
    wire_blob blob;
    if (head->kind == WIRE_BLOB && wire_decode(head, fixed, &blob) == TARRY_OK)
        return begin_blob(worker, &blob, place);
    if (head->kind == WIRE_VIEW && link->stage == WORKER_READY &&
        wire_decode(head, fixed, &seen) == TARRY_OK) {
        link->intake = INTAKE_VIEW;
        return tcp_worker_begin_view(worker, &seen, place);
    }
    if (head->kind != WIRE_PARAMETERS || link->stage != WORKER_READY ||
        wire_decode(head, fixed, &parameters) != TARRY_OK ||
        !tcp_worker_begin_parameters(worker, &parameters, place))
        return NOT_HERE;
    link->intake = *place != NULL ? INTAKE_PARAMETERS : INTAKE_NOTHING;
    return NULL;
}

static worker_fault tcp_worker_complete_large(tarry_tcp_worker *worker, const wire_head *head,
                                              const uint8_t *fixed)
{
    worker_link *link = &worker->link;
    worker_intake intake = link->intake;
    wire_parameters parameters;
    wire_blob blob;
    link->intake = INTAKE_NOTHING;
    if (intake == INTAKE_PARAMETERS && wire_decode(head, fixed, &parameters) == TARRY_OK)
        return tcp_worker_add_parameters(worker, parameters.count);
    if (intake == INTAKE_VIEW)
        return tcp_worker_add_view(worker);
    if (intake == INTAKE_BLOB && wire_decode(head, fixed, &blob) == TARRY_OK &&
        assembly_add(link->intake_blob, blob.count))
        take_blob(worker, &blob);
    return NULL;
}

/* ---- loop ---- */

#define NS_PER_MS UINT64_C(1000000)
#define LINGER_NS UINT64_C(500000000)

enum { TICK_MS = 100 };

/*
 * A worker that has answered the signal does not hear that the round is over before the next one
 * begins: if nothing more is said for a while, it is. Where workers make the sum that is only known
 * when the next one begins.
 */
static bool has_answered(tarry_tcp_worker *worker, uint64_t now)
{
    const worker_link *link = &worker->link;
    return link->signalled && !is_everywhere(link) && tcp_worker_is_drained(worker) &&
           now > link->machine_ns && now - link->machine_ns > LINGER_NS;
}

/* Takes leave if it is time to; gives back whether the run has ended. */
static bool tcp_worker_look_whether_to_leave(tarry_tcp_worker *worker, bool round_over)
{
    const worker_link *link = &worker->link;
    pthread_mutex_lock(&worker->lock);
    bool ended = worker->run.ended, leaving = worker->run.leaving;
    if (worker->run.leaving_news && worker->job.executor_runs)
        executor_leave(&worker->job.executor, worker->run.grace_until_ns);
    worker->run.leaving_news = false;
    bool idle = !worker->job.executor_runs || executor_idle(&worker->job.executor);
    bool answering = worker->job.executor_runs && executor_answering(&worker->job.executor);
    uint64_t until = worker->run.grace_until_ns;
    pthread_mutex_unlock(&worker->lock);
    if (ended || !leaving)
        return ended;
    uint64_t now = clock_now_ns();
    bool needed = link->stage == WORKER_READY && !round_over && link->in_round &&
                  (!idle || link->waiting.active) && (answering || !has_answered(worker, now));
    if (needed && now < until)
        return false;
    tcp_worker_end(worker, TARRY_OK, "%s", "");
    tcp_worker_leave_server(worker);
    return true;
}

/* The loop ends by itself once nothing is left in it: the last words, for which time is limited. */
static void stop(tarry_tcp_worker *worker)
{
    if (worker->loop.stopped)
        return;
    worker->loop.stopped = true;
    tcp_worker_leave_server(worker);
    uv_close((uv_handle_t *)&worker->loop.wake, NULL);
    uv_close((uv_handle_t *)&worker->loop.tick, NULL);
    uv_close((uv_handle_t *)&worker->loop.reports, NULL);
}

static void on_reports(uv_timer_t *handle)
{
    tarry_tcp_worker *worker = handle->data;
    if (tcp_worker_take_reports(worker))
        tcp_worker_settle(worker, tcp_worker_flush(worker));
    else
        uv_timer_stop(handle);
}

static void look(tarry_tcp_worker *worker)
{
    tcp_worker_settle(worker, tcp_worker_flush(worker));
    if (tcp_worker_hold_reports(worker))
        uv_timer_start(&worker->loop.reports, on_reports, REPORT_BATCH_NS / NS_PER_MS,
                       REPORT_BATCH_NS / NS_PER_MS);
    tcp_worker_answer(worker);
    tcp_worker_ask_chunks(worker);
    tcp_worker_look_whether_to_leave(worker, false);
}

static void on_wake(uv_async_t *handle)
{
    tarry_tcp_worker *worker = handle->data;
    pthread_mutex_lock(&worker->lock);
    bool stopping = worker->loop.stopping;
    pthread_mutex_unlock(&worker->lock);
    if (stopping)
        stop(worker);
    else
        look(worker);
}

static void on_tick(uv_timer_t *handle)
{
    tarry_tcp_worker *worker = handle->data;
    if (worker->link.session != NULL)
        count_bytes(worker);
    tcp_worker_look_whether_to_leave(worker, false);
}

static void *run_loop(void *argument)
{
    tarry_tcp_worker *worker = argument;
    uv_run(&worker->loop.uv, UV_RUN_DEFAULT);
    return NULL;
}

int tcp_worker_start_loop(tarry_tcp_worker *worker)
{
    if (uv_loop_init(&worker->loop.uv) != 0)
        return TARRY_ERROR_SYSTEM;
    worker->loop.made = true;
    if (uv_async_init(&worker->loop.uv, &worker->loop.wake, on_wake) != 0)
        return TARRY_ERROR_SYSTEM;
    uv_timer_init(&worker->loop.uv, &worker->loop.tick);
    uv_timer_init(&worker->loop.uv, &worker->loop.reports);
    worker->loop.wake.data = worker->loop.tick.data = worker->loop.reports.data = worker;
    uv_timer_start(&worker->loop.tick, on_tick, TICK_MS, TICK_MS);
    pthread_mutex_lock(&worker->lock);
    worker->loop.listens = true;
    pthread_mutex_unlock(&worker->lock);
    int error = tcp_worker_connect(worker);
    if (error != TARRY_OK)
        return error;
    worker->loop.has_thread = pthread_create(&worker->loop.thread, NULL, run_loop, worker) == 0;
    return worker->loop.has_thread ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

void tcp_worker_stop_loop(tarry_tcp_worker *worker)
{
    if (!worker->loop.made)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->run.ended = true;
    worker->loop.stopping = true;
    tcp_worker_wake(worker);
    bool listened = worker->loop.listens;
    worker->loop.listens = false;
    pthread_mutex_unlock(&worker->lock);
    if (worker->loop.has_thread)
        pthread_join(worker->loop.thread, NULL);
    else if (listened)
        stop(worker);
    if (!worker->loop.has_thread)
        uv_run(&worker->loop.uv, UV_RUN_DEFAULT);
    int error = uv_loop_close(&worker->loop.uv);
    assert(error == 0);
    (void)error;
    worker->loop.made = false;
}

/* READY: what the server offers is prepared. */

/* Sends the own KEY, if there is one and it was not sent yet. */
static bool tcp_worker_say_key(tarry_tcp_worker *worker)
{
    uint8_t frame[sizeof(worker->held.key)];
    pthread_mutex_lock(&worker->lock);
    size_t size = worker->held.key_size;
    memcpy(frame, worker->held.key, size);
    pthread_mutex_unlock(&worker->lock);
    if (size == 0 || worker->link.key_said)
        return true;
    worker->link.key_said = true;
    return channel_send(worker->link.channel, frame, size);
}

static bool say_ready(tarry_tcp_worker *worker)
{
    wire_ready ready = {.turn = worker->link.turn};
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    pthread_mutex_lock(&worker->lock);
    memcpy(ready.plan, worker->held.plan, WIRE_DIGEST_BYTES);
    memcpy(ready.data, worker->held.data, WIRE_DIGEST_BYTES);
    ready.numerics = worker->held.numerics;
    ready.size = (uint16_t)worker->held.engine_size;
    memcpy(ready.address, worker->held.engine, ready.size);
    pthread_mutex_unlock(&worker->lock);
    return tcp_worker_say_key(worker) &&
           channel_send(worker->link.channel, frame, wire_encode(WIRE_READY, &ready, frame));
}

/* Says READY if what was last offered is prepared. */
static void tcp_worker_answer(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    if (link->offered == 0 || link->answered == link->offered)
        return;
    pthread_mutex_lock(&worker->lock);
    bool prepared = worker->offers.prepared == link->offered;
    bool declined = worker->offers.declined == link->offered;
    pthread_mutex_unlock(&worker->lock);
    if (declined)
        tcp_worker_settle(worker, "its job has changed meanwhile");
    if (!prepared || !say_ready(worker))
        return;
    link->answered = link->offered;
    if (link->stage != WORKER_PREPARING)
        return;
    link->stage = WORKER_READY;
}

/* What the machine is told. A round begins once all its parameters are there; what the server says
 * of it meanwhile waits. */

enum {
    SIZE_BYTES = 4,
    LEAST_ROOM = 4096,
    MOST_ROOM = 64 << 20, /* of what waits behind a round */
};

/* Nothing is hashed any more. */
static void drop_hash(worker_waiting *waiting)
{
    uint8_t unused[WIRE_DIGEST_BYTES];
    if (waiting->hashed != NULL)
        digest_end(waiting->hashed, unused);
    waiting->hashed = NULL;
}

static void tcp_worker_forget_round(tarry_tcp_worker *worker)
{
    worker_waiting *waiting = &worker->link.waiting;
    memory_release(&worker->allocator, waiting->frames);
    drop_hash(waiting);
    *waiting = (worker_waiting){0};
}

static worker_fault deliver(tarry_tcp_worker *worker, const uint8_t *frame, size_t size)
{
    bool good = executor_deliver(&worker->job.executor, frame, size) == TARRY_OK;
    return good ? NULL : "out of memory";
}

static worker_fault hold(tarry_tcp_worker *worker, const uint8_t *frame, size_t size)
{
    worker_waiting *waiting = &worker->link.waiting;
    size_t wanted = waiting->size + SIZE_BYTES + size;
    if (wanted > waiting->room) {
        size_t room = memory_room(waiting->room, wanted, LEAST_ROOM);
        uint8_t *grown = room <= MOST_ROOM ? memory_grow(&worker->allocator, waiting->frames,
                                                         waiting->size, room, 1)
                                           : NULL;
        if (grown == NULL)
            return "out of memory";
        waiting->frames = grown;
        waiting->room = room;
    }
    uint8_t *at = bytes_put(waiting->frames + waiting->size, size, SIZE_BYTES);
    memcpy(at, frame, size);
    waiting->size = wanted;
    return NULL;
}

/* Parameters that are the same as those of the last round, which has the same number, don't make
 * what was finished with them worthless: a server that lost the worker sends both again. */
static void publish(tarry_tcp_worker *worker, uint64_t round)
{
    snapshots *pool = worker->job.executor.snapshots;
    const float *begun = snapshots_begin(pool);
    snapshot *current = snapshots_hold(pool);
    bool same = current != NULL && current->round == round &&
                memcmp(current->parameters, begun, pool->parameters * sizeof(float)) == 0;
    snapshots_release(pool, current);
    if (!same)
        snapshots_commit(pool, round);
}

static void note_begun(tarry_tcp_worker *worker, uint64_t round)
{
    backoff_reset(&worker->backoff);
    pthread_mutex_lock(&worker->lock);
    worker->work.round = round;
    pthread_mutex_unlock(&worker->lock);
}

/* ---- secure sums: the digest of the parameters, worked out as they come ---- */

static bool is_hashed(const tarry_tcp_worker *worker)
{
    return worker->link.welcome.terms.secure.bits != 0;
}

/* From the first of them on. */
static bool begin_hash(worker_waiting *waiting)
{
    drop_hash(waiting);
    waiting->hashed = digest_begin();
    return waiting->hashed != NULL;
}

static bool end_hash(tarry_tcp_worker *worker)
{
    uint8_t hash[WIRE_DIGEST_BYTES];
    digest *state = worker->link.waiting.hashed;
    worker->link.waiting.hashed = NULL;
    if (state == NULL || digest_end(state, hash) != 0)
        return false;
    snapshots_set_digest(worker->job.executor.snapshots, hash);
    return true;
}

/* All parameters are there. */
static worker_fault begin_round(tarry_tcp_worker *worker)
{
    worker_waiting *waiting = &worker->link.waiting;
    worker_fault fault = NULL;
    for (size_t at = 0; at < waiting->size && fault == NULL;) {
        size_t size = (size_t)bytes_get(waiting->frames + at, SIZE_BYTES);
        fault = deliver(worker, waiting->frames + at + SIZE_BYTES, size);
        at += SIZE_BYTES + size;
    }
    if (fault != NULL)
        return fault;
    note_begun(worker, waiting->round);
    tcp_worker_forget_round(worker);
    return NULL;
}

/* All are in the snapshot that is begun, for this round: it begins, if it waits for them. */
static worker_fault tcp_worker_take_parameters(tarry_tcp_worker *worker, uint64_t round)
{
    const worker_waiting *waiting = &worker->link.waiting;
    if (is_hashed(worker) && !end_hash(worker))
        return "out of memory";
    publish(worker, round);
    return waiting->active && waiting->round == round ? begin_round(worker) : NULL;
}

/* It is sent parameters as changes of a view, and has that of this round already. */
static bool has_view(const tarry_tcp_worker *worker, uint64_t round)
{
    return form_of_view(&worker->link.welcome.terms.server) != TARRY_COMPRESS_NONE &&
           worker->link.view.intake.has == round + 1;
}

static worker_fault take_round(tarry_tcp_worker *worker, uint64_t round, const uint8_t *frame,
                               size_t size)
{
    worker_waiting *waiting = &worker->link.waiting;
    tcp_worker_forget_round(worker);
    if (is_everywhere(&worker->link)) {
        note_begun(worker, round);
        return deliver(worker, frame, size);
    }
    waiting->place = snapshots_begin(worker->job.executor.snapshots);
    if (waiting->place == NULL)
        return "out of memory";
    waiting->active = true;
    waiting->round = round;
    worker_fault fault = hold(worker, frame, size);
    if (fault != NULL)
        return fault;
    if (has_view(worker, round))
        return begin_round(worker);
    if (is_hashed(worker) && !begin_hash(waiting))
        return "out of memory";
    if (worker->link.welcome.terms.parameters == 0)
        return tcp_worker_take_parameters(worker, round);
    return NULL;
}

/* A server that has gone over to another plan meanwhile takes no READY for this one, and then no
 * message: what is computed is still of the connection before, until the server's first word. */
static void tcp_worker_begin_talk(tarry_tcp_worker *worker)
{
    if (!worker->uplink.open)
        tcp_worker_open_uplink(worker, true);
}

static worker_fault tcp_worker_take_message(tarry_tcp_worker *worker, const uint8_t *frame,
                                            size_t size)
{
    worker_waiting *waiting = &worker->link.waiting;
    tarry_message_type type;
    uint64_t round;
    if (worker->link.stage != WORKER_READY || codec_peek(frame, size, &type, &round) != TARRY_OK)
        return NOT_HERE;
    tcp_worker_begin_talk(worker);
    worker->link.machine_ns = clock_now_ns();
    switch (type) {
    case TARRY_MESSAGE_ROUND:
        tcp_worker_drop_parts(worker);
        worker->link.in_round = true;
        worker->link.signalled = false;
        if (tcp_worker_look_whether_to_leave(worker, true))
            return WORKER_LINK_OVER;
        return take_round(worker, round, frame, size);
    case TARRY_MESSAGE_FINISH:
        tcp_worker_drop_parts(worker);
        worker->link.in_round = false;
        if (waiting->active && waiting->round == round) {
            tcp_worker_forget_round(worker);
            return NULL;
        }
        break;
    case TARRY_MESSAGE_SIGNAL:
    case TARRY_MESSAGE_RESUME:
        tcp_worker_drop_parts(worker);
        worker->link.signalled = type == TARRY_MESSAGE_SIGNAL;
        break;
    case TARRY_MESSAGE_PROBE:
        return deliver(worker, frame, size);
    case TARRY_MESSAGE_NEWS:
    case TARRY_MESSAGE_REPORT:
    case TARRY_MESSAGE_PART:
    case TARRY_MESSAGE_ALIVE:
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_FETCH:
    case TARRY_MESSAGE_LOAD:
    case TARRY_MESSAGE_COMMIT:
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
    case TARRY_MESSAGE_STATE:
        break;
    }
    return waiting->active ? hold(worker, frame, size) : deliver(worker, frame, size);
}

static bool tcp_worker_begin_parameters(tarry_tcp_worker *worker, const wire_parameters *parameters,
                                        void **place)
{
    worker_waiting *waiting = &worker->link.waiting;
    *place = NULL;
    if (form_of_view(&worker->link.welcome.terms.server) != TARRY_COMPRESS_NONE)
        return false;
    if (!waiting->active || waiting->round != parameters->round)
        return true; /* of a round that is over */
    if (parameters->first == 0 && waiting->received > 0 && is_hashed(worker) &&
        !begin_hash(waiting))
        return false;
    if (parameters->first == 0)
        waiting->received = 0;
    if (parameters->first != waiting->received ||
        parameters->count > worker->link.welcome.terms.parameters - waiting->received)
        return false;
    *place = waiting->place + waiting->received;
    return true;
}

static worker_fault tcp_worker_add_parameters(tarry_tcp_worker *worker, uint64_t count)
{
    worker_waiting *waiting = &worker->link.waiting;
    if (is_hashed(worker) &&
        digest_add_bytes(waiting->hashed, (const uint8_t *)(waiting->place + waiting->received),
                         (size_t)count * sizeof(float)) != 0)
        return "out of memory";
    waiting->received += count;
    return waiting->received < worker->link.welcome.terms.parameters
               ? NULL
               : tcp_worker_take_parameters(worker, waiting->round);
}

/*
 * The view of the parameters, where these come down as changes of it. The view that the worker has
 * is the current snapshot; what comes goes to the one that is begun, and counts only once all of it
 * is there: of a round that is over as well, since the next change is added to it.
 */

static const char NO_VIEW_HERE[] = "numbers of a view that is not here";

static bool reserve(tarry_tcp_worker *worker)
{
    worker_view *own = &worker->link.view;
    const run_terms *terms = &worker->link.welcome.terms;
    const compress_form form = {.kind = form_of_view(&terms->server)};
    uint64_t pieces = (terms->parameters + VIEW_PIECE - 1) / VIEW_PIECE;
    if (own->bytes != NULL)
        return true;
    own->bytes = memory_allocate(&worker->allocator, compress_bytes(form, VIEW_PIECE), 1);
    own->digests = memory_allocate(&worker->allocator, pieces, sizeof(*own->digests));
    return own->bytes != NULL && own->digests != NULL;
}

static worker_fault tcp_worker_begin_view(tarry_tcp_worker *worker, const view_piece *piece,
                                          void **place)
{
    worker_link *link = &worker->link;
    worker_view *own = &link->view;
    const tarry_compress form = form_of_view(&link->welcome.terms.server);
    if (form == TARRY_COMPRESS_NONE ||
        view_intake_begin(&own->intake, piece, form, link->welcome.terms.parameters) != TARRY_OK)
        return NO_VIEW_HERE;
    float *next = snapshots_begin(worker->job.executor.snapshots);
    if (next == NULL || !reserve(worker))
        return "out of memory";
    own->place = piece->base == 0 ? (uint8_t *)(next + piece->first) : own->bytes;
    *place = own->place;
    return NULL;
}

static worker_fault tcp_worker_add_view(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    worker_view *own = &link->view;
    snapshots *pool = worker->job.executor.snapshots;
    snapshot *current = snapshots_hold(pool);
    bool complete = false, good = current != NULL || own->intake.at.base == 0;
    if (good)
        good = view_intake_add(&own->intake, own->place, link->welcome.terms.parameters,
                               current != NULL ? current->parameters : NULL, snapshots_begin(pool),
                               own->digests, &complete) == TARRY_OK;
    snapshots_release(pool, current);
    if (!good)
        return "parameters came about that are not the server's";
    return complete ? tcp_worker_take_parameters(worker, own->intake.at.round) : NULL;
}

/* Of a connection that is over. */
static void tcp_worker_forget_view(tarry_tcp_worker *worker)
{
    worker_view *own = &worker->link.view;
    memory_release(&worker->allocator, own->digests);
    memory_release(&worker->allocator, own->bytes);
    *own = (worker_view){0};
}
