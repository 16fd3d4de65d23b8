/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/job_replicas.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

/* The state as bytes, all in the machine's own order: this head, then the vectors, `dimension`
 * float32 each: the parameters, and what the optimizer has of velocity and square. */
typedef struct state_head {
    uint64_t order; /* ORDER, which reads as another number where the order is another one */
    uint64_t steps, dimension, optimizer;
    double decayed, square_decayed;
} state_head;

#define ORDER UINT64_C(0x0102030405060708)

enum { MOST_REGIONS = 4 }; /* the head, and three vectors */

typedef struct region {
    uint8_t *bytes;
    uint64_t size;
} region;

typedef struct holding {
    job_replicas *all;
    uint64_t steps;  /* guarded by the lock of all; who takes them may read it without */
    state_head head; /* of the state that is saved, or comes in */
    float *parameters;
    float *gradient; /* of the objective */
    optimizer *optimizer;
} holding;

struct job_replicas {
    job_replicas_settings of;
    size_t dimension;
    uint32_t count;
    pthread_mutex_t lock;
    pthread_cond_t stepped;
    holding *items;
    tarry_replica *list;
};

/* What the holding has is now the state after so many steps. */
static void publish(holding *own, uint64_t steps)
{
    job_replicas *all = own->all;
    pthread_mutex_lock(&all->lock);
    own->steps = steps;
    pthread_cond_broadcast(&all->stepped);
    pthread_mutex_unlock(&all->lock);
}

static int step(void *user, uint64_t number, const float *sum)
{
    holding *own = user;
    const job_replicas_settings *of = &own->all->of;
    local_mean(&of->local, of->model, own->parameters, sum, of->samples, own->gradient);
    optimizer_step(own->optimizer, own->gradient, own->parameters);
    publish(own, number);
    return TARRY_OK;
}

static int give_parameters(void *user, float *parameters)
{
    const holding *own = user;
    memcpy(parameters, own->parameters, own->all->dimension * sizeof(float));
    return TARRY_OK;
}

/* ---- the state as bytes ---- */

static size_t regions_of(state_head *head, float *parameters, const optimizer_state *state,
                         size_t dimension, region regions[MOST_REGIONS])
{
    float *const vectors[] = {parameters, state->velocity, state->square};
    size_t count = 0;
    regions[count++] = (region){(uint8_t *)head, sizeof(*head)};
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        if (vectors[i] != NULL)
            regions[count++] = (region){(uint8_t *)vectors[i], dimension * sizeof(float)};
    return count;
}

static size_t own_regions(holding *own, region regions[MOST_REGIONS])
{
    return regions_of(&own->head, own->parameters, optimizer_state_of(own->optimizer),
                      own->all->dimension, regions);
}

static uint64_t size_of(const region *regions, size_t count)
{
    uint64_t size = 0;
    while (count > 0)
        size += regions[--count].size;
    return size;
}

static uint64_t state_size(void *user)
{
    region regions[MOST_REGIONS];
    size_t count = own_regions(user, regions);
    return size_of(regions, count);
}

static state_head head_of(const holding *own)
{
    const optimizer_state *state = optimizer_state_of(own->optimizer);
    return (state_head){
        .order = ORDER,
        .steps = own->steps,
        .dimension = own->all->dimension,
        .optimizer = own->all->of.optimizer.kind,
        .decayed = state->decayed,
        .square_decayed = state->square_decayed,
    };
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int save(void *user, uint64_t first, void *bytes, size_t size)
{
    holding *own = user;
    region regions[MOST_REGIONS];
    uint8_t *to = bytes;
    own->head = head_of(own);
    size_t count = own_regions(own, regions);
    for (size_t i = 0; i < count; first -= regions[i++].size) {
        if (first >= regions[i].size)
            continue;
        size_t length = smaller(regions[i].size - first, size);
        memcpy(to, regions[i].bytes + first, length);
        to += length;
        size -= length;
        first = regions[i].size;
    }
    return size == 0 ? TARRY_OK : TARRY_ERROR_ARGUMENT;
}

/* Whether it is that of a state for these replicas. */
static bool fits(const job_replicas *all, const state_head *head)
{
    return head->order == ORDER && head->dimension == all->dimension &&
           head->optimizer == all->of.optimizer.kind;
}

static int load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size)
{
    holding *own = user;
    region regions[MOST_REGIONS];
    const uint8_t *from = bytes;
    uint64_t end = first + size;
    if (total != state_size(own))
        return TARRY_ERROR_FORMAT;
    size_t count = own_regions(own, regions);
    for (size_t i = 0; i < count && size > 0; first -= regions[i++].size) {
        if (first >= regions[i].size)
            continue;
        size_t length = smaller(regions[i].size - first, size);
        memcpy(regions[i].bytes + first, from, length);
        if (i == 0 && first + length == regions[i].size && !fits(own->all, &own->head))
            return TARRY_ERROR_FORMAT;
        from += length;
        size -= length;
        first = regions[i].size;
    }
    if (end < total)
        return TARRY_OK;
    optimizer_state *state = optimizer_state_of(own->optimizer);
    state->decayed = own->head.decayed;
    state->square_decayed = own->head.square_decayed;
    publish(own, own->head.steps);
    return TARRY_OK;
}

