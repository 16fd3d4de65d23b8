/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "protocol/server/server_state.h"

/*
 * TARRY_KEEP_CREDITED: a chunk is credited to one worker, the first to report it. The others drop
 * their copies and count as finished with it all the same, until the one that was credited is gone;
 * then the chunk is open again for all of them.
 */

/* Whether a report of a finished chunk is of a copy that the worker has dropped since by itself:
 * void, as if it had not been computed. The worker may not send it again. */
static bool server_voids(tarry_server *server, uint32_t worker, const tarry_message *report)
{
    uint32_t signal_term = server->members[worker].signal_term;
    if (report->term >= signal_term)
        return false;
    server->recall_term[server->plan->worker_offset[worker] + report->slot] = signal_term;
    return true;
}

/* News are due for the worker: before it is sent anything else, or at the end of the step. */
static void server_news_due(tarry_server *server, uint32_t worker)
{
    server_member *member = &server->members[worker];
    if (member->news_due)
        return;
    member->news_due = true;
    server->news[server->news_count++] = worker;
}

/* Decides on the copy at `slot` of a worker that this round counts on. */
static int server_settle(tarry_server *server, uint32_t worker, uint32_t slot)
{
    server_member *member = &server->members[worker];
    uint32_t chunk = server->plan->slot_chunk[server->plan->worker_offset[worker] + slot];
    member->fate = TARRY_FATE_DROPPED;
    member->fate_slot = slot;
    server_news_due(server, worker);
    if (coverage_copies(server->credited, chunk) > 0)
        return TARRY_OK;
    member->fate = TARRY_FATE_CREDITED;
    return coverage_add(server->credited, worker, slot);
}

static void recall_at(tarry_server *server, uint32_t worker, uint32_t slot)
{
    server_member *member = &server->members[worker];
    uint32_t edge = server->plan->worker_offset[worker] + slot;
    if (!member_able(member) || !bitset_test(server->done, edge))
        return;
    if (member->finished == server_load(server, worker))
        server->whole--;
    if (!server_has_work(server, worker))
        server->busy++;
    bitset_reset(server->done, edge);
    steering_reopen(server, worker, slot);
    member->finished--;
    member->recalled = true;
    server->recall_term[edge] = member->term + 1;
    server_news_due(server, worker);
}

/* Tells the other holders of the chunk at `slot` that dropped their copies to compute it again: the
 * worker's own is gone, and nobody is credited with it. */
static void server_recall(tarry_server *server, uint32_t worker, uint32_t slot)
{
    const tarry_plan *plan = server->plan;
    uint32_t chunk = plan->slot_chunk[plan->worker_offset[worker] + slot];
    assert(coverage_copies(server->credited, chunk) == 0);
    for (uint32_t at = plan->chunk_offset[chunk]; at < plan->chunk_offset[chunk + 1]; at++) {
        uint32_t holder = plan->holder_worker[at];
        if (holder != worker)
            recall_at(server, holder, plan->holder_position[at]);
    }
}

/*
 * A chunk is hopeless when too few copies can ever be there, or when all that can be are, and their
 * columns of R still don't span the parts by the conditioning limit.
 */
