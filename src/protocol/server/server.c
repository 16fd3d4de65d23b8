/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include <tarry/settings.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "compress/compress.h"
#include "protocol/form.h"
#include "protocol/server/server_skip.h"
#include "protocol/server/server_state.h"
#include "protocol/terms/terms.h"

static inline bool server_is_secure(const tarry_server *server)
{
    return server->settings.secure != 0;
}

/* Adds an effect of the type for the worker, all else zero. */
static tarry_effect *server_emit(tarry_server *server, tarry_effect_type type, uint32_t worker)
{
    assert(server->effects.count < server->capacity);
    tarry_effect *effect = &server->items[server->effects.count++];
    *effect = (tarry_effect){.type = type, .worker = worker, .round = server->round};
    return effect;
}

tarry_effect *server_send(tarry_server *server, uint32_t worker, tarry_message_type type)
{
    tarry_effect *effect = server_emit(server, TARRY_EFFECT_SEND, worker);
    effect->message.type = type;
    effect->message.round = server->round;
    effect->message.epoch = server->members[worker].epoch;
    effect->message.attempt = server->attempt;
    return effect;
}

void server_left_out(tarry_server *server, uint32_t worker, tarry_absence reason,
                     uint64_t waited_ns, uint64_t limit_ns)
{
    tarry_effect *effect = server_emit(server, TARRY_EFFECT_LEFT_OUT, worker);
    effect->reason = reason;
    effect->waited_ns = waited_ns;
    effect->limit_ns = limit_ns;
}

int server_reject(tarry_server *server, uint32_t worker, tarry_reject why)
{
    server_emit(server, TARRY_EFFECT_REJECT, worker)->reject = why;
    return TARRY_OK;
}

/* Counts the step's messages: their sets are known now, and FINISH belongs to the round that it
 * ends. */
static void server_count_sent(tarry_server *server)
{
    for (size_t i = 0; i < server->effects.count; i++) {
        const tarry_effect *effect = &server->items[i];
        if (effect->type != TARRY_EFFECT_SEND)
            continue;
        server->result.control_bytes +=
            codec_size(&server->shapes[effect->worker], &effect->message);
        server->result.control_messages++;
    }
}

/* ---- news ---- */

/* The chunks that the worker computes before all others: those missing that it has not finished. */
static const uint64_t *compose_first(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    uint64_t *slots = server->bits + server->bits_offset[worker] +
                      bitset_words(server->shapes[worker].psi_bits) +
                      bitset_words(server->shapes[worker].slots);
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    for (uint32_t slot = 0; slot < load; slot++)
        bitset_put(slots, slot,
                   coverage_rank(server->credited, plan->slot_chunk[first + slot]) < plan->parts &&
                       !bitset_test(server->done, first + slot) &&
                       !bitset_test(server->failed, first + slot));
    return slots;
}

/* Marked by their recall terms. */
static const uint64_t *compose_recalled(tarry_server *server, uint32_t worker)
{
    const server_member *member = &server->members[worker];
    uint32_t first = server->plan->worker_offset[worker], load = server_load(server, worker);
    uint64_t *slots = server->bits + server->bits_offset[worker] +
                      bitset_words(server->shapes[worker].psi_bits) + 2 * bitset_words(load);
    for (uint32_t slot = 0; slot < load; slot++)
        bitset_put(slots, slot, server->recall_term[first + slot] == member->term);
    return slots;
}

/* Sends the worker news, with all that is due but what a dynamic order has to say, which the caller
 * adds. */
static tarry_message *server_news(tarry_server *server, uint32_t worker)
{
    server_member *member = &server->members[worker];
    tarry_message *news = &server_send(server, worker, TARRY_MESSAGE_NEWS)->message;
    if (member->recalled) {
        member->term++;
        member->reordered = true;
        news->recalled = compose_recalled(server, worker);
    }
    if (member->fate != TARRY_FATE_OPEN) {
        news->fate = member->fate;
        news->slot = member->fate_slot;
    }
    news->term = member->term;
    if (server->steering == NULL && member->reordered)
        news->first = compose_first(server, worker);
    member->news_due = member->recalled = false;
    member->fate = TARRY_FATE_OPEN;
    return news;
}

/*
 * News of something else than the order. What a dynamic order says stands, so that workers go by
 * the same orders as those that keep all; but copies that were dropped and are wanted after all are
 * in no order.
 */
static void send_news(tarry_server *server, uint32_t worker)
{
    tarry_message *news = server_news(server, worker);
    if (server->steering != NULL && news->recalled != NULL)
        steering_add(server, worker, news);
}

/* Sends the news that are due. */
static void server_send_news(tarry_server *server)
{
    for (uint32_t i = 0; i < server->news_count; i++) {
        server_member *member = &server->members[server->news[i]];
        if (member->news_due && member_able(member))
            send_news(server, server->news[i]);
        member->news_due = member->recalled = false;
        member->fate = TARRY_FATE_OPEN;
    }
    server->news_count = 0;
}

/* Tells the worker to go on, what is missing first. */
static void server_send_resume(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->reordered = true;
    tarry_message *resume = &server_send(server, worker, TARRY_MESSAGE_RESUME)->message;
    resume->first = compose_first(server, worker);
    resume->term = member->term;
    steering_address(server, now, worker, resume);
}

/*
 * Secure sums: the credit by copy that is there says whose copy of each chunk counts, and every
 * signal says so to all, as the masks of parts cancel only in a sum of all that have one.
 */

/* Whose copies a secure sum has; nothing where sums are not secure. */

static int server_secure_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    if (!server_is_secure(server))
        return TARRY_OK;
    server->holders = memory_allocate(allocator, server->plan->chunks, sizeof(*server->holders));
    server->lives = memory_allocate(allocator, server->plan->workers, sizeof(*server->lives));
    return server->holders == NULL || server->lives == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

/* The worker that is credited with the chunk. */
static uint32_t holder_of(const tarry_server *server, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    uint32_t at = plan->chunk_offset[chunk];
    assert(coverage_copies(server->credited, chunk) == 1);
    while (!coverage_has(server->credited, plan->holder_worker[at], plan->holder_position[at]))
        at++;
    return plan->holder_worker[at];
}

/* An attempt begins: settles whose copies it sums, one of each chunk. */
static void server_secure_begin(tarry_server *server)
{
    if (!server_is_secure(server))
        return;
    memset(server->lives, 0, server->plan->workers * sizeof(*server->lives));
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++) {
        uint32_t holder = holder_of(server, chunk);
        server->holders[chunk] = holder;
        server->lives[holder] = server->members[holder].epoch;
    }
}

