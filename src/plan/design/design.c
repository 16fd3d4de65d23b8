/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/design.h"

#include <stdlib.h>
#include <string.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/random.h"
#include "plan/plan.h"

/*
 * For designs that know the loads first: worker_offset[j + 1] holds the load of worker j; turns
 * these into offsets and takes slot_chunk. Errors: NO_MEMORY.
 */
static int design_take_slots(tarry_plan *plan)
{
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] += plan->worker_offset[worker];
    plan->slot_chunk =
        memory_allocate(&plan->allocator, plan_edges(plan), sizeof(*plan->slot_chunk));
    return plan->slot_chunk != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* ---- cyclic ---- */

/* The first chunk i with floor(i m / N) >= worker, that is ceil(worker N / m). */
static uint32_t first_chunk(const tarry_plan *plan, uint32_t worker)
{
    uint64_t product = (uint64_t)worker * plan->chunks;
    return (uint32_t)((product + plan->workers - 1) / plan->workers);
}

/*
 * Chunk i stands on `replication` neighbouring workers (modulo m), whose last one is
 * floor(i m / N); worker j lists first the chunks whose last holder it is. With N = m it lists
 * j, j+1, .., j+replication-1 modulo N (R. Tandon et al., Gradient coding, ICML 2017). Loads differ
 * by at most 1. Errors: NO_MEMORY.
 */
static int design_cyclic(tarry_plan *plan, uint32_t replication)
{
    uint32_t workers = plan->workers;
    for (uint32_t worker = 0; worker < workers; worker++) {
        uint32_t load = 0;
        for (uint32_t step = 0; step < replication; step++) {
            uint32_t last = (worker + step) % workers;
            load += first_chunk(plan, last + 1) - first_chunk(plan, last);
        }
        plan->worker_offset[worker + 1] = load;
    }
    int error = design_take_slots(plan);
    if (error != TARRY_OK)
        return error;

    uint32_t slot = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        for (uint32_t step = 0; step < replication; step++) {
            uint32_t last = (worker + step) % workers;
            uint32_t end = first_chunk(plan, last + 1);
            for (uint32_t chunk = first_chunk(plan, last); chunk < end; chunk++)
                plan->slot_chunk[slot++] = chunk;
        }
    }
    return TARRY_OK;
}

/* ---- fractional ---- */

/* Where share `index` of `total` things begins when they are dealt evenly to `shares`. */
static uint32_t share_begin(uint32_t total, uint32_t shares, uint32_t index)
{
    return (uint32_t)((uint64_t)total * index / shares);
}

/*
 * Lists, for the worker `member` of a group of `members`, its chunks among the group's
 * (first .. first + chunks - 1) into `list`, or only counts them if list is NULL. The chunk's run
 * of holders ends at member floor(index members / chunks), as in the cyclic design.
 */
static uint32_t list_chunks(uint32_t member, uint32_t members, uint32_t first, uint32_t chunks,
                            uint32_t replication, uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < chunks; index++) {
        uint32_t last = (uint32_t)((uint64_t)index * members / chunks);
        uint32_t steps_back = last >= member ? last - member : last + members - member;
        if (steps_back >= replication)
            continue;
        if (list != NULL)
            list[count] = first + index;
        count++;
    }
    return count;
}

/* Calls list_chunks for every worker: to count the loads, or to fill the slots. */
static void visit_groups(tarry_plan *plan, uint32_t replication, bool fill)
{
    uint32_t groups = plan->workers / replication;
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t begin = share_begin(plan->workers, groups, group);
        uint32_t members = share_begin(plan->workers, groups, group + 1) - begin;
        uint32_t first = share_begin(plan->chunks, groups, group);
        uint32_t chunks = share_begin(plan->chunks, groups, group + 1) - first;
        for (uint32_t member = 0; member < members; member++) {
            uint32_t *list = fill ? plan->slot_chunk + plan->worker_offset[begin + member] : NULL;
            uint32_t load = list_chunks(member, members, first, chunks, replication, list);
            if (!fill)
                plan->worker_offset[begin + member + 1] = load;
        }
    }
}

/*
 * floor(m / replication) groups of neighbouring workers, and as many of neighbouring chunks, the
 * sizes of either differing by at most 1. A group of `replication` workers holds all chunks of its
 * group; in a larger one each chunk stands on `replication` of them, spread cyclically. Chunks are
 * listed in ascending order (the same source). Errors: NO_MEMORY.
 */
