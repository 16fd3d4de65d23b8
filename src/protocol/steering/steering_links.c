/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "protocol/server/server_state.h"

/* By how much a part delays those behind it. Before it is known an announcement of a round stands
 * for a part: it is about as long, and goes the same way. */
static double part_ns(const tarry_server *server)
{
    const uploads *parts = &server->early.uploads;
    double apart = server->steering->apart_ns;
    if (parts->known)
        return parts->each_ns;
    return parts->alone_ns > 0 ? fmin(apart, parts->alone_ns) : apart;
}

void links_clear_tails(steering *it, uint32_t workers)
{
    for (uint32_t worker = 0; worker < workers; worker++)
        it->workers[worker].tail_ns = 0;
}

void links_set_tails(tarry_server *server)
{
    steering *it = server->steering;
    double tail = 0;
    for (uint32_t i = 0; i < server->plan->workers; i++) {
        uint32_t worker = it->by_way[i];
        if (member_computes(&server->members[worker]))
            tail += part_ns(server);
        it->workers[worker].tail_ns = tail;
    }
}

static bool rests(const tarry_server *server, uint32_t worker)
{
    const steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    return it->workers[worker].current == load &&
           bitset_count(it->plans + it->set_start[worker], load) == 0;
}

/* Whether all that is left is in progress. */
static bool is_all_begun(const tarry_server *server)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (server->steering->workers[worker].queue > 0)
            return false;
    return true;
}

/* In a sum among workers those who leave save no more than half of its time, and that only where it
 * is coding and copying that takes it (docs/collective.md). */
static bool saves_more_in_a_sum(const tarry_server *server)
{
    const steering *it = server->steering;
    return it->prior_ns > 0 && server->part_time.mean >= 2 * it->prior_ns;
}

/*
 * All who rest at the end of a round together can shorten it by a chunk's time or so; all who
 * leave, by a part's time each. Where nothing is known of parts yet the first that rests once all
 * is begun leaves: so it shows what a part takes that comes alone.
 */
bool steering_may_leave(const tarry_server *server, uint32_t worker)
{
    const steering *it = server->steering;
    if (it == NULL)
        return !server_has_work(server, worker);
    if (!rests(server, worker))
        return false;
    if (server->vote != NULL)
        return saves_more_in_a_sum(server);
    double part = part_ns(server);
    if (!server->early.uploads.known && !(part > 0))
        return !server->early.open && is_all_begun(server);
    return part * server->able >= it->prior_ns && it->prior_ns > 0;
}

static void order_by_way(tarry_server *server)
{
    steering *it = server->steering;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        it->values[worker] = it->workers[worker].begins_ns;
    steering_sort(it->values, it->by_way, server->plan->workers);
    links_set_tails(server);
}

void links_begin_round(tarry_server *server)
{
    if (!server_takes_early_parts(server))
        return;
    steering *it = server->steering;
    it->shown = it->due = it->lines = 0;
    it->in_line = false;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        it->workers[worker].begins_ns = it->workers[worker].way_ns;
    order_by_way(server);
}

/* The first chunk of the round took a worker so much longer than others. What that says of its pace
 * is taken back. */
static void learn_way(steering_worker *of, double excess)
{
    const double gain = 0.25;
    if (of->pace.cost > 0 && excess > of->begins_ns)
        of->pace.ns = fmax(of->pace.ns - (excess - of->begins_ns), of->pace.ns / 16);
    of->way_ns += of->way_ns > 0 ? gain * (excess - of->way_ns) : excess;
}

/* What the announcement took, which shows from two reports on. */
static double shown_way_ns(const server_member *member)
{
    double first = (double)(member->first_ns - member->begun_ns);
    return fmax(first - server_between_reports_ns(member), 0);
}

/* Whether it was told when the round began, as all those before it were. */
static bool was_told_in_turn(const tarry_server *server, uint32_t worker)
{
    const server_member *member = &server->members[worker];
    return member_able(member) && member->begun_ns == server->result.start_ns;
}

