/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "protocol/server/server_state.h"

static bool is_empty(const uint64_t *set, uint32_t bits)
{
    uint64_t any = 0;
    for (size_t word = 0; word < bitset_words(bits); word++)
        any |= set[word];
    return any == 0;
}

/*
 * What the worker had better not begin even if news come late: what nobody wants, and what others
 * are at. One that has nothing planned rests.
 */
static void bar(tarry_server *server, uint32_t worker, bool rests)
{
    steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    uint64_t *barred = it->barred + it->set_start[worker];
    bitset_clear(barred, load);
    for (uint32_t slot = 0; slot < load; slot++) {
        uint32_t chunk = steering_chunk(server, worker, slot);
        if (bitset_test(it->closed + it->set_start[worker], slot) ||
            steering_is_planned(it, worker, slot) || it->workers[worker].current == slot)
            continue;
        bool pointless = steering_wanted(server, chunk) <= it->computing[chunk];
        if (rests || pointless)
            bitset_set(barred, slot);
    }
}

static const uint64_t *set_or_null(const uint64_t *set, uint32_t load)
{
    return is_empty(set, load) ? NULL : set;
}

/* Takes `message` for told, with the sets as they are planned now. */
static void tell(tarry_server *server, uint32_t worker, tarry_message *message)
{
    steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    uint64_t *first = it->first + it->set_start[worker],
             *barred = it->barred + it->set_start[worker];
    memcpy(first, it->plans + it->set_start[worker], bitset_words(load) * sizeof(*first));
    uint16_t *told = &it->workers[worker].told;
    *told = *told == UINT16_MAX ? 1 : *told + 1;
    message->sequence = *told;
    message->first = set_or_null(first, load);
    message->barred = set_or_null(barred, load);
}

void steering_add(tarry_server *server, uint32_t worker, tarry_message *news)
{
    bar(server, worker,
        is_empty(server->steering->plans + server->steering->set_start[worker],
                 server_load(server, worker)));
    tell(server, worker, news);
}

/* Gives the message sets that those after it in the same step don't change. */
static void set_apart(steering *it, uint32_t worker, tarry_message *message)
{
    size_t words = it->set_start[worker + 1] - it->set_start[worker];
    uint64_t *first = it->addressed + 4 * it->set_start[worker];
    if (message->type == TARRY_MESSAGE_RESUME)
        first += 2 * words;
    uint64_t *barred = first + words;
    if (message->first != NULL)
        message->first = memcpy(first, message->first, words * sizeof(*first));
    if (message->barred != NULL)
        message->barred = memcpy(barred, message->barred, words * sizeof(*barred));
}

/* One whose share is a single chunk had better rest after it than hear so from news at once. */
void steering_address(tarry_server *server, uint64_t now, uint32_t worker, tarry_message *message)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    size_t planned = bitset_count(it->plans + it->set_start[worker], server_load(server, worker));
    bar(server, worker, planned <= 1);
    tell(server, worker, message);
    set_apart(it, worker, message);
    uint32_t current = it->workers[worker].current;
    if (current == server_load(server, worker))
        steering_set_current(server, steering_time(server, now), worker,
                             steering_told_next(server, worker, current));
}

/* Whether the worker does what it should by what it was told; *drop: not even what it is at. */
static bool is_well(const tarry_server *server, uint32_t worker, bool *drop)
{
    const steering *it = server->steering;
    uint32_t load = server_load(server, worker), current = it->workers[worker].current;
    const uint64_t *plans = it->plans + it->set_start[worker];
    *drop = current < load && steering_wanted(server, steering_chunk(server, worker, current)) == 0;
    bool rests = is_empty(plans, load);
    if (*drop || (current == load && !rests))
        return false;
    uint32_t next = steering_told_next(server, worker, current);
    return rests ? next == load : next < load && bitset_test(plans, next);
}

static void tell_news(tarry_server *server, double time, uint32_t worker, steering_news *compose)
{
    steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    bool drop;
    if (is_well(server, worker, &drop))
        return;
    bar(server, worker, is_empty(it->plans + it->set_start[worker], load));
    if (drop)
        bitset_set(it->barred + it->set_start[worker], it->workers[worker].current);
    tell(server, worker, compose(server, worker));
    if (drop || it->workers[worker].current == load)
        steering_set_current(server, time, worker,
                             steering_told_next(server, worker, it->workers[worker].current));
}

/* When somebody rests while copies are still to come, time may make it worth while to help. */
static uint64_t next_tick(const tarry_server *server, uint64_t now)
{
    enum { TICKS_PER_CHUNK = 4, FIRST_LOOKS = 8, MOST_LOOKS = 8192 }; /* within silence_ns */
    const steering *it = server->steering;
    uint64_t silence = server->settings.silence_ns, least = silence / MOST_LOOKS;
    uint64_t wait = it->prior_ns > 0 ? (uint64_t)fmin(it->prior_ns / TICKS_PER_CHUNK, 1e18)
                                     : silence / FIRST_LOOKS;
    return now + 1 + (wait > least ? wait : least);
}

void steering_tell(tarry_server *server, uint64_t now, steering_news *compose)
{
    steering *it = server->steering;
    if (it == NULL || server->phase != SERVER_COMPUTING)
        return;
    double time = steering_time(server, now);
    bool rested = false;
    for (uint32_t i = 0; i < it->dirty_count; i++) {
        uint32_t worker = it->dirty[i];
        if (!member_able(&server->members[worker]) || server->members[worker].stopped)
            continue;
        uint32_t load = server_load(server, worker);
        tell_news(server, time, worker, compose);
        rested = rested || (load > 0 && it->workers[worker].current == load);
    }
    steering_clear_dirty(it);
    if (rested && it->tick_ns == TARRY_NEVER)
        it->tick_ns = next_tick(server, now);
}
