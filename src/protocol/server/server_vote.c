/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TARRY_SUM_EVERYWHERE: an attempt's sum is made by workers, and a vote (protocol/vote) decides
 * whether it counts. To the rest of the server a worker without the last state is as one that is
 * not there: it is enlisted once it has it, and not while an attempt is out.
 */
#include <assert.h>

#include "base/sum_id.h"
#include "protocol/form.h"
#include "protocol/server/server_skip.h"
#include "protocol/server/server_state.h"

int server_vote_create(tarry_server *server, const tarry_allocator *allocator)
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
    route_learner_init(&server->routes, wanted.workers, (double)settings->dimension);
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

int server_vote_say(tarry_server *server, uint64_t now, uint32_t worker,
                    const tarry_message *message)
{
    vote *it = server->vote;
    server_member *member = &server->members[worker];
    if (it == NULL)
        return server_reject(server, worker, TARRY_REJECT_MISPLACED);
    if (!vote_told(it, now, worker, message))
        return server_reject(server, worker, TARRY_REJECT_STALE);
    if (message->type == TARRY_MESSAGE_HELD && message->took_ns > 0 && vote_is_ready(it, worker))
        route_learn_told(&server->routes, worker, message->took_ns, message->latency_ns);
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

int server_vote_logged(tarry_server *server, const tarry_event *event)
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

int server_vote_follow(tarry_server *server, uint64_t now)
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

void server_vote_give_due(tarry_server *server)
{
    if (server->vote != NULL && !server->vote_waits)
        vote_give_due(server->vote, give, server);
}

/* A report may overtake the word that its worker has stepped. A run that is to repeat waits for who
 * is there and may still compute its share, however late it is up to date. */
bool server_vote_may_begin(const tarry_server *server)
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

bool server_vote_waits_for_more(const tarry_server *server)
{
    if (server->vote == NULL)
        return false;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (server->members[worker].behind && may_begin(server, worker))
            return true;
    return vote_may_grow(server->vote);
}

/* Behind the set of stripes. */
static uint64_t *group_of(const tarry_server *server)
{
    return server->bits + server->bits_offset[server->plan->workers] +
           bitset_words(server->stripes);
}

/* Attempts whose sums may be mixed, as both are exact, have the same number; 0: it may not be. The
 * limit is that of the settings, and a run that is to repeat mixes nothing. */
static uint32_t mixes(const tarry_server *server)
{
    bool may = server->attempt_exact && !server->settings.reproducible &&
               server_signal_limit(server) == 0 && server->attempt_scale == 1;
    return may ? server->cut.parts : 0;
}

/* In another form than float32 each number is rounded once on its way, and not at each hop. */
static tarry_shape_kind kind_of_shape(const tarry_server *server)
{
    return form_rounds_among_workers(&server->settings) ? TARRY_SHAPE_DIRECT
                                                        : server->settings.shape;
}

/* What takes least time, or is wanted. Another shape has other roundings: a run that is to repeat
 * goes by nothing that may differ the next time. */
static void choose_shape(tarry_server *server)
{
    const uint32_t voters = server->result.voters, parts = server->cut.parts;
    if (server->settings.reproducible) {
        const route_links usual = route_links_usual();
        server->attempt_shape =
            route_choose(kind_of_shape(server), voters, (double)server->settings.dimension, parts,
                         &usual, (tarry_shape){TARRY_SHAPE_AUTO, 0});
    } else {
        server->attempt_shape =
            route_learn_choose(&server->routes, kind_of_shape(server), voters, parts);
        server->result.links = route_learn_known(&server->routes);
    }
    server->result.shape = server->attempt_shape;
}

/* A sum that begins with a standing piece teaches little about others. */
static void learn_shape(tarry_server *server)
{
    if (!server->settings.reproducible && server->vote->stands.whole == 0)
        route_learn_begin(&server->routes, server->result.voters, server->cut.parts);
}

void server_vote_open(tarry_server *server)
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
    choose_shape(server);
    vote_choose_piece(server->vote, group, mixes(server));
    vote_piece *stands = &server->vote->stands;
    if (layout_stand(&server->cut, (size_t)stands->whole) != stands->whole)
        *stands = (vote_piece){.from = TARRY_NO_WORKER}; /* a worker that makes no sense */
    learn_shape(server);
    vote_open(server->vote, group);
    server->result.stood += (double)server->vote->stands.whole / (double)server->cut.part_length;
}

bool server_vote_signals(const tarry_server *server, uint32_t worker)
{
    return server->vote == NULL || server->vote->members[worker].answer == VOTE_WAITING;
}

void server_vote_tell(const tarry_server *server, tarry_message *signal)
{
    if (server->vote == NULL)
        return;
    signal->group = group_of(server);
    signal->sum = server->vote->pending;
    signal->scale = server->attempt_scale;
    signal->shape = server->attempt_shape;
    signal->piece = server->vote->stands.sum;
    signal->whole = server->vote->stands.whole;
    signal->from = server->vote->stands.from;
}

uint64_t server_vote_limit_ns(const tarry_server *server)
{
    uint64_t limit = server->settings.attempt_limit_ns;
    bool limited = server->vote != NULL && limit != 0;
    return limited && limit < TARRY_NEVER - server->attempt_start_ns ? limit : TARRY_NEVER;
}

/* Once half have answered, who has not is late at the limit for coded parts, before that at the one
 * for all: every engine may hang. */
int server_vote_pass_over_late(tarry_server *server, uint64_t now)
{
    uint64_t limit = server_late_limit_ns(server), waited = now - server->attempt_start_ns;
    server->late_ns = TARRY_NEVER;
    if (limit == TARRY_NEVER)
        return TARRY_OK;
    if (waited < limit) {
        server->late_ns = server->attempt_start_ns + limit;
        return TARRY_OK;
    }
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        vote_answer answer = server->vote->members[worker].answer;
        if (!member->present || (answer != VOTE_WAITING && answer != VOTE_REFETCHES))
            continue;
        server_left_out(server, worker, TARRY_ABSENT_LATE, waited, limit);
        server->result.workers_late += !member->late;
        member->late = true;
        vote_late(server->vote, worker);
    }
    return TARRY_OK;
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
