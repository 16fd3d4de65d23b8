/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/worker_host.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <tarry/error.h>
#include <tarry/host.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "protocol/form.h"
#include "runtime/clock.h"
#include "runtime/masked_words.h"
#include "runtime/worker/exchange.h"
#include "runtime/worker/executor.h"
#include "straggler/straggler.h"

/* An executor for a transport that somebody else wrote. */

struct tarry_worker_host {
    tarry_allocator allocator;
    tarry_worker_host_settings settings;
    const tarry_plan *plan;
    executor executor;
    pthread_mutex_t sending; /* one frame at a time */
    bool has_sending;
    uint32_t workers;
    exchange *others; /* TARRY_SUM_EVERYWHERE; else NULL */
};

_Static_assert(EXCHANGE_PASSED_BYTES + WIRE_PASS_BYTES == TARRY_PASS_MOST,
               "what is passed has one limit");

static bool is_everywhere(const tarry_worker_host *own)
{
    return own->settings.server.sum == TARRY_SUM_EVERYWHERE;
}

void tarry_worker_host_settings_init_sized(tarry_worker_host_settings *settings, size_t size)
{
    if (sized_begin(settings, size, sizeof(*settings)))
        tarry_server_settings_init(&settings->server);
}

/* ---- the uplink ---- */

static void send_frame(tarry_worker_host *own, const tarry_message *message, const float *numbers,
                       size_t count)
{
    static const codec_shape no_sets; /* what workers send has none */
    uint8_t frame[CODEC_MOST_WORKER_BYTES];
    size_t size = codec_size(&no_sets, message);
    assert(size <= sizeof(frame));
    codec_encode(&no_sets, message, frame);
    pthread_mutex_lock(&own->sending);
    own->settings.send(own->settings.user, frame, size, numbers, count);
    pthread_mutex_unlock(&own->sending);
}

static void post(void *user, const tarry_message *message, bool more)
{
    (void)more;
    send_frame(user, message, NULL, 0);
}

static void post_part(void *user, const tarry_message *message, const executor_stripe *stripe)
{
    send_frame(user, message, stripe->bytes, stripe->count);
}

static void give_up(void *user, int error, const char *why)
{
    const tarry_worker_host *own = user;
    (void)why;
    if (error != TARRY_OK && own->settings.broken != NULL)
        own->settings.broken(own->settings.user, error);
    else if (error == TARRY_OK && own->settings.give_up != NULL)
        own->settings.give_up(own->settings.user);
}

/* ---- among workers ---- */

static void pass(void *user, uint32_t to, const void *bytes, size_t size)
{
    const tarry_worker_host *own = user;
    own->settings.pass(own->settings.user, to == own->workers ? TARRY_NO_WORKER : to, bytes, size);
}

/* ---- creation and the end ---- */

static int make_executor(tarry_worker_host *own, snapshots *shared)
{
    const tarry_worker_host_settings *settings = &own->settings;
    const executor_among among = {
        .replica = settings->replica,
        .last = settings->last,
        .engine = settings->engine,
        .exchange = own->others,
    };
    const executor_settings wanted = {
        .worker = settings->worker,
        .straggler = settings->straggler,
        .compute = settings->compute,
        .user = settings->user,
        .parameters = settings->parameters,
        .snapshots = shared,
        .among = own->others != NULL ? &among : NULL,
        .vectors = settings->vectors,
        .uplink = {.post = post, .post_part = post_part, .give_up = give_up, .user = own},
    };
    int error =
        executor_init(&own->executor, &wanted, own->plan, &settings->server, &own->allocator);
    return error == TARRY_OK ? executor_start(&own->executor) : error;
}

static int make(tarry_worker_host *own, snapshots *shared, bool unchecked)
{
    const exchange_settings exchanging = {
        .piece_bytes = EXCHANGE_PASSED_BYTES,
        .now_ns = clock_now_ns,
        .parties = own->workers + 1,
        .pass = pass,
        .user = own,
        .unchecked = unchecked,
    };
    own->has_sending = pthread_mutex_init(&own->sending, NULL) == 0;
    int error = own->has_sending ? TARRY_OK : TARRY_ERROR_SYSTEM;
    if (error == TARRY_OK && is_everywhere(own))
        error = exchange_create(&exchanging, &own->allocator, &own->others);
    return error == TARRY_OK ? make_executor(own, shared) : error;
}

