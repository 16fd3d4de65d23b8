/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

#include <assert.h>
#include <math.h>

#include "protocol/server/server_secure.h"

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
    tarry_round_result *result = &server->result;
    result->conditioning = fmax(result->conditioning, server->attempt_conditioning);
    result->error_bound = fmax(result->error_bound, server->attempt_bound);
}

void server_complete(tarry_server *server)
{
    for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++)
        if (!bitset_test(server->complete, stripe))
            complete_stripe(server, stripe);
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
    effect->message.parts = server->cut.parts;
    effect->message.psi = psi;
    effect->message.stripes = server->bits + server->bits_offset[server->plan->workers];
    effect->message.term = member->term;
    effect->message.stale = fresh ? NULL : stale;
    effect->message.limit = server_signal_limit(server);
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
        effect->parts = server->cut.parts;
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

static int begin_attempt(tarry_server *server, uint64_t now, uint32_t parts)
{
    server->cut = server_layout(server, parts);
    int error = server_limit_attempt(server);
    if (error != TARRY_OK)
        return error;
    server_send_news(server);
    server->phase = SERVER_CODING;
    server->from_scratch = server->complete_count == 0;
    server->result.parts = parts;
    server->result.copies_needed = (uint64_t)server->plan->chunks * parts;
    server->broken = false;
    server->attempt_exact = coverage_recovered(server->credited, parts) == server->plan->chunks;
    open_attempt(server);
    server->attempt++;
    server->result.attempts++;
    if (server->result.signal_ns == TARRY_NEVER) {
        server->result.signal_ns = now;
        server_learn_cover(server, now);
    }
    server->attempt_start_ns = now;
    server->late_ns = TARRY_NEVER;
    server->first_stripe_ns = TARRY_NEVER;
    server_secure_begin(server);
    send_signals(server, now);
    if (server->vote != NULL) {
        server_await_parts(server, now);
        return TARRY_OK;
    }
    for (uint32_t stripe = 0; stripe < server->cut.stripes; stripe++)
        if (!bitset_test(server->complete, stripe) && server->unsummed[stripe] == 0)
            complete_stripe(server, stripe);
    return TARRY_OK;
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

void server_finish(tarry_server *server, uint64_t now, int error)
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
        server_learn_upload(server, now);
    } else {
        result->conditioning = result->error_bound = 0;
        result->expected_error = coverage_expected_error(server->credited, result->parts);
    }
    server_emit(server, TARRY_EFFECT_DONE, 0)->result = result;
    server->phase = SERVER_IDLE;
    steering_finished(server);
    remember_paces(server);
    server->idle_ns = now;
    server->round++;
}

void server_give_up_stripes(tarry_server *server)
{
    bitset_clear(server->complete, server->stripes);
    server->complete_count = 0;
    server->error_sum = server->filled_sum = 0;
    server->all_exact = true;
    server->result.conditioning = server->result.error_bound = 0;
}

/*
 * Complete stripes stand as long as the attempt can be repeated with as many parts. When it can't,
 * and another number is possible, there is less to lose in encoding anew than in waiting for what
 * the lost had.
 */
static uint32_t pick_parts(tarry_server *server, uint64_t now)
{
    if (server->able == 0)
        return 0;
    server_standing stands = server_stands(server);
    uint32_t parts = server_pick_parts(server, &stands, now);
    uint32_t complete = server->complete_count;
    if (parts != 0 || complete == 0 || !server->plan->adaptive)
        return parts;
    server->complete_count = 0; /* any number of parts will do then */
    parts = server_pick_parts(server, &stands, now);
    if (parts == 0) {
        server->complete_count = complete;
        return 0;
    }
    server_give_up_stripes(server);
    return parts;
}

int server_advance(tarry_server *server, uint64_t now)
{
    bool choose =
        server->phase == SERVER_COMPUTING || (server->phase == SERVER_CODING && server->broken);
    int error = TARRY_OK;
    uint32_t ready = choose ? pick_parts(server, now) : 0;
    uint32_t parts = choose ? server_settle_parts(server, now, ready) : 0;
    if (choose && ready == 0 && (is_doomed(server) || server_must_raise(server))) {
        error = server_call_back_late(server, now);
        if (error != TARRY_OK)
            return error;
        ready = pick_parts(server, now); /* those who are back may be enough for the rule */
        parts = server_settle_parts(server, now, ready);
        if (ready == 0)
            ready = parts = server_raised_parts(server);
    }
    if (parts != 0 && server->vote != NULL && vote_exhausted(server->vote))
        server_finish(server, now, TARRY_ERROR_LINKS);
    else if (parts != 0 && server_vote_may_begin(server))
        error = begin_attempt(server, now, parts);
    else if (choose && ready == 0 && is_doomed(server))
        server_finish(server, now, TARRY_ERROR_COVERAGE);
    else if (choose && ready == 0 && server->broken)
        resume(server, now);

    if (server->phase == SERVER_CODING && server->complete_count == server->cut.stripes)
        server_finish(server, now, TARRY_OK);
    return error;
}

static void combine(tarry_server *server, uint32_t worker, uint32_t stripe)
{
    tarry_effect *effect = server_emit(server, TARRY_EFFECT_COMBINE, worker);
    effect->attempt = server->attempt;
    effect->parts = server->cut.parts;
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

int server_part(tarry_server *server, uint64_t now, uint32_t worker, const tarry_message *message)
{
    uint32_t stripe = message->stripe;
    if (message->round > server->round ||
        (message->round == server->round && message->attempt > server->attempt))
        return server_reject(server, worker, TARRY_REJECT_RANGE);
    if (server->phase != SERVER_CODING || message->round != server->round ||
        message->attempt != server->attempt)
        return server_reject(server, worker, TARRY_REJECT_STALE);

    if (message->parts != server->cut.parts)
        return server_reject(server, worker, TARRY_REJECT_RANGE);
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

int server_combined(tarry_server *server, const tarry_event *event)
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