static int design_fractional(tarry_plan *plan, uint32_t replication)
{
    visit_groups(plan, replication, false);
    int error = design_take_slots(plan);
    if (error != TARRY_OK)
        return error;
    visit_groups(plan, replication, true);
    return TARRY_OK;
}

/*
 * A chunk's pieces follow the design of the whole chunks, each in a relabelling of the workers of
 * its own. That gives the workers that have got most so far the least loads of the design, so that
 * no load of all pieces exceeds another by more than one of the design does: let the totals differ
 * by up to D, as the design's loads do. Of two workers, the one ahead, by at most D, gets no more
 * than the other, and at most D less.
 */

enum { STREAM_PIECES = 3 };

/* A worker among all, by its load, or by chance where loads are equal. */
typedef struct ranked_worker {
    uint32_t load, draw, worker;
} ranked_worker;

/* What becomes of the assignment of whole chunks. */
typedef struct cutting {
    tarry_plan *plan;
    const uint32_t *whole_offset; /* workers + 1: of the whole chunks' slots */
    const uint32_t *whole_chunk;
    uint32_t *role;         /* pieces x workers: whose chunks a worker has that piece of */
    uint32_t *load;         /* workers: pieces so far */
    ranked_worker *workers; /* workers, by these */
    ranked_worker *roles;   /* workers, by whole chunks */
} cutting;

static uint32_t whole_load(const cutting *task, uint32_t worker)
{
    return task->whole_offset[worker + 1] - task->whole_offset[worker];
}

static int compare_numbers(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_places(const void *left, const void *right)
{
    const ranked_worker *a = left, *b = right;
    if (a->load != b->load)
        return compare_numbers(a->load, b->load);
    if (a->draw != b->draw)
        return compare_numbers(a->draw, b->draw);
    return compare_numbers(a->worker, b->worker);
}

/* Sets the roles of all pieces, and the loads. */
static void draw_roles(cutting *task, uint64_t seed)
{
    uint32_t workers = task->plan->workers;
    for (uint32_t worker = 0; worker < workers; worker++) {
        task->role[worker] = worker;
        task->load[worker] = whole_load(task, worker);
    }
    for (uint32_t piece = 1; piece < task->plan->pieces; piece++) {
        random_stream stream = random_stream_make(seed, RANDOM_DESIGN, STREAM_PIECES, piece);
        for (uint32_t worker = 0; worker < workers; worker++) {
            task->workers[worker] =
                (ranked_worker){task->load[worker], random_u32(&stream), worker};
            task->roles[worker] =
                (ranked_worker){whole_load(task, worker), random_u32(&stream), worker};
        }
        qsort(task->workers, workers, sizeof(*task->workers), compare_places);
        qsort(task->roles, workers, sizeof(*task->roles), compare_places);
        for (uint32_t rank = 0; rank < workers; rank++) {
            uint32_t worker = task->workers[workers - 1 - rank].worker;
            task->role[(size_t)piece * workers + worker] = task->roles[rank].worker;
            task->load[worker] += task->roles[rank].load;
        }
    }
}

/* Lists a worker's pieces 0 of all chunks first, in the design's sequence, then its pieces 1, .. */
static void list_by_piece(const cutting *task, uint32_t worker, uint32_t *list)
{
    const tarry_plan *plan = task->plan;
    for (uint32_t piece = 0; piece < plan->pieces; piece++) {
        uint32_t role = task->role[(size_t)piece * plan->workers + worker];
        for (uint32_t slot = task->whole_offset[role]; slot < task->whole_offset[role + 1]; slot++)
            *list++ = task->whole_chunk[slot] * plan->pieces + piece;
    }
}

static int spread(cutting *task, uint64_t seed)
{
    tarry_plan *plan = task->plan;
    const tarry_allocator *allocator = &plan->allocator;
    uint32_t workers = plan->workers;
    task->role = memory_allocate(allocator, (size_t)workers * plan->pieces, sizeof(*task->role));
    task->load = memory_allocate(allocator, workers, sizeof(*task->load));
    task->workers = memory_allocate(allocator, workers, sizeof(*task->workers));
    task->roles = memory_allocate(allocator, workers, sizeof(*task->roles));
    int error = TARRY_ERROR_NO_MEMORY;
    if (task->role != NULL && task->load != NULL && task->workers != NULL && task->roles != NULL) {
        draw_roles(task, seed);
        for (uint32_t worker = 0; worker < workers; worker++)
            plan->worker_offset[worker + 1] = task->load[worker];
        error = design_take_slots(plan);
    }
    for (uint32_t worker = 0; error == TARRY_OK && worker < workers; worker++)
        list_by_piece(task, worker, plan->slot_chunk + plan->worker_offset[worker]);
    memory_release(allocator, task->roles);
    memory_release(allocator, task->workers);
    memory_release(allocator, task->load);
    memory_release(allocator, task->role);
    return error;
}

/* Each chunk of a list becomes its pieces, in their sequence. */
static int cut_in_place(const cutting *task)
{
    tarry_plan *plan = task->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] = whole_load(task, worker) * plan->pieces;
    int error = design_take_slots(plan);
    for (uint32_t slot = 0; error == TARRY_OK && slot < plan_edges(plan); slot++)
        plan->slot_chunk[slot] =
            task->whole_chunk[slot / plan->pieces] * plan->pieces + slot % plan->pieces;
    return error;
}

