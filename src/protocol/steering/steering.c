/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/steering/steering.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/server.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "coding/coefficients.h"
#include "protocol/order.h"
#include "protocol/server/server_state.h"
#include "protocol/steering/pace.h"

/* ---- chunk costs ---- */

/* A mean stands for at most so many samples, so that costs may change; one sample is at most so
 * many times the mean; squares of so many rounds count. */
#define MOST_WEIGHT 8.0
#define MOST_RATIO 32.0
#define ROUNDS_KEPT 8.0
#define LEAST_LEARNED 0.05

int chunk_costs_create(chunk_costs *costs, uint32_t chunks, const tarry_allocator *allocator)
{
    *costs = (chunk_costs){.chunks = chunks};
    costs->samples = memory_allocate(allocator, chunks, sizeof(*costs->samples));
    return costs->samples != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void chunk_costs_destroy(chunk_costs *costs, const tarry_allocator *allocator)
{
    memory_release(allocator, costs->samples);
}

void chunk_costs_add(chunk_costs *costs, uint32_t chunk, double ratio)
{
    chunk_sample *of = &costs->samples[chunk];
    ratio = fmin(ratio, MOST_RATIO);
    double difference = ratio - of->mean;
    if (of->weight > 0) {
        /* A difference from the mean of n samples has the variance s^2 (1 + 1/n). */
        costs->squares += difference * difference * of->weight / (of->weight + 1);
        costs->differences += 1;
    }
    of->weight = fmin(of->weight + 1, MOST_WEIGHT);
    of->mean += difference / of->weight;
}

void chunk_costs_settle(chunk_costs *costs, double *out)
{
    double count = 0, sum = 0, square = 0, inverse = 0;
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++) {
        const chunk_sample *of = &costs->samples[chunk];
        out[chunk] = 1;
        if (!(of->weight > 0))
            continue;
        count++;
        sum += of->mean;
        square += of->mean * of->mean;
        inverse += 1 / of->weight;
    }
    /* Without any chunk seen twice nothing is known of the noise. */
    if (!(costs->differences >= 1) || !(sum > 0))
        return;
    double mean = sum / count, within = costs->squares / costs->differences;
    double between = fmax(square / count - mean * mean - within * inverse / count, 0);
    double total = 0;
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++) {
        const chunk_sample *of = &costs->samples[chunk];
        if (of->weight > 0 && between > 0) {
            double trust = between / (between + within / of->weight);
            out[chunk] = fmax(1 + trust * (of->mean / mean - 1), LEAST_LEARNED);
        }
        total += out[chunk];
    }
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++)
        out[chunk] *= costs->chunks / total;
    costs->squares *= 1 - 1 / ROUNDS_KEPT;
    costs->differences *= 1 - 1 / ROUNDS_KEPT;
}

/* Costs of which nothing is known yet, of the chunks of `plan`, go on from what `from` knows of
 * those of `before`: parts share what is known of their chunk. Errors: NO_MEMORY; nothing changes
 * then. */
static int chunk_costs_carry(chunk_costs *costs, const tarry_plan *plan, const chunk_costs *from,
                             const tarry_plan *before, const tarry_allocator *allocator)
{
    double *known = memory_allocate(allocator, from->chunks, sizeof(*known));
    double *mean = memory_allocate(allocator, costs->chunks, sizeof(*mean));
    double *weight = memory_allocate(allocator, costs->chunks, sizeof(*weight));
    int error = TARRY_ERROR_NO_MEMORY;
    if (known == NULL || mean == NULL || weight == NULL)
        goto release;
    for (uint32_t chunk = 0; chunk < from->chunks; chunk++)
        known[chunk] = from->samples[chunk].weight > 0 ? from->samples[chunk].mean : 1;
    error = tarry_plan_carry_cost(before, known, plan, allocator, mean);
    for (uint32_t chunk = 0; chunk < from->chunks; chunk++)
        known[chunk] = from->samples[chunk].weight;
    if (error == TARRY_OK)
        error = tarry_plan_carry_cost(before, known, plan, allocator, weight);
    if (error != TARRY_OK)
        goto release;
    /* The mean chunk, in which costs are told, is another one now. */
    double grown = (double)costs->chunks / from->chunks;
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++)
        costs->samples[chunk] =
            (chunk_sample){.mean = mean[chunk] * grown, .weight = fmin(weight[chunk], MOST_WEIGHT)};
    costs->squares = from->squares * grown * grown;
    costs->differences = from->differences;

release:
    memory_release(allocator, weight);
    memory_release(allocator, mean);
    memory_release(allocator, known);
    return error;
}

/* Both of what these are made of, in one look. */
typedef struct steering_outlook {
    double pace_ns; /* steering_pace */
    double rest_ns; /* steering_rest_ns */
} steering_outlook;

static inline bool steering_is_planned(const steering *it, uint32_t worker, uint32_t slot)
{
    return bitset_test(it->plans + it->set_start[worker], slot);
}

/* ---- what is known ---- */

/* The chunk at `slot` of the worker's order. */
static uint32_t steering_chunk(const tarry_server *server, uint32_t worker, uint32_t slot)
{
    return server->plan->slot_chunk[server->plan->worker_offset[worker] + slot];
}

static double steering_time(const tarry_server *server, uint64_t now)
{
    return (double)(now - server->result.start_ns);
}

/* The ns per cost that `worker` is expected to take, 1 if nothing is known of anybody. */
static double steering_pace(const tarry_server *server, uint32_t worker, double time)
{
    const steering *it = server->steering;
    const steering_worker *of = &it->workers[worker];
    double busy = 0, elapsed = 0;
    if (of->current < server_load(server, worker)) {
        busy = it->cost[steering_chunk(server, worker, of->current)];
        elapsed = time - of->since_ns;
    }
    double per_cost_ns = pace_of(&of->pace, it->prior_ns, busy, elapsed);
    return per_cost_ns > 0 ? per_cost_ns : 1;
}

