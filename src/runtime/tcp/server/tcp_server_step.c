/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server_step.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "base/sum_id.h"
#include "coding/coefficients.h"
#include "plan/plan_code.h"
#include "privacy/secure/secure_member.h"
#include "protocol/form.h"
#include "protocol/wire/wire.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/notice.h"
#include "runtime/tcp/server/tcp_server.h"
#include "runtime/tcp/trust/credential.h"

/* ---- roster ---- */

int roster_init(roster *self, uint32_t workers, const tarry_allocator *allocator)
{
    self->count = workers;
    self->seats = memory_allocate(allocator, workers, sizeof(*self->seats));
    return self->seats == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

void roster_destroy(roster *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->seats);
}

static bool is_bound(const roster_claim *claim)
{
    return claim->allowed != WIRE_ANY_WORKER;
}

/* The process that had it last, with a credential of the same kind. */
static bool is_own(const roster_seat *seat, const roster_claim *claim)
{
    return seat->arrivals > 0 && seat->bound == is_bound(claim) &&
           memcmp(seat->instance, claim->instance, WIRE_ID_BYTES) == 0;
}

/* A credential that is bound to the id goes before one that may have any. */
static bool can_take(const roster_seat *seat, const roster_claim *claim, uint64_t now,
                     uint64_t quiet_ns)
{
    if (seat->holder == NULL || is_own(seat, claim))
        return true;
    if (seat->bound != is_bound(claim))
        return is_bound(claim);
    return now - seat->heard_ns > quiet_ns;
}

/* Which of two free seats is rather given to someone new. */
static bool is_freer(const roster_seat *seat, const roster_seat *other)
{
    bool unused = seat->arrivals == 0, other_unused = other->arrivals == 0;
    if (unused || other_unused)
        return unused && !other_unused;
    if (seat->bound != other->bound)
        return other->bound;
    return seat->heard_ns < other->heard_ns;
}

static wire_reason find_any(const roster *self, const roster_claim *claim, uint32_t *worker)
{
    uint32_t best = self->count;
    for (uint32_t id = 0; id < self->count; id++) {
        const roster_seat *seat = &self->seats[id];
        if (is_own(seat, claim)) {
            *worker = id;
            return 0;
        }
        if (seat->holder == NULL && (best == self->count || is_freer(seat, &self->seats[best])))
            best = id;
    }
    if (best == self->count)
        return WIRE_REFUSED_FULL;
    *worker = best;
    return 0;
}

wire_reason roster_find(const roster *self, const roster_claim *claim, uint64_t now,
                        uint64_t quiet_ns, uint32_t *worker)
{
    uint32_t wanted = claim->wanted;
    if (claim->allowed != WIRE_ANY_WORKER) {
        if (wanted != WIRE_ANY_WORKER && wanted != claim->allowed)
            return WIRE_REFUSED_IDENTITY;
        wanted = claim->allowed;
    }
    if (wanted == WIRE_ANY_WORKER)
        return find_any(self, claim, worker);
    if (wanted >= self->count)
        return WIRE_REFUSED_RANGE;
    if (!can_take(&self->seats[wanted], claim, now, quiet_ns))
        return WIRE_REFUSED_TAKEN;
    *worker = wanted;
    return 0;
}

roster_arrival roster_sit(roster *self, uint32_t worker, void *holder, const roster_claim *claim,
                          uint64_t now)
{
    roster_seat *seat = &self->seats[worker];
    assert(seat->holder == NULL && holder != NULL);
    assert(!is_bound(claim) || claim->allowed == worker);
    roster_arrival how = seat->arrivals == 0   ? ROSTER_FIRST
                         : is_own(seat, claim) ? ROSTER_AGAIN
                                               : ROSTER_RESTARTED;
    seat->holder = holder;
    seat->heard_ns = now;
    seat->arrivals++;
    seat->bound = is_bound(claim);
    memcpy(seat->instance, claim->instance, WIRE_ID_BYTES);
    return how;
}

void roster_leave(roster *self, uint32_t worker)
{
    self->seats[worker].holder = NULL;
}

/* What messages tell those who watch: the state of each worker, and who gets what from whom where
 * workers make the sum. */

static void tell_notice(tarry_tcp_server *server, tarry_tcp_notice_type type, uint32_t worker,
                        const tarry_message *message)
{
    tcp_server_notify(server,
                      &(tarry_tcp_notice){
                          .type = type,
                          .round = server->base.host->round.number,
                          .worker = worker,
                          .sum = &message->sum,
                          .from = message->from != worker ? message->from : TARRY_TCP_NO_WORKER,
                      });
}

static void tcp_server_note_sent(tarry_tcp_server *server, uint32_t worker,
                                 const tarry_message *message)
{
    tcp_member *member = &server->members[worker];
    switch (message->type) {
    case TARRY_MESSAGE_ROUND:
        member->state = WIRE_WORKER_RECEIVING;
        break;
    case TARRY_MESSAGE_RESUME:
        member->state = WIRE_WORKER_COMPUTING;
        break;
    case TARRY_MESSAGE_SIGNAL:
        if (member->state != WIRE_WORKER_LATE)
            member->state = message->sum.step > 0 ? WIRE_WORKER_SUMMING : WIRE_WORKER_SENDING;
        server->signalled = message->sum;
        break;
    case TARRY_MESSAGE_COMMIT:
        member->steps_on = message->sum.step;
        break;
    case TARRY_MESSAGE_FETCH:
        tell_notice(server, TARRY_TCP_FETCH, worker, message);
        break;
    case TARRY_MESSAGE_LOAD:
        member->steps_on = 0;
        tell_notice(server, TARRY_TCP_LOAD, worker, message);
        break;
    default:
        break;
    }
}

