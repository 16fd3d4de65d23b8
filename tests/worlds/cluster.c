/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/cluster.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "worlds/invariants.h"

/*
 * Orders that overtake each other can leave a worker without one, and no rule promises an end then:
 * such worlds end their rounds by ABORT, after this time.
 */
enum { PATIENCE_IN_DISORDER = 6000, MOST_STEPS = 200000, CALM_ROUNDS = 3 };

void cluster_note(cluster *it, const char *format, ...)
{
    if (it->job.trace == NULL)
        return;
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof(line), "%8llu  ", (unsigned long long)it->now);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
    va_end(arguments);
    it->job.trace(it->job.user, line);
}

cluster_item *cluster_add(cluster *it, uint64_t time, item_type type, uint32_t worker)
{
    assert(it->count < MAX_ITEMS);
    cluster_item *added = &it->items[it->count++];
    added->time = time;
    added->sequence = it->sequence++;
    added->type = type;
    added->worker = worker;
    return added;
}

void cluster_remove(cluster *it, size_t index)
{
    it->items[index] = it->items[--it->count];
}

void cluster_disturb(cluster *it, uint64_t until)
{
    if (until > it->disturbed)
        it->disturbed = until;
}

void cluster_calm_down(cluster *it)
{
    static const fault_list none;
    it->calm = true;
    it->rounds += CALM_ROUNDS;
    it->draws.allowed = &none;
    for (size_t i = it->count; i-- > 0;)
        if (it->items[i].type >= ITEM_ABORT)
            cluster_remove(it, i);
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (!cluster_connected(it, worker))
            cluster_come_back(it, worker);
}

static size_t next_item(const cluster *it)
{
    size_t next = 0;
    for (size_t i = 1; i < it->count; i++) {
        const cluster_item *a = &it->items[i], *b = &it->items[next];
        if (a->time < b->time || (a->time == b->time && a->sequence < b->sequence))
            next = i;
    }
    return next;
}

/* A pause never ends sooner than was said before: what waits for its end stays in order. */
static void extend(cluster *it, uint64_t *until, uint64_t time)
{
    *until = time > *until ? time : *until;
    cluster_disturb(it, *until);
}

static void pause_worker(cluster *it, uint32_t worker, random_stream *details)
{
    uint32_t silence = (uint32_t)it->settings.silence_ns;
    uint32_t most = stream_chance(details, 0.5) ? silence / 2 : 3 * silence;
    extend(it, &it->nodes[worker].paused_until, it->now + stream_between(details, 0, most));
    cluster_note(it, "worker %u pauses", worker);
}

static void slow_link(cluster *it, uint32_t worker, random_stream *details)
{
    uint64_t until = it->now + stream_between(details, 0, 3 * (uint32_t)it->settings.silence_ns);
    extend(it, &it->nodes[worker].slow_until, until);
    cluster_disturb(it, until + 10 * (uint64_t)it->delay);
    cluster_note(it, "worker %u has a slow link", worker);
}

static void pause_server(cluster *it, random_stream *details)
{
    uint32_t most = 2 * (uint32_t)it->settings.silence_ns;
    extend(it, &it->server_paused_until, it->now + stream_between(details, 0, most));
    cluster_note(it, "the server pauses");
}

static bool concerns_server(item_type type)
{
    return type == ITEM_COMBINE || type == ITEM_CLEAR || type == ITEM_START || type == ITEM_ABORT ||
           type == ITEM_JOIN || type == ITEM_SAVE || type == ITEM_REPLAN || type == ITEM_LOGGED;
}

static bool concerns_worker(item_type type)
{
    return type == ITEM_COMPUTED || type == ITEM_ENCODED || type == ITEM_TURN ||
           (type >= ITEM_REDUCED && type <= ITEM_STEPPED);
}

/* Puts the item off if who it concerns does nothing now; another machine, until a step is over. */
static bool put_off(cluster *it, cluster_item *due)
{
    uint64_t until = 0;
    const cluster_node *node = &it->nodes[due->worker];
    if (concerns_server(due->type))
        until = it->server_paused_until;
    else if (concerns_worker(due->type))
        until = node->paused_until;
    if ((due->type == ITEM_JOIN || due->type == ITEM_TURN) && node->replica.task == TASK_STEP) {
        uint64_t over =
            node->replica.ends > node->paused_until ? node->replica.ends : node->paused_until;
        until = over + 1 > until ? over + 1 : until;
    }
    if (until <= due->time)
        return false;
    due->time = until;
    return true;
}