/* ---- all of them ---- */

/* Of optimizers of the same kind. */
static void copy_state(optimizer_state *to, const optimizer_state *from, size_t dimension)
{
    if (from->velocity != NULL)
        memcpy(to->velocity, from->velocity, dimension * sizeof(float));
    if (from->square != NULL)
        memcpy(to->square, from->square, dimension * sizeof(float));
    to->decayed = from->decayed;
    to->square_decayed = from->square_decayed;
}

static int create_holding(job_replicas *self, holding *own)
{
    const job_replicas_settings *of = &self->of;
    own->all = self;
    own->parameters = vector_allocate(NULL, self->dimension);
    own->gradient = vector_allocate(NULL, self->dimension);
    if (own->parameters == NULL || own->gradient == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = optimizer_create(&of->optimizer, self->dimension, NULL, &own->optimizer);
    if (error != TARRY_OK)
        return error;
    if (of->parameters == NULL) {
        objective_initial(of->model, of->seed, own->parameters);
        return TARRY_OK;
    }
    own->steps = of->steps;
    memcpy(own->parameters, of->parameters, self->dimension * sizeof(float));
    copy_state(optimizer_state_of(own->optimizer), of->state, self->dimension);
    return TARRY_OK;
}

uint64_t job_replicas_bytes(optimizer_kind kind, size_t dimension)
{
    enum { OWN = 2 }; /* parameters and gradient */
    return (uint64_t)(OWN + optimizer_vectors(kind)) * dimension * sizeof(float);
}

int job_replicas_create(const job_replicas_settings *settings, uint32_t count, job_replicas **out)
{
    job_replicas *self = memory_allocate(NULL, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->stepped, NULL);
    self->of = *settings;
    self->count = count;
    self->dimension = objective_dimension(settings->model);
    self->items = memory_allocate(NULL, count, sizeof(*self->items));
    self->list = memory_allocate(NULL, count, sizeof(*self->list));
    int error = self->items == NULL || self->list == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t i = 0; i < count && error == TARRY_OK; i++) {
        error = create_holding(self, &self->items[i]);
        self->list[i] = (tarry_replica){
            .user = &self->items[i],
            .step = step,
            .parameters = give_parameters,
            .state_size = state_size,
            .save = save,
            .load = load,
        };
    }
    if (error == TARRY_OK)
        *out = self;
    else
        job_replicas_free(self);
    return error;
}

void job_replicas_free(job_replicas *self)
{
    if (self == NULL)
        return;
    for (uint32_t i = 0; self->items != NULL && i < self->count; i++) {
        holding *own = &self->items[i];
        optimizer_free(own->optimizer);
        vector_release(NULL, own->gradient);
        vector_release(NULL, own->parameters);
    }
    memory_release(NULL, self->list);
    memory_release(NULL, self->items);
    pthread_cond_destroy(&self->stepped);
    pthread_mutex_destroy(&self->lock);
    memory_release(NULL, self);
}

const tarry_replica *job_replicas_list(const job_replicas *self)
{
    return self->list;
}

/* The first that has taken so many steps; NULL: none yet. With the lock held. */
static const holding *find_stepped(const job_replicas *self, uint64_t steps)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (self->items[i].steps == steps)
            return &self->items[i];
    return NULL;
}

int job_replicas_copy(job_replicas *self, uint8_t **bytes, uint64_t *size)
{
    holding *own = &self->items[0];
    *size = state_size(own);
    *bytes = memory_allocate(NULL, (size_t)*size, 1);
    return *bytes == NULL ? TARRY_ERROR_NO_MEMORY : save(own, 0, *bytes, (size_t)*size);
}

void job_replicas_look(job_replicas *self, uint64_t steps, float *parameters,
                       optimizer_state *state)
{
    const holding *own;
    pthread_mutex_lock(&self->lock);
    while ((own = find_stepped(self, steps)) == NULL)
        pthread_cond_wait(&self->stepped, &self->lock);
    pthread_mutex_unlock(&self->lock);
    memcpy(parameters, own->parameters, self->dimension * sizeof(float));
    copy_state(state, optimizer_state_of(own->optimizer), self->dimension);
}

int job_replicas_read(const job_replicas *self, uint64_t steps, const void *bytes, uint64_t size,
                      float *parameters, optimizer_state *state)
{
    const uint8_t *from = bytes;
    state_head head;
    region regions[MOST_REGIONS];
    size_t count = regions_of(&head, parameters, state, self->dimension, regions);
    if (size != size_of(regions, count))
        return TARRY_ERROR_FORMAT;
    memcpy(&head, from, sizeof(head));
    if (!fits(self, &head) || head.steps != steps)
        return TARRY_ERROR_FORMAT;
    for (size_t i = 0; i < count; from += regions[i++].size)
        memcpy(regions[i].bytes, from, regions[i].size);
    state->decayed = head.decayed;
    state->square_decayed = head.square_decayed;
    return TARRY_OK;
}
