/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/chunk_gradient.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

typedef struct desk {
    objective_workspace *work;
    size_t *rows; /* a chunk's draw; NULL without a batch */
    struct desk *next;
} desk;

struct chunk_gradient {
    const objective *model;
    const dataset *data; /* NULL: they are fetched */
    chunk_fetch *fetch;
    void *user; /* of fetch */
    batch_settings batch;
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
    }
    memory_release(NULL, state->desks);
    pthread_cond_destroy(&state->returned);
    pthread_mutex_destroy(&state->lock);
    memory_release(NULL, state);
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

/* The samples of a span, as objective_add_gradient takes them. */
typedef struct sample_range {
    const dataset *data;
    const size_t *rows;
    size_t first, count;
} sample_range;

static int find_samples(const chunk_gradient *state, desk *place, uint64_t round, tarry_span span,
                        sample_range *out)
{
    const dataset *data = state->data;
    size_t first, count, before = 0; /* rows that the data set does not have */
    uint64_t begin, end;
    batch_chunk(&state->batch, span.origin, &first, &count);
    if (data == NULL) {
        if (state->fetch(state->user, span.origin, &data) != 0)
            return -1;
        before = first;
    }
    const size_t *rows = NULL;
    if (state->batch.batch != 0) {
        count = batch_count(&state->batch, span.origin);
        batch_draw(&state->batch, round, span.origin, place->rows);
        for (size_t i = 0; i < count; i++)
            place->rows[i] -= before;
        rows = place->rows;
    }
    tarry_span_samples(span, count, &begin, &end);
    *out = (sample_range){
        .data = data,
        .rows = rows != NULL ? rows + begin : NULL,
        .first = first - before + begin,
        .count = end - begin,
    };
    return 0;
}

int chunk_gradient_compute(void *user, const tarry_task *task)
{
    chunk_gradient *state = user;
    desk *place = take_desk(state);
    memset(task->gradient, 0, state->dimension * sizeof(*task->gradient));
    int failed = 0;
    objective_tally tally = {0};
    for (uint32_t i = 0; i < task->span_count && failed == 0; i++) {
        sample_range of;
        if (tarry_compute_cancelled(task)) {
            failed = -1;
            break;
        }
        failed = find_samples(state, place, task->round, task->spans[i], &of);
        if (failed == 0)
            objective_add_gradient(state->model, place->work, of.data, task->parameters, of.rows,
                                   of.first, of.count, task->gradient,
                                   state->tallies != NULL ? &tally : NULL);
    }
    return_desk(state, place);
    if (state->tallies != NULL && failed == 0)
        round_tally_note(state->tallies, task->round, task->spans[0], &tally);
    return failed;
}

void chunk_gradient_add_double(chunk_gradient *state, objective_workspace *work, uint64_t round,
                               const float *parameters, uint32_t chunk, double *sum)
{
    sample_range of;
    desk *place = take_desk(state);
    const tarry_span whole = {.origin = chunk, .count = 1, .of = 1};
    if (find_samples(state, place, round, whole, &of) == 0)
        objective_add_gradient_double(state->model, work, of.data, parameters, of.rows, of.first,
                                      of.count, sum);
    return_desk(state, place);
}

void chunk_gradient_add_tally(chunk_gradient *state, const float *parameters, tarry_span span,
                              objective_tally *tally)
{
    sample_range of;
    desk *place = take_desk(state);
    if (find_samples(state, place, 0, span, &of) == 0)
        objective_add_tally(state->model, place->work, of.data, parameters, of.first, of.count,
                            tally);
    return_desk(state, place);
}
