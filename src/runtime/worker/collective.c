/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/collective_state.h"

#include <assert.h>
#include <string.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "runtime/clock.h"

/* ---- orders and their ends ---- */

/* Ends the wait of an order in progress. Without the lock: an exchange may have one of its own. */
static void wake(collective *self, collective_kind kind)
{
    if (kind == COLLECTIVE_REDUCE)
        self->settings.engine->methods->wake(self->settings.engine);
    else if (kind != COLLECTIVE_NOTHING)
        self->settings.exchange->methods->wake(self->settings.exchange);
}

static void begin(collective *self, const collective_order *order)
{
    pthread_mutex_lock(&self->lock);
    assert(self->order.kind == COLLECTIVE_NOTHING);
    self->order = *order;
    self->ended = self->halting = false;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->change);
}

void collective_gather(collective *self, const uint64_t *group)
{
    memcpy(self->gathered, group, bitset_words(self->settings.workers) * sizeof(uint64_t));
}

void collective_reduce(collective *self, const collective_sum *sum)
{
    const collective_order order = {
        .kind = COLLECTIVE_REDUCE,
        .sum = sum->name,
        .reduce = *sum,
    };
    memcpy(self->group, self->gathered, bitset_words(self->settings.workers) * sizeof(uint64_t));
    begin(self, &order);
}

void collective_fetch(collective *self, uint32_t from, const tarry_sum_id *sum)
{
    begin(self, &(collective_order){.kind = COLLECTIVE_FETCH, .sum = *sum, .from = from});
}

void collective_load(collective *self, uint32_t from, const tarry_sum_id *after, bool digests)
{
    uint32_t source = from == self->settings.worker ? self->settings.workers : from;
    begin(self, &(collective_order){
                    .kind = COLLECTIVE_LOAD, .sum = *after, .from = source, .digests = digests});
}

/* With the lock held: the order is over, and what it got is the exchange thread's to drop. */
static void forget_order(collective *self)
{
    self->got = self->got || self->order.kind == COLLECTIVE_LOAD;
    self->order.kind = COLLECTIVE_NOTHING;
    self->ended = false;
    if (self->got || self->wanted)
        pthread_cond_broadcast(&self->change); /* what could not be done meanwhile */
}

void collective_halt(collective *self)
{
    pthread_mutex_lock(&self->lock);
    self->halting = self->order.kind == COLLECTIVE_REDUCE && !self->ended;
    bool halting = self->halting;
    pthread_mutex_unlock(&self->lock);
    if (halting)
        wake(self, COLLECTIVE_REDUCE);
}

