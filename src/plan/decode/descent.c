/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Let x be the column of one worker, and B the columns of l - 1 others that share a chunk with it.
 * With n the unit normal of B's span and P = pinv(B), which has P n = 0,
 *
 *     [B x]^-1 = [P - (P x) n^T / (n x); n^T / (n x)],
 *     ||[B x]^-1||_F^2 = ||P||_F^2 + (1 + ||P x||^2) / (n x)^2.
 *
 * So once n and P are worked out for each set B, a candidate for x costs l^2 operations per set.
 * Each worker in turn descends on the sum over its sets of the p-th power of this: first from the
 * best of some random columns, then along the gradient. The larger p, the more the worst set
 * decides; small p first, since large p alone is soon stuck.
 */
#include "plan/decode/descent.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "plan/decode/subsets.h"

enum {
    MOST_SWEEPS = 30,
    FEW_SWEEPS = 6,   /* for these, four times the operations may be spent */
    LEAST_SWEEPS = 2, /* rather than fewer, sets are sampled */
    CANDIDATES = 30,  /* random columns per turn, in the first third of the sweeps */
    STEPS = 2,        /* along the gradient, per turn */
    LEAST_SQUARINGS = 1,
    MOST_SQUARINGS = 6, /* p grows from 2 to 64 */
};

/* How many numbers the sets of one turn may take. */
static const double most_numbers = 2e6;

typedef struct descent {
    const tarry_plan *plan;
    uint32_t parts;    /* l */
    uint32_t most;     /* sets that one worker's turn looks at */
    uint32_t sweeps;   /* each worker has one turn in each */
    double *block;     /* holds all the arrays of numbers */
    double *column;    /* workers x l: R's columns, each in one piece */
    double *length;    /* workers: of each one's next step */
    uint32_t *others;  /* max_replication: a chunk's other holders */
    uint32_t *members; /* 2 (l - 1): the workers of a set, and their indices in `others` */
    /* The sets of the worker whose turn it is. */
    uint32_t sets;
    double *normal;   /* most x l: n */
    double *inverse;  /* most x (l - 1) x l: P */
    double *constant; /* most: ||P||_F^2 */
    /* Scratch. */
    double *basis;      /* (l - 1) x l: orthonormal, of B's span */
    double *triangle;   /* (l - 1) x (l - 1) */
    double *product;    /* l - 1: P x */
    double *direction;  /* l */
    double *trial;      /* l */
    unsigned squarings; /* p = 2^squarings */
    double scale;       /* keeps the powers in range */
} descent;

static double dot(const double *a, const double *b, uint32_t size)
{
    double sum = 0;
    for (uint32_t k = 0; k < size; k++)
        sum += a[k] * b[k];
    return sum;
}

/* a -= factor * b */
static void subtract(double *a, double factor, const double *b, uint32_t size)
{
    for (uint32_t k = 0; k < size; k++)
        a[k] -= factor * b[k];
}

static void normalise(double *a, uint32_t size)
{
    double norm = sqrt(dot(a, a, size));
    for (uint32_t k = 0; k < size; k++)
        a[k] /= norm;
}

/* A unit vector: sums of four uniform numbers are near enough to normal to favour no direction. */
static void draw_unit(random_stream *stream, double *a, uint32_t size)
{
    for (uint32_t k = 0; k < size; k++) {
        a[k] = -2;
        for (int draw = 0; draw < 4; draw++)
            a[k] += random_uniform(stream);
    }
    normalise(a, size);
}

/* B = Q T by Gram and Schmidt, each column twice; false if B is close to singular. */
static bool decompose(descent *work)
{
    uint32_t l = work->parts, count = l - 1;
    for (uint32_t k = 0; k < count; k++) {
        double *q = work->basis + k * l;
        const double *b = work->column + (size_t)work->members[k] * l;
        for (uint32_t i = 0; i < l; i++)
            q[i] = b[i];
        for (uint32_t i = 0; i < k; i++)
            work->triangle[i * count + k] = 0;
        for (uint32_t i = 0; i < 2 * k; i++) {
            const double *before = work->basis + i % k * l;
            double part = dot(before, q, l);
            work->triangle[i % k * count + k] += part;
            subtract(q, part, before, l);
        }
        double norm = sqrt(dot(q, q, l));
        if (norm < 1e-9)
            return false;
        work->triangle[k * count + k] = norm;
        for (uint32_t i = 0; i < l; i++)
            q[i] /= norm;
    }
    return true;
}