static void tcp_server_note_said(tarry_tcp_server *server, uint32_t worker,
                                 const tarry_message *message)
{
    tcp_member *member = &server->members[worker];
    if (member->state != WIRE_WORKER_SUMMING || !sum_id_named(&message->sum, &server->signalled))
        return;
    if (message->type == TARRY_MESSAGE_HELD)
        member->state = WIRE_WORKER_HOLDING;
    if (message->type != TARRY_MESSAGE_FAILED)
        return;
    member->state = WIRE_WORKER_RESTING;
    tell_notice(server, TARRY_TCP_SUM_FAILED, worker, message);
}

/* ---- status ---- */

static uint64_t median_ns(const tarry_tcp_server *server)
{
    double values[TCP_REMEMBERED_ROUNDS];
    size_t count =
        server->rounds < TCP_REMEMBERED_ROUNDS ? (size_t)server->rounds : TCP_REMEMBERED_ROUNDS;
    for (size_t i = 0; i < count; i++)
        values[i] = (double)server->durations[i];
    return count > 0 ? (uint64_t)quantile_of(values, count, 0.5) : 0;
}

static wire_worker_state state_of(const tarry_tcp_server *server, uint32_t worker)
{
    const tcp_member *member = &server->members[worker];
    const peer *who = tcp_server_peer(server, worker);
    wire_worker_state state = member->state;
    if (state == WIRE_WORKER_RECEIVING && who != NULL &&
        !outgoing_has(&who->large, OUTGOING_PARAMETERS))
        state = WIRE_WORKER_COMPUTING;
    if (state == WIRE_WORKER_COMPUTING &&
        tarry_server_finished(server->base.host->machine, worker) ==
            tarry_plan_load(server->base.host->plan, worker))
        state = WIRE_WORKER_RESTING;
    const tarry_server *machine = server->base.host->machine;
    bool steps = member->steps_on > 0 && member->steps_on == tarry_server_last_sum(machine).step;
    if (state == WIRE_WORKER_RESTING && who != NULL && !steps &&
        !tarry_server_ready(machine, worker))
        state = WIRE_WORKER_BEHIND;
    return state;
}

/* A status_describe. */
static void describe(void *user, status_worker *out)
{
    tarry_tcp_server *server = user;
    const uint32_t worker = out->id;
    const tcp_member *member = &server->members[worker];
    const roster_seat *seat = &server->roster.seats[worker];
    const peer *who = seat->holder;
    *out = (status_worker){
        .id = worker,
        .state = state_of(server, worker),
        .load = tarry_plan_load(server->base.host->plan, worker),
        .finished = tarry_server_finished(server->base.host->machine, worker),
        .arrivals = member->arrivals,
        .chunks = server->base.host->members[worker].chunks,
        .pace_ns = (uint64_t)tarry_server_pace_ns(server->base.host->machine, worker),
        .heard_ns = seat->arrivals > 0 ? tcp_server_now(server) - seat->heard_ns + 1 : 0,
        .received = member->received + (who != NULL ? peer_received(who) : 0),
        .sent = member->sent + (who != NULL ? peer_sent(who) : 0),
    };
    memcpy(out->rack, member->rack, sizeof(out->rack));
}

bool tcp_server_status(tarry_runtime *runtime, record_out *out)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    const host *its = server->base.host;
    status_run run = {
        .done = server->noted_done + (server->rounds - server->noted_at),
        .running = its->round.running,
        .waiting = !its->round.running && atomic_load(&server->waiting),
        .elapsed_ns = its->round.running ? tcp_server_now(server) - its->round.start_ns + 1 : 0,
        .median_ns = median_ns(server),
        .rounds = server->noted_rounds,
        .exact = server->exact_rounds,
        .attempts = its->attempt,
        .sum = server->last_sum,
    };
    memcpy(run.note, server->note, sizeof(run.note));
    return status_write(&run, its->plan->workers, describe, server, out);
}

/* Bytes of a status: half of what may wait, so that a viewer that has taken what came before is
 * never cut off for what comes next. */
static size_t status_room(const tarry_tcp_server *server)
{
    size_t room =
        TARRY_STATUS_BYTES + (size_t)server->base.host->plan->workers * TARRY_STATUS_WORKER_BYTES;
    size_t most = server->settings.most_peer_bytes / 2;
    room = room < most ? room : most;
    return room < WIRE_STATUS_BYTES ? room : WIRE_STATUS_BYTES;
}

void tcp_server_send_status(tarry_tcp_server *server)
{
    record_out out = {.size = status_room(server)};
    if (server->status == NULL)
        server->status = memory_allocate(&server->allocator, WIRE_HEAD_BYTES + out.size, 1);
    if (server->status == NULL)
        return; /* without memory viewers see nothing new, and the run goes on */
    out.text = (char *)server->status + WIRE_HEAD_BYTES;
    if (!tcp_server_status(&server->base, &out))
        return;
    wire_head_encode(WIRE_STATUS, (uint32_t)out.length, server->status);
    for (peer *who = server->peers.first; who != NULL; who = who->after) {
        if (who->state != PEER_VIEWER || !who->drained)
            continue; /* one that is slow gets the next one */
        who->drained = false;
        channel_send(who->channel, server->status, WIRE_HEAD_BYTES + out.length);
    }
}

/*
 * Secure sums: workers are told the rules in WELCOME, and each other's keys. That a key is
 * good is for the workers to see, who don't take the server's word; it looks, too, so that one bad
 * key does not end all of them.
 */

/* Where the epoch stands in a KEY. */
enum { EPOCH_AT = WIRE_HEAD_BYTES + 4, NUMBER_BYTES = 4 };

static bool is_secure(const tarry_tcp_server *server)
{
    return server->settings.secure.bits != 0;
}

