/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/random.h"
#include "coding/psi.h"
#include "protocol/server/server_state.h"
#include "protocol/terms/terms.h"

/*
 * The chunks that a round samples. Those that it does not sample count as finished by all workers
 * that hold them, and for nothing in the error.
 */

bool sampling_draws(uint64_t seed, uint64_t round, uint32_t chunk, double chance)
{
    /* The purpose, the chunk and half of the round are a stream's; the other half is the key's. */
    random_stream stream =
        random_stream_make(seed ^ (round >> 32 << 32), RANDOM_SAMPLE, (uint32_t)round, chunk);
    return random_uniform(&stream) < chance;
}

static bool samples(const tarry_server *server)
{
    return server->settings.sample_chunks > 0;
}

int server_sample_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    server_sample *its = &server->sample;
    size_t chunks = server->plan->chunks;
    if (!samples(server))
        return TARRY_OK;
    its->weights = memory_allocate(allocator, chunks, sizeof(*its->weights));
    its->slot_weights =
        memory_allocate(allocator, plan_edges(server->plan), sizeof(*its->slot_weights));
    if (its->weights == NULL || its->slot_weights == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t chunk = 0; chunk < chunks; chunk++)
        its->weights[chunk] = 1; /* until the first draw */
    return TARRY_OK;
}

/* A round begins, and nothing is credited yet: draws its chunks. */
static void server_sample_start(tarry_server *server)
{
    server_sample *its = &server->sample;
    const tarry_plan *plan = server->plan;
    const tarry_server_settings *settings = &server->settings;
    server->result.chunks_sampled = plan->chunks;
    if (!samples(server))
        return;
    double wanted = (double)settings->sample_chunks * plan->pieces * plan->chunks / plan->origins;
    double chance = wanted / plan->chunks;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        bool drawn = sampling_draws(settings->sample_seed, server->round, chunk, chance);
        its->weights[chunk] = drawn ? (float)(1 / chance) : 0;
        if (drawn)
            continue;
        server->result.chunks_sampled--;
        coverage_excuse(server->credited, chunk);
    }
    server->result.sampling_error = 1 / chance - 1;
    for (uint32_t edge = 0; edge < plan_edges(plan); edge++)
        its->slot_weights[edge] = its->weights[plan->slot_chunk[edge]];
}

uint32_t server_sample_spare(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    uint32_t spared = 0;
    for (uint32_t edge = plan->worker_offset[worker];
         samples(server) && edge < plan->worker_offset[worker + 1]; edge++) {
        if (server_takes_part(server, plan->slot_chunk[edge]))
            continue;
        bitset_set(server->done, edge);
        spared++;
    }
    return spared;
}

const float *server_sample_weights(const tarry_server *server, uint32_t worker)
{
    return samples(server) ? server->sample.slot_weights + server->plan->worker_offset[worker]
                           : NULL;
}

/* ---- fill ---- */

/* A round begins, and the last one's `done` still stands. */
/* Who has arrived since has no bit in `done`, and who is lost is not asked. */
static int server_fill_start(tarry_server *server)
{
    if (server->stale == NULL)
        return TARRY_OK;
    const tarry_plan *plan = server->plan;
    coverage_clear(server->stale);
    bitset_clear(server->previous, plan_edges(plan));
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        if (!server->members[worker].present || server->members[worker].behind)
            continue;
        uint32_t first = plan->worker_offset[worker];
        for (uint32_t slot = 0; slot < server_load(server, worker); slot++) {
            if (!bitset_test(server->done, first + slot))
                continue;
            bitset_set(server->previous, first + slot);
            int error = coverage_add(server->stale, worker, slot);
            if (error != TARRY_OK)
                return error;
        }
    }
    return TARRY_OK;
}

void server_fill_forget(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        bitset_reset(server->done, slot);
}

/* Takes a worker's stale copies out of `stale`, which is the server's or stands in for it. */
static int server_fill_remove(const tarry_server *server, coverage *stale, uint32_t worker)
{
    int error = TARRY_OK;
    for (uint32_t slot = 0;
         stale != NULL && slot < server_load(server, worker) && error == TARRY_OK; slot++)
        error = coverage_remove(stale, worker, slot);
    return error;
}

int server_fill_retire(tarry_server *server, uint32_t worker)
{
    int error = server_fill_remove(server, server->stale, worker);
    if (error != TARRY_OK || server->stale == NULL)
        return error;
    const tarry_plan *plan = server->plan;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        bitset_reset(server->previous, slot);
    return TARRY_OK;
}

