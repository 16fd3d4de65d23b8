/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/decode/decode.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/dot.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/svd.h"
#include "plan/plan.h"

enum { MOST_RESTARTS = 8 };

/* What one descent may cost, and what more than one may cost together: a second or two. */
static const double descent_limit = 4e9;
static const double restart_limit = 2e9;

/* With one part each R_S of one worker is 1, whatever the assignment. */
static tarry_conditioning conditioning_of_ones(const tarry_plan *plan)
{
    return (tarry_conditioning){
        .worst = 1, .median = 1, .subsets = plan_edges(plan), .complete = true};
}

/* Descents end in different local minima: the best of some is kept, of more where one is cheap. */
static int spread(const tarry_plan *plan, uint64_t seed, double *best,
                  tarry_conditioning *conditioning)
{
    size_t numbers = (size_t)plan->parts * plan->workers;
    double *trial = memory_allocate(&plan->allocator, numbers, sizeof(*trial));
    if (trial == NULL)
        return TARRY_ERROR_NO_MEMORY;
    double affordable = restart_limit / descent_operations(plan, plan->parts, descent_limit);
    int error = TARRY_OK;
    for (uint32_t restart = 0; restart == 0 || (restart < affordable && restart < MOST_RESTARTS);
         restart++) {
        tarry_conditioning found;
        error = descent_spread(plan, plan->parts, seed, restart, descent_limit, trial);
        if (error == TARRY_OK)
            error = conditioning_measure(plan, plan->parts, trial, seed, &found);
        if (error != TARRY_OK)
            break;
        if (restart == 0 || found.worst < conditioning->worst) {
            *conditioning = found;
            for (size_t k = 0; k < numbers; k++)
                best[k] = trial[k];
        }
    }
    memory_release(&plan->allocator, trial);
    return error;
}

int decode_make(tarry_plan *plan, uint64_t seed, const tarry_plan *from)
{
    assert(plan->min_replication >= plan->parts);
    size_t numbers = (size_t)plan->parts * plan->workers;
    double *matrix = memory_allocate(&plan->allocator, numbers, sizeof(*matrix));
    if (matrix == NULL)
        return TARRY_ERROR_NO_MEMORY;
    tarry_conditioning conditioning = conditioning_of_ones(plan);
    int error = TARRY_OK;
    if (plan->parts > 1 && from == NULL) {
        error = spread(plan, seed, matrix, &conditioning);
    } else {
        for (size_t k = 0; k < numbers; k++)
            matrix[k] = plan->parts > 1 ? from->decode[k] : 1;
        if (plan->parts > 1)
            error = conditioning_measure(plan, plan->parts, matrix, seed, &conditioning);
    }
    if (error != TARRY_OK) {
        memory_release(&plan->allocator, matrix);
        return error;
    }
    plan->decode = matrix;
    plan->conditioning = conditioning;
    return TARRY_OK;
}

/* ---- conditioning ---- */

/* Bounds on what is measured: so many sets (8 bytes each
 * for the median), and so many operations. */
static const uint64_t most_sets = UINT64_C(4) << 20;
static const uint64_t most_operations = UINT64_C(1) << 30;

double conditioning_of_columns(double *columns, uint32_t size)
{
    svd_rotate(columns, size, size, NULL);
    double least = INFINITY;
    for (uint32_t k = 0; k < size; k++) {
        double square = dot(columns + k * size, columns + k * size, size);
        least = square < least ? square : least;
    }
    return 1 / sqrt(least);
}

/* What one measurement works in. */
typedef struct gauge {
    const tarry_plan *plan;
    uint32_t parts;
    const double *decode;
    double *columns;   /* parts x parts */
    uint32_t *members; /* parts */
    double *values;    /* one per set */
    size_t count;
} gauge;