int tcp_server_check_secure(const tarry_tcp_server_settings *settings, uint32_t chunks,
                            tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = &settings->secure;
    const ring grid = tcp_server_grid(rules);
    const char *fault = NULL;
    if (rules->bits != settings->server.secure)
        fault = "the rules of secure sums are of other bits than the server's settings";
    else if (rules->bits == 0)
        return TARRY_OK;
    else if (settings->security.credentials == NULL)
        fault = "secure sums need credentials";
    else if (settings->ship != NULL)
        fault = "a server of secure sums has no data to ship";
    else if (!ring_fits(&grid, chunks))
        fault = "sums of these bits and bound can wrap";
    else if (ring_bytes(&grid, settings->server.stripe_length + MASKED_COUNTS) >
             (size_t)WIRE_NUMBERS_MOST * NUMBER_BYTES)
        fault = "a masked stripe is longer than a frame can be";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "network server: %s", fault);
}

int tcp_server_start_loop(tarry_tcp_server *server)
{
    server->has_thread = pthread_create(&server->thread, NULL, tcp_server_run_loop, server) == 0;
    return server->has_thread ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

int tcp_server_open_roster(tarry_tcp_server *server, tarry_diagnostic *diagnostic)
{
    if (!is_secure(server))
        return TARRY_OK;
    int error =
        credential_roster(server->credential, &server->allocator, &server->roster_file, diagnostic);
    if (error == TARRY_OK)
        memcpy(server->settings.secure.roster, server->roster_file->digest,
               sizeof(server->settings.secure.roster));
    return error;
}

/* Why the key is not taken; NULL: it is good. */
static const char *check_key(const tarry_tcp_server *server, const peer *who, const wire_key *words,
                             char text[CREDENTIAL_REFUSAL_SIZE])
{
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
    key_claim claim = {.worker = who->worker, .numerics = words->numerics};
    if (words->worker != who->worker || words->epoch != 0 ||
        memcmp(words->instance, server->roster.seats[who->worker].instance, WIRE_ID_BYTES) != 0)
        return "its key is not for this place and life";
    memcpy(claim.job, server->job_id, sizeof(claim.job));
    memcpy(claim.instance, words->instance, sizeof(claim.instance));
    memcpy(claim.key, words->key, sizeof(claim.key));
    if (key_proof_verify(server->credential, words->certificate, words->certificate_size,
                         words->signature, words->signature_size, &claim, fingerprint,
                         text) != TARRY_OK)
        return text;
    const uint8_t *listed = roster_file_find(server->roster_file, who->worker);
    return listed != NULL && memcmp(listed, fingerprint, sizeof(fingerprint)) == 0
               ? NULL
               : "its certificate is not in the list of workers (" ROSTER_FILE_NAME ")";
}

/* peer_events.key */
static bool tcp_server_take_key(void *user, peer *who, const wire_key *words)
{
    tarry_tcp_server *server = user;
    char text[CREDENTIAL_REFUSAL_SIZE] = "";
    if (!is_secure(server) || who->key != NULL) {
        peer_refuse(who, WIRE_REFUSED_FORMAT, "a key that makes no sense here");
        return false;
    }
    const char *fault = check_key(server, who, words, text);
    if (fault != NULL) {
        peer_refuse(who, WIRE_REFUSED_IDENTITY, fault);
        return false;
    }
    const size_t size = WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES;
    who->key = memory_allocate(&server->allocator, size, 1);
    if (who->key == NULL) {
        peer_end(who, 0);
        return false;
    }
    who->key_size = wire_encode(WIRE_KEY, words, who->key);
    who->numerics = words->numerics;
    return true;
}

enum { FETCHES_MOST = 32 }; /* of a peer that wait */

static void on_turned_away(void *user, uint32_t worker, const char *from, const char *why)
{
    tcp_server_notify(user, &(tarry_tcp_notice){
                                .type = TARRY_TCP_REFUSED,
                                .worker = worker,
                                .peer = from,
                                .text = why,
                            });
}

/* Whether a worker that is about to join has a key, and computes as those who are there; else `why`
 * says what it lacks. */
static bool tcp_server_masks_alike(const tarry_tcp_server *server, const peer *who,
                                   const wire_ready *ready, char *why, size_t room)
{
    if (!is_secure(server))
        return true;
    if (who->key == NULL || who->numerics != ready->numerics) {
        snprintf(why, room, "has no key for secure sums");
        return false;
    }
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++) {
        const peer *other = tcp_server_peer(server, worker);
        if (worker == who->worker || !peer_is_there(other) || other->numerics == who->numerics)
            continue;
        snprintf(why, room, "computes chunks to other bits than worker %u: sums can't be secure",
                 worker);
        return false;
    }
    return true;
}

/* ---- who hears of whom ---- */

/* A worker is about to join: it is told the keys of those who are there. */
static void tcp_server_tell_keys(const tarry_tcp_server *server, peer *who)
{
    for (uint32_t worker = 0;
         is_secure(server) && worker < server->base.host->plan->workers && who->channel != NULL;
         worker++) {
        const peer *other = tcp_server_peer(server, worker);
        if (other != who && peer_is_there(other))
            channel_send(who->channel, other->key, other->key_size);
    }
}

/* Its key, with the epoch that is in the frame, to all others. */
static void spread(const tarry_tcp_server *server, const peer *who)
{
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++) {
        const peer *other = tcp_server_peer(server, worker);
        if (other != who && peer_is_there(other))
            channel_send(other->channel, who->key, who->key_size);
    }
}

/* Its epoch is this one, as it joined or came anew to its round (a late worker that is called
 * back): the others are told its key for that, if they were not. */
static void tcp_server_spread_key(const tarry_tcp_server *server, peer *who, uint32_t epoch)
{
    if (!is_secure(server) || bytes_get(who->key + EPOCH_AT, NUMBER_BYTES) == epoch)
        return;
    bytes_put(who->key + EPOCH_AT, epoch, NUMBER_BYTES);
    spread(server, who);
}

/* ---- send ---- */