static int check_settings(const tarry_plan *plan, const tarry_worker_host_settings *settings,
                          tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "worker host", diagnostic);
    if (error != TARRY_OK)
        return error;
    const bool everywhere = settings->server.sum == TARRY_SUM_EVERYWHERE;
    if (everywhere &&
        (settings->replica.load == NULL || settings->engine == NULL || settings->pass == NULL))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: where everyone gets the sum, it needs a replica, an engine "
                        "and a way to other workers");
    if (everywhere && settings->replica.step == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: steps are only taken where tasks are, too");
    if (settings->parameters == 0 || settings->dimension == 0 || settings->compute == NULL ||
        settings->send == NULL || settings->worker >= plan->workers)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: parameters, dimension, a worker of the plan, what it "
                        "computes and a way to send must be set");
    if (!everywhere && settings->server.compress != TARRY_COMPRESS_NONE)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: a transport of one's own carries float32 alone: compress "
                        "has to be none");
    if (form_workers_round(&settings->server) && !settings->engine->methods->forms)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: the engine '%s' sums float32: compress and compress_down "
                        "have to be none",
                        settings->engine->methods->name);
    if (settings->server.secure != 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker host: sums can be secure over a network alone");
    error = worker_vectors_check(
        settings->vectors, &settings->server, plan->parts,
        settings->server.sum == TARRY_SUM_EVERYWHERE ? settings->engine : NULL, diagnostic);
    return error == TARRY_OK ? straggler_check_mortal(settings->straggler, diagnostic) : error;
}

int worker_host_create(const tarry_plan *plan, const tarry_worker_host_settings *settings,
                       snapshots *shared, bool unchecked, const tarry_allocator *allocator,
                       tarry_worker_host **worker)
{
    tarry_worker_host *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    made->settings.server.dimension = settings->dimension;
    made->plan = plan;
    made->workers = plan->workers;
    int error = make(made, shared, unchecked);
    if (error != TARRY_OK)
        tarry_worker_host_free(made);
    else
        *worker = made;
    return error;
}

executor *worker_host_executor(tarry_worker_host *worker)
{
    return &worker->executor;
}

int tarry_worker_host_create(const tarry_plan *plan, const tarry_worker_host_settings *settings,
                             const tarry_allocator *allocator, tarry_worker_host **worker,
                             tarry_diagnostic *diagnostic)
{
    int error = check_settings(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = worker_host_create(plan, settings, NULL, false, allocator, worker);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "worker host: %s", tarry_error_text(error));
}

void tarry_worker_host_free(tarry_worker_host *worker)
{
    if (worker == NULL)
        return;
    tarry_allocator allocator = worker->allocator;
    executor_close(&worker->executor);
    executor_destroy(&worker->executor);
    exchange_free(worker->others);
    if (worker->has_sending)
        pthread_mutex_destroy(&worker->sending);
    memory_release(&allocator, worker);
}

/* ---- what comes in ---- */

