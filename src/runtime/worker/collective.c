/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/collective.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "coding/vector_digest.h"
#include "plan/plan.h"
#include "runtime/clock.h"

/* The label of parameters whose round has not been told yet. */
#define COLLECTIVE_NO_ROUND UINT64_MAX

typedef enum collective_kind {
    COLLECTIVE_NOTHING,
    COLLECTIVE_REDUCE,
    COLLECTIVE_FETCH,
    COLLECTIVE_LOAD,
} collective_kind;

typedef struct collective_order {
    collective_kind kind;
    tarry_sum_id sum;
    uint32_t from;         /* FETCH, LOAD */
    bool digests;          /* LOAD: the event's `state` is wanted */
    collective_sum reduce; /* REDUCE */
} collective_order;

typedef struct collective_address {
    uint8_t *bytes; /* NULL: not known */
    size_t size;
} collective_address;

struct collective {
    tarry_allocator allocator;
    collective_settings settings;
    bool has_lock, has_replica_lock, has_roster_lock, has_change, started;
    pthread_t thread;

    uint64_t *gathered; /* the talking thread's */

    pthread_mutex_t lock; /* over all that follows, up to the next lock */
    pthread_cond_t change;
    collective_order order; /* its contents stay as they are until it is over */
    bool running;           /* the exchange thread is at it */
    bool ended;             /* `end` is to be taken */
    bool abandoning;        /* the order in progress is to be ended */
    bool wanted;            /* others want the state, */
    bool lent;              /* which the replica's owner is changing */
    bool got;               /* a state that was got can be dropped */
    bool closing;

    /* The exchange thread's while it is at the order, else the talking thread's. */
    uint64_t *group;
    float *sum;               /* at TARRY_PLACE_SUM; NULL: it is not float32 in host memory */
    vector_digester digester; /* the engine's thread's while that runs */
    tarry_sum_id held;        /* what `sum` is; step 0: nothing */
    tarry_event end;
    exchange_progress state; /* of a LOAD that has ended */
    float *weights;
    tarry_engine_member *members;

    pthread_mutex_t replica_lock; /* over the replica's state while nobody is `lent` it */
    tarry_sum_id last;            /* that it has stepped on */

    pthread_mutex_t roster_lock;
    collective_address *addresses;
};

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
    self->ended = false;
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
    uint64_t digest = vector_digest(step, held->parameters, pool->parameters);
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
    others->methods->hold(others, NULL, NULL);
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
    self->weights = memory_allocate(allocator, workers * settings->parts, sizeof(float));
    self->members = memory_allocate(allocator, workers, sizeof(*self->members));
    self->addresses = memory_allocate(allocator, workers, sizeof(*self->addresses));
    self->gathered = memory_allocate(allocator, words, sizeof(uint64_t));
    self->group = memory_allocate(allocator, words, sizeof(uint64_t));
    if (self->weights == NULL || self->members == NULL || self->addresses == NULL ||
        self->gathered == NULL || self->group == NULL)
        return TARRY_ERROR_NO_MEMORY;
    const worker_vectors *vectors = settings->vectors;
    int error = vectors->owner->methods->reserve(vectors->owner, TARRY_PLACE_SUM + 1,
                                                 settings->dimension, vectors->element);
    if (error == TARRY_OK)
        self->sum = worker_vectors_floats(vectors, TARRY_PLACE_SUM);
    return error;
}

static int init_sum_locks(collective *self)
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
    int error = init_sum_locks(self);
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
    others->methods->hold(others, NULL, NULL);
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
    memory_release(&allocator, self);
}

/* The exchange thread. */

static bool is_abandoned(collective *self)
{
    pthread_mutex_lock(&self->lock);
    bool abandoned = self->abandoning;
    pthread_mutex_unlock(&self->lock);
    return abandoned;
}

static bool take_wanted(collective *self)
{
    pthread_mutex_lock(&self->lock);
    bool wanted = self->wanted;
    self->wanted = false;
    pthread_mutex_unlock(&self->lock);
    return wanted;
}

/* ---- what others get ---- */

/* Whether the replica's owner is changing the state: it is then wanted afterwards. */
static bool put_off(collective *self)
{
    pthread_mutex_lock(&self->lock);
    bool lent = self->lent;
    self->wanted = self->wanted || lent;
    pthread_mutex_unlock(&self->lock);
    return lent;
}