/*
 * One round's copies of a chunk or the other's, never both: with more than one part the columns of
 * R that solve for the sum of one gradient make something else of two different ones.
 */
static bool is_filled(const server_standing *stands, uint32_t chunk)
{
    return stands->stale != NULL &&
           coverage_rank(stands->stale, chunk) > coverage_rank(stands->credited, chunk);
}

/* The copies that the attempt takes `chunk` from: this round's or those of the one before. */
static const coverage *server_fill_source(const tarry_server *server, uint32_t chunk)
{
    server_standing stands = server_stands(server);
    return is_filled(&stands, chunk) ? server->stale : server->credited;
}

/* The chunk's rank by these copies, times its weight; 0 if it takes no part in the round. */
static uint64_t weighed_rank(const tarry_server *server, const coverage *copies, uint32_t chunk)
{
    uint64_t weight = server_takes_part(server, chunk) ? plan_weight(server->plan, chunk) : 0;
    return weight * coverage_rank(copies, chunk);
}

/* The sum of weighed_rank once every chunk is there. */
static uint64_t full_rank_sum(const tarry_server *server)
{
    return coverage_wanted(server->credited) * server->plan->parts;
}

/* 0 of a round that has sampled nothing. */
static double share_of(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

static double left(const tarry_server *server, const server_standing *stands)
{
    uint64_t full = full_rank_sum(server), ranks = 0;
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        ranks += weighed_rank(server, is_filled(stands, chunk) ? stands->stale : stands->credited,
                              chunk);
    return share_of(full - ranks, full);
}

/* The share of the sum that is neither recovered nor filled with stale gradients. */
static double server_fill_left(const tarry_server *server, const server_standing *stands)
{
    return stands->stale == NULL ? coverage_expected_error(stands->credited) : left(server, stands);
}

void server_fill_attempt(tarry_server *server)
{
    tarry_round_result *result = &server->result;
    uint64_t full = full_rank_sum(server), fresh = 0, stale = 0;
    result->copies_coded = 0;
    result->chunks_filled = 0;
    server_standing stands = server_stands(server);
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++) {
        if (is_filled(&stands, chunk)) {
            result->chunks_filled++;
            stale += weighed_rank(server, server->stale, chunk);
        } else {
            result->copies_coded += coverage_copies(server->credited, chunk);
            fresh += weighed_rank(server, server->credited, chunk);
        }
    }
    server->attempt_missing = coverage_expected_error(server->credited);
    server->attempt_left = left(server, &stands);
    server->attempt_filled = share_of(stale, full);
    server->attempt_scale = 1;
    server->attempt_error = share_of(full - fresh, full);
    /* E|(1/k) P g - g|^2 / E|g|^2 with a projection P of rank k: 1/k - 2 + 1. */
    if (server->settings.fill == TARRY_FILL_SCALE && fresh > 0) {
        server->attempt_scale = (double)full / (double)fresh;
        server->attempt_error = share_of(full - fresh, fresh);
    }
}

bool server_fill_view(const tarry_server *server, uint32_t worker, uint64_t *psi, uint64_t *stale)
{
    bool own = coverage_view(server->credited, worker, psi);
    if (server->stale == NULL)
        return own;
    own = false;
    bitset_clear(stale, server_load(server, worker));
    for (psi_walk at = psi_begin(server->plan, worker); psi_here(&at); psi_next(&at)) {
        bool filled = server_fill_source(server, at.chunk) == server->stale;
        if (filled)
            coverage_view_chunk(server->stale, at.chunk, psi, at.bit);
        if (bitset_test(psi, psi_own(&at))) {
            own = true;
            bitset_put(stale, at.position, filled);
        }
    }
    return own;
}

/*
 * Coded parts that are late. What they will still take is foreseen from the stripes that have come
 * in, and set against what doing without would: another attempt of the others, and what they would
 * have to compute before.
 */

/*
 * Before its limit a worker is left out only if its rest is foreseen to take so many times as long
 * as doing without: what is foreseen of a link may be wrong by as much.
 */
static const double CLEARLY = 2;

/* While parts are awaited, the next look is after this fraction of the time since the signal. */
enum { LOOK_FRACTION = 4 };

/* How long after its signals an attempt to sum among workers may take at all; TARRY_NEVER. */
static uint64_t server_vote_limit_ns(const tarry_server *server)
{
    uint64_t limit = server->settings.attempt_limit_ns;
    bool limited = server->vote != NULL && limit != 0;
    return limited && limit < TARRY_NEVER - server->attempt_start_ns ? limit : TARRY_NEVER;
}