/*
 * Whether announcements come one after the other, as they were sent: the line of least squares
 * through the ways by the place in that order, if it explains nearly all of them.
 */
static bool fit_ways(const tarry_server *server, double *first_ns, double *apart_ns)
{
    const double nearly = 0.95;
    const uint32_t enough = 4;
    double x = 0, y = 0, xx = 0, xy = 0, yy = 0, place = 0;
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (!was_told_in_turn(server, worker))
            continue;
        if (server_ended(member) > 1) {
            double way = shown_way_ns(member), gain = 1.0 / ++count;
            double dx = place - x, dy = way - y;
            x += gain * dx;
            y += gain * dy;
            xx += dx * (place - x);
            xy += dx * (way - y);
            yy += dy * (way - y);
        }
        place++;
    }
    if (count < enough || !(xy > 0) || xy * xy < nearly * xx * yy)
        return false;
    *apart_ns = xy / xx;
    *first_ns = y - *apart_ns * x;
    return true;
}

/* Takes over what `worker` has shown. */
static void take_way(tarry_server *server, uint32_t worker)
{
    steering_worker *of = &server->steering->workers[worker];
    double way = shown_way_ns(&server->members[worker]);
    learn_way(of, way);
    of->begins_ns = way;
}

/* Those who have not reported begin when it is their turn to hear of the round. */
static void expect_beginnings(tarry_server *server, double first_ns, double apart_ns)
{
    double begins = first_ns;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        steering_worker *of = &server->steering->workers[worker];
        if (!was_told_in_turn(server, worker))
            continue;
        if (server_ended(&server->members[worker]) == 0)
            of->since_ns = of->begins_ns = fmax(begins, 0);
        begins += apart_ns;
    }
}

/* All who are in the line. */
static void take_ways(tarry_server *server)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (was_told_in_turn(server, worker) && server_ended(&server->members[worker]) > 1 &&
            !(server->steering->workers[worker].way_ns > 0))
            take_way(server, worker);
}

/* A line is sought again when an eighth more have shown their ways: as each search takes a look at
 * all, and an order of all, all of them together take no more than some such. */
void links_report(tarry_server *server, uint32_t worker)
{
    const uint32_t share = 8;
    steering *it = server->steering;
    double first, apart;
    if (!server_takes_early_parts(server) || server_ended(&server->members[worker]) != 2 ||
        it->workers[worker].way_ns > 0)
        return;
    if (it->in_line)
        take_way(server, worker);
    if (++it->shown < it->due)
        return;
    it->due = it->shown + 1 + it->shown / share;
    it->lines++;
    if (!fit_ways(server, &first, &apart))
        return;
    if (!it->in_line)
        take_ways(server);
    it->in_line = true;
    it->apart_ns = apart;
    expect_beginnings(server, first, apart);
    order_by_way(server);
}

/*
 * From two reports on it shows what of the first one's time was the way. One report alone may tell
 * of a long way or of a slow worker: it is taken for the way as far as others have had ways like
 * that. Who has not reported at all is taken to have the longest.
 */
void links_end_round(tarry_server *server)
{
    const double longer = 1.5;
    if (!server_takes_early_parts(server))
        return;
    steering *it = server->steering;
    double longest = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (!member_able(member) || server_ended(member) < 2)
            continue;
        learn_way(&it->workers[worker], shown_way_ns(member));
        longest = fmax(longest, it->workers[worker].way_ns);
    }
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        steering_worker *of = &it->workers[worker];
        double first = (double)(member->first_ns - member->begun_ns);
        if (!member_able(member) || server_ended(member) > 1)
            continue;
        if (server_ended(member) == 1)
            learn_way(of, fmin(fmax(first - it->prior_ns, 0), longer * longest));
        else
            of->way_ns = fmax(of->way_ns, longest);
    }
    double first;
    if (!fit_ways(server, &first, &it->apart_ns))
        it->apart_ns = 0;
}