/* The unit vector orthogonal to the basis: from the axis that is farthest from its span. */
static void find_normal(const descent *work, double *normal)
{
    uint32_t l = work->parts, axis = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < l; i++) {
        double inside = 0;
        for (uint32_t k = 0; k + 1 < l; k++)
            inside += work->basis[k * l + i] * work->basis[k * l + i];
        if (inside < least) {
            least = inside;
            axis = i;
        }
    }
    for (uint32_t i = 0; i < l; i++)
        normal[i] = i == axis;
    for (uint32_t k = 0; k < 2 * (l - 1); k++) {
        const double *q = work->basis + k % (l - 1) * l;
        subtract(normal, dot(q, normal, l), q, l);
    }
    normalise(normal, l);
}

/* Adds the set of work->members; one that is singular by itself no x can mend. */
static void add_set(descent *work)
{
    if (!decompose(work))
        return;
    uint32_t l = work->parts, count = l - 1;
    double *inverse = work->inverse + (size_t)work->sets * count * l, square = 0;
    find_normal(work, work->normal + (size_t)work->sets * l);
    for (uint32_t k = count; k-- > 0;) {
        double *row = inverse + k * l;
        for (uint32_t i = 0; i < l; i++)
            row[i] = work->basis[k * l + i];
        for (uint32_t i = k + 1; i < count; i++)
            subtract(row, work->triangle[k * count + i], inverse + i * l, l);
        for (uint32_t i = 0; i < l; i++)
            row[i] /= work->triangle[k * count + k];
        square += dot(row, row, l);
    }
    work->constant[work->sets++] = square;
}

/* Adds the sets that `worker` can be in for `chunk`, or `room` random ones if there are more. */
static void add_chunk(descent *work, uint32_t worker, uint32_t chunk, uint32_t room,
                      random_stream *stream)
{
    const tarry_plan *plan = work->plan;
    uint32_t size = work->parts - 1, count = 0;
    uint32_t *index = work->members + size;
    for (uint32_t entry = plan->chunk_offset[chunk]; entry < plan->chunk_offset[chunk + 1];
         entry++) {
        if (plan->holder_worker[entry] != worker)
            work->others[count++] = plan->holder_worker[entry];
    }
    bool all = subsets_count(count, size) <= room;
    bool more = true;
    for (subsets_first(index, size); more;) {
        if (!all)
            subsets_draw(stream, index, size, count);
        for (uint32_t k = 0; k < size; k++)
            work->members[k] = work->others[index[k]];
        add_set(work);
        more = all ? subsets_next(index, size, count) : --room > 0;
    }
}

/* Collects the sets that `worker` can be in. Where they are too many, each turn looks at others. */
static void collect_sets(descent *work, uint32_t worker, random_stream *stream)
{
    const tarry_plan *plan = work->plan;
    uint32_t first = plan->worker_offset[worker];
    uint32_t load = plan->worker_offset[worker + 1] - first;
    work->sets = 0;
    if (load == 0)
        return;
    uint32_t room = work->most / load, chunks = load, start = 0;
    if (room == 0) {
        room = 1;
        chunks = work->most;
        start = random_below(stream, load);
    }
    for (uint32_t k = 0; k < chunks; k++)
        add_chunk(work, worker, plan->slot_chunk[first + (start + k) % load], room, stream);
}

/* ||[B x]^-1||_F^2 for the set; leaves P x in work->product and n x in *along. */
static double set_value(const descent *work, uint32_t set, const double *x, double *along)
{
    uint32_t l = work->parts;
    const double *inverse = work->inverse + (size_t)set * (l - 1) * l;
    double numerator = 1;
    for (uint32_t k = 0; k + 1 < l; k++) {
        work->product[k] = dot(inverse + k * l, x, l);
        numerator += work->product[k] * work->product[k];
    }
    *along = dot(work->normal + (size_t)set * l, x, l);
    return work->constant[set] + numerator / (*along * *along);
}

static double raise(double value, unsigned squarings)
{
    for (unsigned k = 0; k < squarings; k++)
        value *= value;
    return value;
}