static void measure_set(gauge *state, uint32_t chunk)
{
    const tarry_plan *plan = state->plan;
    uint32_t parts = state->parts;
    for (uint32_t k = 0; k < parts; k++) {
        uint32_t worker = plan->holder_worker[plan->chunk_offset[chunk] + state->members[k]];
        for (uint32_t part = 0; part < parts; part++)
            state->columns[k * parts + part] = state->decode[(size_t)part * plan->workers + worker];
    }
    state->values[state->count++] = conditioning_of_columns(state->columns, parts);
}

static uint32_t holders_of(const tarry_plan *plan, uint32_t chunk)
{
    return plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
}

static void measure_all(gauge *state)
{
    const tarry_plan *plan = state->plan;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        subsets_first(state->members, state->parts);
        do
            measure_set(state, chunk);
        while (subsets_next(state->members, state->parts, holders_of(plan, chunk)));
    }
}

static void measure_sample(gauge *state, uint64_t seed, uint64_t sets)
{
    const tarry_plan *plan = state->plan;
    random_stream stream = random_stream_make(seed, RANDOM_CONDITIONING, 0, 0);
    while (state->count < sets) {
        uint32_t chunk = random_below(&stream, plan->chunks);
        subsets_draw(&stream, state->members, state->parts, holders_of(plan, chunk));
        measure_set(state, chunk);
    }
}

/* The value that stands at `rank` once values[0..count-1] are sorted: C. A. R. Hoare's FIND. */
static double select_value(double *values, size_t count, size_t rank)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            double value = values[i];
            values[i++] = values[j];
            values[j--] = value;
        }
        /* Now low..j are at most the pivot, j + 1..high at least, and j < high. */
        if (rank <= j)
            high = j;
        else
            low = j + 1;
    }
    return values[rank];
}

/* How many sets can occur; saturates. */
static uint64_t count_sets(const tarry_plan *plan, uint32_t parts)
{
    uint64_t sets = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        if (__builtin_add_overflow(sets, subsets_count(holders_of(plan, chunk), parts), &sets))
            return UINT64_MAX;
    }
    return sets;
}

/* Jacobi's sweeps take some twenty times the cube of the size. */
static uint64_t affordable_sets(uint32_t parts)
{
    uint64_t sets = most_operations / (20 * (uint64_t)parts * parts * parts);
    if (sets > most_sets)
        return most_sets;
    return sets > 1000 ? sets : 1000;
}

int conditioning_measure(const tarry_plan *plan, uint32_t parts, const double *decode,
                         uint64_t seed, tarry_conditioning *out)
{
    uint64_t sets = count_sets(plan, parts), affordable = affordable_sets(parts);
    bool complete = sets <= affordable;
    if (!complete)
        sets = affordable;
    const tarry_allocator *allocator = &plan->allocator;
    gauge state = {.plan = plan, .parts = parts, .decode = decode};
    int error = TARRY_ERROR_NO_MEMORY;
    state.columns = memory_allocate(allocator, (size_t)parts * parts, sizeof(double));
    state.members = memory_allocate(allocator, parts, sizeof(uint32_t));
    state.values = memory_allocate(allocator, (size_t)sets, sizeof(double));
    if (state.columns == NULL || state.members == NULL || state.values == NULL)
        goto release;
    if (complete)
        measure_all(&state);
    else
        measure_sample(&state, seed, sets);
    double worst = 0;
    for (size_t k = 0; k < state.count; k++)
        worst = state.values[k] > worst ? state.values[k] : worst;
    *out = (tarry_conditioning){
        .worst = worst,
        .median = select_value(state.values, state.count, (state.count - 1) / 2),
        .subsets = sets,
        .complete = complete,
    };
    error = TARRY_OK;
release:
    memory_release(allocator, state.columns);
    memory_release(allocator, state.members);
    memory_release(allocator, state.values);
    return error;
}

/* ---- subsets ---- */

uint64_t subsets_count(uint32_t n, uint32_t size)
{
    if (size > n)
        return 0;
    uint64_t count = 1;
    /* After step k: n - size + k over k, a whole number. */
    for (uint32_t k = 1; k <= size; k++) {
        if (__builtin_mul_overflow(count, (uint64_t)(n - size + k), &count))
            return UINT64_MAX;
        count /= k;
    }
    return count;
}

