/* SPDX-License-Identifier: Apache-2.0 */
#include "straggler/straggler.h"

#include <math.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/random.h"

/* What is chosen once for the whole run. */
typedef struct fate {
    bool dead;
    double factor; /* of all `slow` terms that hit this worker */
} fate;

struct tarry_straggler {
    tarry_allocator allocator;
    uint64_t seed;
    uint32_t workers;
    fate *fates;
    size_t terms;
    term term[STRAGGLER_MAX_TERMS];
};

/* Of the term that hits this worker, which is one at most: the number is the worker's own. */
static double slow_factor(uint64_t seed, const term *slow, uint32_t worker)
{
    random_stream stream = random_stream_make(seed, RANDOM_STRAGGLER_CHOICE, 1, worker);
    return slow->factor + (slow->most_factor - slow->factor) * random_uniform(&stream);
}

/*
 * In one random order of the workers, the dead come first, and then the slow of one `slow` term
 * after the other, as far as the workers suffice: no worker is chosen twice.
 */
static int choose_fates(tarry_straggler *straggler)
{
    const tarry_allocator *allocator = &straggler->allocator;
    uint32_t workers = straggler->workers, next = 0;
    uint32_t *order = memory_allocate(allocator, workers, sizeof(*order));
    if (order == NULL)
        return TARRY_ERROR_NO_MEMORY;
    random_stream stream = random_stream_make(straggler->seed, RANDOM_STRAGGLER_CHOICE, 0, 0);
    for (uint32_t worker = 0; worker < workers; worker++) {
        order[worker] = worker;
        straggler->fates[worker].factor = 1;
    }
    random_shuffle(&stream, order, workers);
    for (size_t i = 0; i < straggler->terms; i++)
        if (straggler->term[i].kind == TERM_DEAD)
            for (uint32_t k = 0; k < straggler->term[i].count; k++)
                straggler->fates[order[next++]].dead = true;
    for (size_t i = 0; i < straggler->terms; i++)
        if (straggler->term[i].kind == TERM_SLOW)
            for (uint32_t k = 0; k < straggler->term[i].count && next < workers; k++, next++)
                straggler->fates[order[next]].factor =
                    slow_factor(straggler->seed, &straggler->term[i], order[next]);
    memory_release(allocator, order);
    return TARRY_OK;
}

int tarry_straggler_create(const char *spec, uint32_t workers, uint64_t seed,
                           const tarry_allocator *allocator, tarry_straggler **straggler,
                           tarry_diagnostic *diagnostic)
{
    if (spec == NULL || workers == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "straggler: %s",
                        spec == NULL ? "no SPEC" : "no workers");
    tarry_straggler *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "straggler");
    made->allocator = memory_allocator(allocator);
    made->seed = seed;
    made->workers = workers;
    int error = spec_parse(spec, workers, &made->allocator, made->term, &made->terms, diagnostic);
    if (error != TARRY_OK)
        goto free_made;
    made->fates = memory_allocate(&made->allocator, workers, sizeof(*made->fates));
    error = made->fates == NULL ? TARRY_ERROR_NO_MEMORY : choose_fates(made);
    if (error != TARRY_OK) {
        diagnose_no_memory(diagnostic, "straggler");
        goto free_made;
    }
    *straggler = made;
    return TARRY_OK;

free_made:
    tarry_straggler_free(made);
    return error;
}

void tarry_straggler_free(tarry_straggler *straggler)
{
    if (straggler == NULL)
        return;
    tarry_allocator allocator = straggler->allocator;
    for (size_t i = 0; i < straggler->terms; i++)
        trace_free(straggler->term[i].trace, &allocator);
    memory_release(&allocator, straggler->fates);
    memory_release(&allocator, straggler);
}

/* A trace of one step, in which each worker has one chunk. */
static int add_seconds(tarry_straggler *straggler, const double *seconds,
                       tarry_diagnostic *diagnostic)
{
    const tarry_allocator *allocator = &straggler->allocator;
    uint32_t workers = straggler->workers;
    if (straggler->terms == STRAGGLER_MAX_TERMS)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "more than %d terms, besides what the workers' seconds add",
                        STRAGGLER_MAX_TERMS - 1);
    trace *data = memory_allocate(allocator, 1, sizeof(*data));
    float *values = memory_allocate(allocator, workers, sizeof(*values));
    if (data == NULL || values == NULL) {
        memory_release(allocator, values);
        memory_release(allocator, data);
        return diagnose_no_memory(diagnostic, "straggler");
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        straggler->fates[worker].dead |= isinf(seconds[worker]);
        values[worker] = straggler->fates[worker].dead ? 0 : (float)seconds[worker];
    }
    *data = (trace){.steps = 1, .workers = workers, .chunks = 1, .seconds = values};
    straggler->term[straggler->terms++] = (term){.kind = TERM_TRACE, .trace = data};
    return TARRY_OK;
}