/* Bytes of a stripe of a part, with the numbers that count. */
static uint64_t server_secure_bytes(const tarry_server *server, const layout *cut, uint32_t stripe)
{
    return form_secure_bytes(server->settings.secure, layout_stripe_length(cut, stripe));
}

/*
 * In forms of coded parts with feedback: which of a worker's parts stand in the sum. A part is
 * named by its round, worker, stripe and the epoch in which it was sent: of those that a worker
 * sends of a stripe in one epoch only the last one can stand, and no epoch is given out twice,
 * whatever becomes of the server.
 */

/* Nothing but with feedback. */
static int server_stood_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    if (!compress_feeds_back(server->settings.compress))
        return TARRY_OK;
    size_t each = (size_t)server->plan->workers * server->stripes;
    server->given = memory_allocate(allocator, each, sizeof(*server->given));
    server->stood = memory_allocate(allocator, each, sizeof(*server->stood));
    server->life = memory_allocate(allocator, server->plan->workers, sizeof(*server->life));
    if (server->given == NULL || server->stood == NULL || server->life == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        server->life[worker] = 1;
    return TARRY_OK;
}

static uint32_t *row_of(const tarry_server *server, uint32_t *of, uint32_t worker)
{
    return of + (size_t)worker * server->stripes;
}

/* What came in of stripes that are not complete is void. */
static void server_stood_open(tarry_server *server)
{
    if (server->given == NULL)
        return;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        for (uint32_t stripe = 0; stripe < server->stripes; stripe++)
            if (!bitset_test(server->complete, stripe))
                row_of(server, server->given, worker)[stripe] = 0;
}

/* The part of the open attempt that the worker sent in `epoch` has come in. */
static void server_stood_take(tarry_server *server, uint32_t worker, uint32_t stripe,
                              uint32_t epoch)
{
    if (server->given != NULL)
        row_of(server, server->given, worker)[stripe] = epoch;
}

/* The round is over, with a sum or without one. */
static void server_stood_finish(tarry_server *server, bool good)
{
    if (server->given == NULL)
        return;
    uint32_t *before = server->stood;
    server->stood = server->given;
    server->given = before;
    if (!good)
        memset(server->stood, 0,
               (size_t)server->plan->workers * server->stripes * sizeof(*server->stood));
}

void server_stood_tell(const tarry_server *server, uint32_t worker, tarry_message *message)
{
    if (server->stood == NULL)
        return;
    message->life = server->life[worker];
    message->stood = row_of(server, server->stood, worker);
}

void server_stood_begin_life(tarry_server *server, const tarry_server *from)
{
    if (server->stood == NULL)
        return;
    bool known = from != NULL && from->stood != NULL && from->stripes == server->stripes;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        server->life[worker] = known ? from->life[worker] : server->members[worker].epoch + 1;
    if (known)
        memcpy(server->stood, from->stood,
               (size_t)server->plan->workers * server->stripes * sizeof(*server->stood));
}

/*
 * TARRY_SUM_EVERYWHERE: an attempt's sum is made by workers, and a vote (protocol/vote) decides
 * whether it counts. To the rest of the server a worker without the last state is as one that is
 * not there: it is enlisted once it has it, and not while an attempt is out.
 */

/* TARRY_SUM_EVERYWHERE; without it these do nothing */
static int server_vote_create(tarry_server *server, const tarry_allocator *allocator)
{
    const tarry_server_settings *settings = &server->settings;
    if (settings->sum != TARRY_SUM_EVERYWHERE)
        return TARRY_OK;
    const vote_settings wanted = {
        .workers = server->plan->workers,
        .grace_ns = settings->voters_grace_ns,
        .attempts_most = settings->attempts_most,
        .digest_steps = settings->digest_steps,
    };
    return vote_create(&wanted, allocator, &server->vote);
}

static void give(void *user, const vote_order *order)
{
    tarry_message *message = &server_send(user, order->worker, order->type)->message;
    message->attempt = order->count;
    message->sum = order->sum;
    message->from = order->from;
    message->digests = order->digests;
}

/* Whether a round may begin for it: while the log is written nobody knows which step comes next. */
static bool may_begin(const tarry_server *server, uint32_t worker)
{
    const vote *it = server->vote;
    return server->members[worker].present && vote_takes_part(it, worker) &&
           it->phase != VOTE_LOGGING && it->phase != VOTE_RETURNING;
}

void server_vote_start(tarry_server *server)
{
    if (server->vote == NULL)
        return;
    vote_round(server->vote);
    server->vote_waits = false;
    server->vote_due = true;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server->members[worker].behind = !may_begin(server, worker);
        if (server->members[worker].behind)
            server_fill_forget(server, worker);
    }
}

static int server_vote_say(tarry_server *server, uint64_t now, uint32_t worker,
                           const tarry_message *message)
{
    vote *it = server->vote;
    server_member *member = &server->members[worker];
    if (it == NULL)
        return server_reject(server, worker, TARRY_REJECT_MISPLACED);
    if (!vote_told(it, now, worker, message))
        return server_reject(server, worker, TARRY_REJECT_STALE);
    vote_answer answer = it->members[worker].answer;
    bool answered = answer == VOTE_HELD || answer == VOTE_FAILED || answer == VOTE_UNFETCHED;
    if (server->phase != SERVER_CODING || !member->participant || !answered ||
        member->parts_due == 0)
        return TARRY_OK;
    member->parts_due = 0;
    server->delivered++;
    if (answer == VOTE_HELD)
        estimate_add(&server->part_time, now - server->attempt_start_ns);
    server_await_parts(server, now);
    return TARRY_OK;
}

/* It computes what the others have left: from here on as one that has just come. */
static void enlist(tarry_server *server, uint64_t now, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    server_member *member = &server->members[worker];
    member->behind = false;
    member->finished = member->spared = member->failed = member->parts_due = 0;
    member->term = member->signal_term = 0;
    member->participant = member->excluded = member->put_off = member->reordered = false;
    server_enlist(server, worker);
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        server_review_chunk(server, plan->slot_chunk[slot]);
    steering_joined(server, now, worker);
    server_send_round(server, now, worker);
}