void subsets_first(uint32_t *members, uint32_t size)
{
    for (uint32_t k = 0; k < size; k++)
        members[k] = k;
}

bool subsets_next(uint32_t *members, uint32_t size, uint32_t n)
{
    uint32_t k = size;
    while (k > 0 && members[k - 1] == n - size + k - 1)
        k--;
    if (k == 0)
        return false;
    members[k - 1]++;
    for (; k < size; k++)
        members[k] = members[k - 1] + 1;
    return true;
}

/* R. W. Floyd: for each of the last `size` numbers t,
 * a random one of 0..t, or t itself if that is taken. */
void subsets_draw(random_stream *stream, uint32_t *members, uint32_t size, uint32_t n)
{
    for (uint32_t k = 0; k < size; k++) {
        uint32_t top = n - size + k, pick = random_below(stream, top + 1), at = k;
        for (uint32_t i = 0; i < k; i++) {
            if (members[i] == pick)
                pick = top;
        }
        for (; at > 0 && members[at - 1] > pick; at--)
            members[at] = members[at - 1];
        members[at] = pick;
    }
}

/* How many workers may die: a chunk is lost with the death that leaves it fewer holders than the
 * parts. */

uint32_t tarry_plan_endures(const tarry_plan *plan)
{
    return plan->min_replication - plan->parts;
}

/* Takes the worker's copies off `alive`, per chunk; whether every chunk has enough left. */
static bool lose(const tarry_plan *plan, uint32_t worker, uint32_t *alive)
{
    bool enough = true;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        enough &= --alive[plan->slot_chunk[slot]] >= plan->parts;
    return enough;
}

static void restore(const tarry_plan *plan, uint32_t worker, uint32_t *alive)
{
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        alive[plan->slot_chunk[slot]]++;
}

/* Workers die as they are drawn, each of those alive as likely as the other. */
static uint32_t endure_one(const tarry_plan *plan, random_stream *stream, uint32_t *workers,
                           uint32_t *alive)
{
    uint32_t died = 0;
    bool enough = true;
    while (enough) {
        uint32_t drawn = died + random_below(stream, plan->workers - died);
        uint32_t worker = workers[drawn];
        workers[drawn] = workers[died];
        workers[died++] = worker;
        enough = lose(plan, worker, alive);
    }
    for (uint32_t i = 0; i < died; i++)
        restore(plan, workers[i], alive);
    return died - 1;
}

int tarry_plan_endures_random(const tarry_plan *plan, uint64_t seed, uint32_t samples,
                              const tarry_allocator *allocator, uint32_t *endured)
{
    uint32_t *workers = memory_allocate(allocator, plan->workers, sizeof(*workers));
    uint32_t *alive = memory_allocate(allocator, plan->chunks, sizeof(*alive));
    int error = workers == NULL || alive == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t worker = 0; error == TARRY_OK && worker < plan->workers; worker++)
        workers[worker] = worker;
    for (uint32_t chunk = 0; error == TARRY_OK && chunk < plan->chunks; chunk++)
        alive[chunk] = tarry_plan_replication(plan, chunk);
    for (uint32_t sample = 0; error == TARRY_OK && sample < samples; sample++) {
        random_stream stream = random_stream_make(seed, RANDOM_ENDURANCE, sample, 0);
        endured[sample] = endure_one(plan, &stream, workers, alive);
    }
    memory_release(allocator, alive);
    memory_release(allocator, workers);
    return error;
}

/* ---- descent ---- */

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

enum {
    MOST_SWEEPS = 30,
    FEW_SWEEPS = 6,   /* for these, four times the operations may be spent */
    LEAST_SWEEPS = 2, /* rather than fewer, sets are sampled */
    CANDIDATES = 30,  /* random columns per turn, in the first third of the sweeps */
    STEPS = 2,        /* along the gradient, per turn */
    LEAST_SQUARINGS = 1,
    MOST_SQUARINGS = 6, /* p grows from 2 to 64 */
    PAIR_NUMBERS = 5,   /* n, P and ||P||_F^2 of a set of one worker, with two parts */
    SIDE_BY_SIDE = 8,   /* sets that are worked out together: a block */
};