/* Once half have answered, who has not is late at the limit for coded parts, before that at the one
 * for all: every engine may hang. */
static int server_vote_pass_over_late(tarry_server *server, uint64_t now)
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

/*
 * Waiting for a part longer than the others took plus the time to repeat them is what a new attempt
 * can save: the rule of the ski rental problem, which never costs more than twice the best choice.
 */
uint64_t server_late_limit_ns(const tarry_server *server)
{
    bool in_order = server->settings.reproducible && server->vote == NULL;
    if (in_order || server->delivered * 2 < server->participants || server->delivered == 0)
        return server_vote_limit_ns(server);
    uint64_t limit = estimate_limit_ns(&server->part_time) + (uint64_t)server->part_time.mean;
    uint64_t least = server->settings.silence_ns / SERVER_QUIET_FRACTION;
    return limit > least ? limit : least;
}

/* With several stripes it shows before the limit who will not keep it. */
void server_await_parts(tarry_server *server, uint64_t now)
{
    uint64_t limit = server_late_limit_ns(server);
    if (limit == TARRY_NEVER) {
        server->late_ns = limit;
        return;
    }
    uint64_t start = server->attempt_start_ns, look = now + (now - start) / LOOK_FRACTION + 1;
    server->late_ns = start + limit > now ? start + limit : now + 1;
    if (server->asked > 1 && look < server->late_ns)
        server->late_ns = look;
}

static bool is_late(const server_member *member)
{
    return member->present && member->participant && member->parts_due > 0;
}

/* Nanoseconds per stripe that the participant took so far, from when the first stripe of anyone was
 * there; INFINITY before its own first. */
static double stripe_pace(const tarry_server *server, const server_member *member)
{
    uint32_t received = server->asked - member->parts_due;
    return received == 0 ? INFINITY
                         : (double)(member->stripe_ns - server->first_stripe_ns) / received;
}

/* What a late worker is foreseen to take still: the stripe in hand as long again as it has taken,
 * once that is overdue. */
static double foreseen_rest(const server_member *member, uint64_t now, double stripe_ns)
{
    double waited = (double)(now - member->stripe_ns);
    return (member->parts_due - 1) * stripe_ns + fmax(stripe_ns - waited, waited);
}

/* A look at those who are late. */
typedef struct outlook {
    uint32_t overdue; /* who would still be awaited when the others had repeated all: so many */
    bool known;       /* each of them has sent something */
    double rest_ns;   /* what the slowest of them takes still, if known */
    double repeat_ns; /* what another attempt without them takes */
    bool others;      /* some are late, but not overdue */
} outlook;

/* Marks the overdue. */
static outlook look_at_late(tarry_server *server, uint64_t now)
{
    uint32_t workers = server->plan->workers;
    outlook seen = {.known = true};
    double slowest = 0, open = server->cut.stripes - server->complete_count;
    double latency = (double)(server->first_stripe_ns - server->attempt_start_ns);
    for (uint32_t worker = 0; worker < workers; worker++) {
        const server_member *member = &server->members[worker];
        if (member->participant && member->parts_due == 0)
            slowest = fmax(slowest, stripe_pace(server, member));
    }
    double least = latency + open * slowest;
    seen.repeat_ns = least;
    for (uint32_t worker = 0; worker < workers; worker++) {
        server_member *member = &server->members[worker];
        member->overdue = false;
        if (!is_late(member))
            continue;
        double stripe_ns = stripe_pace(server, member);
        double rest = isfinite(stripe_ns) ? foreseen_rest(member, now, stripe_ns) : INFINITY;
        member->overdue = rest > least;
        seen.overdue += member->overdue;
        seen.others = seen.others || !member->overdue;
        if (!member->overdue)
            seen.repeat_ns = fmax(seen.repeat_ns, latency + open * stripe_ns);
        else if (isfinite(rest))
            seen.rest_ns = fmax(seen.rest_ns, rest);
        else
            seen.known = false;
    }
    return seen;
}