static steering_outlook steering_look(const tarry_server *server, uint32_t worker, double time)
{
    const double least = 0.05; /* of its time: one that should be done may be any moment */
    const steering *it = server->steering;
    const steering_worker *of = &it->workers[worker];
    steering_outlook look = {.pace_ns = steering_pace(server, worker, time)};
    if (of->current == server_load(server, worker))
        return look;
    double cost = it->cost[steering_chunk(server, worker, of->current)];
    double whole = look.pace_ns * cost;
    double elapsed = it->prior_ns > 0 ? time - of->since_ns : 0;
    bool known = of->pace.past > 0 || of->pace.cost > 0;
    double overdue = elapsed - (known ? cost * pace_of(&of->pace, it->prior_ns, 0, 0) : 0);
    look.rest_ns = fmax(fmax(whole - elapsed, least * whole), overdue);
    return look;
}

/*
 * How long it should still be at its chunk in progress, and until all planned for it is done. One
 * that is overdue may take as long again as it is overdue (so that help comes once waiting has cost
 * as much as help costs); one that has never finished anything, as long as it has been at it.
 */
static double steering_rest_ns(const tarry_server *server, uint32_t worker, double time)
{
    return steering_look(server, worker, time).rest_ns;
}

static double steering_end_ns(const tarry_server *server, uint32_t worker, double time)
{
    const steering_worker *of = &server->steering->workers[worker];
    steering_outlook look = steering_look(server, worker, time);
    return look.rest_ns + of->queue * look.pace_ns;
}

/* The copies that count. */
static const coverage *steering_credited(const tarry_server *server)
{
    const coverage *supposed = server->steering->supposed;
    return supposed != NULL ? supposed : server->credited;
}

uint32_t steering_wanted(const tarry_server *server, uint32_t chunk)
{
    const coverage *credited = steering_credited(server);
    uint32_t parts = server->plan->parts;
    if (coverage_rank(credited, chunk) >= parts)
        return 0;
    uint32_t copies = coverage_copies(credited, chunk);
    return copies < parts ? parts - copies : 1; /* one more where those don't span the parts */
}

uint32_t steering_missing(const tarry_server *server, uint32_t chunk)
{
    uint32_t wanted = steering_wanted(server, chunk);
    uint32_t coming = server->steering->computing[chunk] + server->steering->planned[chunk];
    return wanted > coming ? wanted - coming : 0;
}

/* Whether `worker` takes part, has not closed the position, is not at it, and it isn't planned. */
static bool steering_is_free(const tarry_server *server, uint32_t worker, uint32_t slot)
{
    const steering *it = server->steering;
    size_t bit = it->set_start[worker] * 64 + slot;
    const server_member *member = &server->members[worker];
    /* In another attempt the overdue would not compute. */
    bool computes = member_able(member) && (it->supposed == NULL || !member->overdue);
    return computes && !bitset_test(it->closed, bit) && !bitset_test(it->plans, bit) &&
           it->workers[worker].current != slot;
}

/* ---- the books ---- */

/* The worker may have to be told something. */
static void steering_mark_dirty(tarry_server *server, uint32_t worker)
{
    steering *it = server->steering;
    if (it->workers[worker].dirty)
        return;
    it->workers[worker].dirty = true;
    it->dirty[it->dirty_count++] = worker;
}

static void steering_plan(tarry_server *server, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    uint32_t chunk = steering_chunk(server, worker, slot);
    bitset_set(it->plans + it->set_start[worker], slot);
    it->planned[chunk]++;
    it->workers[worker].queue += it->cost[chunk];
}

static void steering_unplan(tarry_server *server, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    uint32_t chunk = steering_chunk(server, worker, slot);
    bitset_reset(it->plans + it->set_start[worker], slot);
    it->planned[chunk]--;
    it->workers[worker].queue = fmax(it->workers[worker].queue - it->cost[chunk], 0);
}

/* All have been told. */
static void steering_clear_dirty(steering *it)
{
    while (it->dirty_count > 0)
        it->workers[it->dirty[--it->dirty_count]].dirty = false;
}

static void steering_unplan_worker(tarry_server *server, uint32_t worker)
{
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++)
        if (steering_is_planned(server->steering, worker, slot))
            steering_unplan(server, worker, slot);
}

static void steering_unplan_all(tarry_server *server)
{
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        steering_unplan_worker(server, worker);
}

/* What the worker turns to after `current` (its load: at once) by what it was told last. */
static uint32_t steering_told_next(const tarry_server *server, uint32_t worker, uint32_t current)
{
    steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    size_t words = it->set_start[worker];
    if (current < load)
        bitset_set(it->closed + words, current);
    uint32_t next = order_next(&(order_sets){
        .load = load,
        .done = it->closed + words,
        .failed = it->closed + words,
        .first = it->first + words,
        .barred = it->barred + words,
    });
    if (current < load)
        bitset_reset(it->closed + words, current);
    return next;
}

/* What the steering learns: how fast workers are, and what chunks cost. */

/* Of a chunk, relative to the mean: one that costs nothing must be computed all the same. */
#define LEAST_COST 1e-3

/* The dearest first; equal ones as they are numbered. Heapsort, since a comparison needs the costs.
 */