/* How many numbers the sets of one turn may take. */
static const double most_numbers = 2e6;

/* One number of each set of a block. */
typedef double lane __attribute__((vector_size(SIDE_BY_SIDE * sizeof(double)), aligned(8)));

typedef struct descent {
    const tarry_plan *plan;
    uint32_t parts;    /* l */
    uint32_t most;     /* sets that one worker's turn looks at */
    uint32_t sweeps;   /* each worker has one turn in each */
    double *block;     /* holds all the arrays of numbers */
    double *column;    /* workers x l: R's columns, each in one piece */
    double *length;    /* workers: of each one's next step */
    uint32_t *whole;   /* holds all the arrays of whole numbers */
    uint32_t *others;  /* max_replication: a chunk's other holders */
    uint32_t *members; /* 2 (l - 1): the workers of a set, and their indices in `others` */
    /* The sets of the worker whose turn it is, each held once. */
    uint32_t sets;
    lane *held;      /* per block: n in l lanes, P in (l - 1) x l, ||P||_F^2 in one */
    uint32_t count;  /* how often sets occur */
    uint32_t *which; /* most: each occurrence's set */
    /* Two parts: a set is one other worker. What is known of it holds until its column changes. */
    double *known;   /* workers x 5: its n, P and ||P||_F^2 */
    uint32_t *place; /* workers: its set of this turn, plus one; 0: none */
    uint32_t *other; /* most: the worker of each set */
    /* Of the column that was looked at last. */
    lane *seen;  /* per block: P x in l - 1 lanes, n x in one */
    lane *value; /* per block: ||[B x]^-1||_F^2 */
    lane *power; /* per block: its p-th power */
    /* Scratch. */
    double *basis;      /* (l - 1) x l: orthonormal, of B's span */
    double *triangle;   /* (l - 1) x (l - 1) */
    double *found;      /* l x l + 1: n, P and ||P||_F^2 of one set */
    double *direction;  /* l */
    double *trial;      /* l */
    unsigned squarings; /* p = 2^squarings */
    double scale;       /* keeps the powers in range */
} descent;

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

/* Works out n, P and ||P||_F^2 of work->members; false if the set is singular by itself. */
static bool find_set(descent *work, double *found)
{
    if (!decompose(work))
        return false;
    uint32_t l = work->parts, count = l - 1;
    double *inverse = found + l, square = 0;
    find_normal(work, found);
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
    found[l * l] = square;
    return true;
}

/* Adds an occurrence of the set of work->members; one that is singular by itself no x can mend. */
static void add_set(descent *work)
{
    uint32_t l = work->parts, other = work->members[0];
    double *found = work->found;
    if (l == 2 && work->place[other] > 0) {
        work->which[work->count++] = work->place[other] - 1;
        return;
    }
    if (l == 2)
        found = work->known + (size_t)other * PAIR_NUMBERS;
    bool is_known = l == 2 && found[l * l] > 0;
    if (!is_known && !find_set(work, found))
        return;
    lane *held = work->held + (size_t)(work->sets / SIDE_BY_SIDE) * (l * l + 1);
    for (uint32_t number = 0; number <= l * l; number++)
        held[number][work->sets % SIDE_BY_SIDE] = found[number];
    work->which[work->count++] = work->sets++;
    if (l == 2) {
        work->place[other] = work->sets;
        work->other[work->sets - 1] = other;
    }
}