/*
 * Cuts the whole chunks of an assignment into plan->pieces pieces each, and sets plan->chunks to
 * the number of these. If `apart`, each piece but the first lies as its chunk would in a random
 * relabelling of the workers; loads then differ by no more than those of the whole chunks do. Else
 * each worker has all pieces of its chunks. Needs the whole chunks' lists and 4 bytes per worker
 * and piece besides the plan. Errors: NO_MEMORY.
 */
static int design_cut(tarry_plan *plan, bool apart, uint64_t seed)
{
    const tarry_allocator *allocator = &plan->allocator;
    uint32_t *whole_offset = plan->worker_offset, *whole_chunk = plan->slot_chunk;
    plan->slot_chunk = NULL;
    plan->worker_offset =
        memory_allocate(allocator, (size_t)plan->workers + 1, sizeof(*plan->worker_offset));
    int error = TARRY_ERROR_NO_MEMORY;
    if (plan->worker_offset != NULL) {
        cutting task = {.plan = plan, .whole_offset = whole_offset, .whole_chunk = whole_chunk};
        error = apart ? spread(&task, seed) : cut_in_place(&task);
    }
    plan->chunks *= plan->pieces;
    memory_release(allocator, whole_chunk);
    memory_release(allocator, whole_offset);
    return error;
}

/*
 * In three steps, none of which can fail:
 *
 * 1. How many copies each rack has. Were copies divisible, each worker would hold as much; but a
 *    rack has between N b and N c copies, if each chunk has between b and c of them there. The
 * racks are filled up to a common level within these bounds.
 * 2. Which chunks have a copy more than b in a rack. Each chunk has k of them, each rack so many as
 *    step 1 left, at most N: dealt rack by rack to the chunks in turn, no rack meets a chunk twice.
 * 3. Which worker of its rack has a copy: dealt chunk by chunk to the workers in turn, no worker
 *    meets a chunk twice, as it has no more copies in the rack than there are workers.
 *
 * What dealing in turn leaves alike is then mixed: pairs of lists put together the chunks that only
 * one of them has, and share them anew by chance, as many as they had (curveball trades: G. Strona
 * et al., A fast and unbiased procedure to randomize ecological binary matrices, 2014). Where a
 * rack has no chunk twice, step 3 is random without them.
 */

enum { STREAM_DEAL, STREAM_LIST };

/* Trades per list. Each chunk of a list then changes it about as often: far more often than random
 * cards need. */
enum { TRADES = 16 };

typedef struct rack_share {
    uint32_t first, workers; /* of `member` */
    uint32_t base;           /* b: copies of every chunk */
    uint64_t least, most;    /* copies that it can have */
    uint32_t copies;         /* that it has */
} rack_share;

typedef struct rack_deal {
    tarry_plan *plan;
    uint32_t replication;
    random_stream stream;
    rack_share *share; /* racks */
    uint32_t *member;  /* workers, rack by rack */
    uint32_t *rack;    /* racks or workers in a random order */
    uint32_t *chunk;   /* chunks in a random order */
    uint32_t *offset;  /* racks + 1: where its list begins */
    uint32_t *extra;   /* chunks of which a rack has one more than `base`, rack by rack */
    uint32_t *filled;  /* workers: copies dealt so far */
    uint8_t *mark;     /* chunks */
    uint32_t *pool;    /* 2 chunks */
} rack_deal;

/* ---- how many copies a rack has ---- */

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint64_t room_at(const rack_deal *deal, uint32_t copies_in_rack)
{
    uint64_t room = 0;
    for (uint32_t rack = 0; rack < deal->plan->racks; rack++)
        room += lesser(copies_in_rack, deal->share[rack].workers);
    return room;
}

