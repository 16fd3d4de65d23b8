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
#include "plan/q.h"

enum {
    MAX_THRESHOLD = 65536, /* keeps all sums below 2^63 */
    MAX_PRICES = 2 * 96,   /* enough for thresholds up to that, each by 1/8 larger than the last */
    MAX_SETS = 8,
    DEAR = 100000, /* as many evaluations of a price per step of a bisection are */
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

/* Whether the chunks of replication up to `limit` can all have the slack `sum` as far as f says. */
static bool affordable(const tarry_plan *plan, const price *f, uint32_t limit, uint32_t copies,
                       uint64_t sum)
{
    uint64_t total = 0;
    for (uint32_t replication = plan->min_replication; replication <= limit; replication++) {
        uint64_t chunks = plan->replication_count[replication];
        if (chunks == 0)
            continue;
        uint64_t cost = least_cost(f, replication, replication - copies + 1, sum, plan->max_load);
        if (cost > (f->available - total) / chunks)
            return false;
        total += chunks * cost;
    }
    return true;
}

/* Sets ->available of each price for the chunks of replication up to `limit`. */
static void count_available(const tarry_plan *plan, uint32_t limit, price *prices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        prices[i].available = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint32_t begin = plan->worker_offset[worker];
        uint32_t end = plan->worker_offset[worker + 1];
        uint32_t others = 0;
        for (uint32_t slot = begin; slot < end; slot++) {
            const uint32_t *offset = plan->chunk_offset + plan->slot_chunk[slot];
            others += offset[1] - offset[0] > limit;
        }
        for (uint32_t i = 0; i < count; i++)
            prices[i].available +=
                price_sum(&prices[i], end - begin) - price_sum(&prices[i], others);
    }
}

/* Lowers *bound to what the chunks of replication up to `limit` allow. */
static void bound_by_set(const tarry_plan *plan, uint32_t limit, uint32_t copies, price *prices,
                         uint32_t count, uint64_t *bound)
{
    count_available(plan, limit, prices, count);
    for (uint32_t i = 0; i < count; i++) {
        if (affordable(plan, &prices[i], limit, copies, *bound))
            continue;
        uint64_t possible = 0;
        uint64_t impossible = *bound;
        while (impossible - possible > 1) {
            uint64_t middle = possible + (impossible - possible) / 2;
            if (affordable(plan, &prices[i], limit, copies, middle))
                possible = middle;
            else
                impossible = middle;
        }
        *bound = possible;
    }
}

/* Spreads thresholds over the reaches, fewer where an evaluation is dear; gives back how many
 * prices there are. */
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
    bound_by_set(plan, plan->max_replication, copies, prices, count, &bound);
    uint32_t sets = 1;
    for (uint32_t limit = plan->min_replication; limit < plan->max_replication && sets < MAX_SETS;
         limit++) {
        if (plan->replication_count[limit] == 0)
            continue;
        bound_by_set(plan, limit, copies, prices, count, &bound);
        sets++;
    }
    return bound;
}