static void sift(const double *cost, uint32_t *chunks, uint32_t root, uint32_t count)
{
    for (;;) {
        uint32_t least = root;
        for (uint32_t child = 2 * root + 1; child <= 2 * root + 2 && child < count; child++) {
            uint32_t a = chunks[child], b = chunks[least];
            if (cost[a] < cost[b] || (cost[a] == cost[b] && a > b))
                least = child;
        }
        if (least == root)
            return;
        uint32_t chunk = chunks[root];
        chunks[root] = chunks[least];
        chunks[least] = chunk;
        root = least;
    }
}

/* The first `count` numbers that `order` is to have, those of the largest values first; of equal
 * ones the lower first. */
static void steering_sort(const double *values, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t root = count / 2; root-- > 0;)
        sift(values, order, root, count);
    for (uint32_t last = count; last-- > 1;) {
        uint32_t top = order[0];
        order[0] = order[last];
        order[last] = top;
        sift(values, order, 0, last);
    }
}

static void sort_by_cost(steering *it, uint32_t count)
{
    steering_sort(it->cost, it->by_cost, count);
}

int tarry_server_costs(tarry_server *server, const double *costs)
{
    if (server->phase != SERVER_IDLE)
        return TARRY_ERROR_STATE;
    uint32_t chunks = server->plan->chunks;
    double sum = 0;
    for (uint32_t chunk = 0; chunk < chunks && costs != NULL; chunk++) {
        if (!(costs[chunk] >= 0 && isfinite(costs[chunk])))
            return TARRY_ERROR_ARGUMENT;
        sum += costs[chunk];
    }
    steering *it = server->steering;
    if (it == NULL)
        return TARRY_OK;
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        it->cost[chunk] = sum > 0 ? fmax(costs[chunk] / (sum / chunks), LEAST_COST) : 1;
    it->given = costs != NULL;
    sort_by_cost(it, chunks);
    return TARRY_OK;
}

int steering_adopt(tarry_server *server, const tarry_server *from)
{
    steering *it = server->steering;
    const steering *other = from->steering;
    if (it == NULL || other == NULL)
        return TARRY_OK;
    int error =
        tarry_plan_carry_cost(from->plan, other->cost, server->plan, &server->allocator, it->cost);
    if (error == TARRY_OK)
        error = chunk_costs_carry(&it->learned, server->plan, &other->learned, from->plan,
                                  &server->allocator);
    if (error != TARRY_OK) {
        for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
            it->cost[chunk] = 1;
        return error;
    }
    it->given = other->given;
    /* Paces and costs are in units of the mean chunk, which is another one now. */
    double grown = (double)server->plan->chunks / from->plan->chunks;
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        it->cost[chunk] *= grown;
    sort_by_cost(it, server->plan->chunks);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        it->workers[worker].pace.past = other->workers[worker].pace.past / grown;
    it->prior_ns = other->prior_ns / grown;
    return TARRY_OK;
}

double tarry_server_pace_ns(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    const pace *of = server->steering != NULL ? &server->steering->workers[worker].pace
                                              : &server->members[worker].pace;
    return pace_of(of, 0, 0, 0);
}

double tarry_server_chunk_cost(const tarry_server *server, uint32_t chunk)
{
    assert(chunk < server->plan->chunks);
    return server->steering != NULL ? server->steering->cost[chunk] : 1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Works out the median pace; a worker that has never finished anything takes at least as long as it
 * has been at its chunk. */
static void learn_prior(tarry_server *server, double time)
{
    steering *it = server->steering;
    uint32_t count = 0, known = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const steering_worker *of = &it->workers[worker];
        if (!member_able(&server->members[worker]))
            continue;
        double per_cost_ns = pace_of(&of->pace, 0, 0, 0);
        known += per_cost_ns > 0;
        if (!(per_cost_ns > 0) && of->current < server_load(server, worker))
            per_cost_ns =
                (time - of->since_ns) / it->cost[steering_chunk(server, worker, of->current)];
        it->values[count++] = per_cost_ns;
    }
    it->updates_seen = 0;
    if (known == 0)
        return;
    qsort(it->values, count, sizeof(double), compare);
    it->prior_ns = fmax(it->values[count / 2], 1);
}

/* A chunk that took `ns` says something of its worker's pace, and with that of its own cost. */
static void learn_time(tarry_server *server, uint32_t worker, uint32_t chunk, double ns)
{
    steering *it = server->steering;
    pace *of = &it->workers[worker].pace;
    double expected = pace_of(of, it->prior_ns, 0, 0);
    if (expected > 0)
        chunk_costs_add(&it->learned, chunk, ns / expected);
    pace_add(of, it->cost[chunk], ns, expected);
}

/* `worker` leaves its chunk in progress without having finished it, nor any other in this round: it
 * takes at least as long as it has been at it. Not while no pace is known: all others would seem to
 * be quicker than it. */
static void learn_unfinished(tarry_server *server, uint32_t worker, double time)
{
    pace *of = &server->steering->workers[worker].pace;
    double known = pace_of(of, server->steering->prior_ns, 0, 0);
    if (!(known > 0) || of->cost > 0)
        return;
    double per_cost_ns = steering_pace(server, worker, time);
    if (per_cost_ns > known)
        of->past = per_cost_ns;
}

/* The same of one that is stopped, as all are: whatever is known. */
static void learn_least(tarry_server *server, uint32_t worker, double time)
{
    const steering *it = server->steering;
    const steering_worker *who = &it->workers[worker];
    pace *of = &it->workers[worker].pace;
    double cost = it->cost[steering_chunk(server, worker, who->current)];
    if (!(of->cost > 0))
        of->past = fmax(of->past, (time - who->since_ns) / cost);
}

/* steering.c. What was learned so far holds for a round that begins; what it showed is kept.
 */