static bool reserve_held(tarry_tcp_server *server, peer *who, size_t size)
{
    if (who->held_size + size <= who->held_room)
        return true;
    size_t room = 2 * (who->held_size + size);
    if (room > 2 * server->settings.most_peer_bytes)
        return false;
    uint8_t *bytes = memory_grow(&server->allocator, who->held, who->held_size, room, 1);
    if (bytes == NULL)
        return false;
    who->held = bytes;
    who->held_room = room;
    return true;
}

/* A worker that turns to another plan hears of a round once it has; of one that is over, nothing.
 */
static void hold(tarry_tcp_server *server, peer *who, tarry_message_type type, const uint8_t *frame,
                 size_t size)
{
    bool stands_alone = !tcp_server_is_everywhere(server); /* no COMMIT or FETCH is before it */
    if (stands_alone && (type == TARRY_MESSAGE_ROUND || type == TARRY_MESSAGE_FINISH))
        who->held_size = 0;
    if (stands_alone && type == TARRY_MESSAGE_FINISH)
        return;
    if (!reserve_held(server, who, size)) {
        peer_defer(who, PEER_DROP);
        return;
    }
    memcpy(who->held + who->held_size, frame, size);
    who->held_size += size;
}

static void send_parameters(tarry_tcp_server *server, peer *who, uint64_t round)
{
    peer_drop(who, OUTGOING_PARAMETERS);
    if (tcp_server_is_everywhere(server))
        return;
    peer_send_large(who, &(outgoing_stream){
                             .tag = OUTGOING_PARAMETERS,
                             .round = round,
                             .from = server->base.host->seen,
                             .bytes = (const uint8_t *)server->parameters,
                             .size = server->base.host->numbers * sizeof(float),
                         });
}

/* host_transport.send */
static int tcp_server_send(void *user, uint32_t worker, const tarry_message *message,
                           uint8_t *frame, size_t size)
{
    tarry_tcp_server *server = user;
    peer *who = tcp_server_peer(server, worker);
    if (!peer_is_there(who))
        return TARRY_OK; /* the machine will hear that it is gone */
    tcp_server_note_sent(server, worker, message);
    if (message->type == TARRY_MESSAGE_ROUND) /* before any signal that names it */
        tcp_server_spread_key(server, who, message->epoch);
    if (message->type == TARRY_MESSAGE_LOAD && message->from == worker)
        tcp_server_lend(server, worker);
    frame -= WIRE_HEAD_BYTES;
    wire_message_head(size, 0, frame);
    size += WIRE_HEAD_BYTES;
    if (message->type == TARRY_MESSAGE_PROBE && who->waiting)
        peer_defer(who, PEER_HEARD); /* it can't answer while nothing is read from it */
    if (who->state == PEER_TURNING && message->type != TARRY_MESSAGE_PROBE) {
        hold(server, who, message->type, frame, size);
        return TARRY_OK;
    }
    if (channel_send(who->channel, frame, size) && message->type == TARRY_MESSAGE_ROUND)
        send_parameters(server, who, message->round);
    return TARRY_OK;
}

/* The worker has turned to the plan in force: it is sent what was held back. */
static void tcp_server_send_held(tarry_tcp_server *server, peer *who)
{
    size_t at = 0;
    bool good = true;
    while (at < who->held_size && good) {
        wire_head head;
        wire_head_decode(who->held + at, &head);
        size_t size = WIRE_HEAD_BYTES + head.length;
        good = channel_send(who->channel, who->held + at, size);
        at += size;
    }
    if (who->held_size > 0 && good) /* the first of them is a ROUND, where that matters */
        send_parameters(server, who, server->base.host->round.number);
    memory_release(&server->allocator, who->held);
    who->held = NULL;
    who->held_size = who->held_room = 0;
}

/* Nothing reads the round's parameters any more, now or later. */
static void tcp_server_drop_parameters(tarry_tcp_server *server)
{
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++) {
        peer *who = tcp_server_peer(server, worker);
        if (who == NULL || tcp_server_is_everywhere(server))
            continue;
        peer_drop(who, OUTGOING_PARAMETERS);
        who->held_size = 0; /* its ROUND would be followed by them */
    }
}

/* ---- what the server machine tells its runtime ---- */

/* Those who have loaded them are not let at them any more. */
static void tcp_server_end_loans(tarry_tcp_server *server)
{
    for (uint32_t worker = 0; server->loans > 0 && worker < server->base.host->plan->workers;
         worker++)
        if (tarry_server_ready(server->base.host->machine, worker))
            tcp_server_lend_no_more(server, worker);
}

uint64_t tcp_server_read_clock(tarry_tcp_server *server)
{
    server->now_ns = clock_now_ns();
    return server->now_ns;
}

void tcp_server_notify(tarry_tcp_server *server, tarry_tcp_notice *notice)
{
    if (server->settings.observe == NULL)
        return;
    notice->now_ns = tcp_server_now(server);
    notice_tell(server->settings.observe, server->settings.observe_user, notice);
}

static void count_present(tarry_tcp_server *server, bool more)
{
    pthread_mutex_lock(&server->lock);
    server->present = server->base.host->present;
    server->joins += more;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void on_left_out(void *user, const tarry_effect *effect)
{
    tarry_tcp_server *server = user;
    tcp_member *member = &server->members[effect->worker];
    peer *who = tcp_server_peer(server, effect->worker);
    const peer *left = who != NULL ? who : server->leaving;
    tarry_absence reason = effect->reason;
    switch (reason) {
    case TARRY_ABSENT_GONE:
        if (member->state == WIRE_WORKER_LEFT)
            return; /* it said so itself */
        if (member->state == WIRE_WORKER_SILENT)
            reason = TARRY_ABSENT_SILENT; /* found out between two rounds */
        else
            member->state = WIRE_WORKER_GONE;
        break;
    case TARRY_ABSENT_SILENT:
        member->state = WIRE_WORKER_SILENT;
        count_present(server, false);
        if (who != NULL)
            peer_defer(who, PEER_DROP);
        break;
    case TARRY_ABSENT_LATE:
    case TARRY_ABSENT_FAILED:
    case TARRY_ABSENT_DIFFERS:
        member->state = WIRE_WORKER_LATE;
        break;
    }
    member->gone += reason == TARRY_ABSENT_GONE;
    member->silent += reason == TARRY_ABSENT_SILENT;
    member->late += reason == TARRY_ABSENT_LATE;
    member->failed += reason == TARRY_ABSENT_FAILED;
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_LEFT_OUT,
                                  .round = effect->round,
                                  .worker = effect->worker,
                                  .absence = reason,
                                  .waited_ns = effect->waited_ns,
                                  .limit_ns = effect->limit_ns,
                                  .peer = left != NULL ? channel_peer(left->channel) : NULL,
                                  .text = left != NULL && reason == TARRY_ABSENT_GONE
                                              ? channel_failure(left->channel)
                                              : NULL,
                              });
}

