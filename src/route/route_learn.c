/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_learn.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* What members say is believed within these. */
static const double latency_most_ns = 10e9, slowness_least = 1.0 / 64, slowness_most = 1e6;
/* The factor of a kind whose sums fail. */
static const double factor_failing = 1e3;

void route_learner_init(route_learner *it, uint32_t workers, double dimension)
{
    *it = (route_learner){
        .every = (workers + ROUTE_LEARN_ASKED - 1) / ROUTE_LEARN_ASKED,
        .dimension = dimension,
        .general = 1,
    };
}

/* ---- medians ---- */

/* The lower of the two in the middle of an even number; sorts. */
static double median(double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        double value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return values[(count - 1) / 2];
}

static void add(route_lately *past, double value)
{
    past->values[past->count++ % ROUTE_LEARN_SUMS] = value;
}

static double lately(const route_lately *past)
{
    double values[ROUTE_LEARN_SUMS];
    memcpy(values, past->values, sizeof(values));
    return median(values,
                  past->count < ROUTE_LEARN_SUMS ? (uint32_t)past->count : ROUTE_LEARN_SUMS);
}

/* ---- one sum ---- */

void route_learn_begin(route_learner *it, uint32_t count, uint32_t parts)
{
    assert(it->present.kind != TARRY_SHAPE_AUTO);
    it->open = count > 1;
    it->of = (route){it->present, count};
    it->parts = parts;
    it->took_ns = INFINITY;
    it->told = it->latencies = 0;
}

void route_learn_told(route_learner *it, uint32_t worker, uint64_t took_ns, uint64_t latency_ns)
{
    if (!it->open)
        return;
    it->told++;
    it->took_ns = fmin(it->took_ns, (double)took_ns);
    if (latency_ns > 0 && worker % it->every == 0 && it->latencies < ROUTE_LEARN_ASKED)
        it->latency_ns[it->latencies++] = fmin((double)latency_ns, latency_most_ns);
}

static double latency_of(const route_learner *it)
{
    return it->latency.count > 0 ? lately(&it->latency) : route_links_usual().latency_ns;
}

static route_links links_of(const route_learner *it, double slowness)
{
    route_links links = route_links_usual();
    links.latency_ns = latency_of(it);
    links.bytes_per_second /= slowness;
    links.message_ns *= slowness;
    return links;
}

/* Of the sum that has ended: how much slower it was than with the usual links, but for its hops. */
static double slowness_now(const route_learner *it)
{
    route_links usual = route_links_usual();
    usual.latency_ns = 0;
    double rest_ns = it->took_ns - route_hops(&it->of) * latency_of(it);
    double slowness = rest_ns / route_time_ns(&it->of, it->dimension, it->parts, &usual);
    return fmin(fmax(slowness, slowness_least), slowness_most);
}

/* The present kind's slowness is known by several sums. */
static void settle(route_learner *it)
{
    const tarry_shape_kind kind = it->present.kind;
    const double slowness = lately(&it->slowness);
    bool first = true;
    for (uint32_t k = 0; k < ROUTE_LEARN_KINDS; k++) {
        if (k != (uint32_t)kind && it->sums - it->tried[k] > ROUTE_LEARN_FORGOTTEN)
            it->factor[k] = 0;
        first = first && it->factor[k] == 0;
    }
    if (first)
        it->general = slowness;
    if (it->factor[kind] == 0)
        it->factor[kind] = slowness / it->general;
    it->general = slowness / it->factor[kind];
    it->tried[kind] = it->sums;
}

static void learn(route_learner *it)
{
    bool begun = it->open, told = begun && 2 * it->told >= it->of.count;
    it->open = false;
    it->untold = told ? 0 : it->untold + begun;
    if (!told)
        return;
    it->sums++;
    if (it->latencies > 0)
        add(&it->latency, median(it->latency_ns, it->latencies));
    if (it->since++ == 0)
        return;
    add(&it->slowness, slowness_now(it));
    if (it->slowness.count >= ROUTE_LEARN_TRIED)
        settle(it);
}

/* Sums of the present kind fail: others are quicker. */
static void give_up(route_learner *it)
{
    it->factor[it->present.kind] = factor_failing;
    it->tried[it->present.kind] = it->sums;
    it->untold = 0;
}