static void learn_begin_round(tarry_server *server)
{
    steering *it = server->steering;
    if (it->prior_ns > 0)
        learn_prior(server, 0);
    if (!it->given && server->settings.learn_costs) {
        chunk_costs_settle(&it->learned, it->cost);
        sort_by_cost(it, server->plan->chunks);
    }
}

static void learn_end_round(tarry_server *server)
{
    const steering *it = server->steering;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        pace *of = &it->workers[worker].pace;
        if (of->cost > 0)
            pace_end_round(of, pace_of(of, it->prior_ns, 0, 0));
    }
}

/* ---- suit ---- */

/*
 * A set of columns whose least singular value is 1/30 of theirs loses about one and a half of the
 * seven digits of float32. The server takes copies up to its own limit all the same: this one
 * decides only who is asked.
 */
#define GOOD_CONDITIONING 30.0

static int suit_create(tarry_server *server)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    if (plan->parts == 1 || server->settings.conditioning_limit <= GOOD_CONDITIONING)
        return TARRY_OK;
    it->suit_set = memory_allocate(&server->allocator, bitset_words(plan->max_replication),
                                   sizeof(*it->suit_set));
    if (it->suit_set == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return coefficients_create(plan, GOOD_CONDITIONING, &server->allocator, &it->suit);
}

static void suit_destroy(tarry_server *server)
{
    coefficients_free(server->steering->suit);
    memory_release(&server->allocator, server->steering->suit_set);
}

/* Whether the holder has a copy that counts, is at one, or is to make one. */
static bool is_coming(const tarry_server *server, uint32_t holder)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    uint32_t worker = plan->holder_worker[holder], slot = plan->holder_position[holder];
    return it->workers[worker].current == slot || steering_is_planned(it, worker, slot) ||
           coverage_has(steering_credited(server), worker, slot);
}

/*
 * Whether the copies of `chunk` that are there or coming would span the parts well, if the holder
 * `joins` made one too and the holder `leaves` none (indices among all holders, as in the plan's
 * chunk_offset; UINT32_MAX: nobody). True where there are fewer than parts, and with one part.
 */
static bool steering_suits(const tarry_server *server, uint32_t chunk, uint32_t joins,
                           uint32_t leaves)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    uint32_t parts = plan->parts, count = 0;
    if (it->suit == NULL)
        return true;
    uint32_t first = plan->chunk_offset[chunk], past = plan->chunk_offset[chunk + 1];
    for (uint32_t holder = first; holder < past; holder++) {
        bool in = holder == joins || (holder != leaves && is_coming(server, holder));
        bitset_put(it->suit_set, holder - first, in);
        count += in;
    }
    uint32_t rank;
    return count < parts ||
           coefficients_rank(it->suit, chunk, it->suit_set, 0, &rank) != TARRY_OK || rank == parts;
}

/*
 * Shares: every chunk is planned at as many workers as copies are wanted, such that the worker that
 * ends last ends as soon as possible. That is load balancing on related machines with restricted
 * assignment; finding the best is NP-hard for uneven chunks and a maximum flow for even ones.
 *
 * At the start of a round: greedily, the dearest chunk first, each to the holder that would end it
 * soonest; then by augmenting ways: a worker passes a chunk on, whose new holder passes on another,
 * and so on, until one takes it that still ends before the first one did. For even chunks of
 * workers of one speed this is the augmenting-path algorithm for the flow, and ends at the optimum.
 *
 * During the round single chunks pass between a worker that reports and its neighbours, the other
 * holders of its chunks (diffusion): the graph of holders is an expander, so that shares level out
 * in a few steps. Where neighbours have as much as the worker itself they do not help it, and of
 * many workers some end a chunk later for it: from time to time ways are sought again.
 */

#define NOBODY UINT32_MAX

static uint32_t chunk_of_edge(const tarry_server *server, uint32_t edge)
{
    return server->plan->slot_chunk[edge];
}

/* As an index among all holders. */
static uint32_t holder_of_edge(const tarry_server *server, uint32_t edge)
{
    return server->plan->chunk_offset[server->plan->slot_chunk[edge]] +
           server->plan->slot_holder[edge];
}

/* When the worker, of which `look` tells, would have finished one more chunk. */
static double end_after(const tarry_server *server, const steering_outlook *look, uint32_t worker,
                        uint32_t chunk)
{
    const steering *it = server->steering;
    return look->rest_ns + (it->workers[worker].queue + it->cost[chunk]) * look->pace_ns;
}

static double end_with(const tarry_server *server, double time, uint32_t worker, uint32_t chunk)
{
    steering_outlook look = steering_look(server, worker, time);
    return end_after(server, &look, worker, chunk);
}

/*
 * The free holder that would finish the chunk soonest, of those whose copies would go well with the
 * others' if the holder `leaves` made none; its index among the holders, or NOBODY.
 */
static uint32_t soonest(const tarry_server *server, double time, uint32_t chunk, uint32_t leaves,
                        double *end)
{
    const tarry_plan *plan = server->plan;
    uint32_t best = NOBODY;
    *end = INFINITY;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t worker = plan->holder_worker[holder];
        if (!steering_is_free(server, worker, plan->holder_position[holder]))
            continue;
        double found = end_with(server, time, worker, chunk);
        if (found < *end && steering_suits(server, chunk, holder, leaves)) {
            *end = found;
            best = holder;
        }
    }
    return best;
}

/* The first free holder, suitable or not; NOBODY if there is none. */
static uint32_t any_free(const tarry_server *server, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++)
        if (steering_is_free(server, plan->holder_worker[holder], plan->holder_position[holder]))
            return holder;
    return NOBODY;
}