/* Lists the racks' members, and sets what they can have: c is the least number of copies in a rack
 * with which all copies of a chunk find room, b is c - 1, and neither is more than its workers. */
static void set_bounds(rack_deal *deal)
{
    const tarry_plan *plan = deal->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        deal->share[plan->rack[worker]].workers++;
    for (uint32_t rack = 1; rack < plan->racks; rack++)
        deal->share[rack].first = deal->share[rack - 1].first + deal->share[rack - 1].workers;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        rack_share *share = &deal->share[plan->rack[worker]];
        deal->member[share->first + share->copies++] = worker;
    }
    uint32_t most = 1;
    while (room_at(deal, most) < deal->replication)
        most++;
    for (uint32_t rack = 0; rack < plan->racks; rack++) {
        rack_share *share = &deal->share[rack];
        share->base = lesser(most - 1, share->workers);
        share->least = (uint64_t)plan->chunks * share->base;
        share->most = (uint64_t)plan->chunks * lesser(most, share->workers);
    }
}

/* The copies of a rack whose workers have `level` each, within its bounds. */
static uint64_t copies_at(const rack_share *share, uint32_t level)
{
    uint64_t copies = (uint64_t)share->workers * level;
    return copies < share->least ? share->least : copies > share->most ? share->most : copies;
}

static uint64_t all_copies_at(const rack_deal *deal, uint32_t level)
{
    uint64_t copies = 0;
    for (uint32_t rack = 0; rack < deal->plan->racks; rack++)
        copies += copies_at(&deal->share[rack], level);
    return copies;
}

/* Fills the racks to the highest level that doesn't take more copies than there are; a random
 * choice of those that could go on then takes the rest, one copy per worker at most. */
static void fill_racks(rack_deal *deal)
{
    const tarry_plan *plan = deal->plan;
    uint64_t wanted = (uint64_t)plan->chunks * deal->replication;
    uint32_t level = 0, above = plan->chunks + 1; /* a worker has no chunk twice */
    while (above - level > 1) {
        uint32_t middle = level + (above - level) / 2;
        *(all_copies_at(deal, middle) <= wanted ? &level : &above) = middle;
    }
    uint32_t places = 0;
    uint32_t *place = deal->rack;
    for (uint32_t rack = 0; rack < plan->racks; rack++) {
        rack_share *share = &deal->share[rack];
        share->copies = (uint32_t)copies_at(share, level);
        wanted -= share->copies;
        for (uint64_t room = copies_at(share, level + 1) - share->copies; room > 0; room--)
            place[places++] = rack;
    }
    random_shuffle(&deal->stream, place, places);
    for (uint32_t i = 0; i < wanted; i++)
        deal->share[place[i]].copies++;
}

/* ---- trades ---- */

/* Lists of chunks that have none twice: `list` names some, the one of name x being
 * chunk[offset[x]] .. chunk[offset[x + 1] - 1]. */
typedef struct chunk_lists {
    const uint32_t *list;
    uint32_t count;
    const uint32_t *offset;
    uint32_t *chunk;
} chunk_lists;

/* deal->mark is 0 before and afterwards. */
static void trade(rack_deal *deal, const chunk_lists *of, uint32_t a, uint32_t b)
{
    enum { OF_A = 1, COMMON = 2 };
    uint32_t *first = of->chunk + of->offset[a], *second = of->chunk + of->offset[b];
    uint32_t firsts = of->offset[a + 1] - of->offset[a], pooled = 0;
    uint32_t seconds = of->offset[b + 1] - of->offset[b];
    for (uint32_t i = 0; i < firsts; i++)
        deal->mark[first[i]] = OF_A;
    for (uint32_t i = 0; i < seconds; i++) {
        if (deal->mark[second[i]] == OF_A)
            deal->mark[second[i]] = COMMON;
        else
            deal->pool[pooled++] = second[i];
    }
    for (uint32_t i = 0; i < firsts; i++)
        if (deal->mark[first[i]] == OF_A)
            deal->pool[pooled++] = first[i];
    random_shuffle(&deal->stream, deal->pool, pooled);
    for (uint32_t i = 0; i < seconds; i++)
        if (deal->mark[second[i]] != COMMON)
            second[i] = deal->pool[--pooled];
    for (uint32_t i = 0; i < firsts; i++) {
        bool common = deal->mark[first[i]] == COMMON;
        deal->mark[first[i]] = 0;
        if (!common)
            first[i] = deal->pool[--pooled];
    }
}

