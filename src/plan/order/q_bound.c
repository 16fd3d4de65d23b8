/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound on the least slack (docs/plan.md, "The lower bound").
 *
 * Let f be a nondecreasing, concave price of a reach, and T a set of chunks. Worker j's reaches are
 * 1..delta_j in any order, so the n_j chunks of T that it holds have at most the prices of its n_j
 * largest reaches: all copies of T together are worth at most a sum that no order changes. But a
 * chunk whose slack is s or more has copies worth at least some cost(s). So the least slack is at
 * most the largest s for which the costs of T do not exceed that sum. Any f and T give a true
 * bound; the least of many is taken.
 */
#include "plan/order/q.h"

enum {
    MAX_THRESHOLD = 65536, /* keeps all sums below 2^63 */
    MAX_PRICES = 2 * 96,   /* enough for thresholds up to that, each by 1/8 larger than the last */
    MAX_SETS = 8,
    MAX_VISITS = 1 << 28, /* of holders, to see which chunks belong to a set */
    DEAR = 100000,        /* as many evaluations of a price per step of a bisection are */
};

/*
 * The price of reach w, with x = min(w, threshold): x, or, `curved`, the sum of the x largest of
 * 1..threshold.
 */
typedef struct price {
    bool curved;
    uint64_t threshold;
    uint64_t available; /* what the copies of the set of chunks are worth at most */
} price;

static uint64_t price_of(const price *f, uint64_t reach)
{
    uint64_t x = reach < f->threshold ? reach : f->threshold;
    return f->curved ? x * f->threshold - x * (x - 1) / 2 : x;
}

/* The prices of the reaches 1..reach together. */
static uint64_t price_sum(const price *f, uint64_t reach)
{
    uint64_t x = reach < f->threshold ? reach : f->threshold;
    uint64_t beyond = (reach - x) * price_of(f, x);
    if (x == 0)
        return 0;
    uint64_t triangle = x * (x + 1) / 2;
    return beyond + (f->curved ? f->threshold * triangle - (x - 1) * x * (x + 1) / 6 : triangle);
}

/*
 * The least that `count` reaches of 1..max_reach can be worth if the `least` smallest of them sum
 * to `sum` or more; UINT64_MAX if they can't. With the largest of the smallest given, concavity
 * puts all but one of them at 1 or at that largest.
 */
static uint64_t least_cost(const price *f, uint64_t count, uint64_t least, uint64_t sum,
                           uint64_t max_reach)
{
    if (sum <= least)
        return count * price_of(f, 1);
    uint64_t best = UINT64_MAX;
    for (uint64_t largest = (sum + least - 1) / least; largest <= max_reach; largest++) {
        uint64_t full = (sum - least) / (largest - 1);
        uint64_t rest = (sum - least) % (largest - 1);
        uint64_t cost = (count - least + full) * price_of(f, largest);
        if (full < least)
            cost += price_of(f, 1 + rest) + (least - full - 1) * price_of(f, 1);
        if (cost < best)
            best = cost;
    }
    return best;
}

/* The chunks of replication up to `replication` whose holders have loads up to `load`. The latter
 * is below max_load only where all replications are equal: there are then `chunks` of them. */
typedef struct chunk_set {
    uint32_t replication;
    uint32_t load;
    uint32_t chunks;
} chunk_set;

static bool belongs(const tarry_plan *plan, const chunk_set *set, uint32_t chunk)
{
    uint32_t begin = plan->chunk_offset[chunk];
    uint32_t end = plan->chunk_offset[chunk + 1];
    if (end - begin > set->replication)
        return false;
    if (set->load < plan->max_load)
        for (uint32_t entry = begin; entry < end; entry++)
            if (tarry_plan_load(plan, plan->holder_worker[entry]) > set->load)
                return false;
    return true;
}

/* Whether the chunks of the set can all have the slack `sum` as far as f says. */
static bool affordable(const tarry_plan *plan, const price *f, const chunk_set *set,
                       uint32_t copies, uint64_t sum)
{
    uint64_t total = 0;
    for (uint32_t r = plan->min_replication; r <= set->replication; r++) {
        uint64_t chunks = set->load < plan->max_load ? set->chunks : plan->replication_count[r];
        if (chunks == 0)
            continue;
        uint64_t cost = least_cost(f, r, r - copies + 1, sum, set->load);
        if (cost > (f->available - total) / chunks)
            return false;
        total += chunks * cost;
    }
    return true;
}

