/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "protocol/server/server_state.h"

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
            tail += server->early.uploads.each_ns;
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

/*
 * All who rest at the end of a round together can shorten it by a chunk's time or so; all who
 * leave, by a part's time each. Where nothing is known of parts yet the first that rests once all
 * is begun leaves: so it shows what a part takes that comes alone.
 */
bool steering_may_leave(const tarry_server *server, uint32_t worker)
{
    const steering *it = server->steering;
    const uploads *parts = &server->early.uploads;
    if (it == NULL)
        return true;
    if (!rests(server, worker))
        return false;
    if (!parts->known)
        return !server->early.open && is_all_begun(server);
    return parts->each_ns * server->able >= it->prior_ns && it->prior_ns > 0;
}

void links_begin_round(tarry_server *server)
{
    if (!server->settings.early)
        return;
    steering *it = server->steering;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        it->values[worker] = it->workers[worker].begins_ns = it->workers[worker].way_ns;
    steering_sort(it->values, it->by_way, server->plan->workers);
    links_set_tails(server);
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

/*
 * From two reports on it shows what of the first one's time was the way. One report alone may tell
 * of a long way or of a slow worker: it is taken for the way as far as others have had ways like
 * that. Who has not reported at all is taken to have the longest.
 */
void links_end_round(tarry_server *server)
{
    const double longer = 1.5;
    if (!server->settings.early)
        return;
    steering *it = server->steering;
    double longest = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        if (!member_able(member) || server_ended(member) < 2)
            continue;
        double first = (double)(member->first_ns - member->begun_ns);
        learn_way(&it->workers[worker], fmax(first - server_between_reports_ns(member), 0));
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
}
