/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/chunk_gradient.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"

typedef struct desk {
    objective_workspace *work;
    size_t *rows;                 /* a chunk's draw; NULL without a batch */
    local_steps *local;           /* NULL: there are none */
    objective_workspace *precise; /* of samples that are drawn one by one; else NULL, */
    double *exact;                /* and their sum */
    struct desk *next;
} desk;

/* When a worker's time began. */
typedef struct round_begin {
    uint64_t round;
    double at; /* NaN: in no round yet */
} round_begin;

struct chunk_gradient {
    const objective *model;
    const dataset *data; /* NULL: they are fetched */
    chunk_fetch *fetch;
    void *user; /* of fetch */
    batch_settings batch;
    local_settings local;
    chunk_clock *clock; /* of limited local steps; else NULL */
    void *clock_user;
    round_begin *begun; /* by worker, guarded by lock */
    uint32_t workers;
    sampler draws;        /* where samples are drawn one by one, */
    double clip;          /* each with a gradient of at most this length; 0: they are not */
    round_tally *tallies; /* NULL: losses are not noted */
    size_t dimension;
    uint32_t threads;
    desk *desks;
    desk *vacant; /* a list, guarded by lock */
    pthread_mutex_t lock;
    pthread_cond_t returned;
};

static size_t most_rows(const batch_settings *batch)
{
    size_t most = 0;
    for (uint32_t chunk = 0; chunk < batch->chunks; chunk++) {
        size_t count = batch_count(batch, chunk);
        most = count > most ? count : most;
    }
    return most;
}

