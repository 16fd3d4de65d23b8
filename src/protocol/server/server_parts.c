/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

#include <assert.h>
#include <math.h>

#include "protocol/server/choose_parts.h"

/* While it waits, the server looks again after half of the predicted wait; not more often than
 * this fraction of the time that it may wait in all. */
enum { LOOK_FRACTION = 64 };

/* Completed stripes stand, and with them the number of parts that they are of. */
static uint32_t least_parts(const tarry_server *server)
{
    return server->complete_count > 0 ? server->cut.parts : plan_least_parts(server->plan);
}

static uint32_t most_parts(const tarry_server *server)
{
    return server->complete_count > 0 ? server->cut.parts : server->plan->parts;
}

layout server_layout(const tarry_server *server, uint32_t parts)
{
    return layout_make(server->settings.dimension, parts, server->settings.stripe_length);
}

/* Whether what is credited is as good as the rule asks for. */
static bool meets_rule(const tarry_server *server, const server_standing *stands, uint32_t parts)
{
    const coverage *credited = stands->credited;
    switch (server->settings.stop) {
    case TARRY_STOP_EXACT:
    case TARRY_STOP_DEADLINE:
        return coverage_recovered(credited, parts) == server->plan->chunks;
    case TARRY_STOP_ERROR:
        return coverage_expected_error(credited, parts) <= server->settings.error_limit;
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
    uint32_t parts = server_wanted_copies(server);
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        if (stands->possible[chunk] > coverage_copies(stands->credited, chunk) &&
            coverage_rank(stands->credited, parts, chunk) < parts)
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

uint32_t server_pick_parts(const tarry_server *server, const server_standing *stands, uint64_t now)
{
    uint32_t least = least_parts(server), most = most_parts(server);
    bool settled = !server->settings.reproducible || stands->busy == 0;
    for (uint32_t parts = most; settled && parts >= least; parts--)
        if (meets_rule(server, stands, parts))
            return parts;
    if (!is_overdue(server, stands, now))
        return 0;
    uint32_t best = most;
    for (uint32_t parts = most; parts >= least; parts--)
        if (coverage_expected_error(stands->credited, parts) <
            coverage_expected_error(stands->credited, best))
            best = parts;
    return best;
}

bool server_only_waits(const tarry_server *server)
{
    if (server->able == 0 || server->plan->adaptive || server->looked_parts != 0)
        return false;
    server_standing stands = server_stands(server);
    switch (server->settings.stop) {
    case TARRY_STOP_EXACT:
        return server->hopeless_count == 0 && server->ill_count == 0 &&
               !meets_rule(server, &stands, server->plan->parts);
    case TARRY_STOP_WORKERS:
        return server->capable >= server->settings.workers_needed &&
               !meets_rule(server, &stands, server->plan->parts);
    case TARRY_STOP_DEADLINE: /* it may be over */
    case TARRY_STOP_ERROR:    /* this is worked out in full, too */
        break;
    }
    return false;
}

static double upload_ns(const tarry_server *server, uint32_t parts)
{
    return upload_at(&server->upload, (double)server_layout(server, parts).part_length);
}

/* Sorts `time` in among the first `count` of `times`, of which the latest falls out. */
static void keep_earliest(double *times, uint32_t count, double time)
{
    for (uint32_t k = 0; k < count; k++) {
        if (time < times[k]) {
            double later = times[k];
            times[k] = time;
            time = later;
        }
    }
}

/* What a chunk took the worker in this round, from report to report; of two reports and more. */
static double between_reports_ns(const server_member *member)
{
    return (double)(member->ended_ns - member->first_ns) / (server_ended(member) - 1);
}

/* What is left of `time_ns` from a round's announcement on without the way there. */
static double without_way(const tarry_server *server, double time_ns)
{
    double way = server->way_time.mean;
    return time_ns > way ? time_ns - way : 0;
}

/* What a chunk takes the worker in this round. */
static double usual_ns(const tarry_server *server, const server_member *member)
{
    if (server_ended(member) > 1)
        return between_reports_ns(member);
    return without_way(server, (double)(member->ended_ns - member->begun_ns));
}

/* For how long the worker has not reported, although it could. */
static double silent_ns(const tarry_server *server, uint64_t now, const server_member *member)
{
    if (server_ended(member) > 0)
        return (double)(now - member->ended_ns);
    return without_way(server, (double)(now - member->begun_ns));
}

/*
 * When each chunk's next copies are likely to come, from now on: a worker goes on at the pace that
 * it had in this round. One that is silent for longer than a chunk takes it, has become slow: it is
 * taken to need as long again.
 */
static void foresee_copies(tarry_server *server, uint64_t now)
{
    const tarry_plan *plan = server->plan;
    uint32_t each = plan->parts;
    for (size_t i = 0; i < (size_t)plan->chunks * each; i++)
        server->foreseen_ns[i] = INFINITY;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (!member_able(member))
            continue;
        double silent = silent_ns(server, now, member), usual = usual_ns(server, member);
        double time = usual > silent ? usual - silent : silent;
        double step = usual > silent ? usual : silent;
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++) {
            if (bitset_test(server->done, slot) || bitset_test(server->failed, slot))
                continue;
            keep_earliest(server->foreseen_ns + (size_t)plan->slot_chunk[slot] * each, each, time);
            time += step;
        }
    }
}