/* ---- the choice ---- */

static double slowness_of(const route_learner *it, tarry_shape_kind kind)
{
    double factor = it->factor[kind] > 0 ? it->factor[kind] : it->factor[it->present.kind];
    return it->general * (factor > 0 ? factor : 1);
}

typedef struct candidate {
    tarry_shape shape;
    double time_ns;
} candidate;

/* The best of a kind. */
static candidate best_of(const route_learner *it, tarry_shape_kind kind, uint32_t count,
                         uint32_t parts)
{
    const route_links links = links_of(it, slowness_of(it, kind));
    const route best = {
        route_choose(kind, count, it->dimension, parts, &links, it->present),
        count,
    };
    return (candidate){best.shape, route_time_ns(&best, it->dimension, parts, &links)};
}

/* A kind that was not tried is never given up for what the model says alone. */
static bool deserves_trial(const route_learner *it, const candidate *other, double present_ns)
{
    return it->since > ROUTE_LEARN_PATIENCE && it->factor[other->shape.kind] == 0 &&
           other->time_ns < ROUTE_LEARN_WORTH * present_ns;
}

static tarry_shape choose(const route_learner *it, uint32_t count, uint32_t parts)
{
    static const tarry_shape_kind kinds[] = {TARRY_SHAPE_DIRECT, TARRY_SHAPE_TREE,
                                             TARRY_SHAPE_GRID};
    const route present = {it->present, count};
    const bool legal = route_is_legal(present.shape, count);
    const route_links links = links_of(it, slowness_of(it, present.shape.kind));
    const double present_ns =
        legal ? route_time_ns(&present, it->dimension, parts, &links) : INFINITY;
    candidate best = {present.shape, INFINITY}, trial = best;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (kinds[i] == TARRY_SHAPE_GRID &&
            !route_is_legal((tarry_shape){TARRY_SHAPE_GRID, 2}, count))
            continue;
        const candidate other = best_of(it, kinds[i], count, parts);
        if (other.time_ns < best.time_ns)
            best = other;
        if (other.time_ns < trial.time_ns && deserves_trial(it, &other, present_ns))
            trial = other;
    }
    if (!legal || best.time_ns < ROUTE_STAYS * present_ns)
        return best.shape;
    return trial.time_ns < INFINITY ? trial.shape : present.shape;
}

tarry_shape route_learn_choose(route_learner *it, tarry_shape_kind kind, uint32_t count,
                               uint32_t parts)
{
    learn(it);
    const tarry_shape before = it->present;
    const route_links links = route_learn_links(it);
    bool fits = route_is_legal(before, count) && (kind == TARRY_SHAPE_AUTO || kind == before.kind);
    bool is_tried = it->sums > 0 && it->since <= ROUTE_LEARN_TRIED;
    bool fails = kind == TARRY_SHAPE_AUTO && is_tried && it->untold > ROUTE_LEARN_TRIED;
    if (fails)
        give_up(it);
    else if (fits && is_tried)
        return before;
    if (kind != TARRY_SHAPE_AUTO || it->sums == 0)
        it->present = route_choose(kind, count, it->dimension, parts, &links, before);
    else
        it->present = choose(it, count, parts);
    if (it->present.kind != before.kind || it->present.rows != before.rows) {
        it->since = 0;
        it->slowness.count = 0;
    }
    return it->present;
}

route_links route_learn_links(const route_learner *it)
{
    return links_of(it, slowness_of(it, it->present.kind));
}

tarry_links route_learn_known(const route_learner *it)
{
    const route_links links = route_learn_links(it);
    tarry_links known = {.latency_ns = it->latency.count > 0 ? (uint64_t)links.latency_ns : 0};
    if (it->factor[it->present.kind] == 0)
        return known;
    double carried_ns =
        route_bytes(&it->of, it->dimension, it->parts) / links.bytes_per_second * 1e9;
    if (2 * carried_ns >= route_time_ns(&it->of, it->dimension, it->parts, &links))
        known.bytes_per_second = (uint64_t)links.bytes_per_second;
    return known;
}