static void remember_round(tarry_tcp_server *server, const tarry_round_result *result)
{
    if (result->error == TARRY_OK)
        server->durations[server->rounds++ % TCP_REMEMBERED_ROUNDS] =
            result->end_ns - result->start_ns;
    server->exact_rounds += result->error == TARRY_OK && result->exact;
    if (result->sum.step > 0)
        server->last_sum = (status_sum){
            .step = result->sum.step,
            .term = result->sum.term,
            .attempt = result->sum.attempt,
            .voters = result->voters,
            .fetches = result->fetches,
            .tries = result->attempts,
        };
}

void tcp_server_count_ready(tarry_tcp_server *server)
{
    const host *its = server->base.host;
    uint32_t ready =
        tcp_server_is_everywhere(server) ? tarry_server_count_ready(its->machine) : its->present;
    if (ready == server->ready) /* which this thread alone writes */
        return;
    tcp_server_end_loans(server);
    pthread_mutex_lock(&server->lock);
    server->ready = ready;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* The caller's thread goes on, and finds who is ready then. */
static void on_done(void *user)
{
    tarry_tcp_server *server = user;
    const tarry_round_result *result = &server->base.host->round.result;
    tcp_server_drop_parameters(server);
    tcp_server_count_ready(server);
    for (uint32_t worker = 0; worker < server->base.host->plan->workers; worker++)
        if (server->base.host->members[worker].joined)
            server->members[worker].state = WIRE_WORKER_RESTING;
    remember_round(server, result);
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_ROUND,
                                  .round = result->round,
                                  .worker = TARRY_TCP_NO_WORKER,
                                  .result = result,
                              });
    pthread_mutex_lock(&server->lock);
    server->round_over = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void on_signalled(void *user, uint64_t round, uint32_t attempt)
{
    tcp_server_notify(user, &(tarry_tcp_notice){
                                .type = TARRY_TCP_SIGNAL,
                                .round = round,
                                .worker = TARRY_TCP_NO_WORKER,
                                .attempt = attempt,
                            });
}

static void on_summed(void *user)
{
    tcp_server_changed(user);
}

static uint64_t now_of(void *user)
{
    return tcp_server_now(user);
}

/* host_transport.released */
static void tcp_server_release_stripe(void *user, stripe *item)
{
    tarry_tcp_server *server = user;
    tcp_member *member = &server->members[item->worker];
    peer *who = tcp_server_peer(server, item->worker);
    member->buffers--;
    if (who != NULL && who->waiting)
        peer_defer(who, PEER_RESUME);
}

host_transport tcp_server_transport(tarry_tcp_server *server)
{
    return (host_transport){
        .user = server,
        .send = tcp_server_send,
        .released = tcp_server_release_stripe,
        .left_out = on_left_out,
        .signalled = on_signalled,
        .done = on_done,
        .summed = on_summed,
        .now = now_of,
    };
}

static void tcp_server_join(tarry_tcp_server *server, peer *who)
{
    tcp_member *member = &server->members[who->worker];
    tarry_arrival arrival = member->arrivals == 0 ? TARRY_ARRIVAL_FIRST
                            : member->restarted   ? TARRY_ARRIVAL_RESTARTED
                                                  : TARRY_ARRIVAL_AGAIN;
    member->arrivals++;
    member->restarted = false;
    member->state = WIRE_WORKER_RESTING;
    member->steps_on = 0;
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_JOINED,
                                  .round = server->base.host->round.number,
                                  .worker = who->worker,
                                  .peer = channel_peer(who->channel),
                                  .arrival = arrival,
                                  .rack = member->rack,
                                  .numerics = member->numerics,
                              });
    host *core = server->base.host;
    tcp_server_tell_keys(server, who);
    bool rejected = host_join(core, who->worker) != NULL;
    if (!rejected)
        tcp_server_spread_key(server, who, tarry_server_epoch(core->machine, who->worker));
    count_present(server, !rejected);
    if (!rejected)
        return;
    who->refusal = WIRE_REFUSED_ARRIVALS;
    peer_defer(who, PEER_REFUSE);
}

static void tcp_server_lose(tarry_tcp_server *server, uint32_t worker, const peer *who)
{
    if (server->closing)
        return; /* the machine steps no more */
    server->leaving = who;
    host_lose(server->base.host, worker);
    server->leaving = NULL;
    tcp_server_lend_no_more(server, worker);
    count_present(server, false);
}

/* ---- replan ---- */

int tcp_server_encode_plan(const tarry_tcp_server *server, const tarry_plan *plan, uint8_t **bytes,
                           size_t *size, tarry_diagnostic *diagnostic)
{
    size_t length = plan_encoded_size(plan);
    uint8_t *encoded = memory_allocate(&server->allocator, length, 1);
    if (encoded == NULL || plan_encode(plan, encoded) != TARRY_OK) {
        memory_release(&server->allocator, encoded);
        return diagnose_no_memory(diagnostic, "network server");
    }
    *bytes = encoded;
    *size = length;
    return TARRY_OK;
}

