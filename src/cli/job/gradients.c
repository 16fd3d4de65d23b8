/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/gradients.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/compute.h>
#include <tarry/plan.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/random.h"
#include "learn/network.h"
#include "learn/optimizer.h"
#include "privacy/keystream.h"

typedef struct desk {
    objective_workspace *work;
    size_t *rows;                 /* a chunk's draw; NULL without a batch */
    local_steps *local;           /* NULL: there are none */
    objective_workspace *precise; /* of samples that are drawn one by one; else NULL, */
    double *exact;                /* and their sum */
    struct desk *next;
} desk;

struct chunk_gradient {
    const objective *model;
    const dataset *data; /* NULL: they are fetched */
    chunk_fetch *fetch;
    void *user; /* of fetch */
    batch_settings batch;
    local_settings local;
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

/* From now on each chunk that is worked out is noted in `tallies`, borrowed; NULL: in none. */
static void chunk_gradient_note_in(chunk_gradient *state, round_tally *tallies)
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

/* All local steps of a chunk; task NULL: nothing cancels them. */
static int step_locally(chunk_gradient *state, desk *place, local_steps *local,
                        objective_workspace *work, const tarry_task *task, uint64_t round,
                        uint32_t origin, objective_tally *tally, size_t *samples)
{
    sample_range own;
    if (find_chunk(state, origin, &own) != 0)
        return -1;
    random_stream stream = batch_begin(&state->batch, round, origin);
    for (uint32_t step = 0; step < state->local.steps && own.count > 0; step++) {
        if (task != NULL && tarry_compute_cancelled(task))
            return -1;
        sample_range of =
            state->batch.batch == 0 ? own : draw_rows(state, place, origin, &own, &stream);
        local_steps_take(local, work, of.data, of.rows, of.first, of.count,
                         step == 0 ? tally : NULL);
    }
    *samples = own.count;
    return 0;
}

/* gradient += n (x - y) of the chunk. A server could name a share of one: steps on a share of the
 * samples are no share of the steps. */
static int add_change(chunk_gradient *state, desk *place, const tarry_task *task, tarry_span span,
                      objective_tally *tally)
{
    size_t samples;
    if (span.count != span.of)
        return -1;
    local_steps_begin(place->local, task->parameters);
    if (step_locally(state, place, place->local, place->work, task, task->round, span.origin, tally,
                     &samples) != 0)
        return -1;
    const float *change = local_steps_change(place->local);
    for (size_t i = 0; i < state->dimension; i++)
        task->gradient[i] -= (float)samples * change[i];
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
    memset(task->gradient, 0, state->dimension * sizeof(*task->gradient));
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

/* sum[0..dimension-1] += the gradient of original chunk `chunk` in double, with a workspace of that
 * precision; with local steps its change, by ones of that precision. Not of samples that are
 * fetched. */
static void chunk_gradient_add_double(chunk_gradient *state, objective_workspace *work,
                                      local_steps *local, uint64_t round, const float *parameters,
                                      uint32_t chunk, double *sum)
{
    sample_range of;
    size_t samples;
    desk *place = take_desk(state);
    const tarry_span whole = {.origin = chunk, .count = 1, .of = 1};
    if (state->local.steps > 0) {
        local_steps_begin(local, parameters);
        if (step_locally(state, place, local, work, NULL, round, chunk, NULL, &samples) == 0) {
            const float *change = local_steps_change(local);
            for (size_t i = 0; i < state->dimension; i++)
                sum[i] -= (double)samples * change[i];
        }
    } else if (find_samples(state, place, round, whole, &of) == 0) {
        objective_add_gradient_double(state->model, work, of.data, parameters, of.rows, of.first,
                                      of.count, sum);
    }
    return_desk(state, place);
}

/* Adds the losses of the same samples to the tally, as chunk_gradient_compute notes them: to the
 * bit. Without a batch; not of samples that are fetched. False: as of objective_add_tally. */
static bool chunk_gradient_add_tally(chunk_gradient *state, const float *parameters,
                                     tarry_span span, const objective_stop *stop,
                                     objective_tally *tally)
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

/* ---- round tally ---- */

/* Chunks are found by where their samples begin, as the function that computes is told of spans. */
typedef struct slot {
    uint64_t start;
    uint32_t chunk;
    bool noted; /* of `round` */
    uint64_t round;
    objective_tally tally;
} slot;

struct round_tally {
    pthread_mutex_t lock;
    slot *slots; /* ascending starts */
    uint32_t count;
};

/* Units of 2^-31 of an original chunk. */
static uint64_t start_of(tarry_span span)
{
    return ((uint64_t)span.origin << 31) + (uint64_t)span.first * ((UINT32_C(1) << 31) / span.of);
}

static int compare_starts(const void *a, const void *b)
{
    const slot *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static slot *make_slots(const tarry_plan *plan)
{
    uint32_t count = tarry_plan_chunks(plan);
    slot *slots = memory_allocate(NULL, count, sizeof(*slots));
    for (uint32_t chunk = 0; slots != NULL && chunk < count; chunk++)
        slots[chunk] = (slot){.start = start_of(tarry_plan_span(plan, chunk, 0)), .chunk = chunk};
    if (slots != NULL)
        qsort(slots, count, sizeof(*slots), compare_starts);
    return slots;
}

int round_tally_create(const tarry_plan *plan, round_tally **out)
{
    round_tally *tallies = memory_allocate(NULL, 1, sizeof(*tallies));
    if (tallies == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pthread_mutex_init(&tallies->lock, NULL);
    if (round_tally_replan(tallies, plan) != TARRY_OK) {
        round_tally_free(tallies);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = tallies;
    return TARRY_OK;
}

void round_tally_free(round_tally *tallies)
{
    if (tallies == NULL)
        return;
    memory_release(NULL, tallies->slots);
    pthread_mutex_destroy(&tallies->lock);
    memory_release(NULL, tallies);
}

int round_tally_replan(round_tally *tallies, const tarry_plan *plan)
{
    slot *slots = make_slots(plan);
    if (slots == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pthread_mutex_lock(&tallies->lock);
    slot *old = tallies->slots;
    tallies->slots = slots;
    tallies->count = tarry_plan_chunks(plan);
    pthread_mutex_unlock(&tallies->lock);
    memory_release(NULL, old);
    return TARRY_OK;
}

void round_tally_note(round_tally *tallies, uint64_t round, tarry_span first,
                      const objective_tally *tally)
{
    const slot wanted = {.start = start_of(first)};
    pthread_mutex_lock(&tallies->lock);
    slot *found =
        bsearch(&wanted, tallies->slots, tallies->count, sizeof(*tallies->slots), compare_starts);
    /* A straggler may still be at an earlier round. */
    if (found != NULL && (!found->noted || found->round < round)) {
        found->noted = true;
        found->round = round;
        found->tally = *tally;
    }
    pthread_mutex_unlock(&tallies->lock);
}

void round_tally_sum(round_tally *tallies, uint64_t round, round_tally_fill *fill, void *user,
                     objective_tally *tally)
{
    for (uint32_t i = 0; i < tallies->count; i++) {
        pthread_mutex_lock(&tallies->lock);
        const slot found = tallies->slots[i];
        pthread_mutex_unlock(&tallies->lock);
        objective_tally part = {0};
        if (found.noted && found.round == round)
            part = found.tally;
        else
            fill(user, found.chunk, &part);
        tally->loss += part.loss;
        tally->right += part.right;
    }
}

/* ---- scores ---- */

struct round_scores {
    round_scores_settings of;
    round_tally *tallies; /* of `gradients` */
    objective_workspace *work;
    const float *parameters;
    objective_score train, test;
    pthread_t thread;
    bool beside;  /* the thread is at work */
    bool stopped; /* before the scores were complete */
};

int round_scores_create(const round_scores_settings *settings, round_scores **out)
{
    round_scores *state = memory_allocate(NULL, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->of = *settings;
    state->train = (objective_score){NAN, NAN};
    int error = objective_workspace_create(settings->model, OBJECTIVE_SINGLE, NULL, &state->work);
    if (error == TARRY_OK && settings->gradients != NULL) {
        error = round_tally_create(settings->plan, &state->tallies);
        chunk_gradient_note_in(settings->gradients, state->tallies);
    }
    if (error == TARRY_OK)
        *out = state;
    else
        round_scores_free(state);
    return error;
}

void round_scores_free(round_scores *state)
{
    if (state == NULL)
        return;
    if (state->of.gradients != NULL)
        chunk_gradient_note_in(state->of.gradients, NULL);
    round_tally_free(state->tallies);
    objective_workspace_free(state->work);
    memory_release(NULL, state);
}

int round_scores_replan(round_scores *state, const tarry_plan *plan)
{
    state->of.plan = plan;
    return state->tallies == NULL ? TARRY_OK : round_tally_replan(state->tallies, plan);
}

static void evaluate_on(round_scores *state, const dataset *data, objective_score *score)
{
    const round_scores_settings *of = &state->of;
    objective_tally tally = {0};
    state->stopped =
        state->stopped || !objective_add_tally(of->model, state->work, data, state->parameters, 0,
                                               data->rows, &of->stop, &tally);
    if (!state->stopped)
        *score = objective_score_of(of->model, state->parameters, &tally, data->rows);
}

static void *evaluate(void *user)
{
    round_scores *state = user;
    const round_scores_settings *of = &state->of;
    if (of->gradients == NULL && of->train != NULL)
        evaluate_on(state, of->train, &state->train);
    if (of->test != NULL)
        evaluate_on(state, of->test, &state->test);
    return NULL;
}

void round_scores_begin(round_scores *state, const float *parameters)
{
    state->parameters = parameters;
    state->stopped = false;
    if ((state->of.gradients != NULL || state->of.train == NULL) && state->of.test == NULL)
        return;
    state->beside = pthread_create(&state->thread, NULL, evaluate, state) == 0;
    if (!state->beside)
        evaluate(state);
}

/* A round_tally_fill. */
static void add_missing(void *user, uint32_t chunk, objective_tally *tally)
{
    round_scores *state = user;
    const round_scores_settings *of = &state->of;
    for (uint32_t i = 0; i < tarry_plan_span_count(of->plan, chunk) && !state->stopped; i++)
        state->stopped =
            !chunk_gradient_add_tally(of->gradients, state->parameters,
                                      tarry_plan_span(of->plan, chunk, i), &of->stop, tally);
}

void round_scores_drop(round_scores *state)
{
    if (state->beside)
        pthread_join(state->thread, NULL);
    state->beside = false;
}

bool round_scores_end(round_scores *state, uint64_t round, objective_score *train,
                      objective_score *test)
{
    round_scores_drop(state);
    if (state->of.gradients != NULL) {
        objective_tally tally = {0};
        round_tally_sum(state->tallies, round, add_missing, state, &tally);
        state->train =
            objective_score_of(state->of.model, state->parameters, &tally, state->of.train->rows);
    }
    if (state->stopped)
        return false;
    *train = state->train;
    if (state->of.test != NULL)
        *test = state->test;
    return true;
}

/* ---- numerics ---- */

enum {
    MOST_ROWS = 150,        /* more than one pass through a network, and no round number */
    MOST_NUMBERS = 1 << 20, /* of dense samples, unless one alone has more */
    MOST_ENTRIES = 32,      /* of a sparse sample */
    PIECE = 1024,           /* numbers that are digested at a time */
};

typedef struct trial {
    objective *model;
    dataset data;
    float *parameters, *gradient;
    size_t dimension;
    chunk_gradient *gradients;
} trial;

static void trial_free(trial *of)
{
    chunk_gradient_free(of->gradients);
    memory_release(NULL, of->gradient);
    memory_release(NULL, of->parameters);
    memory_release(NULL, of->data.label);
    memory_release(NULL, of->data.value);
    memory_release(NULL, of->data.column);
    memory_release(NULL, of->data.row_start);
    objective_free(of->model);
}

/* In (-1, 1), without the C library's functions: the same bits everywhere. */
static float draw(random_stream *stream)
{
    return (float)(2 * random_uniform(stream) - 1);
}

static void draw_labels(const objective_settings *settings, random_stream *stream, dataset *data)
{
    for (size_t row = 0; row < data->rows; row++) {
        switch (objective_labels(settings->model)) {
        case LABEL_REAL:
            data->label[row] = draw(stream);
            break;
        case LABEL_BINARY:
            data->label[row] = row % 2 == 0 ? 1 : -1;
            break;
        case LABEL_CLASS:
            data->label[row] = (float)(row % settings->classes);
            break;
        }
    }
}

static int make_samples(const objective_settings *settings, bool sparse, dataset *data)
{
    uint32_t features = settings->features;
    size_t entries = sparse && features > MOST_ENTRIES ? MOST_ENTRIES : features;
    size_t fitting = MOST_NUMBERS / entries;
    size_t rows = fitting == 0 ? 1 : fitting < MOST_ROWS ? fitting : MOST_ROWS;
    random_stream stream = random_stream_make(0, RANDOM_NUMERICS, 0, 0);
    data->rows = rows;
    data->features = features;
    data->classes = settings->classes;
    data->sparse = sparse;
    data->value = memory_allocate(NULL, rows * entries, sizeof(*data->value));
    data->label = memory_allocate(NULL, rows, sizeof(*data->label));
    if (sparse) {
        data->row_start = memory_allocate(NULL, rows + 1, sizeof(*data->row_start));
        data->column = memory_allocate(NULL, rows * entries, sizeof(*data->column));
        if (data->row_start == NULL || data->column == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    if (data->value == NULL || data->label == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < rows * entries; i++)
        data->value[i] = draw(&stream);
    for (size_t i = 0; sparse && i < rows * entries; i++)
        data->column[i] = (uint32_t)(i % entries * features / entries);
    for (size_t row = 0; sparse && row <= rows; row++)
        data->row_start[row] = row * entries;
    draw_labels(settings, &stream, data);
    return TARRY_OK;
}

static int make_parameters(const objective_settings *settings, trial *of)
{
    random_stream stream = random_stream_make(0, RANDOM_NUMERICS, 1, 0);
    float scale = (float)(1 / sqrt((double)settings->features));
    of->dimension = objective_dimension(of->model);
    of->parameters = memory_allocate(NULL, of->dimension, sizeof(float));
    of->gradient = memory_allocate(NULL, of->dimension, sizeof(float));
    if (of->parameters == NULL || of->gradient == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < of->dimension; i++)
        of->parameters[i] = scale * draw(&stream);
    return TARRY_OK;
}

/* The gradient of the whole of the samples, as one chunk. */
static int make_trial(const objective_settings *settings, bool sparse, trial *of)
{
    *of = (trial){0};
    int error = objective_create(settings, NULL, &of->model, NULL);
    if (error == TARRY_OK)
        error = make_samples(settings, sparse, &of->data);
    if (error == TARRY_OK)
        error = make_parameters(settings, of);
    const batch_settings batch = {.rows = of->data.rows, .chunks = 1};
    if (error == TARRY_OK)
        error = chunk_gradient_create(of->model, &of->data, &batch, 1, &of->gradients);
    const tarry_span whole = {.origin = 0, .count = 1, .of = 1};
    const tarry_task task = {
        .parameters = of->parameters,
        .spans = &whole,
        .span_count = 1,
        .gradient = of->gradient,
    };
    if (error == TARRY_OK && chunk_gradient_compute(of->gradients, &task) != 0)
        error = TARRY_ERROR_NO_MEMORY;
    if (error != TARRY_OK)
        trial_free(of);
    return error;
}

static int digest_gradient(const trial *of, uint8_t out[32])
{
    digest *state = digest_begin();
    uint32_t bits[PIECE];
    int failed = state == NULL;
    for (size_t start = 0; start < of->dimension && failed == 0; start += PIECE) {
        size_t count = of->dimension - start < PIECE ? of->dimension - start : PIECE;
        memcpy(bits, of->gradient + start, count * sizeof(*bits));
        failed = digest_add_u32(state, bits, count);
    }
    if (state != NULL)
        failed |= digest_end(state, out);
    return failed == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

int numerics_fingerprint(const objective_settings *settings, bool sparse, uint64_t *fingerprint)
{
    trial of;
    uint8_t found[32];
    int error = make_trial(settings, sparse, &of);
    if (error != TARRY_OK)
        return error;
    error = digest_gradient(&of, found);
    trial_free(&of);
    if (error != TARRY_OK)
        return error;
    *fingerprint = 0;
    for (size_t i = 0; i < sizeof(*fingerprint); i++)
        *fingerprint |= (uint64_t)found[i] << 8 * i;
    *fingerprint += *fingerprint == 0;
    return TARRY_OK;
}

/* ---- verification ---- */

struct verification {
    chunk_gradient *gradients;
    uint32_t chunks;
    size_t dimension;
    objective_workspace *work; /* in double */
    local_steps *local;        /* the same; NULL: there are none */
    float *gradient;           /* of one chunk */
    double *sum;               /* of the chunks' float32 gradients */
    double *truth;             /* of those in double */
};

int verification_create(const objective *model, chunk_gradient *gradients,
                        const local_settings *local, uint32_t chunks, verification **out)
{
    verification *state = memory_allocate(NULL, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->gradients = gradients;
    state->chunks = chunks;
    state->dimension = objective_dimension(model);
    state->gradient = memory_allocate(NULL, state->dimension, sizeof(*state->gradient));
    state->sum = memory_allocate(NULL, state->dimension, sizeof(*state->sum));
    state->truth = memory_allocate(NULL, state->dimension, sizeof(*state->truth));
    if (state->gradient == NULL || state->sum == NULL || state->truth == NULL ||
        objective_workspace_create(model, OBJECTIVE_DOUBLE, NULL, &state->work) != TARRY_OK ||
        (local->steps > 0 &&
         local_steps_create(model, local, OBJECTIVE_DOUBLE, NULL, &state->local) != TARRY_OK)) {
        verification_free(state);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = state;
    return TARRY_OK;
}

void verification_free(verification *state)
{
    if (state == NULL)
        return;
    local_steps_free(state->local);
    objective_workspace_free(state->work);
    memory_release(NULL, state->gradient);
    memory_release(NULL, state->sum);
    memory_release(NULL, state->truth);
    memory_release(NULL, state);
}

/* max|sum - truth| / max|truth|; 0 where all are zero. */
static double rounding(const verification *state)
{
    double apart = 0, largest = 0;
    for (size_t i = 0; i < state->dimension; i++) {
        apart = fmax(apart, fabs(state->sum[i] - state->truth[i]));
        largest = fmax(largest, fabs(state->truth[i]));
    }
    return apart == 0 ? 0 : apart / largest;
}

void verification_check(verification *state, uint64_t round, const float *parameters,
                        const float *estimate, verified_round *out)
{
    size_t dimension = state->dimension;
    memset(state->sum, 0, dimension * sizeof(*state->sum));
    memset(state->truth, 0, dimension * sizeof(*state->truth));
    for (uint32_t chunk = 0; chunk < state->chunks; chunk++) {
        const tarry_span whole = {.origin = chunk, .count = 1, .of = 1};
        const tarry_task task = {
            .round = round,
            .parameters = parameters,
            .spans = &whole,
            .span_count = 1,
            .gradient = state->gradient,
        };
        int failed = chunk_gradient_compute(state->gradients, &task);
        assert(failed == 0);
        (void)failed;
        for (size_t i = 0; i < dimension; i++)
            state->sum[i] += state->gradient[i];
        chunk_gradient_add_double(state->gradients, state->work, state->local, round, parameters,
                                  chunk, state->truth);
    }
    verify_estimate(state->sum, estimate, dimension, &out->error, &out->squared_error);
    out->model_rounding = rounding(state);
}

/* ---- verify ---- */

/* Below the least normal float32 an estimate has few digits or none, however well it is summed. */
static double held(double number)
{
    return fabs(number) < (double)FLT_MIN ? 0 : number;
}

static double ratio(double part, double whole)
{
    return part == 0 ? 0 : part / whole;
}

void verify_estimate(const double *truth, const float *estimate, size_t count, double *error,
                     double *squared)
{
    double largest = 0, largest_apart = 0, sum = 0, sum_apart = 0;
    for (size_t i = 0; i < count; i++) {
        double number = held(truth[i]);
        double apart = fabs(held((double)estimate[i]) - number);
        largest_apart = fmax(largest_apart, isnan(apart) ? INFINITY : apart);
        largest = fmax(largest, fabs(number));
        sum_apart += apart * apart;
        sum += number * number;
    }
    *error = ratio(largest_apart, largest);
    *squared = isinf(largest_apart) ? INFINITY : ratio(sum_apart, sum);
}