void collective_abandon(collective *self)
{
    pthread_mutex_lock(&self->lock);
    if (self->order.kind != COLLECTIVE_NOTHING && !self->running)
        forget_order(self); /* not begun, or ended */
    while (self->order.kind != COLLECTIVE_NOTHING) {
        collective_kind kind = self->order.kind;
        self->abandoning = true;
        pthread_mutex_unlock(&self->lock);
        wake(self, kind);
        pthread_mutex_lock(&self->lock);
        if (self->order.kind != COLLECTIVE_NOTHING)
            pthread_cond_wait(&self->change, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
}

void collective_cut(collective *self)
{
    pthread_mutex_lock(&self->lock);
    bool reduces = self->order.kind == COLLECTIVE_REDUCE;
    pthread_mutex_unlock(&self->lock);
    if (!reduces)
        collective_abandon(self);
}

/* ---- the replica ---- */

/* The parameters as they are now, of a round that is told later. */
static int publish(collective *self)
{
    const tarry_replica *replica = &self->settings.replica;
    snapshots *pool = self->settings.snapshots;
    float *parameters = snapshots_begin(pool);
    if (parameters == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error =
        replica->parameters != NULL ? replica->parameters(replica->user, parameters) : TARRY_OK;
    if (error == TARRY_OK)
        snapshots_commit(pool, COLLECTIVE_NO_ROUND);
    return error;
}

bool collective_has_parameters(const collective *self)
{
    return self->settings.replica.parameters != NULL;
}

/* A pass over them; 0: there are none. */
static uint64_t digest_parameters(collective *self, uint64_t step)
{
    snapshots *pool = self->settings.snapshots;
    if (!collective_has_parameters(self))
        return 0;
    snapshot *held = snapshots_hold(pool);
    uint64_t digest = sum_digest(step, held->parameters, pool->parameters);
    snapshots_release(pool, held);
    return digest;
}

/* The replica has stepped. */
static int conclude_step(collective *self, const tarry_sum_id *sum, bool digests, uint64_t *state)
{
    int error = publish(self);
    if (error == TARRY_OK)
        *state = digests ? digest_parameters(self, sum->step) : 0;
    return error;
}

bool collective_is_stepped(const collective *self)
{
    return self->settings.replica.step == NULL;
}

static void set_lent(collective *self, bool lent)
{
    pthread_mutex_lock(&self->lock);
    self->lent = lent;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

int collective_lend(collective *self, const tarry_sum_id *sum, const float **numbers)
{
    if (!sum_id_same(sum, &self->held))
        return TARRY_ERROR_STATE;
    pthread_mutex_lock(&self->replica_lock); /* a copy being made is of the state before */
    set_lent(self, true);
    pthread_mutex_unlock(&self->replica_lock);
    *numbers = self->sum;
    return TARRY_OK;
}

int collective_stepped(collective *self, const tarry_sum_id *sum, bool digests, uint64_t *state)
{
    pthread_mutex_lock(&self->replica_lock);
    self->last = *sum;
    pthread_mutex_unlock(&self->replica_lock);
    set_lent(self, false);
    return conclude_step(self, sum, digests, state);
}

int collective_step(collective *self, const tarry_sum_id *sum, bool digests, uint64_t *state)
{
    const tarry_replica *replica = &self->settings.replica;
    if (!sum_id_same(sum, &self->held))
        return TARRY_ERROR_STATE;
    pthread_mutex_lock(&self->replica_lock);
    int error = replica->step(replica->user, sum->step, self->sum);
    if (error == TARRY_OK)
        self->last = *sum;
    pthread_mutex_unlock(&self->replica_lock);
    return error == TARRY_OK ? conclude_step(self, sum, digests, state) : error;
}

static int load(collective *self, const exchange_progress *got)
{
    const tarry_replica *replica = &self->settings.replica;
    exchange *others = self->settings.exchange;
    others->methods->hold(others, NULL, NULL, 0);
    self->held = (tarry_sum_id){0};
    pthread_mutex_lock(&self->replica_lock);
    int error = replica->load(replica->user, got->size, 0, got->bytes, (size_t)got->size);
    if (error == TARRY_OK)
        self->last = got->after;
    pthread_mutex_unlock(&self->replica_lock);
    return error == TARRY_OK ? publish(self) : error;
}

bool collective_take(collective *self, tarry_event *event, int *error)
{
    *error = TARRY_OK;
    pthread_mutex_lock(&self->lock);
    bool ended = self->order.kind != COLLECTIVE_NOTHING && self->ended;
    pthread_mutex_unlock(&self->lock);
    if (!ended)
        return false;
    *event = self->end;
    if (self->order.kind == COLLECTIVE_LOAD && !event->failed) {
        *error = load(self, &self->state);
        if (*error == TARRY_OK && self->order.digests)
            event->state = digest_parameters(self, event->sum.step);
    }
    pthread_mutex_lock(&self->lock);
    forget_order(self);
    pthread_mutex_unlock(&self->lock);
    return true;
}

/* ---- who is there ---- */

int collective_meet(collective *self, uint32_t worker, const uint8_t *address, size_t size)
{
    assert(worker < self->settings.workers && size <= TARRY_ENGINE_ADDRESS_MOST);
    uint8_t *copy = NULL;
    if (size > 0) {
        copy = memory_allocate(&self->allocator, size, 1);
        if (copy == NULL)
            return TARRY_ERROR_NO_MEMORY;
        memcpy(copy, address, size);
    }
    pthread_mutex_lock(&self->roster_lock);
    collective_address *known = &self->addresses[worker];
    uint8_t *before = known->bytes;
    *known = (collective_address){.bytes = copy, .size = size};
    pthread_mutex_unlock(&self->roster_lock);
    memory_release(&self->allocator, before);
    return TARRY_OK;
}

/* ---- creation and the end ---- */

static int allocate(collective *self)
{
    const collective_settings *settings = &self->settings;
    const tarry_allocator *allocator = &self->allocator;
    size_t workers = settings->workers, words = bitset_words(workers);
    self->sum = vector_allocate(allocator, settings->dimension);
    self->weights = memory_allocate(allocator, workers * settings->parts, sizeof(float));
    self->members = memory_allocate(allocator, workers, sizeof(*self->members));
    self->addresses = memory_allocate(allocator, workers, sizeof(*self->addresses));
    self->gathered = memory_allocate(allocator, words, sizeof(uint64_t));
    self->group = memory_allocate(allocator, words, sizeof(uint64_t));
    return self->sum == NULL || self->weights == NULL || self->members == NULL ||
                   self->addresses == NULL || self->gathered == NULL || self->group == NULL
               ? TARRY_ERROR_NO_MEMORY
               : sum_digester_init(&self->digester, settings->dimension, allocator);
}

static int init_locks(collective *self)
{
    self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
    self->has_replica_lock = pthread_mutex_init(&self->replica_lock, NULL) == 0;
    self->has_roster_lock = pthread_mutex_init(&self->roster_lock, NULL) == 0;
    self->has_change = clock_init_condition(&self->change) == 0;
    return self->has_lock && self->has_replica_lock && self->has_roster_lock && self->has_change
               ? TARRY_OK
               : TARRY_ERROR_SYSTEM;
}

/* A thread of the exchange. */
static void want_state(void *user)
{
    collective *self = user;
    pthread_mutex_lock(&self->lock);
    self->wanted = true;
    bool reducing = self->running && self->order.kind == COLLECTIVE_REDUCE;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
    if (reducing)
        wake(self, COLLECTIVE_REDUCE);
}

static int meet_itself(collective *self)
{
    tarry_engine *engine = self->settings.engine;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size = 0;
    engine->methods->address(engine, bytes, &size);
    return collective_meet(self, self->settings.worker, bytes, size);
}

int collective_create(const collective_settings *settings, const tarry_allocator *allocator,
                      collective **made)
{
    collective *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->settings = *settings;
    self->last = settings->last;
    int error = init_locks(self);
    if (error == TARRY_OK)
        error = allocate(self);
    if (error == TARRY_OK)
        error = meet_itself(self);
    if (error == TARRY_OK)
        error = publish(self);
    if (error != TARRY_OK) {
        collective_free(self);
        return error;
    }
    settings->exchange->methods->serve(settings->exchange, want_state, self);
    *made = self;
    return TARRY_OK;
}

int collective_start(collective *self)
{
    if (pthread_create(&self->thread, NULL, collective_run, self) != 0)
        return TARRY_ERROR_SYSTEM;
    self->started = true;
    return TARRY_OK;
}

void collective_stop(collective *self)
{
    if (!self->started)
        return;
    self->started = false;
    pthread_mutex_lock(&self->lock);
    self->closing = self->abandoning = true;
    collective_kind kind = self->running ? self->order.kind : COLLECTIVE_NOTHING;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
    wake(self, kind);
    pthread_join(self->thread, NULL);
}

void collective_free(collective *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    exchange *others = self->settings.exchange;
    collective_stop(self);
    others->methods->serve(others, NULL, NULL);
    others->methods->hold(others, NULL, NULL, 0);
    for (uint32_t i = 0; self->addresses != NULL && i < self->settings.workers; i++)
        memory_release(&allocator, self->addresses[i].bytes);
    if (self->has_change)
        pthread_cond_destroy(&self->change);
    if (self->has_roster_lock)
        pthread_mutex_destroy(&self->roster_lock);
    if (self->has_replica_lock)
        pthread_mutex_destroy(&self->replica_lock);
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    memory_release(&allocator, self->group);
    memory_release(&allocator, self->gathered);
    memory_release(&allocator, self->addresses);
    memory_release(&allocator, self->members);
    memory_release(&allocator, self->weights);
    sum_digester_destroy(&self->digester, &allocator);
    vector_release(&allocator, self->sum);
    memory_release(&allocator, self);
}