/* With the replica's lock held. A copy of the state; NULL: there is none to be had. */
static uint8_t *copy_state(collective *self, tarry_sum_id *after, uint64_t *size)
{
    const tarry_replica *replica = &self->settings.replica;
    *size = replica->state_size(replica->user);
    *after = self->last;
    uint8_t *bytes = memory_allocate(&self->allocator, (size_t)*size, 1);
    int error = bytes == NULL ? TARRY_ERROR_NO_MEMORY
                              : replica->save(replica->user, 0, bytes, (size_t)*size);
    if (error == TARRY_OK)
        return bytes;
    memory_release(&self->allocator, bytes);
    return NULL;
}

/* Those who asked hear of a failure by the exchange. */
static void serve(collective *self)
{
    exchange *others = self->settings.exchange;
    tarry_sum_id after;
    uint64_t size;
    pthread_mutex_lock(&self->replica_lock);
    bool later = put_off(self);
    uint8_t *bytes = later ? NULL : copy_state(self, &after, &size);
    pthread_mutex_unlock(&self->replica_lock);
    if (later)
        return;
    if (bytes != NULL)
        others->methods->offer(others, &after, bytes, size);
    else
        others->methods->offer(others, NULL, NULL, 0);
}

/* ---- orders ---- */

/* One that was abandoned has not failed. */
static void tell_failure(const collective *self, const char *why)
{
    if (self->settings.failed != NULL)
        self->settings.failed(self->settings.failed_user, why);
}

/* The buffer of the sum is about to be overwritten. */
static void let_go(collective *self)
{
    exchange *others = self->settings.exchange;
    others->methods->hold(others, NULL, NULL);
    self->held = (tarry_sum_id){0};
}

static int read_sum(void *user, size_t first, size_t count, void *into)
{
    tarry_vectors *owner = user;
    return owner->methods->read(owner, TARRY_PLACE_SUM, first, count, into);
}

static int write_sum(void *user, size_t first, size_t count, const void *from)
{
    tarry_vectors *owner = user;
    return owner->methods->write(owner, TARRY_PLACE_SUM, first, count, from);
}

static exchange_numbers sum_numbers(const collective *self)
{
    const worker_vectors *vectors = self->settings.vectors;
    return (exchange_numbers){
        .count = self->settings.dimension,
        .width = vectors->element == TARRY_ELEMENT_FLOAT64 ? sizeof(double) : sizeof(float),
        .read = read_sum,
        .write = write_sum,
        .user = vectors->owner,
    };
}

/* The sum's place holds the sum of this name. */
static void hold(collective *self, const tarry_sum_id *name, uint64_t digest)
{
    exchange *others = self->settings.exchange;
    self->held = *name;
    self->held.digest = digest;
    const exchange_numbers numbers = sum_numbers(self);
    others->methods->hold(others, &self->held, &numbers);
}

/* The digest of what is at the sum's place. False: the owner of vectors failed. */
static bool find_digest(const collective *self, uint64_t step, uint64_t *digest)
{
    tarry_vectors *owner = self->settings.vectors->owner;
    return owner->methods->digest(owner, TARRY_PLACE_SUM, step, digest) == TARRY_OK;
}

/* With the roster's lock held. The members of the group and what their parts are multiplied by;
 * *unknown is one whose address is not known. */
static bool list_members(collective *self, tarry_engine_group *group, uint32_t *unknown)
{
    const collective_sum *sum = &self->order.reduce;
    const double *decode = sum->plan->decode;
    uint32_t workers = self->settings.workers, place = 0;
    group->count = (uint32_t)bitset_count(self->group, workers);
    for (uint32_t worker = 0; worker < workers; worker++) {
        if (!bitset_test(self->group, worker))
            continue;
        const collective_address *known = &self->addresses[worker];
        if (known->bytes == NULL) {
            *unknown = worker;
            return false;
        }
        if (worker == self->settings.worker)
            group->place = place;
        self->members[place] = (tarry_engine_member){
            .worker = worker, .address = known->bytes, .address_size = known->size};
        for (uint32_t part = 0; part < sum->plan->parts; part++)
            self->weights[(size_t)part * group->count + place] =
                (float)(sum->scale * decode[(size_t)part * workers + worker]);
        place++;
    }
    return true;
}

