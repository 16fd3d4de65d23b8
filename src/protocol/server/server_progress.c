/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

/*
 * A chunk is hopeless when too few copies can ever be there, or when all that can be are, and their
 * columns of R still don't span the parts, whatever the limit: the fewest parts that there may be.
 */
void server_review_chunk(tarry_server *server, uint32_t chunk)
{
    uint32_t parts = plan_least_parts(server->plan), possible = server->possible[chunk];
    server_review_limit(server, chunk);
    bool hopeless = coverage_if_raised(server->credited, parts)->ranks[chunk] < parts &&
                    (possible < parts || coverage_copies(server->credited, chunk) == possible);
    if ((!hopeless && server->hopeless_count == 0) ||
        hopeless == bitset_test(server->hopeless, chunk))
        return;
    bitset_put(server->hopeless, chunk, hopeless);
    server->hopeless_count += hopeless ? 1 : UINT32_MAX;
}

void server_enlist(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++) {
        bitset_reset(server->done, slot);
        bitset_reset(server->failed, slot);
        if (server->recall_term != NULL)
            server->recall_term[slot] = 0;
        server->possible[plan->slot_chunk[slot]]++;
    }
    server->able++;
    server->capable++;
    server_member *member = &server->members[worker];
    member->finished = member->spared = server_sample_spare(server, worker);
    if (server_has_work(server, worker))
        server->busy++;
    else
        server->whole++;
}

/* The copy at `slot` of the worker's order does not count any more, if it did. Errors: NUMERICAL.
 */
static int take_back(tarry_server *server, uint32_t worker, uint32_t slot)
{
    bool credited = coverage_has(server->credited, worker, slot);
    int error = coverage_remove(server->credited, worker, slot);
    if (error == TARRY_OK && credited && server_keeps_credited(server))
        server_recall(server, worker, slot);
    return error;
}

/* The round can't count on the worker any more,
 * nor on what it has done, save for parts already received. */
static int retire(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    server_member *member = &server->members[worker];
    if (server->phase == SERVER_IDLE || !member_able(member))
        return TARRY_OK;

    int error = server_fill_retire(server, worker);
    if (error != TARRY_OK)
        return error;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    for (uint32_t slot = 0; slot < load; slot++) {
        uint32_t chunk = plan->slot_chunk[first + slot];
        error = take_back(server, worker, slot);
        if (error != TARRY_OK)
            return error;
        if (!bitset_test(server->failed, first + slot))
            server->possible[chunk]--;
        server_review_chunk(server, chunk);
    }
    server->able--;
    if (server_has_work(server, worker))
        server->busy--;
    if (member->finished == load)
        server->whole--;
    if (member->failed == 0)
        server->capable--;
    if (server->vote == NULL && member->participant && member->parts_due > 0)
        server->broken = true;
    member->participant = false;
    return TARRY_OK;
}

int server_lost(tarry_server *server, uint64_t now, uint32_t worker)
{
    bool able = server->phase != SERVER_IDLE && member_able(&server->members[worker]);
    int error = retire(server, worker);
    server->members[worker].present = false;
    if (server->vote != NULL) {
        vote_lost(server->vote, worker);
        server->vote_due = true;
    }
    if (error == TARRY_OK && able)
        steering_retired(server, now, worker);
    return error;
}

int server_exclude(tarry_server *server, uint64_t now, uint32_t worker)
{
    int error = retire(server, worker);
    server->members[worker].excluded = true;
    if (error == TARRY_OK)
        steering_retired(server, now, worker);
    return error;
}

tarry_message *server_send_round(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    tarry_effect *effect = server_send(server, worker, TARRY_MESSAGE_ROUND);
    member->stopped = false;
    member->begun_ns = member->ended_ns = member->since_ns = now;
    server_stood_tell(server, worker, &effect->message);
    effect->message.weights = server_sample_weights(server, worker);
    steering_address(server, now, worker, &effect->message);
    return &effect->message;
}

int server_joined(tarry_server *server, uint64_t now, uint32_t worker)
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

static int credit_chunk(tarry_server *server, uint32_t worker, uint32_t slot)
{
    const tarry_plan *plan = server->plan;
    int error = coverage_add(server->credited, worker, slot);
    if (error == TARRY_OK)
        server_review_chunk(server, plan->slot_chunk[plan->worker_offset[worker] + slot]);
    return error;
}