/* Takes all sets of the last turn away. */
static void clear_sets(descent *work)
{
    for (uint32_t set = 0; work->parts == 2 && set < work->sets; set++)
        work->place[work->other[set]] = 0;
    work->sets = work->count = 0;
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
    clear_sets(work);
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

/* *out = sum of lanes[i] x[i], i = 0..l-1 */
static void weigh(const lane *lanes, const double *x, uint32_t l, lane *out)
{
    lane sum = lanes[0] * x[0];
    for (uint32_t i = 1; i < l; i++)
        sum += lanes[i] * x[i];
    *out = sum;
}

/* Works out the sets of a block at x. */
static void look_at_block(descent *work, const double *x, uint32_t block)
{
    uint32_t l = work->parts;
    const lane *held = work->held + (size_t)block * (l * l + 1);
    lane *seen = work->seen + (size_t)block * l, *along = seen + l - 1;
    lane numerator = {1, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t k = 0; k + 1 < l; k++) {
        weigh(held + (k + 1) * l, x, l, &seen[k]);
        numerator += seen[k] * seen[k];
    }
    weigh(held, x, l, along);
    work->value[block] = held[l * l] + numerator / (*along * *along);
}

static uint32_t blocks_of(uint32_t sets)
{
    return sets / SIDE_BY_SIDE + (sets % SIDE_BY_SIDE > 0);
}

/* The worst value over all sets, or some value from `limit` on as soon as one is reached. */
static double worst_value(descent *work, const double *x, double limit)
{
    double worst = 0;
    for (uint32_t set = 0; set < work->sets && worst < limit; set++) {
        if (set % SIDE_BY_SIDE == 0)
            look_at_block(work, x, set / SIDE_BY_SIDE);
        double value = work->value[set / SIDE_BY_SIDE][set % SIDE_BY_SIDE];
        worst = value > worst ? value : worst;
    }
    return worst;
}

/* The sum of the powers of all that was looked at, each as often as it occurs; or a partial one
 * from `limit` on as soon as it is reached. */
static double sum_powers(descent *work, double limit)
{
    for (uint32_t block = 0; block < blocks_of(work->sets); block++) {
        lane power = work->value[block] * work->scale;
        for (unsigned k = 0; k < work->squarings; k++)
            power *= power;
        work->power[block] = power;
    }
    double sum = 0;
    for (uint32_t k = 0; k < work->count && sum < limit; k++)
        sum += work->power[work->which[k] / SIDE_BY_SIDE][work->which[k] % SIDE_BY_SIDE];
    return sum;
}

/* Makes what was seen of each set the factors of P's rows and of n in the direction. */
static void find_factors(descent *work)
{
    uint32_t l = work->parts;
    for (uint32_t block = 0; block < blocks_of(work->sets); block++) {
        lane constant = work->held[(size_t)block * (l * l + 1) + l * l];
        lane *seen = work->seen + (size_t)block * l, along = seen[l - 1];
        lane weight = work->power[block] / work->value[block] / (along * along);
        for (uint32_t k = 0; k + 1 < l; k++)
            seen[k] *= weight;
        lane numerator = (work->value[block] - constant) * along * along;
        seen[l - 1] = -weight * numerator / along;
    }
}

/* The i-th number of the direction; inline for each l that is known to the compiler. */
static inline double number_of_direction(const descent *work, uint32_t l, uint32_t i)
{
    double sum = 0;
    for (uint32_t k = 0; k < work->count; k++) {
        uint32_t block = work->which[k] / SIDE_BY_SIDE, at = work->which[k] % SIDE_BY_SIDE;
        const lane *held = work->held + (size_t)block * (l * l + 1) + i;
        const lane *factor = work->seen + (size_t)block * l;
        for (uint32_t row = 0; row + 1 < l; row++)
            sum -= factor[row][at] * held[(row + 1) * l][at];
        sum -= factor[l - 1][at] * held[0][at];
    }
    return sum;
}

/*
 * The direction of steepest descent on the sphere at x, which was looked at last, as a unit vector
 * in work->direction; false if there is none.
 */
static bool find_direction(descent *work, const double *x)
{
    uint32_t l = work->parts;
    double *down = work->direction;
    find_factors(work);
    for (uint32_t i = 0; i < l; i++)
        down[i] = l == 2 ? number_of_direction(work, 2, i) : number_of_direction(work, l, i);
    subtract(down, dot(down, x, l), x, l);
    double square = dot(down, down, l);
    if (!(square > 0 && square < INFINITY))
        return false;
    normalise(down, l);
    return true;
}

/* One step down, if any of some lengths goes down, which is given back; *now is the sum at x. */
static bool step_down(descent *work, double *x, double *now, double *length)
{
    uint32_t l = work->parts;
    for (unsigned tries = 0; tries < 8; tries++) {
        for (uint32_t i = 0; i < l; i++)
            work->trial[i] = x[i] + *length * work->direction[i];
        normalise(work->trial, l);
        for (uint32_t block = 0; block < blocks_of(work->sets); block++)
            look_at_block(work, work->trial, block);
        double then = sum_powers(work, *now);
        if (then < *now) {
            memcpy(x, work->trial, l * sizeof(*x));
            *now = then;
            *length = *length < 0.25 ? 2 * *length : 0.5;
            return true;
        }
        *length /= 3;
    }
    return false;
}

static void descend(descent *work, uint32_t worker)
{
    double *x = work->column + (size_t)worker * work->parts;
    work->scale = 1 / worst_value(work, x, INFINITY);
    if (!(work->scale > 0 && work->scale < INFINITY))
        return;
    double now = sum_powers(work, INFINITY), length = work->length[worker];
    bool moved = true; /* otherwise the direction is still the same */
    for (unsigned k = 0; k < STEPS && (!moved || find_direction(work, x)); k++)
        moved = step_down(work, x, &now, &length);
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

static lane *cut_lanes(double **rest, size_t count)
{
    return (lane *)cut(rest, count * SIDE_BY_SIDE);
}

static uint32_t *cut_whole(uint32_t **rest, size_t count)
{
    uint32_t *array = *rest;
    *rest += count;
    return array;
}

static int allocate(descent *work)
{
    const tarry_plan *plan = work->plan;
    size_t l = work->parts, most = work->most, pairs = l == 2 ? plan->workers : 0;
    size_t blocks = blocks_of(work->most);
    size_t numbers = plan->workers * (l + 1) + blocks * SIDE_BY_SIDE * (l * l + l + 3) +
                     pairs * PAIR_NUMBERS + 2 * (l - 1) * l + l * l + 1 + 2 * l;
    size_t whole = plan->max_replication + 2 * (l - 1) + most + pairs + (pairs > 0 ? most : 0);
    work->block = memory_allocate(&plan->allocator, numbers, sizeof(*work->block));
    work->whole = memory_allocate(&plan->allocator, whole, sizeof(*work->whole));
    if (work->block == NULL || work->whole == NULL)
        return TARRY_ERROR_NO_MEMORY;
    double *rest = work->block;
    work->column = cut(&rest, plan->workers * l);
    work->length = cut(&rest, plan->workers);
    work->held = cut_lanes(&rest, blocks * (l * l + 1));
    work->known = cut(&rest, pairs * PAIR_NUMBERS);
    work->seen = cut_lanes(&rest, blocks * l);
    work->value = cut_lanes(&rest, blocks);
    work->power = cut_lanes(&rest, blocks);
    work->basis = cut(&rest, (l - 1) * l);
    work->triangle = cut(&rest, (l - 1) * (l - 1));
    work->found = cut(&rest, l * l + 1);
    work->direction = cut(&rest, l);
    work->trial = cut(&rest, l);
    uint32_t *whole_rest = work->whole;
    work->others = cut_whole(&whole_rest, plan->max_replication);
    work->members = cut_whole(&whole_rest, 2 * (l - 1));
    work->which = cut_whole(&whole_rest, most);
    work->place = cut_whole(&whole_rest, pairs);
    work->other = cut_whole(&whole_rest, pairs > 0 ? most : 0);
    return TARRY_OK;
}

static void release(descent *work)
{
    memory_release(&work->plan->allocator, work->block);
    memory_release(&work->plan->allocator, work->whole);
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
        if (work->parts == 2) /* what was known of its column is of the one before */
            work->known[(size_t)worker * PAIR_NUMBERS + PAIR_NUMBERS - 1] = 0;
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
