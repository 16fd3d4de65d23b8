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
            for (uint32_t k = 0; k < straggler->term[i].count && next < workers; k++)
                straggler->fates[order[next++]].factor = straggler->term[i].factor;
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

bool tarry_straggler_dead(const tarry_straggler *straggler, uint32_t worker)
{
    return straggler != NULL && straggler->fates[worker].dead;
}

/*
 * The random numbers of one term: a stream per (round, worker), in which every draw has a block of
 * its own. A draw takes one block (four words) at most, so that no two draws share a number, and
 * none depends on which others were made.
 */
static random_stream draw_stream(const tarry_straggler *straggler, size_t index, uint64_t round,
                                 uint32_t worker, uint32_t position)
{
    random_stream stream =
        random_stream_make(straggler->seed, RANDOM_STRAGGLER, (uint32_t)round, worker);
    uint32_t row = straggler->term[index].per_chunk ? position + 1 : 0;
    stream.counter[0] = row * STRAGGLER_MAX_TERMS + (uint32_t)index;
    return stream;
}

uint64_t tarry_straggler_time_ns(const tarry_straggler *straggler, uint64_t round, uint32_t worker,
                                 uint32_t position, uint64_t base_ns)
{
    /* Bounds that keep every intermediate value finite, far beyond what 64 bits of nanoseconds
     * hold. */
    const double most_seconds = 1e12, most_factor = 1e100;
    if (straggler == NULL)
        return base_ns;
    if (straggler->fates[worker].dead)
        return UINT64_MAX;
    double added = 0, factor = fmin(straggler->fates[worker].factor, most_factor);
    for (size_t i = 0; i < straggler->terms; i++) {
        const term *at = &straggler->term[i];
        random_stream stream = draw_stream(straggler, i, round, worker, position);
        switch (at->kind) {
        case TERM_EXPONENTIAL:
            added += at->shift + at->scale * random_exponential(&stream);
            break;
        case TERM_PARETO:
            /* exp(-log(U) / shape); 0 * inf is 0: a scale of nothing adds nothing */
            if (at->scale > 0)
                added += at->scale * exp(random_exponential(&stream) / at->shape);
            break;
        case TERM_JITTER:
            factor *= fmax(0, 1 + at->deviation * random_normal(&stream));
            break;
        case TERM_TRACE:
            added += trace_seconds(at->trace, round, worker, position);
            break;
        case TERM_NONE:
        case TERM_SLOW:
        case TERM_DEAD:
            break;
        }
        added = fmin(added, most_seconds);
        factor = fmin(factor, most_factor);
    }
    if (added == 0 && factor == 1) /* exact, also where a double is not */
        return base_ns;
    double time = rint(((double)base_ns + added * 1e9) * factor);
    return time < 0x1p64 ? (uint64_t)time : UINT64_MAX;
}