/* How the round would stand without the overdue. Changes only what stands in for its state. */
static int suppose_without_late(tarry_server *server, server_standing *out)
{
    const tarry_plan *plan = server->plan;
    server_standing stands = {.credited = server->supposed,
                              .stale = server->supposed_stale,
                              .possible = server->supposed_possible,
                              .busy = server->busy,
                              .whole = server->whole};
    coverage_copy(server->supposed, server->credited);
    if (server->stale != NULL)
        coverage_copy(server->supposed_stale, server->stale);
    memcpy(server->supposed_possible, server->possible, plan->chunks * sizeof(*server->possible));
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        if (!server->members[worker].overdue)
            continue;
        uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
        stands.busy -= server_has_work(server, worker);
        stands.whole -= server->members[worker].finished == load;
        for (uint32_t slot = 0; slot < load; slot++) {
            if (!bitset_test(server->failed, first + slot))
                server->supposed_possible[plan->slot_chunk[first + slot]]--;
            int error = coverage_remove(server->supposed, worker, slot);
            if (error != TARRY_OK)
                return error;
        }
        int error = server_fill_remove(server, server->supposed_stale, worker);
        if (error != TARRY_OK)
            return error;
    }
    *out = stands;
    return TARRY_OK;
}

/* Of a worker that was not heard of since the round went out to it nobody knows whether it will
 * compute anything; if it is there, a probe will soon have shown that. */
static bool can_be_counted_on(const server_member *member)
{
    return member_able(member) && !member->overdue && member->heard_ns > member->begun_ns;
}

/* Adds to what is supposed all that those who can be counted on could still compute. */
static int suppose_more(tarry_server *server)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        if (!can_be_counted_on(&server->members[worker]))
            continue;
        uint32_t first = server->plan->worker_offset[worker];
        for (uint32_t slot = 0; slot < server_load(server, worker); slot++) {
            if (bitset_test(server->failed, first + slot))
                continue;
            int error = coverage_add(server->supposed, worker, slot);
            if (error != TARRY_OK)
                return error;
        }
    }
    return TARRY_OK;
}

/*
 * Whether the others could compute all that is missing without the late ones, so that the sum is
 * exact all the same; and how long that should take: by the learned paces, or, with the plan's
 * order, as long as the round took until its signal.
 */
static int could_make_up(tarry_server *server, uint64_t now, bool *could, uint64_t *repeat_ns)
{
    *could = false;
    if (server->settings.stop != TARRY_STOP_EXACT)
        return TARRY_OK;
    int error = suppose_more(server);
    if (error != TARRY_OK)
        return error;
    *could = coverage_recovered(server->supposed) == server->plan->chunks;
    if (!*could)
        return TARRY_OK;
    *repeat_ns = server->result.signal_ns - server->result.start_ns;
    if (server->steering == NULL)
        return TARRY_OK;
    server_standing without;
    error = suppose_without_late(server, &without);
    if (error == TARRY_OK)
        *repeat_ns = steering_repeat_ns(server, now, without.credited);
    return error;
}

int server_late_exclude(tarry_server *server, uint64_t now, uint32_t worker, uint64_t limit)
{
    server_member *member = &server->members[worker];
    server_left_out(server, worker, TARRY_ABSENT_LATE, now - server->attempt_start_ns, limit);
    server->result.workers_late += !member->late;
    member->late = true;
    int error = server_exclude(server, now, worker);
    member->put_off = error == TARRY_OK;
    return error;
}

static int exclude_late(tarry_server *server, uint64_t now, uint64_t limit)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        if (!server->members[worker].overdue)
            continue;
        int error = server_late_exclude(server, now, worker, limit);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* What leaving the overdue out would come to. */
typedef struct exclusion {
    bool as_good;        /* the stop rule holds without them, and the sum is as good */
    bool could;          /* or the others could make up for them, */
    uint64_t compute_ns; /* which takes as long */
} exclusion;

static int weigh_exclusion(tarry_server *server, uint64_t now, exclusion *out)
{
    *out = (exclusion){0};
    server_standing without;
    int error = suppose_without_late(server, &without);
    if (error != TARRY_OK)
        return error;
    out->as_good = server_rule_holds(server, &without, now) &&
                   coverage_expected_error(without.credited) <= server->attempt_missing &&
                   server_fill_left(server, &without) <= server->attempt_left;
    return out->as_good ? TARRY_OK : could_make_up(server, now, &out->could, &out->compute_ns);
}

int server_late_can_spare(tarry_server *server, uint64_t now, uint32_t worker, bool *can)
{
    for (uint32_t each = 0; each < server->plan->workers; each++)
        server->members[each].overdue = each == worker;
    exclusion without;
    int error = weigh_exclusion(server, now, &without);
    if (error == TARRY_OK)
        *can = without.as_good || without.could;
    return error;
}

/*
 * Where it is known how fast the overdue are, they are left out as soon as that is clearly sooner,
 * and never while it is not. Otherwise once waiting beyond the limit has cost as much as that
 * would.
 */