/* The same of what is on its way to one that does nothing now. */
static bool put_off_event(const cluster *it, memory_event *due)
{
    uint64_t until = due->to == TRANSPORT_COORDINATOR ? it->server_paused_until
                                                      : it->nodes[due->to].paused_until;
    if (until <= due->time)
        return false;
    due->time = until;
    return true;
}

static void start_round(cluster *it)
{
    cluster_note(it, "round %llu starts", (unsigned long long)it->model.round);
    it->round_start = it->now;
    seen_begin_round(it);
    if (it->reorder_down)
        cluster_add(it, it->now + PATIENCE_IN_DISORDER, ITEM_ABORT, 0)->round = it->rounds_done;
    cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_START}, NULL);
}

static int join(cluster *it, uint32_t worker)
{
    int error = cluster_connect(it, worker);
    if (error != TARRY_OK)
        return error;
    cluster_disturb(it, it->now);
    cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker}, NULL);
    return TARRY_OK;
}

static int strike(cluster *it, cluster_item *due)
{
    cluster_disturb(it, it->now);
    it->counts.planned[it->model.phase]++;
    switch (due->type) {
    case ITEM_ABORT:
        it->aborted = due->round;
        transport_wake(memory_network_end(it->network, TRANSPORT_COORDINATOR));
        cluster_poll(it, TRANSPORT_COORDINATOR);
        break;
    case ITEM_CRASH:
    case ITEM_CRASH_SILENTLY:
        cluster_crash(it, due->worker, due->type == ITEM_CRASH, &due->details);
        break;
    case ITEM_CUT:
    case ITEM_CUT_UNNOTICED:
        cluster_cut(it, due->worker, due->type == ITEM_CUT, &due->details);
        break;
    case ITEM_PAUSE:
        pause_worker(it, due->worker, &due->details);
        break;
    case ITEM_SLOW_LINK:
        slow_link(it, due->worker, &due->details);
        break;
    case ITEM_PAUSE_SERVER:
        pause_server(it, &due->details);
        break;
    case ITEM_PART_WORKERS:
        everywhere_part(it, due->worker, &due->details);
        break;
    default:
        assert(due->type == ITEM_RESTART_SERVER);
        return cluster_restart_server(it, &due->details);
    }
    return TARRY_OK;
}

static int happen(cluster *it, cluster_item *due)
{
    switch (due->type) {
    case ITEM_COMPUTED:
        cluster_computed(it, due);
        break;
    case ITEM_ENCODED:
        cluster_encoded(it, due);
        break;
    case ITEM_CLEAR:
        cluster_clear_estimate(it, due->stripe);
        break;
    case ITEM_COMBINE:
        cluster_combine(it, due);
        break;
    case ITEM_START:
        start_round(it);
        break;
    case ITEM_JOIN:
        return join(it, due->worker);
    case ITEM_SAVE:
        cluster_save(it);
        break;
    case ITEM_REPLAN:
        return cluster_replan(it, due);
    case ITEM_TURN:
        return cluster_turn(it, due);
    case ITEM_REDUCED:
    case ITEM_FETCHED:
    case ITEM_LOADED:
    case ITEM_STEPPED:
        everywhere_task_over(it, due);
        break;
    case ITEM_LOGGED:
        everywhere_logged(it, due);
        break;
    default:
        return strike(it, due);
    }
    return TARRY_OK;
}

/* Judged before anything happens at `time`: nothing did in between. */
static void check_ends(cluster *it, uint64_t time)
{
    uint64_t since = it->disturbed > it->round_start ? it->disturbed : it->round_start;
    if (time == TARRY_NEVER || ++it->counts.steps > MOST_STEPS) {
        invariant_broken(it, "every_run_ends", "round %u does not, after %llu steps",
                         it->rounds_done, (unsigned long long)it->counts.steps);
    } else if (it->model.phase != MODEL_IDLE && !it->reorder_down && time > since) {
        uint64_t part = (time - since) * 1000 / it->bound;
        it->counts.longest = part > it->counts.longest ? part : it->counts.longest;
        if (part >= 1000)
            invariant_broken(it, "rounds_end_in_time", "round %u lasts longer than %llu",
                             it->rounds_done, (unsigned long long)it->bound);
    } else if (it->rounds_done >= it->rounds && time > it->rest + it->bound) {
        invariant_broken(it, "everyone_gets_the_last_state", "not within %llu of the last round",
                         (unsigned long long)it->bound);
    }
}