/* Credits what the report adds: the chunk,
 * or with whole credit all chunks once they are finished. */
static int credit_report(tarry_server *server, uint32_t worker, uint32_t slot)
{
    if (server_keeps_credited(server))
        return server_settle(server, worker, slot);
    if (server->settings.credit == TARRY_CREDIT_CHUNK)
        return credit_chunk(server, worker, slot);
    uint32_t load = server_load(server, worker);
    if (server->members[worker].finished < load)
        return TARRY_OK;
    int error = TARRY_OK;
    for (uint32_t each = 0; each < load && error == TARRY_OK; each++)
        error = credit_chunk(server, worker, each);
    return error;
}

/*
 * With the plan's order all chunks cost the same. Reports may come in together after a while, so
 * that no time of a single chunk is taken for an outlier: those of the round are right on the
 * whole.
 */
static void learn_pace(tarry_server *server, uint64_t now, server_member *member)
{
    if (server->steering == NULL && member->since_ns != TARRY_NEVER)
        pace_add(&member->pace, 1, (double)(now - member->since_ns), 0);
}

/* It was computed, whether it counts or not. */
static void count_finished(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    learn_pace(server, now, member);
    server->result.copies_computed++;
    if (!member->reported) {
        member->reported = true;
        server->result.workers_heard++;
    }
}

static int take_finished(tarry_server *server, uint32_t worker, uint32_t slot, uint32_t load)
{
    server_member *member = &server->members[worker];
    bitset_set(server->done, server->plan->worker_offset[worker] + slot);
    uint32_t finished = ++member->finished;
    if (member->excluded)
        return TARRY_OK;
    if (finished + member->failed == load)
        server->busy--;
    if (finished == load)
        server->whole++;
    return credit_report(server, worker, slot);
}

/* A copy that will not come. With whole credit the worker can't earn any in this round. */
static int take_failed(tarry_server *server, uint64_t now, uint32_t worker, uint32_t slot)
{
    server_member *member = &server->members[worker];
    uint32_t edge = server->plan->worker_offset[worker] + slot;
    bitset_set(server->failed, edge);
    member->failed++;
    if (member->excluded)
        return TARRY_OK;
    if (!server_has_work(server, worker))
        server->busy--;
    if (member->failed == 1)
        server->capable--;
    server->possible[server->plan->slot_chunk[edge]]--;
    server_review_chunk(server, server->plan->slot_chunk[edge]);
    if (server->settings.credit == TARRY_CREDIT_WHOLE) {
        server_left_out(server, worker, TARRY_ABSENT_FAILED, now - member->begun_ns, 0);
        return server_exclude(server, now, worker);
    }
    return TARRY_OK;
}

/* Whether it is to be ignored, and why. */
static bool is_refused(const tarry_server *server, uint32_t worker, const tarry_message *message,
                       uint32_t load, tarry_reject *why)
{
    *why = TARRY_REJECT_RANGE;
    if (message->round > server->round)
        return true;
    *why = TARRY_REJECT_STALE; /* whatever position it names: the plan may be another one now */
    if (server->phase == SERVER_IDLE || message->round != server->round)
        return true;
    *why = TARRY_REJECT_RANGE;
    if (message->slot >= load || message->term > server->members[worker].term)
        return true;
    *why = TARRY_REJECT_DUPLICATE;
    uint32_t edge = server->plan->worker_offset[worker] + message->slot;
    return bitset_test(server->done, edge) || bitset_test(server->failed, edge) ||
           (server->recall_term != NULL && message->term < server->recall_term[edge]);
}

int server_report(tarry_server *server, uint64_t now, uint32_t worker, const tarry_message *message)
{
    tarry_reject why;
    uint32_t load = server_load(server, worker);
    if (is_refused(server, worker, message, load, &why))
        return server_reject(server, worker, why);
    server_member *member = &server->members[worker];
    if (server_ended(member) == 0)
        member->first_ns = now;
    member->ended_ns = now;
    if (!message->failed)
        count_finished(server, now, worker);
    member->since_ns = now;
    if (!message->failed && server_keeps_credited(server) && server_voids(server, worker, message))
        return TARRY_OK;
    int error = message->failed ? take_failed(server, now, worker, message->slot)
                                : take_finished(server, worker, message->slot, load);
    if (member->finished + member->failed == load)
        member->since_ns = TARRY_NEVER;
    if (error == TARRY_OK)
        steering_report(server, now, worker, message);
    return error;
}