static void mix(rack_deal *deal, const chunk_lists *of)
{
    for (uint64_t trades = of->count > 1 ? (uint64_t)TRADES * of->count : 0; trades > 0; trades--) {
        uint32_t a = random_below(&deal->stream, of->count);
        uint32_t b = random_below(&deal->stream, of->count - 1);
        trade(deal, of, of->list[a], of->list[b < a ? b : b + 1]);
    }
}

/* ---- which chunks a rack has, and who in it has them ---- */

static void shuffle_chunks(rack_deal *deal)
{
    for (uint32_t chunk = 0; chunk < deal->plan->chunks; chunk++)
        deal->chunk[chunk] = chunk;
    random_shuffle(&deal->stream, deal->chunk, deal->plan->chunks);
}

static void deal_to_racks(rack_deal *deal)
{
    const tarry_plan *plan = deal->plan;
    shuffle_chunks(deal);
    for (uint32_t rack = 0; rack < plan->racks; rack++) {
        const rack_share *share = &deal->share[rack];
        uint32_t extra = share->copies - (uint32_t)share->least;
        deal->rack[rack] = rack;
        deal->offset[rack + 1] = deal->offset[rack] + extra;
    }
    uint32_t extras = deal->offset[plan->racks];
    for (uint32_t slot = 0; slot < extras; slot++)
        deal->extra[slot] = deal->chunk[slot % plan->chunks];
    mix(deal, &(chunk_lists){deal->rack, plan->racks, deal->offset, deal->extra});
}

/* The rack's chunks in a random order, in deal->chunk; gives back how many there are. */
static uint32_t list_rack(rack_deal *deal, uint32_t rack)
{
    const uint32_t *extra = deal->extra + deal->offset[rack];
    uint32_t extras = deal->offset[rack + 1] - deal->offset[rack];
    if (deal->share[rack].base > 0) {
        shuffle_chunks(deal);
        return deal->plan->chunks;
    }
    memcpy(deal->chunk, extra, extras * sizeof(*extra));
    random_shuffle(&deal->stream, deal->chunk, extras);
    return extras;
}

/* Sets the loads of the rack's workers: a random choice of them has one chunk more. */
static void set_loads(rack_deal *deal, const rack_share *share)
{
    uint32_t *member = deal->member + share->first;
    random_shuffle(&deal->stream, member, share->workers);
    for (uint32_t i = 0; i < share->workers; i++)
        deal->plan->worker_offset[member[i] + 1] =
            share->copies / share->workers + (i < share->copies % share->workers ? 1 : 0);
}

static void deal_to_workers(rack_deal *deal, uint32_t rack)
{
    tarry_plan *plan = deal->plan;
    const rack_share *share = &deal->share[rack];
    const uint32_t *member = deal->member + share->first;
    const uint32_t *extra = deal->extra + deal->offset[rack];
    uint32_t extras = deal->offset[rack + 1] - deal->offset[rack], turn = 0;
    uint32_t chunks = list_rack(deal, rack);
    for (uint32_t i = 0; i < extras; i++)
        deal->mark[extra[i]] = 1;
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t chunk = deal->chunk[i];
        for (uint32_t copies = share->base + deal->mark[chunk]; copies > 0; copies--) {
            uint32_t worker = member[turn++ % share->workers];
            plan->slot_chunk[plan->worker_offset[worker] + deal->filled[worker]++] = chunk;
        }
    }
    for (uint32_t i = 0; i < extras; i++)
        deal->mark[extra[i]] = 0;
    if (share->base > 0)
        mix(deal, &(chunk_lists){member, share->workers, plan->worker_offset, plan->slot_chunk});
}

static void shuffle_lists(tarry_plan *plan, uint64_t seed)
{
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        random_stream stream = random_stream_make(seed, RANDOM_RACK, STREAM_LIST, worker);
        uint32_t begin = plan->worker_offset[worker];
        random_shuffle(&stream, plan->slot_chunk + begin, plan->worker_offset[worker + 1] - begin);
    }
}