/* Who has lost its state leaves the round, and who has got it joins, or *waits for the next one. */
static int review_one(tarry_server *server, uint64_t now, uint32_t worker, bool *waits)
{
    server_member *member = &server->members[worker];
    if (!member->present)
        return TARRY_OK;
    if (!member->behind && !vote_takes_part(server->vote, worker)) {
        int error = server_exclude(server, now, worker);
        if (error == TARRY_OK)
            member->behind = true;
        return error;
    }
    if (!member->behind || !may_begin(server, worker))
        return TARRY_OK;
    bool open = server->phase != SERVER_COMPUTING;
    *waits = *waits || open;
    if (!open)
        enlist(server, now, worker);
    return TARRY_OK;
}

/* All that vote_next_moved would tell is known. */
static void vote_forget_moved(vote *it)
{
    while (vote_next_moved(it) != TARRY_NO_WORKER)
        ;
}

/* All, or those alone whose part in the vote may have changed. */
static int review(tarry_server *server, uint64_t now)
{
    bool waits = false;
    int error = TARRY_OK;
    if (server->vote_due) {
        vote_forget_moved(server->vote);
        for (uint32_t worker = 0; worker < server->plan->workers && error == TARRY_OK; worker++)
            error = review_one(server, now, worker, &waits);
    } else {
        for (uint32_t worker;
             error == TARRY_OK && (worker = vote_next_moved(server->vote)) != TARRY_NO_WORKER;)
            error = review_one(server, now, worker, &waits);
    }
    server->vote_due = waits;
    return error;
}

/* After an attempt that failed: who was late in it, or is most suspected by others, is left out of
 * the next one where that can do without it. */
static int leave_out_suspect(tarry_server *server, uint64_t now)
{
    uint32_t suspect = vote_suspect(server->vote);
    bool can;
    if (suspect == TARRY_NO_WORKER || !member_able(&server->members[suspect]) ||
        server->vote->present[VOTE_READY] < 3)
        return TARRY_OK;
    int error = server_late_can_spare(server, now, suspect, &can);
    if (error != TARRY_OK || !can)
        return error;
    vote_hurry(server->vote);
    return server_late_exclude(server, now, suspect, 0);
}

static int server_joined(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    if (member->epoch >= member->epoch_end)
        return server_reject(server, worker, TARRY_REJECT_EXHAUSTED);
    if (member->present) {
        int error = server_lost(server, now, worker);
        if (error != TARRY_OK)
            return error;
    }
    *member = (server_member){
        .present = true,
        .stopped = true,
        .reported = member->reported,
        .late = member->late,
        .epoch = member->epoch + 1,
        .epoch_end = member->epoch_end,
        .pace = member->pace,
        .heard_ns = now,
        .probe_ns = TARRY_NEVER,
    };
    server_fill_forget(server, worker);
    steering_arrived(server, worker);
    if (server->vote != NULL) {
        member->behind = true;
        vote_joined(server->vote, worker);
        return TARRY_OK;
    }
    if (server->phase == SERVER_IDLE) {
        steering_joined(server, now, worker);
        return TARRY_OK;
    }
    server_enlist(server, worker);
    const tarry_plan *plan = server->plan;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        server_review_chunk(server, plan->slot_chunk[slot]);
    steering_joined(server, now, worker);
    server_send_round(server, now, worker);
    return TARRY_OK;
}

/* Who has other parameters than most has computed with them: it arrives anew, and will say what it
 * has. One that can't is as one that is gone. */
static int compare(tarry_server *server, uint64_t now)
{
    vote_compare(server->vote);
    for (uint32_t worker; (worker = vote_next_stray(server->vote)) != TARRY_NO_WORKER;) {
        const server_member *member = &server->members[worker];
        server_left_out(server, worker, TARRY_ABSENT_DIFFERS, 0, 0);
        int error = member->epoch < member->epoch_end ? server_joined(server, now, worker)
                                                      : server_lost(server, now, worker);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* And after it: asks those whom it has let in again. */
static void server_vote_give_due(tarry_server *server)
{
    if (server->vote != NULL && !server->vote_waits)
        vote_give_due(server->vote, give, server);
}

/* Whether somebody may still be enlisted without a new arrival. */
static bool server_vote_waits_for_more(const tarry_server *server)
{
    if (server->vote == NULL)
        return false;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (server->members[worker].behind && may_begin(server, worker))
            return true;
    return vote_may_grow(server->vote);
}

/* Whether an attempt may begin now. */
/* A report may overtake the word that its worker has stepped. A run that is to repeat waits for who
 * is there and may still compute its share, however late it is up to date. */
static bool server_vote_may_begin(const tarry_server *server)
{
    if (server->vote == NULL)
        return true;
    if (server->settings.reproducible && server->phase == SERVER_COMPUTING &&
        server_vote_waits_for_more(server))
        return false;
    bool any = false;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (!member_able(member))
            continue;
        any = any || vote_is_ready(server->vote, worker);
        if (member->finished > member->spared && !vote_is_ready(server->vote, worker))
            return false;
    }
    return any && vote_may_open(server->vote);
}

/* Behind the set of stripes. */
static uint64_t *group_of(const tarry_server *server)
{
    return server->bits + server->bits_offset[server->plan->workers] +
           bitset_words(server->stripes);
}

/* Opens the vote of an attempt, of those who are ready; only with a vote. */
static void server_vote_open(tarry_server *server)
{
    server->asked = 1; /* a word on the whole */
    uint64_t *group = group_of(server);
    bitset_clear(group, server->plan->workers);
    server->result.voters = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        bool votes = member_able(&server->members[worker]) && vote_is_ready(server->vote, worker);
        bitset_put(group, worker, votes);
        server->result.voters += votes;
    }
    vote_open(server->vote, group);
}

/* Whether the attempt's signal goes to the worker, as one that votes. */
static bool server_vote_signals(const tarry_server *server, uint32_t worker)
{
    return server->vote == NULL || server->vote->members[worker].answer == VOTE_WAITING;
}

/* What a voter's signal says of the sum. */
static void server_vote_tell(const tarry_server *server, tarry_message *signal)
{
    if (server->vote == NULL)
        return;
    signal->group = group_of(server);
    signal->sum = server->vote->pending;
    signal->scale = server->attempt_scale;
}

int tarry_server_log(tarry_server *server, const tarry_sum_id last[2], uint32_t term)
{
    if (server->vote == NULL || term == 0 || (last[0].step > 0 && term <= last[0].term))
        return TARRY_ERROR_ARGUMENT;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (server->members[worker].present)
            return TARRY_ERROR_STATE;
    if (server->phase != SERVER_IDLE)
        return TARRY_ERROR_STATE;
    vote_restart(server->vote, last, term);
    return TARRY_OK;
}

