/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server_state.h"

#include <assert.h>

bool server_satisfied(const tarry_server *server, uint64_t now)
{
    const tarry_server_settings *settings = &server->settings;
    bool all_in = server->busy == 0; /* nothing more can come */
    bool settled = !settings->reproducible || all_in;
    bool recovered = coverage_recovered(server->credited) == server->plan->chunks;
    switch (settings->stop) {
    case TARRY_STOP_EXACT:
        return recovered && settled;
    case TARRY_STOP_DEADLINE:
        return recovered || all_in || now - server->result.start_ns >= settings->deadline_ns;
    case TARRY_STOP_ERROR:
        return all_in ||
               (coverage_expected_error(server->credited) <= settings->error_limit && settled);
    case TARRY_STOP_WORKERS:
        return server->whole >= settings->workers_needed && settled;
    }
    return false;
}

/* Whether waiting longer is in vain. */
static bool is_doomed(const tarry_server *server)
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

static void complete_stripe(tarry_server *server, uint32_t stripe)
{
    bitset_set(server->complete, stripe);
    server->complete_count++;
    double numbers = (double)server_stripe_numbers(server, stripe);
    server->error_sum += server->attempt_error * numbers;
    server->filled_sum += server->attempt_filled * numbers;
    server->all_exact = server->all_exact && server->attempt_exact;
}

/* Sends every worker that is there its view of psi:
 * those with copies in it answer, the others stop computing. */
static void send_signals(tarry_server *server, uint64_t now)
{
    uint32_t workers = server->plan->workers;
    uint64_t *stripes = server->bits + server->bits_offset[workers];
    for (uint32_t stripe = 0; stripe < server->stripes; stripe++)
        bitset_put(stripes, stripe, !bitset_test(server->complete, stripe));

    server->participants = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->present)
            continue;
        uint64_t *psi = server->bits + server->bits_offset[worker];
        uint64_t *stale = psi + bitset_words(server->shapes[worker].psi_bits);
        bool fresh;
        member->participant = server_fill_view(server, worker, psi, stale, &fresh);
        member->parts_due = member->participant ? server->stripes - server->complete_count : 0;
        member->stopped = true;
        server->participants += member->participant;
        tarry_effect *effect = server_send(server, worker, TARRY_MESSAGE_SIGNAL);
        effect->message.psi = psi;
        effect->message.stripes = stripes;
        effect->message.stale = fresh ? NULL : stale;
    }
    steering_stopped(server, now);
}

static void begin_attempt(tarry_server *server, uint64_t now)
{
    server->phase = SERVER_CODING;
    server->broken = false;
    server->attempt++;
    server->result.attempts++;
    if (server->result.signal_ns == TARRY_NEVER)
        server->result.signal_ns = now;
    server->attempt_start_ns = now;
    server_fill_attempt(server);
    server->attempt_exact = coverage_recovered(server->credited) == server->plan->chunks;
    server->late_ns = TARRY_NEVER;
    server->delivered = 0;
    bitset_clear(server->received, (size_t)server->plan->workers * server->stripes);
    for (uint32_t stripe = 0; stripe < server->stripes; stripe++)
        if (!bitset_test(server->complete, stripe))
            server_emit(server, TARRY_EFFECT_CLEAR, 0)->stripe = stripe;

    send_signals(server, now);
    for (uint32_t stripe = 0; stripe < server->stripes; stripe++) {
        if (bitset_test(server->complete, stripe))
            continue;
        server->awaited[stripe] = server->unsummed[stripe] = server->participants;
        if (server->participants == 0)
            complete_stripe(server, stripe);
    }
}

/* The attempt can't be completed and psi without the lost is not enough:
 * workers go on, what is missing first. */
static void resume(tarry_server *server, uint64_t now)
{
    const tarry_plan *plan = server->plan;
    server->phase = SERVER_COMPUTING;
    server->broken = false;
    steering_resumed(server, now);
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        server_member *member = &server->members[worker];
        member->participant = false;
        member->parts_due = 0;
        if (!member_able(member))
            continue;
        uint64_t *slots = server->bits + server->bits_offset[worker];
        uint32_t first = plan->worker_offset[worker];
        uint32_t load = plan->worker_offset[worker + 1] - first;
        for (uint32_t slot = 0; slot < load; slot++)
            bitset_put(slots, slot,
                       coverage_rank(server->credited, plan->slot_chunk[first + slot]) <
                               plan->parts &&
                           !bitset_test(server->done, first + slot) &&
                           !bitset_test(server->failed, first + slot));
        tarry_message *message = &server_send(server, worker, TARRY_MESSAGE_RESUME)->message;
        message->first = slots;
        member->stopped = false;
        steering_address(server, now, worker, message);
    }
}

void server_finish(tarry_server *server, uint64_t now, int error)
{
    tarry_round_result *result = &server->result;
    result->workers_lost = server->plan->workers;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->present)
            continue;
        result->workers_lost--;
        if (!member->stopped || error != TARRY_OK)
            server_send(server, worker, TARRY_MESSAGE_FINISH);
        member->stopped = true;
    }
    result->error = error;
    result->end_ns = now;
    if (error == TARRY_OK) {
        result->exact = server->all_exact;
        result->expected_error = server->error_sum / (double)server->settings.part_length;
        result->filled_share = server->filled_sum / (double)server->settings.part_length;
    } else {
        result->expected_error = coverage_expected_error(server->credited);
    }
    server_emit(server, TARRY_EFFECT_DONE, 0)->result = result;
    server->phase = SERVER_IDLE;
    steering_finished(server);
    server->idle_ns = now;
    server->round++;
}

int server_advance(tarry_server *server, uint64_t now)
{
    bool choose =
        server->phase == SERVER_COMPUTING || (server->phase == SERVER_CODING && server->broken);
    if (choose && server->able > 0 && server_satisfied(server, now))
        begin_attempt(server, now);
    else if (choose && is_doomed(server))
        server_finish(server, now, TARRY_ERROR_COVERAGE);
    else if (choose && server->broken)
        resume(server, now);

    if (server->phase == SERVER_CODING && server->complete_count == server->stripes)
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

int server_part(tarry_server *server, uint64_t now, uint32_t worker, const tarry_message *message)
{
    uint32_t stripe = message->stripe;
    if (stripe >= server->stripes || message->round > server->round ||
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
    server->awaited[stripe]--;
    if (--member->parts_due == 0) {
        server->delivered++;
        estimate_add(&server->part_time, now - server->attempt_start_ns);
        uint64_t limit = server_late_limit_ns(server);
        server->late_ns = limit == TARRY_NEVER ? limit : server->attempt_start_ns + limit;
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
    if (server->unsummed[event->stripe] <= server->awaited[event->stripe])
        return server_reject(server, event->worker, TARRY_REJECT_DUPLICATE);
    if (--server->unsummed[event->stripe] == 0)
        complete_stripe(server, event->stripe);
    return TARRY_OK;
}