static int create(const objective *model, const batch_settings *batch, uint32_t threads,
                  chunk_gradient **out)
{
    chunk_gradient *state = memory_allocate(NULL, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pthread_mutex_init(&state->lock, NULL);
    pthread_cond_init(&state->returned, NULL);
    state->model = model;
    state->batch = *batch;
    state->dimension = objective_dimension(model);
    state->desks = memory_allocate(NULL, threads, sizeof(*state->desks));
    if (state->desks == NULL)
        goto release;
    state->threads = threads;
    for (uint32_t i = 0; i < threads; i++) {
        desk *place = &state->desks[i];
        if (batch->batch != 0) {
            place->rows = memory_allocate(NULL, most_rows(batch), sizeof(*place->rows));
            if (place->rows == NULL)
                goto release;
        }
        if (objective_workspace_create(model, OBJECTIVE_SINGLE, NULL, &place->work) != TARRY_OK)
            goto release;
        place->next = state->vacant;
        state->vacant = place;
    }
    *out = state;
    return TARRY_OK;
release:
    chunk_gradient_free(state);
    return TARRY_ERROR_NO_MEMORY;
}

int chunk_gradient_create(const objective *model, const dataset *data, const batch_settings *batch,
                          uint32_t threads, chunk_gradient **out)
{
    int error = create(model, batch, threads, out);
    if (error == TARRY_OK)
        (*out)->data = data;
    return error;
}

int chunk_gradient_create_fetching(const objective *model, chunk_fetch *fetch, void *user,
                                   const batch_settings *batch, uint32_t threads,
                                   chunk_gradient **out)
{
    int error = create(model, batch, threads, out);
    if (error == TARRY_OK) {
        (*out)->fetch = fetch;
        (*out)->user = user;
    }
    return error;
}

void chunk_gradient_free(chunk_gradient *state)
{
    if (state == NULL)
        return;
    for (uint32_t i = 0; i < state->threads; i++) {
        objective_workspace_free(state->desks[i].work);
        memory_release(NULL, state->desks[i].rows);
        local_steps_free(state->desks[i].local);
        objective_workspace_free(state->desks[i].precise);
        memory_release(NULL, state->desks[i].exact);
    }
    explicit_bzero(&state->draws, sizeof(state->draws));
    memory_release(NULL, state->begun);
    memory_release(NULL, state->desks);
    pthread_cond_destroy(&state->returned);
    pthread_mutex_destroy(&state->lock);
    memory_release(NULL, state);
}

int chunk_gradient_step_locally(chunk_gradient *state, const local_settings *local)
{
    int error = TARRY_OK;
    for (uint32_t i = 0; i < state->threads && error == TARRY_OK; i++)
        error =
            local_steps_create(state->model, local, OBJECTIVE_SINGLE, NULL, &state->desks[i].local);
    if (error == TARRY_OK)
        state->local = *local;
    return error;
}

int chunk_gradient_limit(chunk_gradient *state, uint32_t workers, chunk_clock *clock, void *user)
{
    state->begun = memory_allocate(NULL, workers, sizeof(*state->begun));
    if (state->begun == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++)
        state->begun[worker].at = NAN;
    state->workers = workers;
    state->clock = clock;
    state->clock_user = user;
    return TARRY_OK;
}

static size_t most_samples(const batch_settings *batch)
{
    batch_settings all = *batch;
    all.batch = 0;
    return most_rows(&all);
}

int chunk_gradient_sample(chunk_gradient *state, const sampler *draws, double clip)
{
    for (uint32_t i = 0; i < state->threads; i++) {
        desk *place = &state->desks[i];
        place->rows = memory_allocate(NULL, most_samples(&state->batch), sizeof(*place->rows));
        place->exact = memory_allocate(NULL, state->dimension, sizeof(*place->exact));
        if (place->rows == NULL || place->exact == NULL)
            return TARRY_ERROR_NO_MEMORY;
        int error =
            objective_workspace_create(state->model, OBJECTIVE_DOUBLE, NULL, &place->precise);
        if (error != TARRY_OK)
            return error;
    }
    state->draws = *draws;
    state->clip = clip;
    return TARRY_OK;
}

void chunk_gradient_note_in(chunk_gradient *state, round_tally *tallies)
{
    state->tallies = tallies;
}

static desk *take_desk(chunk_gradient *state)
{
    pthread_mutex_lock(&state->lock);
    while (state->vacant == NULL)
        pthread_cond_wait(&state->returned, &state->lock);
    desk *place = state->vacant;
    state->vacant = place->next;
    pthread_mutex_unlock(&state->lock);
    return place;
}

static void return_desk(chunk_gradient *state, desk *place)
{
    pthread_mutex_lock(&state->lock);
    place->next = state->vacant;
    state->vacant = place;
    pthread_cond_signal(&state->returned);
    pthread_mutex_unlock(&state->lock);
}

/* Samples as objective_add_gradient takes them. */
typedef struct sample_range {
    const dataset *data;
    const size_t *rows;
    size_t first, count;
} sample_range;

/* All of a chunk's own. */
static int find_chunk(const chunk_gradient *state, uint32_t origin, sample_range *out)
{
    sample_range own = {.data = state->data};
    batch_chunk(&state->batch, origin, &own.first, &own.count);
    if (own.data == NULL) {
        if (state->fetch(state->user, origin, &own.data) != 0)
            return -1;
        own.first = 0; /* the rows before are not in the data set */
    }
    *out = own;
    return 0;
}

/* The next draw of them. */
static sample_range draw_rows(const chunk_gradient *state, desk *place, uint32_t origin,
                              const sample_range *own, random_stream *stream)
{
    size_t first, count;
    batch_chunk(&state->batch, origin, &first, &count);
    count = batch_count(&state->batch, origin);
    batch_next(&state->batch, origin, stream, place->rows);
    for (size_t i = 0; i < count; i++)
        place->rows[i] -= first - own->first;
    return (sample_range){.data = own->data, .rows = place->rows, .count = count};
}

static int find_samples(const chunk_gradient *state, desk *place, uint64_t round, tarry_span span,
                        sample_range *out)
{
    sample_range of;
    uint64_t begin, end;
    if (find_chunk(state, span.origin, &of) != 0)
        return -1;
    if (state->batch.batch != 0) {
        random_stream stream = batch_begin(&state->batch, round, span.origin);
        of = draw_rows(state, place, span.origin, &of, &stream);
    }
    tarry_span_samples(span, of.count, &begin, &end);
    *out = (sample_range){
        .data = of.data,
        .rows = of.rows != NULL ? of.rows + begin : NULL,
        .first = of.first + begin,
        .count = end - begin,
    };
    return 0;
}

/* When the task's worker has no time left in its round; INFINITY: it has as much as it takes. */
static double time_limit(chunk_gradient *state, const tarry_task *task)
{
    if (state->clock == NULL || task == NULL)
        return INFINITY;
    assert(task->worker < state->workers);
    round_begin *begun = &state->begun[task->worker];
    pthread_mutex_lock(&state->lock);
    if (isnan(begun->at) || begun->round != task->round)
        *begun = (round_begin){task->round, state->clock(state->clock_user)};
    double at = begun->at;
    pthread_mutex_unlock(&state->lock);
    return at + state->local.seconds;
}

/* What local steps of a chunk were: its samples, and steps. */
typedef struct steps_taken {
    size_t samples;
    uint32_t steps;
} steps_taken;

/* All local steps of a chunk, or as many as there is time for; task NULL: nothing cancels or limits
 * them. */
static int step_locally(chunk_gradient *state, desk *place, local_steps *local,
                        objective_workspace *work, const tarry_task *task, uint64_t round,
                        uint32_t origin, objective_tally *tally, steps_taken *taken)
{
    sample_range own;
    uint32_t step = 0;
    const double limit = time_limit(state, task);
    if (find_chunk(state, origin, &own) != 0)
        return -1;
    random_stream stream = batch_begin(&state->batch, round, origin);
    for (; step < state->local.steps && own.count > 0; step++) {
        if (task != NULL && tarry_compute_cancelled(task))
            return -1;
        if (step > 0 && isfinite(limit) && state->clock(state->clock_user) >= limit)
            break;
        sample_range of =
            state->batch.batch == 0 ? own : draw_rows(state, place, origin, &own, &stream);
        local_steps_take(local, work, of.data, of.rows, of.first, of.count,
                         step == 0 ? tally : NULL);
    }
    *taken = (steps_taken){own.count, step};
    return 0;
}

/* gradient += n (x - y) of the chunk; if time is limited n (x - y) / tau, with n tau and n / tau
 * behind it. A server could name a share of one: steps on a share of the samples are no share of
 * the steps. */
static int add_change(chunk_gradient *state, desk *place, const tarry_task *task, tarry_span span,
                      objective_tally *tally)
{
    steps_taken taken;
    const bool limited = state->clock != NULL;
    if (span.count != span.of)
        return -1;
    local_steps_begin(place->local, task->parameters);
    if (step_locally(state, place, place->local, place->work, task, task->round, span.origin, tally,
                     &taken) != 0)
        return -1;
    const float *change = local_steps_change(place->local);
    const float weight = (float)taken.samples;
    const float steps = limited && taken.steps > 0 ? (float)taken.steps : 1;
    for (size_t i = 0; i < state->dimension; i++)
        task->gradient[i] -= weight * (change[i] / steps);
    if (limited) {
        task->gradient[state->dimension] += weight * (float)taken.steps;
        task->gradient[state->dimension + 1] += taken.steps > 0 ? weight / steps : 0;
    }
    return 0;
}

static int add_gradient(const chunk_gradient *state, desk *place, const tarry_task *task,
                        tarry_span span, objective_tally *tally)
{
    sample_range of;
    if (tarry_compute_cancelled(task) || find_samples(state, place, task->round, span, &of) != 0)
        return -1;
    objective_add_gradient(state->model, place->work, of.data, task->parameters, of.rows, of.first,
                           of.count, task->gradient, tally);
    return 0;
}

/* The span's samples that are drawn in the round, and no others, each once. */
static int draw_samples(const chunk_gradient *state, desk *place, uint64_t round, tarry_span span,
                        sample_range *out)
{
    sample_range own;
    size_t first, count, drawn;
    uint64_t begin, end;
    if (find_chunk(state, span.origin, &own) != 0)
        return -1;
    batch_chunk(&state->batch, span.origin, &first, &count);
    tarry_span_samples(span, count, &begin, &end);
    if (sampler_draw(&state->draws, round, first + begin, (size_t)(end - begin), place->rows,
                     &drawn) != 0)
        return -1;
    for (size_t i = 0; i < drawn; i++)
        place->rows[i] -= first - own.first;
    *out = (sample_range){.data = own.data, .rows = place->rows, .count = drawn};
    return 0;
}

/* In double, and rounded once: what one sample changes of a chunk's sum is then no more than its
 * clipped gradient and the last bit of the sum. */
static int sum_clipped(const chunk_gradient *state, desk *place, const tarry_task *task)
{
    memset(place->exact, 0, state->dimension * sizeof(*place->exact));
    for (uint32_t i = 0; i < task->span_count; i++) {
        sample_range of;
        if (tarry_compute_cancelled(task) ||
            draw_samples(state, place, task->round, task->spans[i], &of) != 0)
            return -1;
        objective_add_clipped(state->model, place->precise, of.data, task->parameters, of.rows,
                              of.count, state->clip, place->exact);
    }
    for (size_t i = 0; i < state->dimension; i++)
        task->gradient[i] = (float)place->exact[i];
    return 0;
}

static int sum_plain(chunk_gradient *state, desk *place, const tarry_task *task,
                     objective_tally *tally)
{
    int failed = 0;
    memset(task->gradient, 0,
           (state->dimension + local_riding(&state->local)) * sizeof(*task->gradient));
    for (uint32_t i = 0; i < task->span_count && failed == 0; i++)
        failed = place->local != NULL ? add_change(state, place, task, task->spans[i], tally)
                                      : add_gradient(state, place, task, task->spans[i], tally);
    return failed;
}

int chunk_gradient_compute(void *user, const tarry_task *task)
{
    chunk_gradient *state = user;
    desk *place = take_desk(state);
    objective_tally tally = {0}, *noted = state->tallies != NULL ? &tally : NULL;
    int failed =
        state->clip > 0 ? sum_clipped(state, place, task) : sum_plain(state, place, task, noted);
    return_desk(state, place);
    if (state->tallies != NULL && failed == 0)
        round_tally_note(state->tallies, task->round, task->spans[0], &tally);
    return failed;
}

void chunk_gradient_add_double(chunk_gradient *state, objective_workspace *work, local_steps *local,
                               uint64_t round, const float *parameters, uint32_t chunk, double *sum)
{
    sample_range of;
    steps_taken taken;
    desk *place = take_desk(state);
    const tarry_span whole = {.origin = chunk, .count = 1, .of = 1};
    if (state->local.steps > 0) {
        local_steps_begin(local, parameters);
        if (step_locally(state, place, local, work, NULL, round, chunk, NULL, &taken) == 0) {
            const float *change = local_steps_change(local);
            for (size_t i = 0; i < state->dimension; i++)
                sum[i] -= (double)taken.samples * change[i];
        }
    } else if (find_samples(state, place, round, whole, &of) == 0) {
        objective_add_gradient_double(state->model, work, of.data, parameters, of.rows, of.first,
                                      of.count, sum);
    }
    return_desk(state, place);
}

bool chunk_gradient_add_tally(chunk_gradient *state, const float *parameters, tarry_span span,
                              const objective_stop *stop, objective_tally *tally)
{
    sample_range of;
    bool complete = true;
    desk *place = take_desk(state);
    if (find_samples(state, place, 0, span, &of) == 0)
        complete = objective_add_tally(state->model, place->work, of.data, parameters, of.first,
                                       of.count, stop, tally);
    return_desk(state, place);
    return complete;
}