void server_skip_rounds(tarry_server *server, uint64_t step)
{
    const uint64_t last = server->vote->log[0].step;
    if (last >= step)
        server->round += last - step;
    else
        server->round -= server->round < step - last ? server->round : step - last;
}

int tarry_server_vectors(tarry_server *server, const tarry_sum_id *after)
{
    if (server->vote == NULL)
        return TARRY_ERROR_ARGUMENT;
    server->vote->has_vectors = true;
    server->vote->vectors = *after;
    server->vote->changed = true;
    return TARRY_OK;
}

tarry_sum_id tarry_server_last_sum(const tarry_server *server)
{
    return server->vote == NULL ? (tarry_sum_id){0} : server->vote->log[0];
}

bool tarry_server_ready(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    return server->vote == NULL ? server->members[worker].present
                                : vote_is_ready(server->vote, worker);
}

uint32_t tarry_server_count_ready(const tarry_server *server)
{
    const vote *it = server->vote;
    if (it != NULL && !vote_is_stuck(it))
        return it->present[VOTE_READY];
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        count += server->members[worker].present;
    return count;
}

bool tarry_server_at_fault(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    return server->vote != NULL && vote_at_fault(server->vote, worker);
}

/* ---- attempt ---- */

/* Whether those who are left can't bring the round to its end. */
static bool is_hopeless(const tarry_server *server)
{
    if (server->able == 0)
        return true;
    switch (server->settings.stop) {
    case TARRY_STOP_EXACT:
        return server->hopeless_count > 0;
    case TARRY_STOP_WORKERS:
        return server->capable < server->settings.workers_needed;
    case TARRY_STOP_DEADLINE:
    case TARRY_STOP_ERROR:
        break;
    }
    return false;
}

/* Whether waiting longer is in vain; at each report, so that all workers are looked through only
 * where it matters. */
static bool is_doomed(const tarry_server *server)
{
    return is_hopeless(server) && !server_vote_waits_for_more(server);
}

static void complete_stripe(tarry_server *server, uint32_t stripe)
{
    bitset_set(server->complete, stripe);
    server->complete_count++;
    double numbers = (double)server_stripe_numbers(server, stripe);
    server->error_sum += server->attempt_error * numbers;
    server->filled_sum += server->attempt_filled * numbers;
    server->all_exact = server->all_exact && server->attempt_exact;
}

/* All stripes are there, as the attempt promised. */
static void server_complete(tarry_server *server)
{
    for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++)
        if (!bitset_test(server->complete, stripe))
            complete_stripe(server, stripe);
}

static int server_vote_logged(tarry_server *server, const tarry_event *event)
{
    vote *it = server->vote;
    if (it == NULL)
        return TARRY_ERROR_ARGUMENT;
    bool sums = it->phase == VOTE_LOGGING;
    if (!vote_logged(it, &event->sum))
        return server_reject(server, 0, TARRY_REJECT_STALE);
    server->vote_due = true;
    if (!sums || server->phase != SERVER_CODING)
        return TARRY_OK;
    server->result.sum = it->log[0];
    server->result.fetches = it->fetches;
    server_complete(server);
    return TARRY_OK;
}

/* Sends the worker its view of psi; one with copies in it takes part. */
static void send_signal(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    uint64_t *psi = server->bits + server->bits_offset[worker];
    uint64_t *stale = psi + bitset_words(server->shapes[worker].psi_bits);
    bool own = server_fill_view(server, worker, psi, stale);
    member->participant = own || server->vote != NULL;
    member->parts_due = member->participant ? server->asked : 0;
    member->stopped = true;
    member->signal_ns = now;
    if (server_keeps_credited(server))
        member->signal_term = ++member->term;
    if (member->participant) {
        server->participants++;
        for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++) {
            server->awaited[stripe]++;
            server->unsummed[stripe]++;
        }
    }
    bool fresh = true;
    for (uint32_t slot = 0; slot < server_load(server, worker) && server->stale != NULL; slot++)
        fresh = fresh && !bitset_test(stale, slot);
    tarry_effect *effect = server_send(server, worker, TARRY_MESSAGE_SIGNAL);
    effect->message.psi = psi;
    effect->message.stripes = server->bits + server->bits_offset[server->plan->workers];
    effect->message.term = member->term;
    effect->message.stale = fresh ? NULL : stale;
    effect->message.holders = server->holders;
    effect->message.lives = server->lives;
    server_vote_tell(server, &effect->message);
}

/* Sends every worker that is there its view of psi: those with copies in it answer, the others stop
 * computing. In a sum among workers all who make it answer. */
static void send_signals(tarry_server *server, uint64_t now)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (server->members[worker].present && server_vote_signals(server, worker))
            send_signal(server, now, worker);
    steering_stopped(server, now);
}

static void clear_open_stripes(tarry_server *server)
{
    for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++) {
        if (bitset_test(server->complete, stripe))
            continue;
        tarry_effect *effect = server_emit(server, TARRY_EFFECT_CLEAR, 0);
        effect->stripe = stripe;
    }
}

/* Nothing of the attempt is there yet: the stripes that are not complete begin at zero. */
static void open_attempt(tarry_server *server)
{
    uint64_t *asked = server->bits + server->bits_offset[server->plan->workers];
    bitset_clear(asked, server->stripes);
    for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++) {
        bitset_put(asked, stripe, !bitset_test(server->complete, stripe));
        server->awaited[stripe] = server->unsummed[stripe] = 0;
    }
    server->asked = server->cut.stripes - server->complete_count;
    server->participants = server->delivered = 0;
    bitset_clear(server->received, (size_t)server->plan->workers * server->stripes);
    server_stood_open(server);
    if (server->vote == NULL)
        clear_open_stripes(server);
    else
        server_vote_open(server);
}

static void begin_attempt(tarry_server *server, uint64_t now)
{
    server_fill_attempt(server);
    server_send_news(server);
    server->phase = SERVER_CODING;
    server->broken = false;
    server->attempt_exact = coverage_recovered(server->credited) == server->plan->chunks;
    open_attempt(server);
    server->attempt++;
    server->result.attempts++;
    if (server->result.signal_ns == TARRY_NEVER)
        server->result.signal_ns = now;
    server->attempt_start_ns = now;
    server->late_ns = TARRY_NEVER;
    server->first_stripe_ns = TARRY_NEVER;
    server_secure_begin(server);
    send_signals(server, now);
    if (server->vote != NULL) {
        server_await_parts(server, now);
        return;
    }
    for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++)
        if (!bitset_test(server->complete, stripe) && server->unsummed[stripe] == 0)
            complete_stripe(server, stripe);
}