int tarry_worker_host_deliver(tarry_worker_host *worker, const void *frame, size_t size,
                              const float *numbers, size_t count)
{
    tarry_message_type type;
    uint64_t round;
    if (codec_peek(frame, size, &type, &round) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    bool begins = type == TARRY_MESSAGE_ROUND && !is_everywhere(worker);
    if (count != (begins ? worker->settings.parameters : 0))
        return TARRY_ERROR_FORMAT;
    int error = begins ? snapshots_publish(worker->executor.snapshots, round, numbers) : TARRY_OK;
    if (error != TARRY_OK || !worker->executor.talking)
        return error;
    return executor_deliver(&worker->executor, frame, size);
}

int tarry_worker_host_replan(tarry_worker_host *worker, const tarry_plan *next)
{
    const tarry_plan *plan = worker->plan;
    if (next->workers != plan->workers || next->origins != plan->origins ||
        next->pieces != plan->pieces || next->parts != plan->parts)
        return TARRY_ERROR_ARGUMENT;
    int error = executor_prepare(&worker->executor, next, &worker->settings.server);
    if (error != TARRY_OK)
        return error;
    executor_turn(&worker->executor);
    worker->plan = next;
    return TARRY_OK;
}

/* ---- what comes from other workers ---- */

int tarry_worker_host_meet(tarry_worker_host *worker, uint32_t other, const uint8_t *address,
                           size_t size)
{
    if (worker->executor.collective == NULL || other >= worker->workers ||
        other == worker->settings.worker || size > TARRY_ENGINE_ADDRESS_MOST)
        return TARRY_ERROR_ARGUMENT;
    return collective_meet(worker->executor.collective, other, address, size);
}

/* The exchange counts the server as the party behind the workers. */
static uint32_t party_of(const tarry_worker_host *own, uint32_t other)
{
    return other == TARRY_NO_WORKER ? own->workers : other;
}

int tarry_worker_host_passed(tarry_worker_host *worker, uint32_t from, const void *bytes,
                             size_t size)
{
    return worker->others != NULL
               ? exchange_take(worker->others, party_of(worker, from), bytes, size)
               : TARRY_ERROR_FORMAT;
}

void tarry_worker_host_part(tarry_worker_host *worker, uint32_t other)
{
    uint32_t party = party_of(worker, other);
    if (worker->others != NULL && party <= worker->workers)
        exchange_lose(worker->others, party, "is gone");
}

void tarry_worker_host_cut(tarry_worker_host *worker)
{
    if (worker->executor.collective != NULL && worker->executor.talking)
        executor_cut(&worker->executor);
}

/* ---- slate ---- */

/* The sum and the part, and what `gradient` and `spare` name: low places are taken first. */
static int reserve_places(worker_slate *self, const layout *cut,
                          const tarry_server_settings *server)
{
    uint32_t next = server->sum == TARRY_SUM_EVERYWHERE ? TARRY_PLACE_SUM + 1 : 0;
    self->part = self->coded = self->room == NULL ? next++ : TARRY_NO_PLACE;
    if (self->keep == TARRY_KEEP_CREDITED) {
        self->spare_count = server->ahead < self->load ? server->ahead + 1 : self->load;
        for (uint32_t i = self->spare_count; i > 0; i--)
            self->spare[i - 1] = next++;
    }
    for (size_t i = 0; i < (size_t)self->banks * self->load; i++)
        self->gradient[i] = self->keep == TARRY_KEEP_ALL ? next++ : TARRY_NO_PLACE;
    tarry_vectors *owner = self->vectors->owner;
    return owner->methods->reserve(owner, next, cut->dimension, self->vectors->element);
}

float *worker_slate_part(const worker_slate *self)
{
    return self->room != NULL ? self->room : worker_vectors_floats(self->vectors, self->part);
}

void *worker_slate_stripe(const worker_slate *self, const layout *cut, uint32_t stripe)
{
    return self->packed != NULL
               ? (void *)(self->packed + stripe * self->packed_stride)
               : (void *)(worker_slate_part(self) + layout_stripe_start(cut, stripe));
}

/* A masked part: its stripes as they are sent, from a cache line on each. */
static int allocate_masked(worker_slate *self, const layout *cut, const ring *grid,
                           const tarry_allocator *allocator)
{
    enum { LINE_BYTES = 64 };
    const size_t bytes = masked_stripe_bytes(grid, cut, 0);
    self->packed_stride = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    self->packed = memory_allocate(allocator, cut->stripes, self->packed_stride);
    return self->packed != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static int allocate_packed(worker_slate *self, const layout *cut,
                           const worker_slate_settings *settings, const tarry_allocator *allocator)
{
    const compress_form form = form_of_parts(settings->server);
    if (self->secret.grid.bits != 0)
        return allocate_masked(self, cut, &self->secret.grid, allocator);
    if (form.kind == TARRY_COMPRESS_NONE)
        return TARRY_OK;
    self->packed_stride = form_packed_bytes(form, cut);
    self->packed = memory_allocate(allocator, cut->stripes, self->packed_stride);
    if (self->packed == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return compress_feeds_back(form.kind)
               ? residuals_create(cut->part_length, cut->stripe_length, allocator, &self->residuals)
               : TARRY_OK;
}

static int allocate_vectors(worker_slate *self, const layout *cut,
                            const worker_slate_settings *settings, const tarry_allocator *allocator)
{
    const size_t vectors = (size_t)self->banks * self->load, load = self->load;
    const size_t numbers = settings->grid.bits == 0
                               ? cut->part_length
                               : ring_bytes(&settings->grid, cut->part_length) / sizeof(float);
    const bool roomy = cut->parts > 1 || settings->grid.bits != 0;
    self->words = memory_allocate(allocator, codec_words(&self->shape), sizeof(uint64_t));
    self->gradient = memory_allocate(allocator, vectors, sizeof(*self->gradient));
    self->finished = memory_allocate(allocator, vectors, sizeof(uint64_t));
    self->spare = memory_allocate(allocator, load, sizeof(*self->spare));
    self->folds = memory_allocate(allocator, load, sizeof(*self->folds));
    self->weights = memory_allocate(allocator, load, sizeof(*self->weights));
    self->addends = memory_allocate(allocator, load, sizeof(*self->addends));
    self->inputs = memory_allocate(allocator, load, sizeof(*self->inputs));
    self->scratch = memory_allocate(allocator, transfer_encode_scratch(load, cut->parts), 1);
    self->room = roomy ? vector_allocate(allocator, numbers) : NULL;
    if (self->words == NULL || self->gradient == NULL || self->finished == NULL ||
        self->spare == NULL || self->folds == NULL || self->weights == NULL ||
        self->addends == NULL || self->inputs == NULL || self->scratch == NULL ||
        (roomy && self->room == NULL))
        return TARRY_ERROR_NO_MEMORY;
    return reserve_places(self, cut, settings->server);
}

/* Their own copies: a computation may outlast the plan. */
static int copy_spans(worker_slate *self, const tarry_plan *plan, uint32_t id,
                      const tarry_allocator *allocator)
{
    self->span_offset = memory_allocate(allocator, (size_t)self->load + 1, sizeof(uint32_t));
    if (self->span_offset == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < self->load; slot++)
        self->span_offset[slot + 1] =
            self->span_offset[slot] + tarry_plan_span_count(plan, tarry_plan_chunk(plan, id, slot));
    self->span = memory_allocate(allocator, self->span_offset[self->load], sizeof(*self->span));
    if (self->span == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t slot = 0; slot < self->load; slot++) {
        uint32_t first = self->span_offset[slot], chunk = tarry_plan_chunk(plan, id, slot);
        for (uint32_t i = first; i < self->span_offset[slot + 1]; i++)
            self->span[i] = tarry_plan_span(plan, chunk, i - first);
    }
    return TARRY_OK;
}

int worker_slate_create(const tarry_plan *plan, uint32_t worker,
                        const worker_slate_settings *settings, const tarry_allocator *allocator,
                        worker_slate **made)
{
    const layout *cut = &settings->cut;
    const tarry_server_settings *server = settings->server;
    worker_slate *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->plan = plan;
    self->load = tarry_plan_load(plan, worker);
    self->banks = server->fill == TARRY_FILL_STALE ? 2 : 1;
    self->shape = codec_shape_of(plan, worker, cut->stripes);
    if (settings->grid.bits != 0)
        codec_shape_secure(&self->shape, plan);
    self->keep = server->keep;
    self->vectors = settings->vectors;
    tarry_worker_settings machine = {.worker = worker, .server = *server, .last = settings->last};
    machine.server.dimension = cut->dimension;
    machine.server.stripe_length = cut->stripe_length;
    machine.server.secure = settings->grid.bits;
    self->secret = (secure_sum){.grid = settings->grid};
    int error = allocate_vectors(self, cut, settings, allocator);
    if (error == TARRY_OK)
        error = allocate_packed(self, cut, settings, allocator);
    if (error == TARRY_OK)
        error = copy_spans(self, plan, worker, allocator);
    if (error == TARRY_OK)
        error = tarry_worker_create(plan, &machine, allocator, &self->machine, NULL);
    if (error != TARRY_OK) {
        worker_slate_free(self, allocator);
        return error;
    }
    *made = self;
    return TARRY_OK;
}

void worker_slate_free(worker_slate *self, const tarry_allocator *allocator)
{
    if (self == NULL)
        return;
    tarry_worker_free(self->machine);
    vector_release(allocator, self->room);
    residuals_free(self->residuals);
    memory_release(allocator, self->packed);
    memory_release(allocator, self->scratch);
    memory_release(allocator, self->inputs);
    memory_release(allocator, self->addends);
    memory_release(allocator, self->weights);
    memory_release(allocator, self->folds);
    memory_release(allocator, self->spare);
    memory_release(allocator, self->finished);
    memory_release(allocator, self->gradient);
    memory_release(allocator, self->words);
    memory_release(allocator, self->span);
    memory_release(allocator, self->span_offset);
    memory_release(allocator, self);
}

/* ---- snapshot ---- */

int snapshots_init(snapshots *pool, size_t parameters, size_t holders,
                   const tarry_allocator *allocator)
{
    *pool = (snapshots){.allocator = memory_allocator(allocator), .parameters = parameters};
    pool->capacity = holders + 2; /* the current one and the next */
    pool->items = memory_allocate(&pool->allocator, pool->capacity, sizeof(*pool->items));
    if (pool->items == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        memory_release(&pool->allocator, pool->items);
        return TARRY_ERROR_SYSTEM;
    }
    return TARRY_OK;
}

void snapshots_destroy(snapshots *pool)
{
    for (size_t i = 0; i < pool->capacity; i++)
        vector_release(&pool->allocator, pool->items[i].parameters);
    memory_release(&pool->allocator, pool->items);
    pthread_mutex_destroy(&pool->lock);
}

/* One with memory if there is one; with the lock held. */
static snapshot *find_free(snapshots *pool)
{
    snapshot *bare = NULL;
    for (size_t i = 0; i < pool->capacity; i++) {
        snapshot *item = &pool->items[i];
        if (item->holders > 0)
            continue;
        if (item->parameters != NULL)
            return item;
        if (bare == NULL)
            bare = item;
    }
    return bare;
}

static void copy(const snapshots *pool, snapshot *item, const float *parameters)
{
    memcpy(item->parameters, parameters, pool->parameters * sizeof(float));
}

/* With the lock held. */
static void make_current(snapshots *pool, snapshot *item, uint64_t round)
{
    item->round = round;
    item->generation = ++pool->generation;
    if (pool->current != NULL && pool->current != item)
        pool->current->holders--;
    pool->current = item;
}

/* Whoever asks meanwhile waits for the lock, and gets the new one. */
static bool overwrite_current(snapshots *pool, uint64_t round, const float *parameters)
{
    if (pool->current == NULL || pool->current->holders > 1)
        return false;
    copy(pool, pool->current, parameters);
    pool->current->digested = false;
    make_current(pool, pool->current, round);
    return true;
}

/* One that is free, with memory, held by the pool; NULL if there is no memory. */
static snapshot *take_free(snapshots *pool)
{
    pthread_mutex_lock(&pool->lock);
    snapshot *next = find_free(pool);
    assert(next != NULL);
    next->holders = 1;
    next->digested = false;
    pthread_mutex_unlock(&pool->lock);
    if (next->parameters == NULL)
        next->parameters = vector_allocate(&pool->allocator, pool->parameters);
    if (next->parameters != NULL)
        return next;
    snapshots_release(pool, next);
    return NULL;
}

int snapshots_publish(snapshots *pool, uint64_t round, const float *parameters)
{
    assert(pool->begun == NULL);
    pthread_mutex_lock(&pool->lock);
    if (overwrite_current(pool, round, parameters)) {
        pthread_mutex_unlock(&pool->lock);
        return TARRY_OK;
    }
    pthread_mutex_unlock(&pool->lock);

    snapshot *next = take_free(pool);
    if (next == NULL)
        return TARRY_ERROR_NO_MEMORY;
    copy(pool, next, parameters);
    pthread_mutex_lock(&pool->lock);
    make_current(pool, next, round);
    pthread_mutex_unlock(&pool->lock);
    return TARRY_OK;
}

float *snapshots_begin(snapshots *pool)
{
    if (pool->begun == NULL)
        pool->begun = take_free(pool);
    return pool->begun == NULL ? NULL : pool->begun->parameters;
}

void snapshots_commit(snapshots *pool, uint64_t round)
{
    assert(pool->begun != NULL);
    pthread_mutex_lock(&pool->lock);
    make_current(pool, pool->begun, round);
    pthread_mutex_unlock(&pool->lock);
    pool->begun = NULL;
}

void snapshots_set_digest(snapshots *pool, const uint8_t digest[32])
{
    assert(pool->begun != NULL);
    memcpy(pool->begun->digest, digest, sizeof(pool->begun->digest));
    pool->begun->digested = true;
}

bool snapshots_digest(snapshots *pool, uint64_t generation, uint8_t digest[32])
{
    pthread_mutex_lock(&pool->lock);
    const snapshot *current = pool->current;
    bool found = current != NULL && current->generation == generation && current->digested;
    if (found)
        memcpy(digest, current->digest, sizeof(current->digest));
    pthread_mutex_unlock(&pool->lock);
    return found;
}

void snapshots_label(snapshots *pool, uint64_t round)
{
    pthread_mutex_lock(&pool->lock);
    if (pool->current->round != round)
        make_current(pool, pool->current, round);
    pthread_mutex_unlock(&pool->lock);
}

uint64_t snapshots_generation(snapshots *pool, uint64_t round)
{
    pthread_mutex_lock(&pool->lock);
    const snapshot *current = pool->current;
    uint64_t generation = current != NULL && current->round == round ? current->generation : 0;
    pthread_mutex_unlock(&pool->lock);
    return generation;
}

snapshot *snapshots_hold(snapshots *pool)
{
    pthread_mutex_lock(&pool->lock);
    snapshot *held = pool->current;
    if (held != NULL)
        held->holders++;
    pthread_mutex_unlock(&pool->lock);
    return held;
}

void snapshots_release(snapshots *pool, snapshot *held)
{
    if (held == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    held->holders--;
    pthread_mutex_unlock(&pool->lock);
}