/* Plans copies of `chunk` that are missing. */
static void share_cover(tarry_server *server, double time, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    while (steering_missing(server, chunk) > 0) {
        double end;
        uint32_t holder = soonest(server, time, chunk, NOBODY, &end);
        if (holder == NOBODY)
            holder = any_free(server, chunk);
        if (holder == NOBODY)
            return;
        steering_plan(server, plan->holder_worker[holder], plan->holder_position[holder]);
        steering_mark_dirty(server, plan->holder_worker[holder]);
    }
}

uint64_t steering_repeat_ns(tarry_server *server, uint64_t now, const coverage *credited)
{
    server->steering->supposed = credited;
    double time = steering_time(server, now), longest = 0;
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        share_cover(server, time, chunk);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        longest = fmax(longest, steering_end_ns(server, worker, time));
    steering_unplan_all(server);
    server->steering->supposed = NULL;
    return (uint64_t)fmin(longest, 1e18);
}

/* ---- during the round ---- */

/* From whom a copy of the chunk could be taken over, and when it would end there. `from` is NOBODY
 * if copies are missing, which end never; or if all that is wanted is in progress already: then
 * another copy would be a duplicate. */
typedef struct offer {
    uint32_t from; /* index among the holders */
    double end_ns;
} offer;

/* When the last of the wanted copies that are in progress should be there. */
static double in_progress_end(const tarry_server *server, double time, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    uint32_t wanted = steering_wanted(server, chunk);
    double end = 0;
    /* The wanted-th smallest: counted for each, since holders are few. */
    for (uint32_t a = plan->chunk_offset[chunk]; a < plan->chunk_offset[chunk + 1]; a++) {
        uint32_t worker = plan->holder_worker[a];
        if (server->steering->workers[worker].current != plan->holder_position[a])
            continue;
        double rest = steering_rest_ns(server, worker, time);
        uint32_t before = 0;
        for (uint32_t b = plan->chunk_offset[chunk]; b < plan->chunk_offset[chunk + 1]; b++) {
            uint32_t other = plan->holder_worker[b];
            before += other != worker &&
                      server->steering->workers[other].current == plan->holder_position[b] &&
                      steering_rest_ns(server, other, time) < rest;
        }
        if (before < wanted)
            end = fmax(end, rest);
    }
    return end;
}

/* To a worker at which it is not planned. */
static offer best_offer(const tarry_server *server, double time, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    offer best = {NOBODY, 0};
    uint32_t left = it->planned[chunk];
    if (steering_missing(server, chunk) > 0)
        return (offer){NOBODY, INFINITY};
    if (left == 0)
        return (offer){NOBODY, in_progress_end(server, time, chunk)};
    for (uint32_t holder = plan->chunk_offset[chunk]; left > 0; holder++) {
        uint32_t worker = plan->holder_worker[holder];
        if (!steering_is_planned(it, worker, plan->holder_position[holder]))
            continue;
        left--;
        double end = steering_end_ns(server, worker, time);
        if (end > best.end_ns)
            best = (offer){holder, end};
    }
    return best;
}

/* Takes over the chunk that would end last elsewhere, if it would end sooner here. */
static bool take_one(tarry_server *server, double time, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    steering_outlook look = steering_look(server, worker, time);
    offer best = {NOBODY, 0};
    uint32_t slot = load;
    for (uint32_t each = 0; each < load; each++) {
        uint32_t chunk = chunk_of_edge(server, first + each);
        if (!steering_is_free(server, worker, each) || steering_wanted(server, chunk) == 0)
            continue;
        offer found = best_offer(server, time, chunk);
        if (found.end_ns > best.end_ns && found.end_ns > end_after(server, &look, worker, chunk) &&
            (isinf(found.end_ns) ||
             steering_suits(server, chunk, holder_of_edge(server, first + each), found.from))) {
            best = found;
            slot = each;
        }
    }
    if (slot == load)
        return false;
    if (best.from != NOBODY) {
        uint32_t from = plan->holder_worker[best.from];
        steering_unplan(server, from, plan->holder_position[best.from]);
        steering_mark_dirty(server, from);
    }
    steering_plan(server, worker, slot);
    return true;
}

/* Passes a planned chunk on to where it ends soonest, if that is sooner than all ends here. */
static bool give_one(tarry_server *server, double time, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    double best = steering_end_ns(server, worker, time);
    uint32_t to = NOBODY, slot = load;
    for (uint32_t each = 0; each < load; each++) {
        if (!steering_is_planned(it, worker, each))
            continue;
        double end;
        uint32_t holder = soonest(server, time, chunk_of_edge(server, first + each),
                                  holder_of_edge(server, first + each), &end);
        if (holder != NOBODY && end < best) {
            best = end;
            to = holder;
            slot = each;
        }
    }
    if (to == NOBODY)
        return false;
    steering_unplan(server, worker, slot);
    steering_plan(server, plan->holder_worker[to], plan->holder_position[to]);
    steering_mark_dirty(server, plan->holder_worker[to]);
    return true;
}

/* `worker` takes over what it would end sooner than others, and passes on what others would. */
static void share_balance(tarry_server *server, double time, uint32_t worker)
{
    if (!member_able(&server->members[worker]))
        return;
    uint32_t load = server_load(server, worker);
    for (uint32_t i = 0; i < load && take_one(server, time, worker); i++)
        ;
    for (uint32_t i = 0; i < load && give_one(server, time, worker); i++)
        ;
}

/* ---- at its start, and from time to time ---- */

/*
 * A search for ways. Whoever a search in vain has reached stays marked until the pass is over:
 * nobody there takes a chunk and ends before the worker that was to be relieved, and still less
 * before those that end sooner and are looked at after it. So all searches in vain of a pass
 * together look at each worker once.
 */
typedef struct search {
    double level; /* when the worker ends whose share is too long */
    uint32_t head, tail;
} search;