/* The attempt can't be completed and psi without the lost is not enough:
 * workers go on, what is missing first. */
static void resume(tarry_server *server, uint64_t now)
{
    server_send_news(server);
    server->phase = SERVER_COMPUTING;
    server->broken = false;
    server->vote_due = true;
    steering_resumed(server, now);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        member->participant = false;
        member->parts_due = 0;
        if (!member_able(member))
            continue;
        server_send_resume(server, now, worker);
        member->stopped = false;
        member->since_ns = server_has_work(server, worker) ? now : TARRY_NEVER;
    }
}

static void remember_paces(tarry_server *server)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        pace *of = &server->members[worker].pace;
        if (of->cost > 0)
            pace_end_round(of, pace_of(of, 0, 0, 0));
    }
}

/* Ends the round, with TARRY_OK or why there is no estimate. */
static void server_finish(tarry_server *server, uint64_t now, int error)
{
    server_send_news(server);
    server_stood_finish(server, error == TARRY_OK);
    tarry_round_result *result = &server->result;
    result->workers_lost = server->plan->workers;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->present)
            continue;
        result->workers_lost--;
        if (!member->stopped || error != TARRY_OK)
            server_stood_tell(server, worker,
                              &server_send(server, worker, TARRY_MESSAGE_FINISH)->message);
        member->stopped = true;
    }
    if (server->vote != NULL && error != TARRY_OK)
        vote_close(server->vote);
    result->error = error;
    result->end_ns = now;
    if (error == TARRY_OK) {
        result->exact = server->all_exact;
        result->expected_error = server->error_sum / (double)server->cut.part_length;
        result->filled_share = server->filled_sum / (double)server->cut.part_length;
    } else {
        result->expected_error = coverage_expected_error(server->credited);
    }
    server_emit(server, TARRY_EFFECT_DONE, 0)->result = result;
    server->phase = SERVER_IDLE;
    steering_finished(server);
    remember_paces(server);
    server->idle_ns = now;
    server->round++;
}

/* Carries out what follows for the vote, before server_advance does for the round. */
static int server_vote_follow(tarry_server *server, uint64_t now)
{
    vote *it = server->vote;
    if (it == NULL || server->vote_waits)
        return TARRY_OK;
    int error = compare(server, now);
    if (error != TARRY_OK)
        return error;
    switch (vote_act(it, now, server->phase != SERVER_IDLE, give, server)) {
    case VOTE_GOES_ON:
        break;
    case VOTE_VOID:
        server->broken = true;
        error = leave_out_suspect(server, now);
        if (error == TARRY_OK)
            error = compare(server, now); /* who has told since the attempt began */
        break;
    case VOTE_LOG:
        server_emit(server, TARRY_EFFECT_LOG, 0)->sum = it->pending;
        break;
    case VOTE_DIFFERS:
    case VOTE_SPLIT:
        server_finish(server, now, TARRY_ERROR_DIFFER);
        break;
    case VOTE_GONE:
        server_finish(server, now, TARRY_ERROR_GONE);
        break;
    }
    bool running = server->phase == SERVER_COMPUTING ||
                   (server->phase == SERVER_CODING && server->complete_count == 0);
    return error == TARRY_OK && running ? review(server, now) : error;
}

static bool is_ready(const tarry_server *server, uint64_t now)
{
    server_standing stands = server_stands(server);
    return server->able > 0 && server_rule_holds(server, &stands, now);
}

/* Workers that this round excluded as late, and that are present, join it as new arrivals: they may
 * be at anything by now, and say what they have. */
static int server_call_back_late(tarry_server *server, uint64_t now)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (!member->present || !member->put_off || member->epoch == member->epoch_end)
            continue;
        int error = server_joined(server, now, worker);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* Carries out what follows from the state: signal, new attempt, end of the round. */
static int server_advance(tarry_server *server, uint64_t now)
{
    bool choose =
        server->phase == SERVER_COMPUTING || (server->phase == SERVER_CODING && server->broken);
    bool ready = choose && is_ready(server, now);
    if (choose && !ready && is_doomed(server)) {
        int error = server_call_back_late(server, now);
        if (error != TARRY_OK)
            return error;
        ready = is_ready(server, now); /* those who are back may be enough for the rule */
    }
    if (ready && server->vote != NULL && vote_exhausted(server->vote))
        server_finish(server, now, TARRY_ERROR_LINKS);
    else if (ready && server_vote_may_begin(server))
        begin_attempt(server, now);
    else if (choose && !ready && is_doomed(server))
        server_finish(server, now, TARRY_ERROR_COVERAGE);
    else if (choose && !ready && server->broken)
        resume(server, now);

    if (server->phase == SERVER_CODING && server->complete_count == server->cut.stripes)
        server_finish(server, now, TARRY_OK);
    return TARRY_OK;
}

static void combine(tarry_server *server, uint32_t worker, uint32_t stripe)
{
    tarry_effect *effect = server_emit(server, TARRY_EFFECT_COMBINE, worker);
    effect->attempt = server->attempt;
    effect->stripe = stripe;
    effect->scale = server->attempt_scale;
}

/* In the order of arrival, or, to be reproducible, in the order of workers once all are there. */
static void schedule_combine(tarry_server *server, uint32_t worker, uint32_t stripe)
{
    if (!server->settings.reproducible) {
        combine(server, worker, stripe);
        return;
    }
    if (server->awaited[stripe] > 0)
        return;
    for (uint32_t sender = 0; sender < server->plan->workers; sender++)
        if (bitset_test(server->received, (size_t)sender * server->stripes + stripe))
            combine(server, sender, stripe);
}