static void tcp_server_send_plan(const tarry_tcp_server *server, peer *who)
{
    peer_send_large(who, &(outgoing_stream){
                             .tag = OUTGOING_PLAN,
                             .index = who->turn,
                             .bytes = server->plan_bytes,
                             .size = server->plan_size,
                         });
}

static void tcp_server_send_job(const tarry_tcp_server *server, peer *who)
{
    peer_send_large(who, &(outgoing_stream){
                             .tag = OUTGOING_JOB,
                             .bytes = server->job,
                             .size = server->settings.job_size,
                         });
}

enum {
    TAKEN_FRACTION = 4, /* of the silence that counts as absence */
    ANSWERS_MOST = 64,  /* to what is asked of sums among workers, in a round */
    VIEWERS_MOST = 256,
};

/* How many messages an honest worker sends in a round. */
/* What an honest worker says in a round. */
static double tcp_server_messages_of(const tarry_tcp_server *server, uint32_t worker)
{
    double said = tcp_server_is_everywhere(server) ? ANSWERS_MOST : server->base.host->cut.stripes;
    return (double)tarry_plan_load(server->base.host->plan, worker) + said;
}

/* Whoever is about to learn the plan before learns this one as well. */
static void tell_plan(tarry_tcp_server *server)
{
    for (peer *who = server->peers.first; who != NULL; who = who->after) {
        if (who->state != PEER_WELCOMED && !peer_is_there(who))
            continue;
        peer_drop(who, OUTGOING_PLAN);
        who->turn++;
        tcp_server_send_plan(server, who);
        peer_limits_replan(who, tcp_server_messages_of(server, who->worker));
        who->held_size = 0;
        if (who->state == PEER_READY)
            who->state = PEER_TURNING;
    }
}

void tcp_server_turn_to(tarry_runtime *runtime, void *argument)
{
    tarry_tcp_server *server = tcp_server_of(runtime);
    tcp_replan *wanted = argument;
    uint8_t *bytes = NULL;
    size_t size = 0;
    wanted->error = tcp_server_encode_plan(server, wanted->next, &bytes, &size, wanted->diagnostic);
    if (wanted->error == TARRY_OK)
        wanted->error = host_replan(server->base.host, wanted->next, wanted->diagnostic);
    if (wanted->error != TARRY_OK) {
        memory_release(&server->allocator, bytes);
        return;
    }
    uint8_t *before = server->plan_bytes;
    server->plan_bytes = bytes;
    server->plan_size = size;
    tell_plan(server);
    memory_release(&server->allocator, before);
}

/* Who is let in, and as whom: from HELLO to the worker's arrival. */

/* How often a worker may take who seat: at a time, and a second for good. Each costs a handshake,
 * and perhaps the plan; and arrivals are used up (tarry_server_arrivals_left). */
static const bucket_size ENTRIES = {256, 4};

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* For how long the holder of an id must have been quiet before another process gets it. What came
 * in while the server was itself held up may still be unread, and counts as heard. */
static uint64_t quiet_limit_ns(const tarry_tcp_server *server, uint64_t now)
{
    uint64_t since = now - server->ticked_ns;
    return server->spared ? TARRY_NEVER
                          : server->settings.server.silence_ns / TAKEN_FRACTION + since;
}

static wire_reason admit_worker(tarry_tcp_server *server, peer *who, const wire_hello *hello)
{
    roster_claim claim = {
        .allowed = WIRE_ANY_WORKER,
        .wanted = hello->worker,
        .instance = hello->instance,
    };
    if (!who->trusted && who->identity.role != CREDENTIAL_WORKER)
        return WIRE_REFUSED_IDENTITY;
    if (!who->trusted && who->identity.worker != CREDENTIAL_ANY_ID)
        claim.allowed = who->identity.worker;
    else if (!who->trusted && server->settings.secure.bits != 0)
        return WIRE_REFUSED_IDENTITY;
    uint32_t worker;
    uint64_t now = tcp_server_now(server);
    wire_reason reason =
        roster_find(&server->roster, &claim, now, quiet_limit_ns(server, now), &worker);
    if (reason != 0)
        return reason;
    bool bound = claim.allowed != WIRE_ANY_WORKER;
    if (!bucket_take(&server->members[worker].entries[bound], ENTRIES, 1, now))
        return WIRE_REFUSED_ARRIVALS;
    peer *before = tcp_server_peer(server, worker);
    if (before != NULL && bound && !server->roster.seats[worker].bound)
        peer_refuse(before, WIRE_REFUSED_TAKEN,
                    "the worker whose credential names this id is here");
    else if (before != NULL)
        peer_end(before, 0);
    who->worker = worker;
    if (roster_sit(&server->roster, worker, who, &claim, now) == ROSTER_RESTARTED)
        server->members[worker].restarted = true;
    memcpy(server->members[worker].rack, hello->rack, sizeof(hello->rack));
    return 0;
}

static wire_reason admit_viewer(const tarry_tcp_server *server, const peer *who)
{
    if (!who->trusted && who->identity.role != CREDENTIAL_VIEWER)
        return WIRE_REFUSED_IDENTITY;
    return server->viewers < VIEWERS_MOST ? 0 : WIRE_REFUSED_FULL;
}

static wire_reason admit_role(tarry_tcp_server *server, peer *who, const wire_hello *hello)
{
    if (hello->role == WIRE_ROLE_VIEWER)
        return admit_viewer(server, who);
    if (hello->role != WIRE_ROLE_WORKER)
        return WIRE_REFUSED_IDENTITY;
    if (hello->ranking != COEFFICIENTS_VERSION)
        return WIRE_REFUSED_RANKING;
    return admit_worker(server, who, hello);
}