void server_review_chunk(tarry_server *server, uint32_t chunk)
{
    uint32_t parts = server->plan->parts, possible = server->possible[chunk];
    bool hopeless = coverage_rank(server->credited, chunk) < parts &&
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
    member->begun_ns = member->since_ns = now;
    server_stood_tell(server, worker, &effect->message);
    effect->message.weights = server_sample_weights(server, worker);
    steering_address(server, now, worker, &effect->message);
    return &effect->message;
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

/* ---- rule ---- */

/* Whether what is credited is as good as the rule asks for. */
static bool meets_rule(const tarry_server *server, const server_standing *stands)
{
    const coverage *credited = stands->credited;
    switch (server->settings.stop) {
    case TARRY_STOP_EXACT:
    case TARRY_STOP_DEADLINE:
        return coverage_recovered(credited) == server->plan->chunks;
    case TARRY_STOP_ERROR:
        return coverage_expected_error(credited) <= server->settings.error_limit;
    case TARRY_STOP_WORKERS:
        return stands->whole >= server->settings.workers_needed;
    }
    return false;
}

/*
 * Whether anything may still come that is of use. Workers that go by the plan finish all they have;
 * with a dynamic order they don't compute what is recovered already.
 */
static bool more_may_come(const tarry_server *server, const server_standing *stands)
{
    if (server->steering == NULL)
        return stands->busy > 0;
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        if (stands->possible[chunk] > coverage_copies(stands->credited, chunk) &&
            coverage_rank(stands->credited, chunk) < server->plan->parts)
            return true;
    return false;
}

/* The rule says to go on with what there is, whatever it is. */
static bool is_overdue(const tarry_server *server, const server_standing *stands, uint64_t now)
{
    switch (server->settings.stop) {
    case TARRY_STOP_DEADLINE:
        return now - server->result.start_ns >= server->settings.deadline_ns ||
               !more_may_come(server, stands);
    case TARRY_STOP_ERROR:
        return !more_may_come(server, stands);
    case TARRY_STOP_EXACT:
    case TARRY_STOP_WORKERS:
        break;
    }
    return false;
}

bool server_rule_holds(const tarry_server *server, const server_standing *stands, uint64_t now)
{
    bool settled = !server->settings.reproducible || stands->busy == 0;
    return (settled && meets_rule(server, stands)) || is_overdue(server, stands, now);
}

bool server_only_waits(const tarry_server *server)
{
    if (server->able == 0)
        return false;
    server_standing stands = server_stands(server);
    switch (server->settings.stop) {
    case TARRY_STOP_EXACT:
        return server->hopeless_count == 0 && !meets_rule(server, &stands);
    case TARRY_STOP_WORKERS:
        return server->capable >= server->settings.workers_needed && !meets_rule(server, &stands);
    case TARRY_STOP_DEADLINE: /* it may be over */
    case TARRY_STOP_ERROR:    /* this is worked out in full, too */
        break;
    }
    return false;
}

/*
 * From one plan to the next: what a server has learned makes the plan, and the server of that plan
 * takes over what is known of the workers.
 */

/* tarry_server_adapt: of a plan that copies moved for, if that makes it worse: sums of float32 keep
 * 5 digits then. */
#define MOST_CONDITIONING 100
/* Costs that are in the data need no more chunks than that (the sum of cost / mean is the number of
 * chunks). Others find no end: the first chunk of a round takes the longest, however small it is
 * cut, where chunks take less than the way to the worker. */
#define MOST_GROWTH 2

static int check(const tarry_server *server, const tarry_server *from, tarry_diagnostic *diagnostic)
{
    if (!server_is_fresh(server))
        return diagnose(diagnostic, TARRY_ERROR_STATE, "server: it is in use already");
    if (from->phase != SERVER_IDLE)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "server: a round runs on the one before");
    if ((server->vote == NULL) != (from->vote == NULL))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "server: one of the two leaves the sum to the workers");
    if (from->vote != NULL && from->vote->phase != VOTE_CLOSED)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "server: a sum is being logged");
    if (from->restored)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "server: the one before was restored, and no checkpoint taken since");
    if (server->plan->workers != from->plan->workers ||
        server->plan->origins != from->plan->origins)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "server: plans of %u and %u workers, from %u and %u chunks",
                        from->plan->workers, server->plan->workers, from->plan->origins,
                        server->plan->origins);
    return TARRY_OK;
}

int tarry_server_adopt(tarry_server *server, const tarry_server *from, tarry_diagnostic *diagnostic)
{
    int error = check(server, from, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = steering_adopt(server, from);
    if (error != TARRY_OK)
        return diagnose_no_memory(diagnostic, "server");
    server->round = from->round;
    server->part_time = from->part_time;
    server->idle_ns = from->idle_ns;
    server->sweep_ns = from->sweep_ns;
    /* Paces are of the mean chunk, which is another one now. */
    double grown = (double)server->plan->chunks / from->plan->chunks;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server->answers[worker] = from->answers[worker];
        const server_member *known = &from->members[worker];
        server->members[worker] = (server_member){
            .present = known->present,
            .behind = known->present && server->vote != NULL,
            .stopped = true,
            .epoch = known->epoch,
            .epoch_end = known->epoch_end,
            .pace.past = known->pace.past / grown,
            .heard_ns = known->heard_ns,
            .probe_ns = known->probe_ns,
            .overheard = known->overheard,
        };
    }
    server_stood_begin_life(server, from);
    if (server->vote != NULL)
        vote_adopt(server->vote, from->vote);
    server->vote_waits = server->vote != NULL;
    return TARRY_OK;
}