static int server_part(tarry_server *server, uint64_t now, uint32_t worker,
                       const tarry_message *message)
{
    uint32_t stripe = message->stripe;
    if (message->round > server->round ||
        (message->round == server->round && message->attempt > server->attempt))
        return server_reject(server, worker, TARRY_REJECT_RANGE);
    if (server->phase != SERVER_CODING || message->round != server->round ||
        message->attempt != server->attempt)
        return server_reject(server, worker, TARRY_REJECT_STALE);

    server_member *member = &server->members[worker];
    size_t bit = (size_t)worker * server->stripes + stripe;
    if (!member->participant)
        return server_reject(server, worker, TARRY_REJECT_MISPLACED);
    if (bitset_test(server->received, bit))
        return server_reject(server, worker, TARRY_REJECT_DUPLICATE);
    if (bitset_test(server->complete, stripe))
        return server_reject(server, worker, TARRY_REJECT_MISPLACED);

    assert(member->parts_due > 0 && server->awaited[stripe] > 0);
    bitset_set(server->received, bit);
    server_stood_take(server, worker, stripe, message->epoch);
    server->awaited[stripe]--;
    member->stripe_ns = now;
    if (server->first_stripe_ns == TARRY_NEVER)
        server->first_stripe_ns = now;
    if (--member->parts_due == 0) {
        server->delivered++;
        estimate_add(&server->part_time, now - member->signal_ns);
        server_await_parts(server, now);
    }
    schedule_combine(server, worker, stripe);
    return TARRY_OK;
}

static int server_combined(tarry_server *server, const tarry_event *event)
{
    if (event->worker >= server->plan->workers || event->stripe >= server->stripes)
        return server_reject(server, event->worker, TARRY_REJECT_RANGE);
    if (server->phase != SERVER_CODING || event->round != server->round ||
        event->attempt != server->attempt || bitset_test(server->complete, event->stripe))
        return server_reject(server, event->worker, TARRY_REJECT_STALE);
    if (event->stripe >= server->cut.stripes)
        return server_reject(server, event->worker, TARRY_REJECT_RANGE);
    if (server->unsummed[event->stripe] <= server->awaited[event->stripe])
        return server_reject(server, event->worker, TARRY_REJECT_DUPLICATE);
    if (--server->unsummed[event->stripe] == 0)
        complete_stripe(server, event->stripe);
    return TARRY_OK;
}

/* ---- server ---- */

/* What a plan was made from is not known any more, and was checked when it was made. */
static int check_together(const tarry_plan *plan, const tarry_server_settings *settings,
                          tarry_diagnostic *diagnostic)
{
    const tarry_settings all = {
        .plan = {.workers = plan->workers,
                 .chunks = plan->origins / plan->pieces,
                 .replication = plan->workers,
                 .parts = plan->parts},
        .server = *settings,
    };
    tarry_conflict conflict;
    int error = tarry_settings_check(&all, &conflict);
    if (error == TARRY_OK)
        return TARRY_OK;
    return diagnose(diagnostic, error, "server: %s and %s don't go together: %s",
                    tarry_setting_name(conflict.first), tarry_setting_name(conflict.second),
                    conflict.reason);
}

/* What is wrong with the matrices; NULL: nothing. */
static const char *fault_of_matrices(const tarry_server_settings *settings)
{
    if (settings->compress != TARRY_COMPRESS_POWERSGD)
        return settings->compress_rank == 0 && settings->compress_matrix_count == 0
                   ? NULL
                   : "matrices of a rank are of one form alone";
    const compress_lowrank low = lowrank_of(settings);
    const size_t exact = settings->compress_exact;
    return lowrank_fault(&low, settings->dimension > exact ? settings->dimension - exact : 0);
}

static int check_settings(const tarry_plan *plan, const tarry_server_settings *settings,
                          tarry_diagnostic *diagnostic)
{
    run_terms terms;
    run_terms_set(&terms, settings);
    int error = terms_check(&terms, TERMS_SETTINGS, "server: ", diagnostic);
    if (error != TARRY_OK)
        return error;
    const char *fault = fault_of_matrices(settings);
    if ((settings->dimension - 1) / plan->parts / settings->stripe_length >= UINT32_MAX / 64)
        fault = "stripe_length is too small for dimension";
    else if (settings->sample_chunks > plan->origins / plan->pieces)
        fault = "there are not so many chunks to sample";
    else if (settings->stop == TARRY_STOP_WORKERS && settings->workers_needed > plan->workers)
        fault = "workers_needed is more than there are workers";
    else if (!form_has_element(settings, plan->parts))
        fault = "element float64 goes with sum everywhere, one part and no compressed form";
    if (fault != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "server: %s", fault);
    return check_together(plan, settings, diagnostic);
}