static int take_memory(rack_deal *deal)
{
    const tarry_plan *plan = deal->plan;
    const tarry_allocator *allocator = &plan->allocator;
    size_t copies = (size_t)plan->chunks * deal->replication;
    deal->share = memory_allocate(allocator, plan->racks, sizeof(*deal->share));
    deal->member = memory_allocate(allocator, plan->workers, sizeof(*deal->member));
    deal->rack = memory_allocate(allocator, plan->workers, sizeof(*deal->rack));
    deal->chunk = memory_allocate(allocator, plan->chunks, sizeof(*deal->chunk));
    deal->offset = memory_allocate(allocator, (size_t)plan->racks + 1, sizeof(*deal->offset));
    deal->extra = memory_allocate(allocator, copies, sizeof(*deal->extra));
    deal->filled = memory_allocate(allocator, plan->workers, sizeof(*deal->filled));
    deal->mark = memory_allocate(allocator, plan->chunks, sizeof(*deal->mark));
    deal->pool = memory_allocate(allocator, 2 * (size_t)plan->chunks, sizeof(*deal->pool));
    bool taken = deal->share != NULL && deal->member != NULL && deal->rack != NULL &&
                 deal->chunk != NULL && deal->offset != NULL && deal->extra != NULL &&
                 deal->filled != NULL && deal->mark != NULL && deal->pool != NULL;
    return taken ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static void release_memory(rack_deal *deal)
{
    const tarry_allocator *allocator = &deal->plan->allocator;
    memory_release(allocator, deal->pool);
    memory_release(allocator, deal->mark);
    memory_release(allocator, deal->filled);
    memory_release(allocator, deal->extra);
    memory_release(allocator, deal->offset);
    memory_release(allocator, deal->chunk);
    memory_release(allocator, deal->rack);
    memory_release(allocator, deal->member);
    memory_release(allocator, deal->share);
}

/*
 * The same with racks, which plan->racks >= 1 and ->rack name: the copies of a chunk are spread as
 * evenly over racks, and the loads over workers, as tarry_plan_settings says. Among all such
 * designs it is nearly uniformly random. Needs 4 bytes per copy, 13 per chunk, 12 per worker and 44
 * per rack besides the plan. Errors: NO_MEMORY.
 */
static int design_racks(tarry_plan *plan, uint32_t replication, uint64_t seed)
{
    rack_deal deal = {
        .plan = plan,
        .replication = replication,
        .stream = random_stream_make(seed, RANDOM_RACK, STREAM_DEAL, 0),
    };
    int error = take_memory(&deal);
    if (error != TARRY_OK)
        goto release;
    set_bounds(&deal);
    fill_racks(&deal);
    deal_to_racks(&deal);
    for (uint32_t rack = 0; rack < plan->racks; rack++)
        set_loads(&deal, &deal.share[rack]);
    error = design_take_slots(plan);
    if (error != TARRY_OK)
        goto release;
    for (uint32_t rack = 0; rack < plan->racks; rack++)
        deal_to_workers(&deal, rack);
    shuffle_lists(plan, seed);

release:
    release_memory(&deal);
    return error;
}

/*
 * The configuration model: every chunk has `replication` stubs, which are shuffled and dealt to the
 * workers' slots. Where a worker gets a chunk twice, the second copy is exchanged with that of a
 * random slot such that no new double arises.
 *
 * Such a slot always exists if replication <= m/2, where loads are at most (N + 1)/2: let worker j
 * hold chunk c twice. replication * (N - load_j + 1) edges or more belong to chunks that j does not
 * hold; at most (replication - 2) * max_load of these belong to other holders of c, which is less.
 * A denser graph is therefore drawn as the complement of a sparser one.
 */

enum { LEAST_CHUNKS_PER_SLOT = 32 }; /* where slots are looked through: no bits are kept then */

typedef struct dealing {
    uint32_t workers, chunks;
    uint32_t edges;
    uint32_t *start; /* workers + 1: worker j's slots are start[j] .. start[j + 1] - 1 */
    uint32_t *owner; /* edges: whose slot it is */
    uint32_t *dealt; /* edges: which chunk lies in the slot */
    uint64_t
        *doubled; /* edges bits: slots whose chunk their owner got in an earlier slot as well */
    /* workers * chunks bits, by worker: whether the worker has the chunk in a slot that is not
     * doubled; NULL where few slots are quickly looked through for that. */
    uint64_t *held;
} dealing;

static size_t pair_bit(const dealing *deal, uint32_t worker, uint32_t chunk)
{
    return (size_t)worker * deal->chunks + chunk;
}

/* Whether the worker has the chunk in a slot before `end` that is not doubled. */
static bool holds_before(const dealing *deal, uint32_t worker, uint32_t end, uint32_t chunk)
{
    if (deal->held != NULL)
        return bitset_test(deal->held, pair_bit(deal, worker, chunk));
    for (uint32_t slot = deal->start[worker]; slot < end; slot++)
        if (deal->dealt[slot] == chunk && !bitset_test(deal->doubled, slot))
            return true;
    return false;
}

static bool holds(const dealing *deal, uint32_t worker, uint32_t chunk)
{
    return holds_before(deal, worker, deal->start[worker + 1], chunk);
}

static void put_held(dealing *deal, uint32_t worker, uint32_t chunk, bool value)
{
    if (deal->held != NULL)
        bitset_put(deal->held, pair_bit(deal, worker, chunk), value);
}

/* Marks what is held and doubled. */
static void find_doubles(dealing *deal)
{
    for (uint32_t slot = 0; slot < deal->edges; slot++) {
        uint32_t worker = deal->owner[slot], chunk = deal->dealt[slot];
        bitset_put(deal->doubled, slot, holds_before(deal, worker, slot, chunk));
        put_held(deal, worker, chunk, true);
    }
}

/* Fills owner and dealt by chance. */
static void deal_stubs(dealing *deal, uint32_t replication, random_stream *stream)
{
    for (uint32_t worker = 0; worker < deal->workers; worker++)
        for (uint32_t slot = deal->start[worker]; slot < deal->start[worker + 1]; slot++)
            deal->owner[slot] = worker;
    for (uint32_t slot = 0; slot < deal->edges; slot++)
        deal->dealt[slot] = slot / replication;
    random_shuffle(stream, deal->dealt, deal->edges);
}

/* Takes the chunk out of a slot. The owner still holds a doubled one; if it is the first copy of a
 * doubled one, the other copy's turn is still to come, and it is then marked as held again. */
static void lift(dealing *deal, uint32_t slot)
{
    if (!bitset_test(deal->doubled, slot))
        put_held(deal, deal->owner[slot], deal->dealt[slot], false);
    bitset_reset(deal->doubled, slot);
}

static void lay(dealing *deal, uint32_t slot, uint32_t chunk)
{
    deal->dealt[slot] = chunk;
    put_held(deal, deal->owner[slot], chunk, true);
}

/* A step that visits all of 0..count-1 modulo count, and far apart in succession. */
static uint32_t wide_step(uint32_t count)
{
    for (uint32_t step = (uint32_t)((uint64_t)count * 618 / 1000);; step++) {
        uint32_t divisor = count;
        for (uint32_t rest = step; rest != 0;) {
            uint32_t next = divisor % rest;
            divisor = rest;
            rest = next;
        }
        if (divisor == 1)
            return step;
    }
}

/* Exchanges every doubled chunk with the first fitting slot from a random one on. Slots are tried
 * far apart, as none of those of a worker that holds the chunk fits. */
static void part_doubles(dealing *deal, random_stream *stream)
{
    uint32_t step = wide_step(deal->edges);
    for (uint32_t slot = 0; slot < deal->edges; slot++) {
        if (!bitset_test(deal->doubled, slot))
            continue;
        uint32_t owner = deal->owner[slot], chunk = deal->dealt[slot];
        if (!holds(deal, owner, chunk)) { /* the first copy has gone in an exchange */
            put_held(deal, owner, chunk, true);
            bitset_reset(deal->doubled, slot);
            continue;
        }
        uint32_t other = random_below(stream, deal->edges);
        while (holds(deal, owner, deal->dealt[other]) || holds(deal, deal->owner[other], chunk))
            other = (uint32_t)(((uint64_t)other + step) % deal->edges);
        uint32_t exchanged = deal->dealt[other];
        lift(deal, slot);
        lift(deal, other);
        lay(deal, slot, exchanged);
        lay(deal, other, chunk);
    }
}

static int compare_chunks(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Lists what a worker holds, ascending; gives back how many these are. */
static uint32_t list_slots(const dealing *deal, uint32_t worker, uint32_t *list)
{
    uint32_t first = deal->start[worker], count = deal->start[worker + 1] - first;
    memcpy(list, deal->dealt + first, count * sizeof(*list));
    qsort(list, count, sizeof(*list), compare_chunks);
    return count;
}

/* The same by the bits, or what it does not hold if `complement`. */
static uint32_t list_bits(const dealing *deal, uint32_t worker, bool complement, uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t chunk = 0; chunk < deal->chunks; chunk++)
        if (holds(deal, worker, chunk) != complement)
            list[count++] = chunk;
    return count;
}

/* Lists what each worker holds, or does not hold if `complement`, in random sequence. */
static void list_held(const dealing *deal, bool complement, uint64_t seed, uint32_t *list)
{
    for (uint32_t worker = 0; worker < deal->workers; worker++) {
        uint32_t count = deal->held != NULL ? list_bits(deal, worker, complement, list)
                                            : list_slots(deal, worker, list);
        random_stream stream = random_stream_make(seed, RANDOM_DESIGN, STREAM_LIST, worker);
        random_shuffle(&stream, list, count);
        list += count;
    }
}

/* Sets plan->worker_offset[j + 1] to the load of worker j: a random choice of workers has one chunk
 * more than the others. */
static void draw_loads(tarry_plan *plan, uint32_t replication, random_stream *stream)
{
    uint32_t edges = plan->chunks * replication;
    uint32_t *load = plan->worker_offset + 1;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        load[worker] = edges / plan->workers + (worker < edges % plan->workers ? 1 : 0);
    random_shuffle(stream, load, plan->workers);
}

/*
 * A random simple bipartite graph: every chunk on `replication` workers, loads that differ by at
 * most 1, chunks listed in random sequence. Needs 8 bytes per copy besides the plan, and where a
 * worker holds more than about 1 of 32 chunks, workers * chunks / 8 more.
 * Errors: NO_MEMORY.
 */
static int design_random(tarry_plan *plan, uint32_t replication, uint64_t seed)
{
    random_stream stream = random_stream_make(seed, RANDOM_DESIGN, STREAM_DEAL, 0);
    draw_loads(plan, replication, &stream);

    bool complement = replication > plan->workers / 2;
    uint32_t drawn = complement ? plan->workers - replication : replication;
    const tarry_allocator *allocator = &plan->allocator;
    dealing deal = {
        .workers = plan->workers,
        .chunks = plan->chunks,
        .edges = plan->chunks * drawn,
    };
    bool looks = !complement && deal.chunks / LEAST_CHUNKS_PER_SLOT >= deal.edges / deal.workers;
    deal.start = memory_allocate(allocator, (size_t)deal.workers + 1, sizeof(*deal.start));
    deal.owner = memory_allocate(allocator, deal.edges, sizeof(*deal.owner));
    deal.dealt = memory_allocate(allocator, deal.edges, sizeof(*deal.dealt));
    deal.doubled = memory_allocate(allocator, bitset_words(deal.edges), sizeof(*deal.doubled));
    if (!looks)
        deal.held = memory_allocate(allocator, bitset_words((size_t)deal.workers * deal.chunks),
                                    sizeof(*deal.held));
    int error = TARRY_ERROR_NO_MEMORY;
    if (deal.start == NULL || deal.owner == NULL || deal.dealt == NULL || deal.doubled == NULL ||
        (!looks && deal.held == NULL))
        goto release;

    for (uint32_t worker = 0; worker < deal.workers; worker++) {
        uint32_t load = plan->worker_offset[worker + 1];
        deal.start[worker + 1] = deal.start[worker] + (complement ? deal.chunks - load : load);
    }
    error = design_take_slots(plan);
    if (error != TARRY_OK)
        goto release;
    deal_stubs(&deal, drawn, &stream);
    find_doubles(&deal);
    part_doubles(&deal, &stream);
    list_held(&deal, complement, seed, plan->slot_chunk);

release:
    memory_release(allocator, deal.held);
    memory_release(allocator, deal.doubled);
    memory_release(allocator, deal.dealt);
    memory_release(allocator, deal.owner);
    memory_release(allocator, deal.start);
    return error;
}

/* ---- design ---- */

int design_assign(tarry_plan *plan, const tarry_plan_settings *settings,
                  tarry_diagnostic *diagnostic)
{
    plan->worker_offset =
        memory_allocate(&plan->allocator, (size_t)plan->workers + 1, sizeof(*plan->worker_offset));
    if (plan->worker_offset == NULL)
        return diagnose_no_memory(diagnostic, "plan");

    int error = TARRY_OK;
    switch (settings->design) {
    case TARRY_DESIGN_CYCLIC:
        error = design_cyclic(plan, settings->replication);
        break;
    case TARRY_DESIGN_FRACTIONAL:
        error = design_fractional(plan, settings->replication);
        break;
    case TARRY_DESIGN_RANDOM:
        plan->chunks *= plan->pieces;
        error = plan->racks > 0 ? design_racks(plan, settings->replication, settings->seed)
                                : design_random(plan, settings->replication, settings->seed);
        break;
    case TARRY_DESIGN_FILE:
        error = design_file(plan, settings->file, diagnostic);
        break;
    }
    if (error == TARRY_OK && plan->pieces > 1 && settings->design != TARRY_DESIGN_RANDOM)
        error = design_cut(plan, settings->design != TARRY_DESIGN_FILE, settings->seed);
    if (error == TARRY_ERROR_NO_MEMORY)
        return diagnose_no_memory(diagnostic, "plan");
    return error;
}