static bool should_leave_out(const outlook *seen, const exclusion *without, uint64_t waited,
                             uint64_t limit)
{
    if (!without->as_good && !without->could)
        return false;
    double cost = seen->repeat_ns + (double)without->compute_ns;
    if (seen->known && seen->rest_ns <= cost)
        return false;
    return (seen->known && seen->rest_ns > CLEARLY * cost) ||
           (waited >= limit && waited - limit >= without->compute_ns);
}

/* Whether to hear what has come in first, since the look is later than it was due. */
/*
 * A server that was itself held up hears what has come in meanwhile before it judges anyone, but
 * not twice in a row: one that is always late must still find the dead.
 */
static bool server_hears_first(const tarry_server *server, uint64_t now, uint64_t due, bool *spared)
{
    *spared = !*spared && now - due > server->settings.silence_ns / SERVER_SWEEP_FRACTION;
    return *spared;
}

/* Leaves the overdue out where that ends the round sooner and costs nothing else. Looks again
 * otherwise. */
static int server_pass_over_late(tarry_server *server, uint64_t now)
{
    if (server_hears_first(server, now, server->late_ns, &server->spared_late)) {
        server->late_ns = now + server->settings.silence_ns / SERVER_SWEEP_FRACTION + 1;
        return TARRY_OK;
    }
    server->late_ns = TARRY_NEVER; /* until another part comes in, if none is late */
    outlook seen = look_at_late(server, now);
    uint64_t waited = now - server->attempt_start_ns, limit = server_late_limit_ns(server);
    uint64_t soon = now + waited / LOOK_FRACTION + 1;
    if (seen.overdue == 0) {
        server->late_ns = seen.others ? soon : TARRY_NEVER;
        return TARRY_OK;
    }
    bool clearly = seen.known && seen.rest_ns > CLEARLY * seen.repeat_ns;
    if (waited < limit && !clearly) {
        uint64_t last = server->attempt_start_ns + limit;
        server->late_ns = soon < last ? soon : last;
        return TARRY_OK;
    }
    exclusion without;
    int error = weigh_exclusion(server, now, &without);
    if (error != TARRY_OK)
        return error;
    if (should_leave_out(&seen, &without, waited, limit))
        return exclude_late(server, now, limit);
    uint64_t wait = waited;
    uint64_t repeat = without.compute_ns;
    if (without.could && limit < TARRY_NEVER - repeat && limit + repeat > waited &&
        limit + repeat - waited < wait)
        wait = limit + repeat - waited;
    server->late_ns = seen.known || waited < limit ? soon : now + wait;
    return TARRY_OK;
}

/* ---- liveness ---- */

/* The time since `from` counts for nobody's silence: the server could not have heard. */
static void forgive(tarry_server *server, uint64_t from, uint64_t now)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (member->heard_ns > from)
            continue;
        member->heard_ns += now - from;
        if (member->probe_ns != TARRY_NEVER)
            member->probe_ns += now - from;
    }
}

/* The time between two rounds counts for nobody's silence. */
/* The time between two looks at the silent goes on where the round before left it: where rounds
 * are shorter, they would never be found otherwise. */
static void server_wake(tarry_server *server, uint64_t now)
{
    uint64_t from = server->idle_ns, due = server->sweep_ns;
    uint64_t most = server->settings.silence_ns / SERVER_SWEEP_FRACTION;
    forgive(server, from, now);
    server->sweep_ns = now + (due > from && due - from < most ? due - from : most);
}

static int sweep(tarry_server *server, uint64_t now)
{
    uint64_t least = server->settings.silence_ns;
    uint64_t due = server->sweep_ns;
    server->sweep_ns = now + least / SERVER_SWEEP_FRACTION + 1;
    if (now - due > least / SERVER_SWEEP_FRACTION)
        forgive(server, due, now);
    if (server_hears_first(server, now, due, &server->spared_silent))
        return TARRY_OK;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->present)
            continue;
        if (member->probe_ns != TARRY_NEVER) {
            uint64_t limit = recent_limit_ns(&server->answers[worker]);
            uint64_t waited = now - member->probe_ns;
            limit = limit > least ? limit : least;
            if (waited < limit)
                continue;
            server_left_out(server, worker, TARRY_ABSENT_SILENT, waited, limit);
            int error = server_lost(server, now, worker);
            if (error != TARRY_OK)
                return error;
        } else if (now - member->heard_ns >= least / SERVER_QUIET_FRACTION) {
            server_send(server, worker, TARRY_MESSAGE_PROBE);
            member->probe_ns = now;
        }
    }
    return TARRY_OK;
}