/* What all members of the run agree on. */
static void terms_of(const tarry_tcp_server *server, run_terms *terms)
{
    const host *own = server->base.host;
    run_terms_set(terms, &server->settings.server);
    terms->workers = own->plan->workers;
    terms->parameters = own->numbers;
    terms->ships = server->settings.ship != NULL;
    terms->server.dimension = own->cut.dimension;
    terms->server.stripe_length = own->cut.stripe_length;
    terms->secure = server->settings.secure;
}

static void send_welcome(tarry_tcp_server *server, peer *who, const wire_hello *hello)
{
    bool worker = hello->role == WIRE_ROLE_WORKER;
    bool knows_job = memcmp(hello->job, server->job_id, WIRE_ID_BYTES) == 0;
    bool knows_plan = memcmp(hello->plan, server->base.host->plan->digest, WIRE_DIGEST_BYTES) == 0;
    wire_welcome welcome = {
        .version = WIRE_VERSION,
        .worker = who->worker,
        .plan_bytes = worker && !knows_plan ? server->plan_size : 0,
        .job_bytes = worker && !knows_job ? server->settings.job_size : 0,
    };
    memcpy(welcome.job, server->job_id, WIRE_ID_BYTES);
    memcpy(welcome.plan, server->base.host->plan->digest, WIRE_DIGEST_BYTES);
    terms_of(server, &welcome.terms);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES];
    channel_send(who->channel, frame, wire_welcome_encode(&welcome, frame));
    if (welcome.plan_bytes > 0)
        tcp_server_send_plan(server, who);
    if (welcome.job_bytes > 0)
        tcp_server_send_job(server, who);
}

/* A stripe is the longest that comes, unless it is very short, or as many reports as a batch has.
 */
static uint32_t most_length(const tarry_tcp_server *server)
{
    size_t part = CODEC_HEADER_BYTES + server->base.host->pool.length * sizeof(float);
    size_t most = WIRE_BATCH_HEAD_BYTES + (size_t)WIRE_BATCH_MOST * WIRE_BATCH_REPORT_BYTES;
    return (uint32_t)(part > most ? part : most);
}

/* It is what it says it is from now on. */
static void begin(tarry_tcp_server *server, peer *who, wire_role role)
{
    newcomers_remove(&server->peers, who);
    if (role == WIRE_ROLE_VIEWER) {
        who->state = PEER_VIEWER;
        who->drained = true;
        server->viewers++;
        return;
    }
    who->state = PEER_WELCOMED;
    peer_limits_begin(who, tcp_server_messages_of(server, who->worker),
                      server->base.host->plan->origins);
    channel_allow(who->channel, most_length(server));
}

static bool tcp_server_admit(void *user, peer *who, const wire_hello *hello)
{
    tarry_tcp_server *server = user;
    wire_reason reason = 0;
    char why[WIRE_TEXT_BYTES + 1] = "";
    if (hello->oldest > WIRE_VERSION || hello->newest < WIRE_VERSION)
        reason = WIRE_REFUSED_VERSION;
    else if (server->closing)
        reason = WIRE_REFUSED_CLOSING;
    else
        reason = admit_role(server, who, hello);
    if (reason == WIRE_REFUSED_VERSION)
        snprintf(why, sizeof(why), "%s: the server has %u, the other side %u to %u",
                 wire_reason_text(reason), (unsigned)WIRE_VERSION, (unsigned)hello->oldest,
                 (unsigned)hello->newest);
    if (reason == WIRE_REFUSED_RANKING)
        snprintf(why, sizeof(why), "has version %u of ranks and coefficients, the server has %u",
                 (unsigned)hello->ranking, (unsigned)COEFFICIENTS_VERSION);
    if (reason != 0) {
        peer_refuse(who, reason, why);
        return false;
    }
    begin(server, who, hello->role);
    send_welcome(server, who, hello);
    return true;
}

static bool tcp_server_take_ready(void *user, peer *who, const wire_ready *ready)
{
    tarry_tcp_server *server = user;
    if (ready->turn < who->turn)
        return true; /* it was said of a plan before; the next word is on its way */
    if (ready->turn > who->turn ||
        memcmp(ready->plan, server->base.host->plan->digest, WIRE_DIGEST_BYTES) != 0) {
        peer_refuse(who, WIRE_REFUSED_DATA, "goes by another plan");
        return false;
    }
    const uint8_t *wanted = server->settings.data;
    if (!is_zero(wanted, TARRY_DIGEST_SIZE) && !is_zero(ready->data, WIRE_DIGEST_BYTES) &&
        memcmp(wanted, ready->data, WIRE_DIGEST_BYTES) != 0) {
        peer_refuse(who, WIRE_REFUSED_DATA, "");
        return false;
    }
    char why[WIRE_TEXT_BYTES + 1];
    if (who->state == PEER_WELCOMED &&
        (!tcp_server_sums_alike(server, who, ready, why, sizeof(why)) ||
         !tcp_server_masks_alike(server, who, ready, why, sizeof(why)))) {
        peer_refuse(who, WIRE_REFUSED_DATA, why);
        return false;
    }
    switch (who->state) {
    case PEER_WELCOMED:
        who->state = PEER_READY;
        server->members[who->worker].numerics = ready->numerics;
        tcp_server_meet(server, who, ready);
        tcp_server_join(server, who);
        break;
    case PEER_TURNING:
        who->state = PEER_READY;
        tcp_server_send_held(server, who);
        break;
    case PEER_NEW:
    case PEER_READY:
    case PEER_VIEWER:
    case PEER_OVER:
        break;
    }
    return who->state != PEER_OVER;
}

/* ---- coded parts that come in ---- */

/* By the thread that received them: where they are of one stripe the sum is read and written once
 * for all, and as many, of 256 KiB each, are still in the core's cache. Measured: 1, 2, 6 and 8
 * take longer. */
enum { SUMMED_TOGETHER = 4 };

