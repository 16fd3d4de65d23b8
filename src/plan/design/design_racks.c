/* SPDX-License-Identifier: Apache-2.0 */
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
#include "plan/design/design.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

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

int design_racks(tarry_plan *plan, uint32_t replication, uint64_t seed)
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