static void reach(steering *it, search *of, uint32_t worker, uint32_t from, uint32_t edge)
{
    it->way_from[worker] = from;
    it->way_edge[worker] = edge;
    it->way_queue[of->tail++] = worker;
}

/* Looks from `worker`, reached by a chunk of cost `gained`, one step on; gives back the worker at
 * which a way ends, or NOBODY. */
static uint32_t look_from(tarry_server *server, double time, search *of, uint32_t worker,
                          double gained)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    uint32_t first = plan->worker_offset[worker], load = server_load(server, worker);
    double end = steering_end_ns(server, worker, time),
           per_cost_ns = steering_pace(server, worker, time);
    for (uint32_t slot = 0; slot < load; slot++) {
        uint32_t chunk = chunk_of_edge(server, first + slot);
        if (!steering_is_planned(it, worker, slot) ||
            (gained > 0 && end + (gained - it->cost[chunk]) * per_cost_ns >= of->level))
            continue;
        for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
             holder++) {
            uint32_t next = plan->holder_worker[holder];
            if (it->way_from[next] != NOBODY ||
                !steering_is_free(server, next, plan->holder_position[holder]) ||
                !steering_suits(server, chunk, holder, holder_of_edge(server, first + slot)))
                continue;
            reach(it, of, next, worker, first + slot);
            if (end_with(server, time, next, chunk) < of->level)
                return next;
        }
    }
    return NOBODY;
}

/* Passes a chunk on at each step of the way to `end`. */
static void follow_way(tarry_server *server, uint32_t worker, uint32_t end)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    for (uint32_t to = end; to != worker; to = it->way_from[to]) {
        uint32_t from = it->way_from[to], edge = it->way_edge[to];
        uint32_t chunk = chunk_of_edge(server, edge), holder = plan->chunk_offset[chunk];
        while (plan->holder_worker[holder] != to)
            holder++;
        steering_unplan(server, from, edge - plan->worker_offset[from]);
        steering_plan(server, to, plan->holder_position[holder]);
        steering_mark_dirty(server, from);
        steering_mark_dirty(server, to);
    }
}

/* Makes the share of `worker` shorter by one chunk, if there is a way by which all on it end before
 * `level`. */
static bool relieve(tarry_server *server, double time, search *of, uint32_t worker, double level)
{
    steering *it = server->steering;
    uint32_t begin = of->tail;
    of->level = level;
    if (it->way_from[worker] == NOBODY)
        reach(it, of, worker, worker, 0);
    of->head = of->tail;
    uint32_t end = look_from(server, time, of, worker, 0);
    while (end == NOBODY && of->head < of->tail) {
        uint32_t from = it->way_queue[of->head++];
        end =
            look_from(server, time, of, from, it->cost[chunk_of_edge(server, it->way_edge[from])]);
    }
    if (end == NOBODY)
        return false;
    follow_way(server, worker, end);
    while (of->tail > begin)
        it->way_from[it->way_queue[--of->tail]] = NOBODY;
    return true;
}

/* When the first worker would end that took another chunk of mean cost. */
static double least_end(const tarry_server *server, double time)
{
    double least = INFINITY;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        if (member_able(&server->members[worker]))
            least = fmin(least, steering_end_ns(server, worker, time) +
                                    steering_pace(server, worker, time));
    return least;
}

/* All that end later than somebody could who took a chunk from them, the last first; whether any
 * share is shorter now. */
static bool relieve_once(tarry_server *server, double time, double gain)
{
    steering *it = server->steering;
    uint32_t count = 0;
    double least = least_end(server, time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        it->way_from[worker] = NOBODY;
        double end =
            member_able(&server->members[worker]) ? steering_end_ns(server, worker, time) : 0;
        it->values[worker] = end > least && it->workers[worker].queue > 0 ? end : 0;
        count += it->values[worker] > 0;
    }
    if (count == 0)
        return false;
    steering_sort(it->values, it->by_end, server->plan->workers);
    bool changed = false;
    search of = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t worker = it->by_end[i];
        for (;;) {
            double end = steering_end_ns(server, worker, time);
            double level = end * (1 - 1e-9) - gain * steering_pace(server, worker, time);
            if (end <= least || !relieve(server, time, &of, worker, level))
                break;
            changed = true;
        }
    }
    return changed;
}

/* Shares that are too long pass chunks on along ways of any length. Looks at all workers: from time
 * to time. */
static void share_relieve(tarry_server *server, double time)
{
    const double gain = 0.25; /* of a chunk: less is not worth a message */
    relieve_once(server, time, gain);
}

void share_all(tarry_server *server, double time)
{
    enum { MOST_PASSES = 16 };
    for (uint32_t i = 0; i < server->plan->chunks; i++)
        share_cover(server, time, server->steering->by_cost[i]);
    for (int pass = 0; pass < MOST_PASSES && relieve_once(server, time, 0); pass++)
        ;
}

/* ---- creation ---- */