/* Every worker has a region for the largest bit sets that one message to it carries. */
static int allocate_bits(tarry_server *server, const tarry_allocator *allocator)
{
    uint32_t workers = server->plan->workers;
    server->shapes = memory_allocate(allocator, workers, sizeof(*server->shapes));
    server->bits_offset = memory_allocate(allocator, (size_t)workers + 1, sizeof(size_t));
    if (server->shapes == NULL || server->bits_offset == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++) {
        codec_shape shape = codec_shape_of(server->plan, worker, server->stripes);
        if (server_is_secure(server))
            codec_shape_secure(&shape, server->plan);
        server->shapes[worker] = shape;
        size_t psi = bitset_words(shape.psi_bits), slots = bitset_words(shape.slots);
        server->bits_offset[worker + 1] = server->bits_offset[worker] + psi + 3 * slots;
    }
    size_t stripe_words = bitset_words(server->stripes) + bitset_words(workers);
    server->bits = memory_allocate(allocator, server->bits_offset[workers] + stripe_words,
                                   sizeof(*server->bits));
    return server->bits == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

static int server_fill_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    if (server->settings.fill != TARRY_FILL_STALE)
        return TARRY_OK;
    size_t words = bitset_words(plan_edges(server->plan));
    server->previous = memory_allocate(allocator, words, sizeof(uint64_t));
    if (server->previous == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = coverage_create(server->plan, server->settings.conditioning_limit, allocator,
                                &server->stale);
    return error == TARRY_OK ? coverage_create(server->plan, server->settings.conditioning_limit,
                                               allocator, &server->supposed_stale)
                             : error;
}

static int allocate(tarry_server *server, const tarry_allocator *allocator)
{
    const tarry_plan *plan = server->plan;
    size_t workers = plan->workers, chunks = plan->chunks, stripes = server->stripes;
    size_t slot_words = bitset_words(plan_edges(plan));
    /* START may send a round to all and end it at once; a watch may probe all, before news and a
     * signal to all, and each may be left out, or called back. */
    server->capacity = 8 * workers + stripes + 8;
    if (server->settings.sum == TARRY_SUM_EVERYWHERE)
        server->capacity += 4 * workers; /* an order, one to break off, and to ask, each */

    server->members = memory_allocate(allocator, workers, sizeof(*server->members));
    server->answers = memory_allocate(allocator, workers, sizeof(*server->answers));
    server->done = memory_allocate(allocator, slot_words, sizeof(uint64_t));
    server->failed = memory_allocate(allocator, slot_words, sizeof(uint64_t));
    server->possible = memory_allocate(allocator, chunks, sizeof(uint32_t));
    server->supposed_possible = memory_allocate(allocator, chunks, sizeof(uint32_t));
    server->hopeless = memory_allocate(allocator, bitset_words(chunks), sizeof(uint64_t));
    server->received =
        memory_allocate(allocator, bitset_words(workers * stripes), sizeof(uint64_t));
    server->awaited = memory_allocate(allocator, stripes, sizeof(uint32_t));
    server->unsummed = memory_allocate(allocator, stripes, sizeof(uint32_t));
    server->complete = memory_allocate(allocator, bitset_words(stripes), sizeof(uint64_t));
    server->items = memory_allocate(allocator, server->capacity, sizeof(*server->items));
    if (server->members == NULL || server->answers == NULL || server->done == NULL ||
        server->failed == NULL || server->possible == NULL || server->supposed_possible == NULL ||
        server->hopeless == NULL || server->received == NULL || server->awaited == NULL ||
        server->unsummed == NULL || server->complete == NULL || server->items == NULL)
        return TARRY_ERROR_NO_MEMORY;
    server->news = memory_allocate(allocator, workers, sizeof(uint32_t));
    if (server_keeps_credited(server))
        server->recall_term = memory_allocate(allocator, plan_edges(plan), sizeof(uint32_t));
    if (server->news == NULL || (server_keeps_credited(server) && server->recall_term == NULL))
        return TARRY_ERROR_NO_MEMORY;
    int error = allocate_bits(server, allocator);
    if (error == TARRY_OK)
        error = server_fill_allocate(server, allocator);
    if (error == TARRY_OK)
        error = server_stood_allocate(server, allocator);
    if (error == TARRY_OK)
        error = server_sample_allocate(server, allocator);
    if (error == TARRY_OK)
        error = server_secure_allocate(server, allocator);
    if (error != TARRY_OK)
        return error;
    error = server_vote_create(server, allocator);
    if (error != TARRY_OK)
        return error;
    double limit = server->settings.conditioning_limit;
    error = coverage_create(plan, limit, allocator, &server->credited);
    if (error == TARRY_OK)
        error = coverage_create(plan, limit, allocator, &server->supposed);
    return error == TARRY_OK ? steering_create(server) : error;
}

int tarry_server_create(const tarry_plan *plan, const tarry_server_settings *settings,
                        const tarry_allocator *allocator, tarry_server **server,
                        tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "server", diagnostic);
    if (error == TARRY_OK)
        error = check_settings(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_server *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "server");
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->settings = *settings;
    made->settings.reproducible = settings->reproducible && settings->secure == 0;
    made->cut = layout_make(settings->dimension, plan->parts, settings->stripe_length);
    made->stripes = made->cut.stripes;
    made->effects.count = 0;
    error = allocate(made, &made->allocator);
    if (error != TARRY_OK) {
        tarry_server_free(made);
        return diagnose_no_memory(diagnostic, "server");
    }
    made->effects.items = made->items;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        made->members[worker].probe_ns = TARRY_NEVER;
        made->members[worker].epoch_end = UINT32_MAX;
    }
    made->late_ns = TARRY_NEVER;
    *server = made;
    return TARRY_OK;
}

void tarry_server_free(tarry_server *server)
{
    if (server == NULL)
        return;
    tarry_allocator allocator = server->allocator;
    memory_release(&allocator, server->sample.slot_weights);
    memory_release(&allocator, server->sample.weights);
    steering_free(server);
    vote_free(server->vote);
    coverage_free(server->credited);
    coverage_free(server->stale);
    coverage_free(server->supposed);
    coverage_free(server->supposed_stale);
    memory_release(&allocator, server->supposed_possible);
    memory_release(&allocator, server->previous);
    memory_release(&allocator, server->bits);
    memory_release(&allocator, server->bits_offset);
    memory_release(&allocator, server->shapes);
    memory_release(&allocator, server->items);
    memory_release(&allocator, server->given);
    memory_release(&allocator, server->stood);
    memory_release(&allocator, server->life);
    memory_release(&allocator, server->complete);
    memory_release(&allocator, server->unsummed);
    memory_release(&allocator, server->awaited);
    memory_release(&allocator, server->received);
    memory_release(&allocator, server->hopeless);
    memory_release(&allocator, server->possible);
    memory_release(&allocator, server->holders);
    memory_release(&allocator, server->lives);
    memory_release(&allocator, server->news);
    memory_release(&allocator, server->recall_term);
    memory_release(&allocator, server->failed);
    memory_release(&allocator, server->done);
    memory_release(&allocator, server->answers);
    memory_release(&allocator, server->members);
    memory_release(&allocator, server);
}

bool server_is_fresh(const tarry_server *server)
{
    bool fresh = server->phase == SERVER_IDLE && server->round == 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        fresh = fresh && server->members[worker].epoch == 0;
    return fresh;
}

/* Whether the message speaks of a stripe that there is, which is counted. */
static bool count_part(tarry_server *server, const tarry_message *part)
{
    const layout *cut = &server->cut;
    if (part->stripe >= cut->stripes)
        return false;
    if (server_is_secure(server)) {
        server->result.upload_bytes += server_secure_bytes(server, cut, part->stripe);
        return part->form == TARRY_COMPRESS_NONE;
    }
    server->result.upload_bytes += form_stripe_bytes(
        form_of_part(&server->settings, part->round, part->form), cut, part->stripe);
    return true;
}