/* Workers that are there: their paces, the median where none is known yet. Others are gone; if all
 * are, nobody is known to be worse than another. */
static int list_paces(const tarry_server *server, const tarry_allocator *allocator, double *paces)
{
    uint32_t workers = server->plan->workers, there = 0, known = 0;
    double *values = memory_allocate(allocator, workers, sizeof(*values));
    if (values == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++) {
        double ns = tarry_server_pace_ns(server, worker);
        if (!server->members[worker].present)
            continue;
        there++;
        if (ns > 0)
            values[known++] = ns;
    }
    double usual = known > 0 ? quantile_of(values, known, 0.5) : 1;
    for (uint32_t worker = 0; worker < workers; worker++) {
        double ns = tarry_server_pace_ns(server, worker);
        bool gone = there > 0 && !server->members[worker].present;
        paces[worker] = gone ? INFINITY : ns > 0 ? ns : usual;
    }
    memory_release(allocator, values);
    return TARRY_OK;
}

int server_evolve(const tarry_server *server, const tarry_plan_evolution *limits,
                  const tarry_allocator *allocator, tarry_plan **next, tarry_plan_changes *changes,
                  tarry_diagnostic *diagnostic)
{
    const tarry_plan *plan = server->plan;
    tarry_plan_evolution wanted = *limits;
    double *paces = memory_allocate(allocator, plan->workers, sizeof(*paces));
    double *cost = memory_allocate(allocator, plan->chunks, sizeof(*cost));
    int error = paces == NULL || cost == NULL ? TARRY_ERROR_NO_MEMORY
                                              : list_paces(server, allocator, paces);
    if (error == TARRY_OK) {
        for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
            cost[chunk] = tarry_server_chunk_cost(server, chunk);
        wanted.pace = paces;
        wanted.cost = cost;
        error = tarry_plan_evolve(plan, &wanted, allocator, next, changes, diagnostic);
    } else {
        diagnose_no_memory(diagnostic, "plan");
    }
    memory_release(allocator, cost);
    memory_release(allocator, paces);
    return error;
}

/* The decode matrix was made for the sets of workers that shared chunks at first. */
static bool grows_worse(const tarry_plan *plan, const tarry_plan *next)
{
    double worst = tarry_plan_conditioning(next).worst;
    return worst > MOST_CONDITIONING && worst > tarry_plan_conditioning(plan).worst;
}

int tarry_server_adapt(const tarry_server *server, double share, const uint32_t *rack,
                       const tarry_allocator *allocator, tarry_plan **next,
                       tarry_plan_changes *changes, tarry_diagnostic *diagnostic)
{
    const tarry_plan *plan = server->plan;
    tarry_plan_evolution limits;
    tarry_plan_evolution_init(&limits);
    limits.heaviest = 2;
    limits.most_chunks = MOST_GROWTH * plan->origins;
    limits.lightest = 0.25;
    limits.most_load = 1.5;
    limits.rack = rack;
    limits.most_moves = (uint32_t)ceil(share * (double)plan_edges(plan));
    tarry_plan *made;
    tarry_plan_changes done;
    int error = server_evolve(server, &limits, allocator, &made, &done, diagnostic);
    if (error == TARRY_OK && done.moved > 0 && grows_worse(plan, made)) {
        tarry_plan_free(made);
        limits.most_moves = 0;
        error = server_evolve(server, &limits, allocator, &made, &done, diagnostic);
    }
    if (error != TARRY_OK)
        return error;
    bool same = done.split == 0 && done.merged == 0 && done.moved == 0;
    *next = same ? NULL : made;
    if (same)
        tarry_plan_free(made);
    if (changes != NULL)
        *changes = done;
    return TARRY_OK;
}