static int allocate_sets(tarry_server *server, steering *made)
{
    const tarry_allocator *allocator = &server->allocator;
    uint32_t workers = server->plan->workers;
    made->set_start = memory_allocate(allocator, (size_t)workers + 1, sizeof(*made->set_start));
    if (made->set_start == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++)
        made->set_start[worker + 1] =
            made->set_start[worker] + bitset_words(server_load(server, worker));
    made->closed = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->plans = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->first = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->barred = memory_allocate(allocator, made->set_start[workers], sizeof(uint64_t));
    made->addressed = memory_allocate(allocator, 4 * made->set_start[workers], sizeof(uint64_t));
    if (made->closed == NULL || made->plans == NULL || made->first == NULL ||
        made->barred == NULL || made->addressed == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return TARRY_OK;
}

int steering_create(tarry_server *server)
{
    if (server->settings.pick == TARRY_PICK_PLAN)
        return TARRY_OK;
    const tarry_allocator *allocator = &server->allocator;
    uint32_t workers = server->plan->workers, chunks = server->plan->chunks;
    steering *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    server->steering = made;
    made->tick_ns = TARRY_NEVER;
    made->workers = memory_allocate(allocator, workers, sizeof(*made->workers));
    made->cost = memory_allocate(allocator, chunks, sizeof(*made->cost));
    made->by_cost = memory_allocate(allocator, chunks, sizeof(*made->by_cost));
    made->by_end = memory_allocate(allocator, workers, sizeof(*made->by_end));
    made->planned = memory_allocate(allocator, chunks, sizeof(*made->planned));
    made->computing = memory_allocate(allocator, chunks, sizeof(*made->computing));
    made->dirty = memory_allocate(allocator, workers, sizeof(*made->dirty));
    made->values = memory_allocate(allocator, workers, sizeof(*made->values));
    made->way_queue = memory_allocate(allocator, workers, sizeof(*made->way_queue));
    made->way_from = memory_allocate(allocator, workers, sizeof(*made->way_from));
    made->way_edge = memory_allocate(allocator, workers, sizeof(*made->way_edge));
    if (made->workers == NULL || made->by_end == NULL || made->cost == NULL ||
        made->by_cost == NULL || made->planned == NULL || made->computing == NULL ||
        made->dirty == NULL || made->values == NULL || made->way_queue == NULL ||
        made->way_from == NULL || made->way_edge == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        made->cost[chunk] = 1;
        made->by_cost[chunk] = chunk;
    }
    int error = chunk_costs_create(&made->learned, chunks, allocator);
    if (error == TARRY_OK)
        error = suit_create(server);
    return error == TARRY_OK ? allocate_sets(server, made) : error;
}

void steering_free(tarry_server *server)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    const tarry_allocator *allocator = &server->allocator;
    memory_release(allocator, it->addressed);
    memory_release(allocator, it->barred);
    memory_release(allocator, it->first);
    memory_release(allocator, it->plans);
    memory_release(allocator, it->closed);
    memory_release(allocator, it->set_start);
    suit_destroy(server);
    chunk_costs_destroy(&it->learned, allocator);
    memory_release(allocator, it->way_edge);
    memory_release(allocator, it->way_from);
    memory_release(allocator, it->way_queue);
    memory_release(allocator, it->values);
    memory_release(allocator, it->dirty);
    memory_release(allocator, it->computing);
    memory_release(allocator, it->planned);
    memory_release(allocator, it->by_end);
    memory_release(allocator, it->by_cost);
    memory_release(allocator, it->cost);
    memory_release(allocator, it->workers);
    memory_release(allocator, it);
}

/* ---- what follows from a change in the books ---- */

/* A worker went to a chunk that was planned for others: these need not. */
static void spare_others(tarry_server *server, uint32_t chunk, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    steering *it = server->steering;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t other = plan->holder_worker[holder], slot = plan->holder_position[holder];
        if (it->planned[chunk] + it->computing[chunk] <= steering_wanted(server, chunk))
            return;
        if (other == worker || !steering_is_planned(it, other, slot))
            continue;
        steering_unplan(server, other, slot);
        steering_mark_dirty(server, other);
    }
}

static void steering_set_current(tarry_server *server, double time, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    steering_worker *of = &it->workers[worker];
    uint32_t load = server_load(server, worker), before = of->current;
    if (before == slot)
        return;
    if (before < load) {
        learn_unfinished(server, worker, time);
        it->computing[steering_chunk(server, worker, before)]--;
    }
    of->current = slot;
    of->since_ns = time;
    if (slot < load) {
        uint32_t chunk = steering_chunk(server, worker, slot);
        it->computing[chunk]++;
        if (steering_is_planned(it, worker, slot))
            steering_unplan(server, worker, slot);
        else
            spare_others(server, chunk, worker);
    }
    if (before < load)
        share_cover(server, time, steering_chunk(server, worker, before));
}

/* No copy of the chunk is wanted any more. */
static void settle(tarry_server *server, uint32_t chunk)
{
    const tarry_plan *plan = server->plan;
    const steering *it = server->steering;
    for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
         holder++) {
        uint32_t worker = plan->holder_worker[holder], slot = plan->holder_position[holder];
        if (steering_is_planned(it, worker, slot))
            steering_unplan(server, worker, slot);
        steering_mark_dirty(server, worker);
    }
}

/* ---- what happens ---- */

static void take_off(tarry_server *server, double time, uint32_t worker)
{
    steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    steering_unplan_worker(server, worker);
    if (it->workers[worker].current < load)
        it->computing[steering_chunk(server, worker, it->workers[worker].current)]--;
    it->workers[worker].current = load;
    it->workers[worker].queue = 0;
    it->workers[worker].since_ns = time;
}

static void plan_all(tarry_server *server, double time)
{
    share_all(server, time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        steering_mark_dirty(server, worker);
}

/* What was not sampled of a worker's chunks it is not to compute. */
static void close_spared(tarry_server *server, uint32_t worker)
{
    steering *it = server->steering;
    for (uint32_t slot = 0;
         server->members[worker].spared > 0 && slot < server_load(server, worker); slot++)
        if (!server_takes_part(server, steering_chunk(server, worker, slot)))
            bitset_set(it->closed + it->set_start[worker], slot);
}

void steering_start(tarry_server *server)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    const tarry_plan *plan = server->plan;
    memset(it->closed, 0, it->set_start[plan->workers] * sizeof(*it->closed));
    memset(it->plans, 0, it->set_start[plan->workers] * sizeof(*it->plans));
    memset(it->planned, 0, plan->chunks * sizeof(*it->planned));
    memset(it->computing, 0, plan->chunks * sizeof(*it->computing));
    it->tick_ns = TARRY_NEVER;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        it->workers[worker].current = server_load(server, worker);
        it->workers[worker].queue = 0;
        close_spared(server, worker);
    }
    learn_begin_round(server);
    plan_all(server, 0);
}