/* A dynamic order makes no copy that is not planned: until all of these are there. */
static double wait_for_planned(const tarry_server *server, uint64_t now, uint32_t parts)
{
    double wait = 0, time = steering_time(server, now);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        if (!member_able(&server->members[worker]))
            continue;
        double end = steering_end_ns(server, worker, time);
        wait = end > wait ? end : wait;
    }
    return parts <= server->aim ? wait : INFINITY;
}

/* Until every chunk is recovered: an upper bound of what an error limit has to wait for. */
static double wait_for(const tarry_server *server, uint64_t now, uint32_t parts)
{
    if (server->steering != NULL)
        return wait_for_planned(server, now, parts);
    const tarry_plan *plan = server->plan;
    double wait = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        if (coverage_rank(server->credited, parts, chunk) == parts)
            continue;
        uint32_t copies = coverage_copies(server->credited, chunk);
        uint32_t missing = copies < parts ? parts - copies : 1;
        double time = server->foreseen_ns[(size_t)chunk * plan->parts + missing - 1];
        wait = time > wait ? time : wait;
    }
    return wait;
}

/*
 * Waiting for more parts pays at most what the shortest upload saves. So that is how long the
 * server waits in all, counted from when it could first have signalled: the rule of the ski rental
 * problem. A deadline bounds it, too.
 */
static double patience_ns(const tarry_server *server, uint64_t now)
{
    uint32_t most = server->plan->parts;
    double gain = upload_ns(server, server->ready_parts) - upload_ns(server, most);
    double patience = gain - (double)(now - server->ready_ns);
    if (server->settings.stop == TARRY_STOP_DEADLINE) {
        uint64_t left = server->settings.deadline_ns - (now - server->result.start_ns);
        patience = (double)left < patience ? (double)left : patience;
    }
    return patience;
}

static bool can_wait(const tarry_server *server, uint64_t now, uint32_t parts)
{
    server_standing stands = server_stands(server);
    return parts < most_parts(server) && server->attempt == 0 && more_may_come(server, &stands) &&
           server->upload.known && !server->settings.reproducible &&
           !is_overdue(server, &stands, now);
}

uint32_t server_settle_parts(tarry_server *server, uint64_t now, uint32_t parts)
{
    if (parts == 0) {
        server->looked_parts = 0; /* someone was lost: there is nothing to wait with any more */
        return 0;
    }
    if (server->ready_ns == TARRY_NEVER) {
        server->ready_ns = now;
        server->ready_parts = parts;
    }
    if (!can_wait(server, now, parts))
        return parts;
    if (now < server->look_ns && parts == server->looked_parts)
        return 0;
    double patience = patience_ns(server, now);
    if (!(patience > 0))
        return parts;
    if (server->steering == NULL)
        foresee_copies(server, now);
    uint32_t least = least_parts(server), count = most_parts(server) - least + 1;
    server_standing stands = server_stands(server);
    for (uint32_t i = 0; i < count; i++)
        server->prospects[i] = (parts_prospect){
            .met = meets_rule(server, &stands, least + i),
            .wait_ns = wait_for(server, now, least + i),
            .upload_ns = upload_ns(server, least + i),
        };
    uint32_t best = choose_parts(server->prospects, count, patience);
    if (server->prospects[best].met)
        return least + best;
    double look = fmax(server->prospects[best].wait_ns / 2,
                       upload_ns(server, server->ready_parts) / LOOK_FRACTION);
    server->look_ns = now + 1 + (uint64_t)fmin(look, patience);
    server->looked_parts = parts;
    return 0;
}

uint64_t server_next_look(const tarry_server *server)
{
    bool waits =
        server->phase == SERVER_COMPUTING && server->attempt == 0 && server->looked_parts != 0;
    return waits ? server->look_ns : TARRY_NEVER;
}

/*
 * What the parameters take to come to the workers, and a report to come back, is the same for any
 * number of parts. It is by how much the time to a worker's first report exceeds that between its
 * reports.
 */
static void learn_way(tarry_server *server)
{
    double excess = 0;
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (!member_able(member) || server_ended(member) < 2)
            continue;
        excess += (double)(member->first_ns - member->begun_ns) - between_reports_ns(member);
        count++;
    }
    if (count > 0)
        estimate_add(&server->way_time, excess > 0 ? (uint64_t)(excess / count) : 0);
}

void server_learn_cover(tarry_server *server, uint64_t now)
{
    if (server->plan->adaptive)
        learn_way(server);
    double computing = without_way(server, (double)(now - server->result.start_ns));
    estimate_add(&server->cover_time, (uint64_t)computing / server->cut.parts);
}

void server_learn_upload(tarry_server *server, uint64_t now)
{
    if (server->from_scratch && server->participants > 0)
        upload_add(&server->upload, (double)server->cut.part_length,
                   (double)(now - server->attempt_start_ns));
}

void server_aim_parts(tarry_server *server)
{
    uint32_t least = plan_least_parts(server->plan), most = server->plan->parts;
    server->aim = least;
    if (!server->upload.known || server->cover_time.samples == 0)
        return;
    double soonest = INFINITY;
    for (uint32_t parts = least; parts <= most; parts++) {
        double time = parts * server->cover_time.mean + upload_ns(server, parts);
        if (time < soonest) {
            soonest = time;
            server->aim = parts;
        }
    }
}

uint32_t server_wanted_copies(const tarry_server *server)
{
    return server->aim;
}
