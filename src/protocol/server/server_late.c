/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coded parts that are late. What they will still take is foreseen from the stripes that have come
 * in, and set against what doing without would: another attempt of the others, and what they would
 * have to compute before.
 */
#include <math.h>
#include <string.h>

#include "protocol/server/server_state.h"

/*
 * Before its limit a worker is left out only if its rest is foreseen to take so many times as long
 * as doing without: what is foreseen of a link may be wrong by as much.
 */
static const double CLEARLY = 2;
/* While parts are awaited, the next look is after this fraction of the time since the signal. */
enum { LOOK_FRACTION = 4 };

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
    *could = coverage_recovered(server->supposed, plan_least_parts(server->plan)) ==
             server->plan->chunks;
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

/* They may be at anything by now: each comes anew, and says what it has. */
int server_call_back_late(tarry_server *server, uint64_t now)
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
    uint32_t parts = server_pick_parts(server, &without, now);
    out->as_good = parts != 0 &&
                   coverage_expected_error(without.credited, parts) <= server->attempt_missing &&
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

/* Leaves the overdue out where that ends the round sooner and costs nothing else. Looks again
 * otherwise. */
int server_pass_over_late(tarry_server *server, uint64_t now)
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