/* Whether its rounds are done, and what has to follow them is. */
static bool is_done(const cluster *it)
{
    return it->rounds_done >= it->rounds &&
           (!it->job.settles || it->over || everywhere_is_settled(it));
}

static int run_until_done(cluster *it)
{
    int error = TARRY_OK;
    while (error == TARRY_OK && it->broken == NULL && !is_done(it)) {
        uint64_t look = tarry_server_deadline(it->server);
        if (look != TARRY_NEVER && look < it->server_paused_until)
            look = it->server_paused_until;
        size_t next = next_item(it);
        const cluster_item *item = it->count > 0 ? &it->items[next] : NULL;
        memory_event *event = memory_network_next(it->network);
        if (event != NULL && item != NULL &&
            (item->time < event->time ||
             (item->time == event->time && item->sequence < event->order)))
            event = NULL;
        uint64_t time = event != NULL ? event->time : item != NULL ? item->time : TARRY_NEVER;
        check_ends(it, look < time ? look : time);
        invariants_of_time(it, look < time ? look : time);
        if (it->broken != NULL)
            break;
        if (look < time) {
            it->now = look;
            cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_TIME}, NULL);
        } else if (event != NULL) {
            if (put_off_event(it, event))
                continue;
            it->now = time;
            cluster_poll(it, event->to);
        } else if (!put_off(it, &it->items[next])) {
            it->now = time;
            cluster_item due = it->items[next];
            cluster_remove(it, next);
            error = happen(it, &due);
        }
        if (it->job.watch != NULL && it->broken == NULL && error == TARRY_OK)
            it->job.watch(it->job.user, it);
    }
    return error;
}

int cluster_create(const tarry_allocator *allocator, cluster **out)
{
    cluster *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    const memory_rules rules = {
        .user = made,
        .carry = cluster_carry,
        .notice = cluster_notice,
        .clock = &made->now,
        .order = &made->sequence,
        .workers = MAX_WORKERS,
        .most_head = FRAME_BYTES,
        .most_body = sizeof(cargo),
        .most_events = MAX_ITEMS,
    };
    int error = memory_network_create(&rules, allocator, &made->network);
    if (error != TARRY_OK) {
        cluster_free(made);
        return error;
    }
    *out = made;
    return TARRY_OK;
}

void cluster_free(cluster *it)
{
    if (it == NULL)
        return;
    tarry_allocator allocator = it->allocator;
    cluster_free_plans(it);
    memory_network_free(it->network);
    memory_release(&allocator, it);
}

int cluster_run(cluster *it, const cluster_job *job)
{
    size_t first = offsetof(cluster, job), past = offsetof(cluster, items);
    memset((char *)it + first, 0, past - first);
    it->job = *job;
    it->idle_since = TARRY_NEVER;
    memory_network_reset(it->network, MAX_WORKERS);
    draws_init(&it->draws, job->seed, job->run, job->allowed);
    int error = cluster_set_up(it);
    if (error == TARRY_OK)
        error = run_until_done(it);
    for (uint32_t worker = 0; worker < it->workers; worker++)
        tarry_worker_free(it->nodes[worker].machine);
    tarry_server_free(it->server);
    seen_end(it);
    secure_end(it);
    return error;
}

void world_counts_add(world_counts *all, const cluster *world)
{
    uint64_t *sums = (uint64_t *)all, longest = all->longest;
    const uint64_t *counts = (const uint64_t *)&world->counts;
    for (size_t i = 0; i < sizeof(*all) / sizeof(*sums); i++)
        sums[i] += counts[i];
    all->worlds++;
    all->faults += world->draws.struck.count;
    all->rounds += world->rounds_done;
    all->longest = longest > world->counts.longest ? longest : world->counts.longest;
}