int server_watch(tarry_server *server, uint64_t now)
{
    int error = TARRY_OK;
    if (server->phase != SERVER_IDLE && now >= server->sweep_ns)
        error = sweep(server, now);
    if (error == TARRY_OK)
        steering_watch(server, now);
    if (error == TARRY_OK && server->phase == SERVER_CODING && !server->broken &&
        now >= server->late_ns)
        error = server->vote == NULL ? server_pass_over_late(server, now)
                                     : server_vote_pass_over_late(server, now);
    return error;
}

/* ---- start ---- */

int server_start(tarry_server *server, uint64_t now)
{
    if (server->phase != SERVER_IDLE)
        return TARRY_ERROR_STATE;
    server_vote_start(server);
    int error = server_fill_start(server);
    if (error != TARRY_OK)
        return error;
    const tarry_plan *plan = server->plan;
    server->phase = SERVER_COMPUTING;
    server->attempt = 0;
    server->broken = false;
    server->late_ns = TARRY_NEVER;
    server->complete_count = 0;
    server->error_sum = server->filled_sum = 0;
    server->all_exact = true;
    server->result = (tarry_round_result){
        .round = server->round,
        .parts = plan->parts,
        .copies_needed = (uint64_t)plan->chunks * plan->parts,
        .start_ns = now,
        .signal_ns = TARRY_NEVER,
    };
    bitset_clear(server->complete, server->stripes);
    coverage_clear(server->credited);
    server_sample_start(server);
    memset(server->possible, 0, plan->chunks * sizeof(*server->possible));
    server->able = server->busy = server->whole = server->capable = 0;
    server_wake(server, now);
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        server_member *member = &server->members[worker];
        member->excluded = member->participant = member->reported = member->late = false;
        member->put_off = false;
        member->finished = member->spared = member->failed = member->parts_due = 0;
        member->term = member->signal_term = 0;
        member->reordered = false;
        if (!member_able(member))
            continue;
        server_enlist(server, worker);
    }
    steering_start(server);
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        if (member_able(&server->members[worker]))
            server_send_round(server, now, worker);
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        server_review_chunk(server, chunk);
    return TARRY_OK;
}

/*
 * A checkpoint's bytes, little-endian:
 *   identity: name 8, version 4, workers 4, the plan's digest 32, the length of the terms 4, and
 *     the run's terms that a restart must have alike (protocol/terms/terms.h)
 *   round 8, times of parts 24 (mean 8, deviation 8, samples 8)
 *   per worker: epoch 4, times of answers 68 (count 4, microseconds 16 x 4)
 *   TARRY_SUM_EVERYWHERE: the term 4, and the log's last two entries 48 (step 8, term 4, attempt 4,
 * digest 8) SHA-256 of all before it 32
 */

enum {
    VERSION = 6,
    NAME_BYTES = 8,
    LENGTH_OFFSET = NAME_BYTES + 4 + 4 + TARRY_DIGEST_SIZE, /* of the terms' length, */
    TERMS_OFFSET = LENGTH_OFFSET + 4,                       /* and the terms */
    IDENTITY_MOST = TERMS_OFFSET + TERMS_BYTES,
    ESTIMATE_BYTES = 24,
    MEMBERS_OFFSET = 8 + ESTIMATE_BYTES, /* behind the identity */
    RECENT_BYTES = 4 + 4 * RECENT_TIMES,
    MEMBER_BYTES = 4 + RECENT_BYTES,
    SUM_BYTES = 24,
    VOTE_BYTES = 4 + 2 * SUM_BYTES,
    SEAL_BYTES = 32,
};

static const char NAME[NAME_BYTES + 1] = "tarrysrv";

/* Thirty years: sums of such times stay far below 2^64 nanoseconds. */
static const double LONGEST_NS = 1e18;

/* Bytes of the identity that a checkpoint begins with. */
static size_t identity_bytes(const uint8_t *checkpoint)
{
    return TERMS_OFFSET + (size_t)bytes_get(checkpoint + LENGTH_OFFSET, 4);
}

/* Writes the server's terms and gives back how many bytes they take. */
static size_t write_terms(const tarry_server *server, uint8_t bytes[TERMS_BYTES])
{
    run_terms terms;
    run_terms_set(&terms, &server->settings);
    return terms_encode(&terms, TERMS_KEPT, bytes);
}

static size_t vote_offset(const tarry_server *server)
{
    uint8_t terms[TERMS_BYTES];
    return TERMS_OFFSET + write_terms(server, terms) + MEMBERS_OFFSET +
           (size_t)server->plan->workers * MEMBER_BYTES;
}