/* The worst value over all sets, or some value from `limit` on as soon as one is reached. */
static double worst_value(const descent *work, const double *x, double limit)
{
    double worst = 0, along;
    for (uint32_t set = 0; set < work->sets && worst < limit; set++) {
        double value = set_value(work, set, x, &along);
        worst = value > worst ? value : worst;
    }
    return worst;
}

/* The sum of the powers over all sets, or a partial one
 * from `limit` on as soon as it is reached. */
static double sum_value(const descent *work, const double *x, double limit)
{
    double sum = 0, along;
    for (uint32_t set = 0; set < work->sets && sum < limit; set++)
        sum += raise(set_value(work, set, x, &along) * work->scale, work->squarings);
    return sum;
}

/*
 * The direction of steepest descent on the sphere at x, as a unit vector in work->direction; false
 * if there is none.
 */
static bool find_direction(descent *work, const double *x)
{
    uint32_t l = work->parts;
    double *down = work->direction;
    for (uint32_t i = 0; i < l; i++)
        down[i] = 0;
    for (uint32_t set = 0; set < work->sets; set++) {
        double along, value = set_value(work, set, x, &along);
        const double *inverse = work->inverse + (size_t)set * (l - 1) * l;
        double weight = raise(value * work->scale, work->squarings) / value / (along * along);
        for (uint32_t k = 0; k + 1 < l; k++)
            subtract(down, weight * work->product[k], inverse + k * l, l);
        double numerator = (value - work->constant[set]) * along * along;
        subtract(down, -weight * numerator / along, work->normal + (size_t)set * l, l);
    }
    subtract(down, dot(down, x, l), x, l);
    double square = dot(down, down, l);
    if (!(square > 0 && square < INFINITY))
        return false;
    normalise(down, l);
    return true;
}

/* One step down, if any of some lengths goes down; *now is the sum at x. */
static void step_down(descent *work, double *x, double *now, double *length)
{
    uint32_t l = work->parts;
    for (unsigned tries = 0; tries < 8; tries++) {
        for (uint32_t i = 0; i < l; i++)
            work->trial[i] = x[i] + *length * work->direction[i];
        normalise(work->trial, l);
        double then = sum_value(work, work->trial, *now);
        if (then < *now) {
            memcpy(x, work->trial, l * sizeof(*x));
            *now = then;
            *length = *length < 0.25 ? 2 * *length : 0.5;
            return;
        }
        *length /= 3;
    }
}

static void descend(descent *work, uint32_t worker)
{
    double *x = work->column + (size_t)worker * work->parts;
    work->scale = 1 / worst_value(work, x, INFINITY);
    if (!(work->scale > 0 && work->scale < INFINITY))
        return;
    double now = sum_value(work, x, INFINITY), length = work->length[worker];
    for (unsigned k = 0; k < STEPS && find_direction(work, x); k++)
        step_down(work, x, &now, &length);
    work->length[worker] = length > 1e-6 ? length : 1e-6;
}

/* Moves the worker to the random column with the least worst value, if that is below its own. */
static void try_candidates(descent *work, uint32_t worker, random_stream *stream)
{
    uint32_t l = work->parts;
    double *x = work->column + (size_t)worker * l;
    double best = worst_value(work, x, INFINITY);
    for (unsigned k = 0; k < CANDIDATES; k++) {
        draw_unit(stream, work->trial, l);
        double value = worst_value(work, work->trial, best);
        if (value < best) {
            best = value;
            memcpy(x, work->trial, l * sizeof(*x));
            work->length[worker] = 0.05;
        }
    }
}

static double operations_per_set(double parts)
{
    return 4 * parts * parts * parts + 40 * parts * parts;
}