/* Every attempt has a group of its own, whoever is in it. */
static int form(collective *self, uint32_t *unknown, tarry_diagnostic *why)
{
    tarry_engine *engine = self->settings.engine;
    const tarry_sum_id *name = &self->order.sum;
    tarry_engine_group group = {
        .epoch = (uint64_t)name->term << 32 | name->attempt,
        .members = self->members,
    };
    pthread_mutex_lock(&self->roster_lock);
    int error = TARRY_OK;
    if (list_members(self, &group, unknown))
        error = engine->methods->form(engine, &group, why);
    else
        error = diagnose(why, TARRY_ERROR_STATE, "another worker's address is not known");
    pthread_mutex_unlock(&self->roster_lock);
    return error;
}

/* Works on the sum that was started until it is over, or nobody wants it any more. */
static void work(collective *self, tarry_engine_progress *progress)
{
    tarry_engine *engine = self->settings.engine;
    while (progress->state == TARRY_ENGINE_RUNNING && !is_abandoned(self)) {
        if (take_wanted(self))
            serve(self);
        engine->methods->wait(engine, TARRY_NEVER, progress);
    }
    if (progress->state == TARRY_ENGINE_RUNNING)
        engine->methods->abandon(engine);
}

/* The numbers of a sum in host memory, by a thread of the engine. */
static void on_came(void *user, size_t first, size_t count)
{
    collective *self = user;
    vector_digester_add(&self->digester, first, count);
}

/* What never began. */
static void explain(tarry_engine_progress *progress, int error, const tarry_diagnostic *why)
{
    const char *text = why->text[0] != '\0' ? why->text : tarry_error_text(error);
    snprintf(progress->why, sizeof(progress->why), "%.*s", (int)sizeof(progress->why) - 1, text);
}

static void run_reduce(collective *self)
{
    tarry_engine *engine = self->settings.engine;
    const collective_sum *sum = &self->order.reduce;
    const collective_forms *forms = &self->settings.forms;
    const worker_vectors *vectors = self->settings.vectors;
    const bool host = self->sum != NULL, placed = sum->place != TARRY_NO_PLACE;
    const tarry_engine_sum wanted = {
        .name = sum->name,
        .dimension = self->settings.dimension,
        .parts = sum->plan->parts,
        .part = placed ? worker_vectors_floats(vectors, sum->place) : sum->part,
        .weights = self->weights,
        .sum = self->sum,
        .element = vectors->element,
        .vectors = host ? NULL : vectors->owner,
        .part_place = sum->place,
        .sum_place = TARRY_PLACE_SUM,
        .came = host ? on_came : NULL,
        .user = self,
        .compress = forms->up,
        .compress_down = forms->down,
        .compress_seed = forms->seed,
        .compress_exact = forms->exact,
    };
    tarry_engine_progress progress = {
        .state = TARRY_ENGINE_FAILED,
        .suspect = TARRY_NO_WORKER,
    };
    let_go(self);
    vector_digester_begin(&self->digester, sum->name.step, self->sum, self->settings.dimension);
    tarry_diagnostic why = {{0}};
    int error = form(self, &progress.suspect, &why);
    if (error == TARRY_OK)
        error = engine->methods->start(engine, &wanted);
    if (error == TARRY_OK) {
        progress.state = TARRY_ENGINE_RUNNING;
        work(self, &progress);
    } else {
        explain(&progress, error, &why);
    }
    bool done = progress.state == TARRY_ENGINE_DONE;
    uint64_t digest = 0;
    if (done && host)
        digest = vector_digester_end(&self->digester);
    else if (done)
        done = find_digest(self, sum->name.step, &digest);
    if (done)
        hold(self, &sum->name, digest);
    if (progress.state == TARRY_ENGINE_FAILED)
        tell_failure(self, progress.why);
    self->end = (tarry_event){
        .type = TARRY_EVENT_REDUCED,
        .sum = done ? self->held : sum->name,
        .failed = !done,
        .from = done ? TARRY_NO_WORKER : progress.suspect,
    };
}