/* Whoever sends is alive; what it sends counts only if it speaks for its present arrival. */
static int take_message(tarry_server *server, uint64_t now, uint32_t worker,
                        const tarry_message *message)
{
    if (worker >= server->plan->workers || !server->members[worker].present)
        return server_reject(server, worker, TARRY_REJECT_UNKNOWN);
    server->result.control_bytes += codec_size(&server->shapes[worker], message);
    server->result.control_messages++;
    bool good = message->type != TARRY_MESSAGE_PART || count_part(server, message);
    if (message->epoch != server->members[worker].epoch)
        return server_reject(server, worker, TARRY_REJECT_STALE);
    switch (message->type) {
    case TARRY_MESSAGE_REPORT:
        server_heard(server, now, worker);
        return server_report(server, now, worker, message);
    case TARRY_MESSAGE_PART:
        server_heard(server, now, worker);
        if (server->vote != NULL)
            return server_reject(server, worker, TARRY_REJECT_MISPLACED);
        if (!good)
            return server_reject(server, worker, TARRY_REJECT_RANGE);
        return server_part(server, now, worker, message);
    case TARRY_MESSAGE_ALIVE:
        server_heard(server, now, worker);
        steering_word(server, now, worker, message);
        return TARRY_OK;
    case TARRY_MESSAGE_ROUND:
    case TARRY_MESSAGE_SIGNAL:
    case TARRY_MESSAGE_RESUME:
    case TARRY_MESSAGE_NEWS:
    case TARRY_MESSAGE_PROBE:
    case TARRY_MESSAGE_FINISH:
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_FETCH:
    case TARRY_MESSAGE_LOAD:
    case TARRY_MESSAGE_COMMIT:
        break;
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
    case TARRY_MESSAGE_STATE:
        server_heard(server, now, worker);
        return server_vote_say(server, now, worker, message);
    }
    return server_reject(server, worker, TARRY_REJECT_MISPLACED);
}

/*
 * Bytes of a message that was under way say that the worker is there, and nothing of how long it
 * takes to answer: they may have been sent before it was asked. What comes next may be the answer
 * to that probe, even if another was sent meanwhile: it is not measured either.
 */
static void server_overheard(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->heard_ns = now;
    if (member->probe_ns != TARRY_NEVER) {
        member->probe_ns = TARRY_NEVER;
        member->overheard = true;
    }
}

static int take_event(tarry_server *server, uint64_t now, const tarry_event *event)
{
    uint32_t worker = event->worker;
    bool known = worker < server->plan->workers;
    switch (event->type) {
    case TARRY_EVENT_TIME:
        return TARRY_OK;
    case TARRY_EVENT_MESSAGE:
        return take_message(server, now, worker, event->message);
    case TARRY_EVENT_START:
        return server_start(server, now);
    case TARRY_EVENT_ABORT:
        if (server->phase == SERVER_IDLE)
            return TARRY_ERROR_STATE;
        server_finish(server, now, TARRY_ERROR_INTERRUPTED);
        return TARRY_OK;
    case TARRY_EVENT_JOINED:
        return known ? server_joined(server, now, worker)
                     : server_reject(server, worker, TARRY_REJECT_UNKNOWN);
    case TARRY_EVENT_LOST:
        if (!known || !server->members[worker].present)
            return server_reject(server, worker, TARRY_REJECT_UNKNOWN);
        server_left_out(server, worker, TARRY_ABSENT_GONE, now - server->members[worker].heard_ns,
                        0);
        return server_lost(server, now, worker);
    case TARRY_EVENT_HEARD:
        if (!known || !server->members[worker].present)
            return server_reject(server, worker, TARRY_REJECT_UNKNOWN);
        server_overheard(server, now, worker);
        return TARRY_OK;
    case TARRY_EVENT_COMBINED:
        return server_combined(server, event);
    case TARRY_EVENT_COMPUTED:
    case TARRY_EVENT_ENCODED:
    case TARRY_EVENT_REDUCED:
    case TARRY_EVENT_FETCHED:
    case TARRY_EVENT_LOADED:
    case TARRY_EVENT_STEPPED:
        break;
    case TARRY_EVENT_LOGGED:
        return server_vote_logged(server, event);
    }
    return TARRY_ERROR_ARGUMENT;
}

/* Carries out what follows from the event, or from the time. */
static int follow(tarry_server *server, uint64_t now)
{
    int error = server_watch(server, now);
    if (error == TARRY_OK)
        error = server_vote_follow(server, now);
    if (error == TARRY_OK)
        error = server_advance(server, now);
    if (error != TARRY_OK)
        return error;
    server_vote_give_due(server);
    steering_tell(server, now, server_news);
    server_send_news(server);
    server_count_sent(server);
    return TARRY_OK;
}

/* Almost every report comes while the stop rule waits for others, and nothing follows from it. */
static bool nothing_follows(const tarry_server *server, uint64_t now)
{
    return server->phase == SERVER_COMPUTING && server->steering == NULL && server->vote == NULL &&
           server->effects.count == 0 && server->news_count == 0 && now < server->sweep_ns &&
           server_only_waits(server);
}

int tarry_server_step(tarry_server *server, uint64_t now, const tarry_event *event,
                      const tarry_effects **effects)
{
    if (server->restored)
        return TARRY_ERROR_STATE;
    server->effects.count = 0;
    server->now_ns = now;
    int error = take_event(server, now, event);
    if (error == TARRY_OK && !nothing_follows(server, now))
        error = follow(server, now);
    if (error != TARRY_OK)
        return error;
    *effects = &server->effects;
    return TARRY_OK;
}

static uint64_t server_next_watch(const tarry_server *server)
{
    uint64_t next = server->sweep_ns, tick = steering_next_watch(server);
    if (server->phase == SERVER_CODING && !server->broken && server->late_ns < next)
        next = server->late_ns;
    return tick < next ? tick : next;
}

/* What has passed without an attempt waits for others who vote, and not for a time. */
uint64_t tarry_server_deadline(const tarry_server *server)
{
    uint64_t voters =
        server->vote != NULL && !server->vote_waits ? vote_deadline(server->vote) : TARRY_NEVER;
    if (server->phase == SERVER_IDLE)
        return voters;
    uint64_t next = server_next_watch(server);
    next = voters < next ? voters : next;
    if (server->phase == SERVER_COMPUTING && server->settings.stop == TARRY_STOP_DEADLINE) {
        uint64_t start = server->result.start_ns, limit = server->settings.deadline_ns;
        if (limit < TARRY_NEVER - start && start + limit > server->now_ns && start + limit < next)
            next = start + limit;
    }
    return next;
}

uint64_t tarry_server_round(const tarry_server *server)
{
    return server->round;
}

bool tarry_server_present(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    return server->members[worker].present;
}

uint32_t tarry_server_finished(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    return server->members[worker].finished - server->members[worker].spared;
}

uint32_t tarry_server_next_hopeless(const tarry_server *server, uint32_t from)
{
    while (from < server->plan->chunks && !bitset_test(server->hopeless, from))
        from++;
    return from < server->plan->chunks ? from : server->plan->chunks;
}