/* Sets ->available of each price for the chunks of the set. */
static void count_available(const tarry_plan *plan, const chunk_set *set, price *prices,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        prices[i].available = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t begin = plan->worker_offset[worker];
        uint32_t end = plan->worker_offset[worker + 1];
        uint32_t others = 0;
        for (uint32_t slot = begin; slot < end; slot++)
            others += !belongs(plan, set, plan->slot_chunk[slot]);
        for (uint32_t i = 0; i < count; i++)
            prices[i].available +=
                price_sum(&prices[i], end - begin) - price_sum(&prices[i], others);
    }
}

/* Lowers *bound to what the set allows. */
static void bound_by_set(const tarry_plan *plan, const chunk_set *set, uint32_t copies,
                         price *prices, uint32_t count, uint64_t *bound)
{
    count_available(plan, set, prices, count);
    for (uint32_t i = 0; i < count; i++) {
        if (affordable(plan, &prices[i], set, copies, *bound))
            continue;
        uint64_t possible = 0;
        uint64_t impossible = *bound;
        while (impossible - possible > 1) {
            uint64_t middle = possible + (impossible - possible) / 2;
            if (affordable(plan, &prices[i], set, copies, middle))
                possible = middle;
            else
                impossible = middle;
        }
        *bound = possible;
    }
}

/* The least load above `load`, or UINT32_MAX. */
static uint32_t next_load(const tarry_plan *plan, uint32_t load)
{
    uint32_t next = UINT32_MAX;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t present = tarry_plan_load(plan, worker);
        if (present > load && present < next)
            next = present;
    }
    return next;
}

/* Steps to the next set of chunks: of few copies where replications differ, else on workers of
 * small load. The first one, of replication 0 and load 0, is empty. Gives back false at the end. */
static bool next_set(const tarry_plan *plan, chunk_set *set)
{
    if (plan->min_replication < plan->max_replication) {
        set->load = plan->max_load;
        do
            set->replication++;
        while (plan->replication_count[set->replication] == 0);
        return set->replication < plan->max_replication;
    }
    if ((uint64_t)plan_edges(plan) * plan->max_replication > MAX_VISITS)
        return false;
    set->replication = plan->max_replication;
    set->load = next_load(plan, set->load);
    if (set->load >= plan->max_load)
        return false;
    set->chunks = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        set->chunks += belongs(plan, set, chunk);
    return true;
}

/* Spreads thresholds over the reaches, fewer where an evaluation is dear;
 * gives back how many prices there are. */
static uint32_t choose_prices(const tarry_plan *plan, price *prices)
{
    uint64_t classes = 0;
    for (uint32_t r = plan->min_replication; r <= plan->max_replication; r++)
        classes += plan->replication_count[r] > 0;
    uint64_t density = classes * plan->max_load <= DEAR ? 8 : 1;
    uint64_t top = plan->max_load < MAX_THRESHOLD ? plan->max_load : MAX_THRESHOLD;
    uint64_t threshold = 0;
    uint32_t count = 0;
    do {
        threshold += 1 + threshold / density;
        if (threshold > top)
            threshold = top;
        prices[count++] = (price){.threshold = threshold};
        prices[count++] = (price){.curved = true, .threshold = threshold};
    } while (threshold < top);
    return count;
}

uint64_t slack_bound(const tarry_plan *plan, uint32_t copies)
{
    uint64_t bound = UINT64_MAX;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint64_t ceiling = slack_ceiling(plan, chunk, copies);
        if (ceiling < bound)
            bound = ceiling;
    }
    price prices[MAX_PRICES];
    uint32_t count = choose_prices(plan, prices);
    const chunk_set all = {.replication = plan->max_replication, .load = plan->max_load};
    bound_by_set(plan, &all, copies, prices, count, &bound);
    chunk_set set = {0};
    for (int sets = 0; sets < MAX_SETS && next_set(plan, &set); sets++)
        bound_by_set(plan, &set, copies, prices, count, &bound);
    return bound;
}

uint64_t tarry_plan_q_bound(const tarry_plan *plan, uint32_t copies)
{
    return 1 + plan_edges(plan) - slack_bound(plan, copies);
}