/* Waits until what the exchange has begun is over. Gives back whether it is done. */
static bool finish(collective *self, exchange_progress *progress)
{
    exchange *others = self->settings.exchange;
    do
        others->methods->wait(others, TARRY_NEVER, progress);
    while (progress->state == EXCHANGE_RUNNING && !is_abandoned(self));
    if (progress->state == EXCHANGE_RUNNING)
        others->methods->abandon(others);
    else if (progress->state == EXCHANGE_FAILED)
        tell_failure(self, progress->why);
    return progress->state == EXCHANGE_DONE;
}

static void run_fetch(collective *self)
{
    exchange *others = self->settings.exchange;
    const collective_order *order = &self->order;
    exchange_progress progress;
    const exchange_numbers into = sum_numbers(self);
    uint64_t digest;
    let_go(self);
    bool done = others->methods->fetch(others, order->from, &order->sum, &into) == TARRY_OK &&
                finish(self, &progress) && find_digest(self, order->sum.step, &digest) &&
                digest == order->sum.digest;
    if (done)
        hold(self, &order->sum, digest);
    self->end = (tarry_event){
        .type = TARRY_EVENT_FETCHED,
        .sum = order->sum,
        .failed = !done,
    };
}

static void run_load(collective *self)
{
    exchange *others = self->settings.exchange;
    const collective_order *order = &self->order;
    /* A source that has stepped since gives its newer state. */
    bool done =
        others->methods->load(others, order->from, &order->sum) == TARRY_OK &&
        finish(self, &self->state) &&
        (self->state.after.step > order->sum.step || sum_id_same(&self->state.after, &order->sum));
    self->end = (tarry_event){
        .type = TARRY_EVENT_LOADED,
        .sum = done ? self->state.after : order->sum,
        .failed = !done,
    };
}

static void run_order(collective *self)
{
    switch (self->order.kind) {
    case COLLECTIVE_REDUCE:
        run_reduce(self);
        break;
    case COLLECTIVE_FETCH:
        run_fetch(self);
        break;
    case COLLECTIVE_LOAD:
        run_load(self);
        break;
    case COLLECTIVE_NOTHING:
        break;
    }
}

/* ---- the thread ---- */

/* With the lock held, which is let go meanwhile. */
static void carry_out(collective *self)
{
    self->running = true;
    self->abandoning = self->closing;
    pthread_mutex_unlock(&self->lock);
    run_order(self);
    pthread_mutex_lock(&self->lock);
    self->running = false;
    self->ended = !self->abandoning;
    if (!self->ended) {
        self->got = self->got || self->order.kind == COLLECTIVE_LOAD;
        self->order.kind = COLLECTIVE_NOTHING;
    }
    self->abandoning = false;
    pthread_cond_broadcast(&self->change);
    if (!self->ended)
        return;
    pthread_mutex_unlock(&self->lock);
    self->settings.ended(self->settings.user);
    pthread_mutex_lock(&self->lock);
}

/* A state that was got lies in the exchange until it is taken, or abandoned. */
static bool is_free(const collective *self)
{
    return self->order.kind != COLLECTIVE_LOAD || !self->ended;
}

/* The exchange thread; its argument is the collective. */
static void *collective_run(void *argument)
{
    collective *self = argument;
    exchange *others = self->settings.exchange;
    pthread_mutex_lock(&self->lock);
    while (!self->closing) {
        if (self->order.kind != COLLECTIVE_NOTHING && !self->ended) {
            carry_out(self);
        } else if (((self->wanted && !self->lent) || self->got) && is_free(self)) {
            bool drop = self->got, wanted = self->wanted && !self->lent;
            self->got = false;
            self->wanted = self->wanted && !wanted;
            pthread_mutex_unlock(&self->lock);
            if (drop)
                others->methods->abandon(others);
            if (wanted)
                serve(self);
            pthread_mutex_lock(&self->lock);
        } else {
            pthread_cond_wait(&self->change, &self->lock);
        }
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

int collective_start(collective *self)
{
    if (pthread_create(&self->thread, NULL, collective_run, self) != 0)
        return TARRY_ERROR_SYSTEM;
    self->started = true;
    return TARRY_OK;
}