static size_t body_size(const tarry_server *server)
{
    return vote_offset(server) + (server->vote != NULL ? (size_t)VOTE_BYTES : 0);
}

size_t tarry_server_checkpoint_size(const tarry_server *server)
{
    return body_size(server) + SEAL_BYTES;
}

/* What both sides of a restart must have in common. */
static uint8_t *put_identity(const tarry_server *server, uint8_t *at)
{
    memcpy(at, NAME, NAME_BYTES);
    at = bytes_put(at + NAME_BYTES, VERSION, 4);
    at = bytes_put(at, server->plan->workers, 4);
    tarry_plan_digest(server->plan, at);
    at += TARRY_DIGEST_SIZE;
    const size_t length = write_terms(server, at + 4);
    return bytes_put(at, length, 4) + length;
}

static uint8_t *put_estimate(uint8_t *at, const estimate *times)
{
    at = bytes_put_f64(at, fmin(times->mean, LONGEST_NS));
    at = bytes_put_f64(at, fmin(times->deviation, LONGEST_NS));
    return bytes_put(at, times->samples, 8);
}

static bool get_estimate(const uint8_t *at, estimate *times)
{
    *times = (estimate){
        .mean = bytes_get_f64(at),
        .deviation = bytes_get_f64(at + 8),
        .samples = bytes_get(at + 16, 8),
    };
    return times->mean >= 0 && times->mean <= LONGEST_NS && times->deviation >= 0 &&
           times->deviation <= LONGEST_NS &&
           (times->samples > 0 || (times->mean == 0 && times->deviation == 0));
}

static uint8_t *put_recent(uint8_t *at, const recent *past)
{
    at = bytes_put(at, past->count, 4);
    for (uint32_t i = 0; i < RECENT_TIMES; i++)
        at = bytes_put(at, past->times_us[i], 4);
    return at;
}

static bool get_recent(const uint8_t *at, recent *past)
{
    past->count = (uint32_t)bytes_get(at, 4);
    bool good = past->count <= RECENT_TIMES;
    for (uint32_t i = 0; i < RECENT_TIMES; i++) {
        past->times_us[i] = (uint32_t)bytes_get(at + 4 + 4 * (size_t)i, 4);
        good = good && (i < past->count || past->times_us[i] == 0);
    }
    return good;
}

static uint8_t *put_vote(uint8_t *at, const vote *it)
{
    at = bytes_put(at, it->term, 4);
    for (size_t i = 0; i < 2; i++) {
        at = bytes_put(at, it->log[i].step, 8);
        at = bytes_put(at, it->log[i].term, 4);
        at = bytes_put(at, it->log[i].attempt, 4);
        at = bytes_put(at, it->log[i].digest, 8);
    }
    return at;
}

/* False: no server has stood so. */
static bool get_vote(const uint8_t *at, tarry_sum_id log[2], uint32_t *term)
{
    *term = (uint32_t)bytes_get(at, 4);
    for (size_t i = 0; i < 2; i++)
        log[i] = (tarry_sum_id){
            .step = bytes_get(at + 4 + i * SUM_BYTES, 8),
            .term = (uint32_t)bytes_get(at + 12 + i * SUM_BYTES, 4),
            .attempt = (uint32_t)bytes_get(at + 16 + i * SUM_BYTES, 4),
            .digest = bytes_get(at + 20 + i * SUM_BYTES, 8),
        };
    return *term > 0 && *term < UINT32_MAX && log[0].term <= *term;
}

static uint32_t after_reserve(uint32_t epoch)
{
    uint32_t left = UINT32_MAX - epoch;
    return left < TARRY_CHECKPOINT_ARRIVALS ? UINT32_MAX : epoch + TARRY_CHECKPOINT_ARRIVALS;
}

int tarry_server_checkpoint(const tarry_server *server, uint8_t *bytes)
{
    uint8_t *at = put_identity(server, bytes);
    at = bytes_put(at, server->round, 8);
    at = put_estimate(at, &server->part_time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        at = bytes_put(at, server->members[worker].epoch, 4);
        at = put_recent(at, &server->answers[worker]);
    }
    if (server->vote != NULL)
        at = put_vote(at, server->vote);
    return digest_of_bytes(bytes, body_size(server), at) == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void tarry_server_stored(tarry_server *server, const uint8_t *bytes)
{
    const uint8_t *at = bytes + identity_bytes(bytes) + MEMBERS_OFFSET;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++, at += MEMBER_BYTES)
        server->members[worker].epoch_end = after_reserve((uint32_t)bytes_get(at, 4));
    server->restored = false;
}

