/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange thread. */
#include "runtime/worker/collective_state.h"

#include <stdio.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "plan/plan.h"

static bool is_abandoned(collective *self)
{
    pthread_mutex_lock(&self->lock);
    bool abandoned = self->abandoning;
    pthread_mutex_unlock(&self->lock);
    return abandoned;
}

static bool is_halted(collective *self)
{
    pthread_mutex_lock(&self->lock);
    bool halted = self->abandoning || self->halting;
    pthread_mutex_unlock(&self->lock);
    return halted;
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
    others->methods->hold(others, NULL, NULL, 0);
    self->held = (tarry_sum_id){0};
}

/* The buffer holds the sum of this name. */
static void hold(collective *self, const tarry_sum_id *name, uint64_t digest)
{
    exchange *others = self->settings.exchange;
    self->held = *name;
    self->held.digest = digest;
    self->piece = (tarry_sum_id){0};
    others->methods->hold(others, &self->held, self->sum, self->settings.dimension);
}

/* With the roster's lock held. The members of the group and what their parts are multiplied by;
 * *unknown is one whose address is not known. */
static bool list_members(collective *self, tarry_engine_group *group, uint32_t *unknown)
{
    const collective_sum *sum = &self->order.reduce;
    const double *decode = plan_decode(sum->plan, sum->parts);
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
        for (uint32_t part = 0; part < sum->parts; part++)
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
        .shape = self->order.reduce.shape,
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

/* What stands is there, to the bit. */
static bool has_piece(const collective *self, const collective_sum *sum, const layout *cut)
{
    return sum_id_named(&self->piece, &sum->piece) && self->piece_parts == sum->parts &&
           self->whole >= sum->whole &&
           sum_digest_piece(sum->name.step, self->sum, cut, sum->whole) == sum->piece.digest;
}

/* Notes what is left of a sum that failed. */
static void keep_piece(collective *self, const layout *cut, size_t whole)
{
    const collective_sum *sum = &self->order.reduce;
    self->whole = layout_stand(cut, whole);
    self->piece = (tarry_sum_id){0};
    self->piece_parts = sum->parts;
    if (self->whole == 0)
        return;
    self->piece = sum->name;
    self->piece.digest = sum_digest_piece(sum->name.step, self->sum, cut, self->whole);
}

/* Works on the sum that was started until it is over, or nobody wants it any more. */
static void work(collective *self, tarry_engine_progress *progress)
{
    tarry_engine *engine = self->settings.engine;
    while (progress->state == TARRY_ENGINE_RUNNING && !is_halted(self)) {
        if (take_wanted(self))
            serve(self);
        engine->methods->wait(engine, TARRY_NEVER, progress);
    }
    if (progress->state != TARRY_ENGINE_RUNNING)
        return;
    engine->methods->abandon(engine);
    engine->methods->wait(engine, 0, progress);
}

/* By a thread of the engine. */
static void on_came(void *user, size_t first, size_t count)
{
    collective *self = user;
    sum_digester_add(&self->digester, first, count);
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
    const layout cut = layout_make(self->settings.dimension, sum->parts, 1);
    const tarry_engine_sum wanted = {
        .name = sum->name,
        .dimension = self->settings.dimension,
        .parts = sum->parts,
        .part = sum->part,
        .weights = self->weights,
        .sum = self->sum,
        .whole = sum->whole,
        .came = on_came,
        .user = self,
        .compress = forms->up,
        .compress_down = forms->down,
        .compress_seed = forms->seed,
        .compress_exact = forms->exact,
    };
    tarry_engine_progress progress = {
        .state = TARRY_ENGINE_FAILED,
        .suspect = TARRY_NO_WORKER,
        .whole = sum->whole,
    };
    let_go(self);
    sum_digester_begin(&self->digester, sum->name.step, self->sum);
    tarry_diagnostic why = {{0}};
    int error = TARRY_OK;
    if (sum->whole > 0 && !has_piece(self, sum, &cut)) {
        progress.whole = 0;
        progress.suspect = sum->from;
        error = diagnose(&why, TARRY_ERROR_STATE, "what stands of the sum is not there");
    }
    if (error == TARRY_OK)
        error = form(self, &progress.suspect, &why);
    if (error == TARRY_OK)
        error = engine->methods->start(engine, &wanted);
    if (error == TARRY_OK) {
        progress.state = TARRY_ENGINE_RUNNING;
        work(self, &progress);
    } else {
        explain(&progress, error, &why);
    }
    bool done = progress.state == TARRY_ENGINE_DONE;
    if (progress.state == TARRY_ENGINE_FAILED)
        tell_failure(self, progress.why);
    if (done)
        hold(self, &sum->name, sum_digester_end(&self->digester));
    else
        keep_piece(self, &cut, (size_t)progress.whole);
    self->end = (tarry_event){
        .type = TARRY_EVENT_REDUCED,
        .sum = done              ? self->held
               : self->whole > 0 ? self->piece
                                 : sum->name,
        .failed = !done,
        .whole = done ? 0 : self->whole,
        .from = done ? TARRY_NO_WORKER : progress.suspect,
        .took_ns = done ? progress.took_ns : 0,
        .latency_ns = done ? progress.latency_ns : 0,
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
    size_t count = self->settings.dimension;
    exchange_progress progress;
    let_go(self);
    self->piece = (tarry_sum_id){0};
    bool done =
        others->methods->fetch(others, order->from, &order->sum, self->sum, count) == TARRY_OK &&
        finish(self, &progress) &&
        sum_digest(order->sum.step, self->sum, count) == order->sum.digest;
    if (done)
        hold(self, &order->sum, order->sum.digest);
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
    self->abandoning = self->halting = false;
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

void *collective_run(void *argument)
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