void steering_arrived(tarry_server *server, uint32_t worker)
{
    if (server->steering == NULL)
        return;
    steering_worker *of = &server->steering->workers[worker];
    of->sequence = 0;
}

void steering_joined(tarry_server *server, uint64_t now, uint32_t worker)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    bitset_clear(it->closed + it->set_start[worker], server_load(server, worker));
    close_spared(server, worker);
    if (server->phase != SERVER_COMPUTING)
        return;
    share_balance(server, steering_time(server, now), worker);
    steering_mark_dirty(server, worker); /* one that has to rest is looked at again */
}

void steering_retired(tarry_server *server, uint64_t now, uint32_t worker)
{
    if (server->steering == NULL)
        return;
    double time = steering_time(server, now);
    take_off(server, time, worker);
    if (server->phase != SERVER_COMPUTING)
        return;
    for (uint32_t slot = 0; slot < server_load(server, worker); slot++)
        share_cover(server, time, steering_chunk(server, worker, slot));
}

void steering_report(tarry_server *server, uint64_t now, uint32_t worker,
                     const tarry_message *message)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    steering_worker *of = &it->workers[worker];
    uint32_t slot = message->slot, chunk = steering_chunk(server, worker, slot);
    double time = steering_time(server, now);
    bitset_set(it->closed + it->set_start[worker], slot);
    if (!member_able(&server->members[worker]))
        return;
    if (steering_is_planned(it, worker, slot))
        steering_unplan(server, worker, slot);
    if (of->current == slot) {
        if (!message->failed)
            learn_time(server, worker, chunk, time - of->since_ns);
        it->computing[chunk]--;
        of->current = server_load(server, worker);
        of->since_ns = time;
    }
    if (server->phase != SERVER_COMPUTING)
        return;
    if (it->prior_ns == 0 || ++it->updates_seen > server->plan->workers / 4) {
        learn_prior(server, time);
        if (it->prior_ns > 0)
            share_relieve(server, time);
    }
    if (steering_wanted(server, chunk) == 0)
        settle(server, chunk);
    else
        share_cover(server, time, chunk);
    steering_word(server, now, worker, message);
}

void steering_reopen(tarry_server *server, uint32_t worker, uint32_t slot)
{
    steering *it = server->steering;
    if (it != NULL)
        bitset_reset(it->closed + it->set_start[worker], slot);
}

/*
 * What the worker that said `next` does once it has heard all that it was told: news that are still
 * on their way may take that chunk from it. Without this, news and words can chase each other.
 */
static uint32_t heard_next(const tarry_server *server, uint32_t worker, uint32_t next)
{
    const steering *it = server->steering;
    uint32_t load = server_load(server, worker);
    if (next >= load || bitset_test(it->closed + it->set_start[worker], next))
        return load;
    return bitset_test(it->barred + it->set_start[worker], next)
               ? steering_told_next(server, worker, next)
               : next;
}

void steering_word(tarry_server *server, uint64_t now, uint32_t worker,
                   const tarry_message *message)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    steering_worker *of = &it->workers[worker];
    bool newer =
        message->sequence != 0 && (int16_t)(uint16_t)(message->sequence - of->sequence) > 0;
    if (message->round != server->round)
        return;
    if (newer)
        of->sequence = message->sequence;
    if (server->phase != SERVER_COMPUTING || !member_able(&server->members[worker]))
        return;
    double time = steering_time(server, now);
    if (newer)
        steering_set_current(server, time, worker, heard_next(server, worker, message->next));
    share_balance(server, time, worker);
    steering_mark_dirty(server, worker);
}

void steering_stopped(tarry_server *server, uint64_t now)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    it->tick_ns = TARRY_NEVER;
    double time = steering_time(server, now);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        steering_worker *of = &it->workers[worker];
        if (!server->members[worker].stopped)
            continue;
        if (of->current < server_load(server, worker)) {
            learn_unfinished(server, worker, time);
            learn_least(server, worker, time);
        }
        take_off(server, time, worker);
    }
}

void steering_resumed(tarry_server *server, uint64_t now)
{
    if (server->steering == NULL)
        return;
    steering_unplan_all(server);
    plan_all(server, steering_time(server, now));
}

void steering_finished(tarry_server *server)
{
    steering *it = server->steering;
    if (it == NULL)
        return;
    it->tick_ns = TARRY_NEVER;
    steering_clear_dirty(it);
    learn_end_round(server);
}

/* Workers that rest hear nothing by themselves of chunks that turn out to take longer. */
void steering_watch(tarry_server *server, uint64_t now)
{
    steering *it = server->steering;
    if (it == NULL || server->phase != SERVER_COMPUTING || now < it->tick_ns)
        return;
    it->tick_ns = TARRY_NEVER;
    double time = steering_time(server, now);
    learn_prior(server, time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        if (!member_able(&server->members[worker]) ||
            it->workers[worker].current < server_load(server, worker))
            continue;
        share_balance(server, time, worker);
        steering_mark_dirty(server, worker);
    }
}

uint64_t steering_next_watch(const tarry_server *server)
{
    return server->steering != NULL ? server->steering->tick_ns : TARRY_NEVER;
}

/* ---- tell ---- */

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
