/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server_state.h"

/*
 * A worker that has been silent for a quarter of the limit is asked whether it is there; one that
 * does not answer within the limit is given up. Looking an eighth of the limit apart finds both
 * soon enough.
 */
enum { QUIET_FRACTION = 4, SWEEP_FRACTION = 8 };

void server_heard(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->heard_ns = now;
    if (member->probe_ns != TARRY_NEVER) {
        if (!member->overheard)
            recent_add(&server->answers[worker], now - member->probe_ns);
        member->probe_ns = TARRY_NEVER;
    }
    member->overheard = false;
}

/*
 * Bytes of a message that was under way say that the worker is there, and nothing of how long it
 * takes to answer: they may have been sent before it was asked. What comes next may be the answer
 * to that probe, even if another was sent meanwhile: it is not measured either.
 */
void server_overheard(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->heard_ns = now;
    if (member->probe_ns != TARRY_NEVER) {
        member->probe_ns = TARRY_NEVER;
        member->overheard = true;
    }
}

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

void server_wake(tarry_server *server, uint64_t now)
{
    forgive(server, server->idle_ns, now);
    server->sweep_ns = now + server->settings.silence_ns / SWEEP_FRACTION;
}

/*
 * A server that was itself held up hears what has come in meanwhile before it judges anyone, but
 * not twice in a row: one that is always late must still find the dead.
 */
static bool hears_first(const tarry_server *server, uint64_t now, uint64_t due, bool *spared)
{
    *spared = !*spared && now - due > server->settings.silence_ns / SWEEP_FRACTION;
    return *spared;
}

static int sweep(tarry_server *server, uint64_t now)
{
    uint64_t least = server->settings.silence_ns;
    uint64_t due = server->sweep_ns;
    server->sweep_ns = now + least / SWEEP_FRACTION + 1;
    if (now - due > least / SWEEP_FRACTION)
        forgive(server, due, now);
    if (hears_first(server, now, due, &server->spared_silent))
        return TARRY_OK;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!member->present)
            continue;
        if (member->probe_ns != TARRY_NEVER) {
            uint64_t limit = recent_limit_ns(&server->answers[worker]);
            if (now - member->probe_ns < (limit > least ? limit : least))
                continue;
            int error = server_lost(server, now, worker);
            if (error != TARRY_OK)
                return error;
        } else if (now - member->heard_ns >= least / QUIET_FRACTION) {
            server_send(server, worker, TARRY_MESSAGE_PROBE);
            member->probe_ns = now;
        }
    }
    return TARRY_OK;
}

/*
 * Waiting for a part longer than the others took plus the time to repeat them is what a new attempt
 * can save: the rule of the ski rental problem, which never costs more than twice the best choice.
 */
uint64_t server_late_limit_ns(const tarry_server *server)
{
    if (server->settings.reproducible || server->delivered * 2 < server->participants ||
        server->delivered == 0)
        return TARRY_NEVER;
    uint64_t limit = estimate_limit_ns(&server->part_time) + (uint64_t)server->part_time.mean;
    uint64_t least = server->settings.silence_ns / QUIET_FRACTION;
    return limit > least ? limit : least;
}

static bool is_late(const server_member *member)
{
    return member->present && member->participant && member->parts_due > 0;
}

/* Takes the late workers out of what the stop rule looks at, or puts them back. */
static int set_aside_late(tarry_server *server, bool aside)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        server_member *member = &server->members[worker];
        if (!is_late(member))
            continue;
        uint32_t first = plan->worker_offset[worker];
        uint32_t load = server_load(server, worker);
        uint32_t change = aside ? UINT32_MAX : 1;
        member->excluded = aside;
        if (member->finished + member->failed < load)
            server->busy += change;
        if (member->finished == load)
            server->whole += change;
        /* No message of this step has sets yet: what was credited is noted where they will be. */
        uint64_t *removed = server->bits + server->bits_offset[worker];
        for (uint32_t slot = 0; slot < load; slot++) {
            if (!bitset_test(server->failed, first + slot))
                server->possible[plan->slot_chunk[first + slot]] += change;
            if (aside)
                bitset_put(removed, slot, coverage_has(server->credited, worker, slot));
            if (!bitset_test(removed, slot))
                continue;
            int error = aside ? coverage_remove(server->credited, worker, slot)
                              : coverage_add(server->credited, worker, slot);
            if (error != TARRY_OK)
                return error;
        }
        int error = server_fill_set_aside(server, worker, aside);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* Credits all that those who take part could still compute, or takes that back. */
static int foresee(tarry_server *server, bool credit)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t first = plan->worker_offset[worker];
        uint32_t load = server_load(server, worker);
        uint64_t *added = server->bits + server->bits_offset[worker]; /* as set_aside_late does */
        for (uint32_t slot = 0; slot < load && member_able(&server->members[worker]); slot++) {
            if (credit)
                bitset_put(added, slot,
                           !bitset_test(server->failed, first + slot) &&
                               !coverage_has(server->credited, worker, slot));
            if (!bitset_test(added, slot))
                continue;
            int error = credit ? coverage_add(server->credited, worker, slot)
                               : coverage_remove(server->credited, worker, slot);
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
    int error = foresee(server, true);
    if (error != TARRY_OK)
        return error;
    *could = coverage_recovered(server->credited, plan_least_parts(server->plan)) ==
             server->plan->chunks;
    error = foresee(server, false);
    if (error == TARRY_OK && *could)
        *repeat_ns = server->steering != NULL ? steering_repeat_ns(server, now)
                                              : server->result.signal_ns - server->result.start_ns;
    return error;
}

static int exclude_late(tarry_server *server, uint64_t now)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        if (!is_late(&server->members[worker]))
            continue;
        int error = server_exclude(server, now, worker);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/*
 * Leaves the late workers out if the stop rule holds without them and the sum is as good; or if the
 * others could make up for them, and waiting beyond the limit has cost as much as that would.
 * Otherwise looks again then, or after twice the time.
 */
static int pass_over_late(tarry_server *server, uint64_t now)
{
    if (hears_first(server, now, server->late_ns, &server->spared_late)) {
        server->late_ns = now + server->settings.silence_ns / SWEEP_FRACTION + 1;
        return TARRY_OK;
    }
    server->late_ns = TARRY_NEVER; /* until another part comes in, if none is late */
    int error = set_aside_late(server, true);
    if (error != TARRY_OK)
        return error;
    uint32_t parts = server_pick_parts(server, now);
    bool as_good = parts != 0 &&
                   coverage_expected_error(server->credited, parts) <= server->attempt_missing &&
                   server_fill_left(server) <= server->attempt_left;
    bool could = false;
    uint64_t repeat_ns = 0;
    if (!as_good)
        error = could_make_up(server, now, &could, &repeat_ns);
    if (error == TARRY_OK)
        error = set_aside_late(server, false);
    if (error != TARRY_OK)
        return error;
    uint64_t waited = now - server->attempt_start_ns, limit = server_late_limit_ns(server);
    if (as_good || (could && waited >= limit && waited - limit >= repeat_ns))
        return exclude_late(server, now);
    uint64_t wait = waited;
    if (could && limit < TARRY_NEVER - repeat_ns && limit + repeat_ns - waited < wait)
        wait = limit + repeat_ns - waited;
    server->late_ns = now + wait;
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
        error = pass_over_late(server, now);
    return error;
}

uint64_t server_next_watch(const tarry_server *server)
{
    uint64_t next = server->sweep_ns, tick = steering_next_watch(server);
    if (server->phase == SERVER_CODING && server->late_ns < next)
        next = server->late_ns;
    return tick < next ? tick : next;
}