int straggler_create_measured(const char *spec, uint32_t workers, const double *seconds,
                              uint64_t seed, const tarry_allocator *allocator,
                              tarry_straggler **straggler, tarry_diagnostic *diagnostic)
{
    tarry_straggler *made;
    int error = tarry_straggler_create(spec, workers, seed, allocator, &made, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (seconds != NULL)
        error = add_seconds(made, seconds, diagnostic);
    if (error != TARRY_OK)
        tarry_straggler_free(made);
    else
        *straggler = made;
    return error;
}

bool tarry_straggler_dead(const tarry_straggler *straggler, uint32_t worker)
{
    return straggler != NULL && straggler->fates[worker].dead;
}

/*
 * The random numbers of one term: a stream per (round, worker), in which every draw has a block of
 * its own. A draw takes one block (four words) at most, so that no two draws share a number, and
 * none depends on which others were made. A term that is drawn once for the run has its draws of
 * round 0 in every round.
 */
static random_stream draw_stream(const tarry_straggler *straggler, size_t index, uint64_t round,
                                 uint32_t worker, uint32_t position)
{
    const term *at = &straggler->term[index];
    random_stream stream = random_stream_make(straggler->seed, RANDOM_STRAGGLER,
                                              at->per_run ? 0 : (uint32_t)round, worker);
    uint32_t row = at->per_chunk ? position + 1 : 0;
    stream.counter[0] = row * STRAGGLER_MAX_TERMS + (uint32_t)index;
    return stream;
}

/* How many nanoseconds `seconds` are, at most UINT64_MAX. */
static uint64_t nanoseconds(double seconds)
{
    double ns = rint(seconds * 1e9);
    return ns < 0x1p64 ? (uint64_t)ns : UINT64_MAX;
}

/*
 * The state of a chain that has run for ever: each round has one uniform number, which makes a
 * worker fast below P_RECOVER, slow from 1 - P_SLOW on, and leaves it as it is in between. So the
 * last round that did not leave it says what it is, and nothing is kept (coupling from the past; J.
 * Propp, D. Wilson, 1996). Before round 0 the state is drawn from the stationary distribution. The
 * search meets its bound with a probability below e^-65.
 */
static bool is_slow(const tarry_straggler *straggler, size_t index, uint64_t round, uint32_t worker)
{
    enum { MAX_ROUNDS_BACK = 1 << 16 };
    const term *at = &straggler->term[index];
    for (uint64_t back = 0; back <= round && back < MAX_ROUNDS_BACK; back++) {
        random_stream stream = draw_stream(straggler, index, round - back, worker, 0);
        double uniform = random_uniform(&stream);
        if (uniform < at->recovery)
            return false;
        if (uniform >= 1 - at->probability)
            return true;
    }
    random_stream stream = random_stream_make(straggler->seed, RANDOM_STRAGGLER, 0, worker);
    stream.counter[0] = STRAGGLER_MAX_TERMS + (uint32_t)index; /* of no round: a row of its own */
    return random_uniform(&stream) * (at->probability + at->recovery) < at->probability;
}

/* Whether the worker's rack is hit in `round`; *stream goes on with the rack's numbers. */
static bool is_rack_hit(const tarry_straggler *straggler, size_t index, uint64_t round,
                        uint32_t worker, random_stream *stream)
{
    const term *at = &straggler->term[index];
    *stream = draw_stream(straggler, index, round, worker / at->count, 0);
    return random_uniform(stream) < at->probability;
}

/* What one term does to a chunk's time. */
static void apply_term(const tarry_straggler *straggler, size_t index, uint64_t round,
                       uint32_t worker, uint32_t position, uint32_t chunk, uint32_t pieces,
                       double *added, double *factor)
{
    const term *at = &straggler->term[index];
    random_stream stream = draw_stream(straggler, index, round, worker, position);
    switch (at->kind) {
    case TERM_EXPONENTIAL:
        *added += at->shift + at->scale * random_exponential(&stream);
        break;
    case TERM_PARETO:
        /* exp(-log(U) / shape); 0 * inf is 0: a scale of nothing adds nothing */
        if (at->scale > 0)
            *added += at->scale * exp(random_exponential(&stream) / at->shape);
        break;
    case TERM_WEIBULL:
        if (at->scale > 0)
            *added += at->scale * pow(random_exponential(&stream), 1 / at->shape);
        break;
    case TERM_JITTER:
        *factor *= fmax(0, 1 + at->deviation * random_normal(&stream));
        break;
    case TERM_MARKOV:
        if (is_slow(straggler, index, round, worker))
            *factor *= at->factor;
        break;
    case TERM_RACK:
        if (!isinf(at->factor) && is_rack_hit(straggler, index, round, worker, &stream))
            *factor *= at->factor;
        break;
    case TERM_TRACE:
        *added += at->per_chunk ? trace_pair_seconds(at->trace, round, chunk / pieces)
                                : trace_seconds(at->trace, round, worker, position / pieces);
        break;
    case TERM_NONE:
    case TERM_SLOW:
    case TERM_DEAD:
    case TERM_FAIL:
    case TERM_REJOIN:
        break;
    }
}

uint64_t tarry_straggler_time_ns(const tarry_straggler *straggler, uint64_t round, uint32_t worker,
                                 uint32_t position, uint32_t chunk, uint32_t pieces,
                                 uint64_t base_ns)
{
    /* Bounds that keep every intermediate value finite,
     * far beyond what 64 bits of nanoseconds hold. */
    const double most_seconds = 1e12, most_factor = 1e100;
    if (straggler == NULL)
        return base_ns;
    if (straggler->fates[worker].dead)
        return UINT64_MAX;
    double added = 0, factor = fmin(straggler->fates[worker].factor, most_factor);
    for (size_t i = 0; i < straggler->terms; i++) {
        apply_term(straggler, i, round, worker, position, chunk, pieces, &added, &factor);
        added = fmin(added, most_seconds);
        factor = fmin(factor, most_factor);
    }
    if (added == 0 && factor == 1) /* exact, also where a double is not */
        return base_ns;
    double time = rint(((double)base_ns + added * 1e9 / pieces) * factor);
    return time < 0x1p64 ? (uint64_t)time : UINT64_MAX;
}

bool tarry_straggler_adds(const tarry_straggler *straggler)
{
    for (size_t i = 0; straggler != NULL && i < straggler->terms; i++)
        switch (straggler->term[i].kind) {
        case TERM_EXPONENTIAL:
        case TERM_PARETO:
        case TERM_WEIBULL:
        case TERM_TRACE:
            return true;
        default:
            break;
        }
    return false;
}

bool tarry_straggler_fails(const tarry_straggler *straggler, uint64_t round, uint32_t worker,
                           uint32_t load, uint32_t *position)
{
    if (straggler == NULL || straggler->fates[worker].dead)
        return false;
    double share = 1; /* of the work that is done before the first death */
    for (size_t i = 0; i < straggler->terms; i++) {
        const term *at = &straggler->term[i];
        random_stream stream = draw_stream(straggler, i, round, worker, 0);
        bool hit = false;
        if (at->kind == TERM_FAIL)
            hit = random_uniform(&stream) < at->probability;
        else if (at->kind == TERM_RACK && isinf(at->factor))
            hit = is_rack_hit(straggler, i, round, worker, &stream);
        if (hit)
            share = fmin(share, random_uniform(&stream));
    }
    if (share == 1) /* no draw is */
        return false;
    *position = (uint32_t)(share * ((double)load + 1));
    return true;
}

uint64_t tarry_straggler_rejoin_ns(const tarry_straggler *straggler)
{
    for (size_t i = 0; straggler != NULL && i < straggler->terms; i++)
        if (straggler->term[i].kind == TERM_REJOIN)
            return nanoseconds(straggler->term[i].scale);
    return UINT64_MAX;
}

const char *straggler_mortal_term(const tarry_straggler *straggler)
{
    for (size_t i = 0; straggler != NULL && i < straggler->terms; i++)
        switch (straggler->term[i].kind) {
        case TERM_FAIL:
            return "fail";
        case TERM_REJOIN:
            return "rejoin";
        case TERM_RACK:
            if (isinf(straggler->term[i].factor))
                return "rack:K,inf";
            break;
        default:
            break;
        }
    return NULL;
}