/* A coded part begins to come in. What channel_handlers.begin gives back. */
static channel_verdict tcp_server_begin_part(void *user, peer *who, const tarry_message *message,
                                             size_t bytes, void **place)
{
    tarry_tcp_server *server = user;
    host *core = server->base.host;
    layout cut;
    if (!host_find_cut(core, message, &cut) || bytes != host_part_bytes(core, &cut, message)) {
        peer_refuse(who, WIRE_REFUSED_FORMAT, "a coded part of the wrong length");
        return CHANNEL_END;
    }
    *place = NULL;
    if (!host_wants(core, who->worker, message))
        return CHANNEL_TAKE;
    tcp_member *member = &server->members[who->worker];
    if (member->buffers == TCP_STRIPES_PER_WORKER) {
        who->waiting = true;
        return CHANNEL_WAIT;
    }
    who->incoming = host_take_room(core);
    if (who->incoming == NULL)
        return CHANNEL_TAKE;
    member->buffers++;
    host_label(who->incoming, who->worker, message);
    *place = who->incoming->numbers;
    return CHANNEL_TAKE;
}

/* A part that came over a connection was taken: where there are no decode threads, some are summed
 * while they are in the cache. */
static void tcp_server_sum_received(tarry_tcp_server *server)
{
    host *core = server->base.host;
    if (server->settings.decode_threads > 0 || core->combining_count < SUMMED_TOGETHER)
        return;
    host_sum(core);
    host_collect(core);
}

/* What the server makes of what peers say and go through. */

static bool on_message(void *user, peer *from, tarry_message *message)
{
    tarry_tcp_server *server = user;
    stripe *item = from->incoming;
    bool received = item != NULL && item->owner == NULL;
    from->spoke_ns = tcp_server_now(server);
    from->incoming = NULL;
    tcp_server_note_said(server, from->worker, message);
    const tarry_reject *reject = host_receive(server->base.host, from->worker, message, item);
    if (from->state == PEER_OVER ||
        !peer_count_message(from, server->base.host->round.number, reject) || from->refusal != 0)
        return false;
    if (received)
        tcp_server_sum_received(server);
    return from->state != PEER_OVER; /* what a sum led to may have ended it */
}

static bool on_fetch(void *user, peer *from, const wire_fetch *fetch)
{
    const tarry_tcp_server *server = user;
    const tarry_tcp_server_settings *settings = &server->settings;
    const void *bytes;
    size_t size;
    if (fetch->kind != WIRE_BLOB_DATA || settings->ship == NULL ||
        fetch->index >= server->base.host->plan->origins) {
        peer_refuse(from, WIRE_REFUSED_FORMAT, "asks for data that are not here");
        return false;
    }
    if (from->large.count >= FETCHES_MOST) {
        peer_refuse(from, WIRE_REFUSED_FLOOD, "asks for too much at a time");
        return false;
    }
    if (settings->ship(settings->ship_user, fetch->index, &bytes, &size) != 0) {
        peer_refuse(from, WIRE_REFUSED_DATA, "the server can't read the data of a chunk");
        return false;
    }
    if (size > TARRY_TCP_SHIP_MOST) {
        peer_refuse(from, WIRE_REFUSED_DATA, "a chunk has more data than can be shipped");
        return false;
    }
    peer_send_large(from, &(outgoing_stream){
                              .tag = OUTGOING_DATA,
                              .index = fetch->index,
                              .bytes = bytes,
                              .size = size,
                          });
    return true;
}

static void on_bye(void *user, peer *from)
{
    tarry_tcp_server *server = user;
    if (from->worker == WIRE_ANY_WORKER)
        return;
    server->members[from->worker].state = WIRE_WORKER_LEFT;
    tcp_server_part_from(server, from->worker);
    tcp_server_notify(server, &(tarry_tcp_notice){
                                  .type = TARRY_TCP_LEFT,
                                  .worker = from->worker,
                                  .peer = channel_peer(from->channel),
                              });
}

static void on_heard(void *user, peer *from, bool excused)
{
    tarry_tcp_server *server = user;
    server->roster.seats[from->worker].heard_ns = from->heard_ns;
    if (!excused && server->base.host->round.running && from->state != PEER_WELCOMED)
        peer_defer(from, PEER_HEARD);
}

static void on_alive(void *user, peer *from)
{
    host *machine = ((tarry_tcp_server *)user)->base.host;
    if (machine->members[from->worker].joined)
        host_step(machine, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = from->worker});
}

/* During a round it is the machine that looks. */
static bool on_silent(void *user, peer *from)
{
    tarry_tcp_server *server = user;
    if (server->base.host->round.running)
        return false;
    server->members[from->worker].state = WIRE_WORKER_SILENT;
    return true;
}

static void on_gone(void *user, peer *who, peer_state was)
{
    tarry_tcp_server *server = user;
    server->viewers -= was == PEER_VIEWER;
    if (who->worker != WIRE_ANY_WORKER && tcp_server_peer(server, who->worker) == who) {
        tcp_member *member = &server->members[who->worker];
        member->received += peer_received(who);
        member->sent += peer_sent(who);
        roster_leave(&server->roster, who->worker);
    }
    if (who->incoming != NULL)
        host_release(server->base.host, who->incoming);
    who->incoming = NULL;
    if (was == PEER_READY || was == PEER_TURNING)
        tcp_server_lose(server, who->worker, who);
}

peer_events tcp_server_peer_events(tarry_tcp_server *server)
{
    return (peer_events){
        .user = server,
        .now = now_of,
        .turned_away = on_turned_away,
        .hello = tcp_server_admit,
        .ready = tcp_server_take_ready,
        .key = tcp_server_take_key,
        .message = on_message,
        .fetch = on_fetch,
        .bye = on_bye,
        .begin_part = tcp_server_begin_part,
        .heard = on_heard,
        .alive = on_alive,
        .silent = on_silent,
        .gone = on_gone,
    };
}