/* How many sets a turn has if its worker's chunks all had as many as the one with most. */
static double sets_of_turn(const tarry_plan *plan, uint32_t parts, uint32_t worker)
{
    uint64_t most = 0;
    uint32_t first = plan->worker_offset[worker], end = plan->worker_offset[worker + 1];
    for (uint32_t slot = first; slot < end; slot++) {
        uint32_t chunk = plan->slot_chunk[slot];
        uint32_t holders = plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
        uint64_t sets = subsets_count(holders - 1, parts - 1);
        most = sets > most ? sets : most;
    }
    return (double)most * (end - first);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Sets work->most and work->sweeps; gives back the operations that this means. */
static double plan_effort(descent *work, double operations)
{
    const tarry_plan *plan = work->plan;
    double parts = work->parts, workers = plan->workers, each = operations_per_set(parts);
    double all = 0, longest = 1;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        double sets = sets_of_turn(plan, work->parts, worker);
        all += sets;
        longest = sets > longest ? sets : longest;
    }
    double sweep = each * all, sweeps = least(operations / sweep, MOST_SWEEPS);
    if (sweeps < FEW_SWEEPS)
        sweeps = least(4 * operations / sweep, FEW_SWEEPS);
    double most = least(longest, most_numbers / (parts * parts));
    if (sweeps < LEAST_SWEEPS) {
        sweeps = LEAST_SWEEPS;
        most = least(most, operations / (LEAST_SWEEPS * each * workers));
    }
    work->most = most > 1 ? (uint32_t)most : 1;
    work->sweeps = (uint32_t)sweeps;
    return work->sweeps * each * least(all, work->most * workers);
}

double descent_operations(const tarry_plan *plan, uint32_t parts, double operations)
{
    descent work = {.plan = plan, .parts = parts};
    return plan_effort(&work, operations);
}

static double *cut(double **rest, size_t count)
{
    double *array = *rest;
    *rest += count;
    return array;
}

static int allocate(descent *work)
{
    const tarry_plan *plan = work->plan;
    size_t l = work->parts, most = work->most;
    size_t numbers = plan->workers * (l + 1) + most * (l * l + 1) + 2 * (l - 1) * l + 3 * l;
    work->block = memory_allocate(&plan->allocator, numbers, sizeof(*work->block));
    work->others = memory_allocate(&plan->allocator, plan->max_replication, sizeof(*work->others));
    work->members = memory_allocate(&plan->allocator, 2 * (l - 1), sizeof(*work->members));
    if (work->block == NULL || work->others == NULL || work->members == NULL)
        return TARRY_ERROR_NO_MEMORY;
    double *rest = work->block;
    work->column = cut(&rest, plan->workers * l);
    work->length = cut(&rest, plan->workers);
    work->normal = cut(&rest, most * l);
    work->inverse = cut(&rest, most * (l - 1) * l);
    work->constant = cut(&rest, most);
    work->basis = cut(&rest, (l - 1) * l);
    work->triangle = cut(&rest, (l - 1) * (l - 1));
    work->product = cut(&rest, l - 1);
    work->direction = cut(&rest, l);
    work->trial = cut(&rest, l);
    return TARRY_OK;
}

static void release(descent *work)
{
    memory_release(&work->plan->allocator, work->block);
    memory_release(&work->plan->allocator, work->others);
    memory_release(&work->plan->allocator, work->members);
}

static void sweep_workers(descent *work, uint32_t sweep, random_stream *stream)
{
    work->squarings =
        LEAST_SQUARINGS + (MOST_SQUARINGS - LEAST_SQUARINGS + 1) * sweep / work->sweeps;
    for (uint32_t worker = 0; worker < work->plan->workers; worker++) {
        collect_sets(work, worker, stream);
        if (3 * sweep < work->sweeps)
            try_candidates(work, worker, stream);
        descend(work, worker);
    }
}

int descent_spread(const tarry_plan *plan, uint32_t parts, uint64_t seed, uint32_t restart,
                   double operations, double *decode)
{
    descent work = {.plan = plan, .parts = parts};
    plan_effort(&work, operations);
    int error = allocate(&work);
    if (error != TARRY_OK) {
        release(&work);
        return error;
    }
    uint32_t l = parts;
    random_stream stream = random_stream_make(seed, RANDOM_DECODE, restart, 0);
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        draw_unit(&stream, work.column + (size_t)worker * l, l);
        work.length[worker] = 0.1;
    }
    for (uint32_t sweep = 0; sweep < work.sweeps; sweep++)
        sweep_workers(&work, sweep, &stream);
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        for (uint32_t part = 0; part < l; part++)
            decode[(size_t)part * plan->workers + worker] = work.column[(size_t)worker * l + part];
    }
    release(&work);
    return TARRY_OK;
}