uint32_t tarry_server_epoch(const tarry_server *server, uint32_t worker)
{
    return server->members[worker].epoch;
}

uint32_t tarry_server_arrivals_left(const tarry_server *server)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        uint32_t left = member->epoch < member->epoch_end ? member->epoch_end - member->epoch : 0;
        if (left < least)
            least = left;
    }
    return least;
}

/* Says what differs between the checkpoint's terms and the server's. */
static int tell_other_terms(const tarry_server *server, const uint8_t *bytes, size_t size,
                            tarry_diagnostic *diagnostic)
{
    char what[TERMS_TEXT_BYTES] = "";
    run_terms own, read;
    tarry_diagnostic why = {.text = "they are cut short"};
    run_terms_set(&own, &server->settings);
    if (size < identity_bytes(bytes) ||
        terms_decode(bytes + TERMS_OFFSET, identity_bytes(bytes) - TERMS_OFFSET, TERMS_KEPT, &read,
                     &why) != TARRY_OK)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "checkpoint: its settings: %s", why.text);
    terms_differ(&read, &own, TERMS_KEPT, what);
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "checkpoint: it is of a server with other settings: %s", what);
}

static int check_identity(const tarry_server *server, const uint8_t *bytes, size_t size,
                          tarry_diagnostic *diagnostic)
{
    uint8_t own[IDENTITY_MOST];
    put_identity(server, own);
    const char *fault = NULL;
    if (size < TERMS_OFFSET || memcmp(bytes, own, NAME_BYTES) != 0)
        fault = "this is none";
    else if (memcmp(bytes + NAME_BYTES, own + NAME_BYTES, 4) != 0)
        fault = "it is of another version";
    else if (memcmp(bytes, own, LENGTH_OFFSET) != 0)
        fault = "it is of another plan";
    else if (size < identity_bytes(bytes) || identity_bytes(bytes) != identity_bytes(own) ||
             memcmp(bytes + TERMS_OFFSET, own + TERMS_OFFSET, identity_bytes(own) - TERMS_OFFSET) !=
                 0)
        return tell_other_terms(server, bytes, size, diagnostic);
    else if (size != tarry_server_checkpoint_size(server))
        fault = "its size is wrong";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_FORMAT, "checkpoint: %s", fault);
}

/* Reads what follows the identity into the server, or, without one, checks it only, of so many
 * workers. */
static bool get_state(tarry_server *server, const uint8_t *at, uint32_t workers)
{
    estimate times;
    uint64_t round = bytes_get(at, 8);
    bool good = round < UINT64_MAX;
    at += 8;
    good = get_estimate(at, &times) && good;
    at += ESTIMATE_BYTES;
    if (server != NULL) {
        server->round = round;
        server->part_time = times;
    }
    for (uint32_t worker = 0; worker < workers; worker++, at += MEMBER_BYTES) {
        recent answers;
        good = get_recent(at + 4, &answers) && good;
        if (server == NULL)
            continue;
        server_member *member = &server->members[worker];
        member->epoch = after_reserve((uint32_t)bytes_get(at, 4));
        member->epoch_end = member->epoch; /* until one that is stored reserves more */
        server->answers[worker] = answers;
    }
    return good;
}

int tarry_server_restore(tarry_server *server, const uint8_t *bytes, size_t size,
                         tarry_diagnostic *diagnostic)
{
    uint32_t workers = server->plan->workers;
    if (!server_is_fresh(server))
        return diagnose(diagnostic, TARRY_ERROR_STATE, "checkpoint: the server is in use");
    int error = check_identity(server, bytes, size, diagnostic);
    if (error != TARRY_OK)
        return error;
    uint8_t seal[SEAL_BYTES];
    if (digest_of_bytes(bytes, body_size(server), seal) != 0)
        return diagnose_no_memory(diagnostic, "checkpoint");
    tarry_sum_id log[2];
    uint32_t term;
    if (memcmp(seal, bytes + body_size(server), SEAL_BYTES) != 0 ||
        !get_state(NULL, bytes + identity_bytes(bytes), workers) ||
        (server->vote != NULL && !get_vote(bytes + vote_offset(server), log, &term)))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "checkpoint: it is damaged");
    if (server->vote != NULL)
        vote_restart(server->vote, log, term + 1); /* in the next term */
    get_state(server, bytes + identity_bytes(bytes), workers);
    server_stood_begin_life(server, NULL);
    server->restored = true;
    return TARRY_OK;
}
