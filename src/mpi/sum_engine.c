/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/sum_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/sum_form.h>

#include "mpi/clock.h"
#include "mpi/sum_engine_state.h"

enum {
    AHEAD_BYTES = 2 << 20, /* of its coded part that a member sends before it has the sum of it */
    LEAST_AHEAD = 2,       /* stripes */
};

static sum_engine *own_of(tarry_engine *engine)
{
    return (sum_engine *)engine;
}

/* ---- the end of a sum ---- */

/* False: the rank is no member. */
static bool fail_without(sum_engine *own, uint32_t rank)
{
    bool member = own->place_of[rank] < own->count;
    if (member)
        sum_reduce_fail(own, rank, "nothing reaches a member any more");
    return member;
}

static void release_group(sum_engine *own)
{
    free(own->places);
    free(own->zeros);
    free(own->in);
    free(own->weights);
    free(own->term);
    own->places = NULL;
    own->zeros = NULL;
    own->in = NULL;
    own->weights = NULL;
    own->term = NULL;
}

/* ---- what comes ---- */

static void keep_early(sum_engine *own, uint32_t from, post_block *block)
{
    early_block *item = malloc(sizeof(*item));
    if (item == NULL)
        return; /* the sum will not be whole */
    *item = (early_block){.next = own->early, .from = from, .block = post_hold(block)};
    own->early = item;
}

/* The blocks of this group that came early, and none of those before. */
static void use_early(sum_engine *own)
{
    early_block **at = &own->early;
    while (*at != NULL) {
        early_block *item = *at;
        uint64_t epoch = head_of(item->block)->epoch;
        if (epoch > own->epoch) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        if (epoch == own->epoch && own->progress.state == TARRY_ENGINE_RUNNING)
            sum_reduce_use(own, item->from, item->block);
        post_release(item->block);
        free(item);
    }
}

void sum_engine_take(tarry_engine *engine, uint32_t from, post_block *block)
{
    sum_engine *own = own_of(engine);
    if (block->size < POST_HEAD)
        return;
    pthread_mutex_lock(&own->lock);
    uint64_t epoch = head_of(block)->epoch;
    if (own->progress.state == TARRY_ENGINE_RUNNING && epoch == own->epoch)
        sum_reduce_use(own, from, block);
    else if (epoch >= own->least_epoch)
        keep_early(own, from, block);
    pthread_mutex_unlock(&own->lock);
}

void sum_engine_lose(tarry_engine *engine, uint32_t rank)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    own->lost[rank] = true;
    if (own->progress.state == TARRY_ENGINE_RUNNING)
        fail_without(own, rank);
    pthread_mutex_unlock(&own->lock);
}

bool sum_engine_turn(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    sum_reduce(own);
    bool running = own->progress.state == TARRY_ENGINE_RUNNING;
    pthread_mutex_unlock(&own->lock);
    return running;
}

/* ---- the engine's methods ---- */

static void get_address(tarry_engine *engine, uint8_t *bytes, size_t *size)
{
    const sum_engine *own = own_of(engine);
    memcpy(bytes, &own->rank, sizeof(own->rank));
    *size = sizeof(own->rank);
}

static void abandon(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    if (own->progress.state == TARRY_ENGINE_RUNNING)
        sum_reduce_end(own, TARRY_ENGINE_IDLE);
    else
        own->progress.state = TARRY_ENGINE_IDLE;
    pthread_mutex_unlock(&own->lock);
}

/* With the lock held: who the members are. False: their addresses are none. */
static bool list_members(sum_engine *own, const tarry_engine_group *group)
{
    for (uint32_t rank = 0; rank < own->ranks; rank++)
        own->place_of[rank] = UINT32_MAX;
    for (uint32_t i = 0; i < group->count; i++) {
        const tarry_engine_member *member = &group->members[i];
        uint32_t rank = own->ranks;
        if (member->address_size == sizeof(rank))
            memcpy(&rank, member->address, sizeof(rank));
        if (rank >= own->ranks)
            return false;
        own->worker[i] = rank;
        own->place_of[rank] = i;
    }
    return own->worker[group->place] == own->rank;
}

static int form(tarry_engine *engine, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    sum_engine *own = own_of(engine);
    (void)diagnostic;
    abandon(engine);
    pthread_mutex_lock(&own->lock);
    release_group(own);
    own->count = 0;
    own->progress = (tarry_engine_progress){.suspect = TARRY_ENGINE_NOBODY};
    int error = list_members(own, group) ? TARRY_OK : TARRY_ERROR_ARGUMENT;
    if (error == TARRY_OK) {
        own->epoch = group->epoch;
        own->least_epoch = group->epoch;
        own->count = group->count;
        own->place = group->place;
        own->places = calloc((size_t)MOST_SLOTS * group->count, sizeof(post_block *));
        own->zeros = calloc(group->count, sizeof(bool));
        own->in = calloc(group->count, sizeof(float *));
        own->weights = calloc(group->count, sizeof(float));
        if (own->places == NULL || own->zeros == NULL || own->in == NULL || own->weights == NULL)
            error = TARRY_ERROR_NO_MEMORY;
    }
    if (error != TARRY_OK)
        own->count = 0;
    pthread_mutex_unlock(&own->lock);
    return error;
}

/* Who is alone sends nothing in any form. False: there is no memory. */
static bool take_sum(sum_engine *own, const tarry_engine_sum *sum)
{
    own->sum = *sum;
    if (own->count == 1)
        own->sum.compress = own->sum.compress_down = TARRY_COMPRESS_NONE;
    if (tarry_sum_form_rounds(&own->sum, TARRY_WAY_UP) && own->term == NULL)
        own->term = malloc(SHARE_NUMBERS * sizeof(*own->term));
    return own->term != NULL || !tarry_sum_form_rounds(&own->sum, TARRY_WAY_UP);
}

/* With the lock held. */
static int begin(sum_engine *own, const tarry_engine_sum *sum)
{
    if (own->count == 0 || own->progress.state == TARRY_ENGINE_RUNNING)
        return TARRY_ERROR_STATE;
    if (!cut_make(sum, own->count, SHARE_NUMBERS, &own->cut) ||
        tarry_sum_form_check(sum) != TARRY_OK)
        return TARRY_ERROR_ARGUMENT;
    if (!take_sum(own, sum))
        return TARRY_ERROR_NO_MEMORY;
    size_t stripe = own->cut.stripe_length * sizeof(float);
    size_t ahead = AHEAD_BYTES / stripe;
    own->ahead = (uint32_t)(ahead < LEAST_AHEAD  ? LEAST_AHEAD
                            : ahead > MOST_AHEAD ? MOST_AHEAD
                                                 : ahead);
    own->slot_count = 2 * own->ahead + 2;
    for (uint32_t i = 0; i < own->slot_count; i++)
        own->slots[i] = (stripe_slot){.coded = own->places + (size_t)i * own->count};
    own->sent = own->gathered = own->zero_count = 0;
    own->progress =
        (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING, .suspect = TARRY_ENGINE_NOBODY};
    own->least_epoch = own->epoch + 1;
    for (uint32_t rank = 0; rank < own->ranks; rank++)
        if (own->lost[rank] && fail_without(own, rank))
            return TARRY_OK;
    if (sum->part == NULL && !sum_reduce_send_zeros(own)) {
        own->progress.state = TARRY_ENGINE_IDLE;
        return TARRY_ERROR_NO_MEMORY;
    }
    use_early(own);
    return TARRY_OK;
}

static int start(tarry_engine *engine, const tarry_engine_sum *sum)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    int error = begin(own, sum);
    pthread_mutex_unlock(&own->lock);
    post_wake(own->to);
    return error;
}

static void wait(tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    bool time_left = true;
    while (own->progress.state == TARRY_ENGINE_RUNNING && !own->woken && time_left)
        time_left = clock_wait(&own->change, &own->lock, until_ns);
    own->woken = false;
    *progress = own->progress;
    pthread_mutex_unlock(&own->lock);
}

static void wake(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    pthread_mutex_lock(&own->lock);
    own->woken = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
}

static void release(tarry_engine *engine)
{
    sum_engine *own = own_of(engine);
    if (own->has_lock && own->has_change)
        abandon(engine);
    while (own->early != NULL) {
        early_block *item = own->early;
        own->early = item->next;
        post_release(item->block);
        free(item);
    }
    release_group(own);
    if (own->has_change)
        pthread_cond_destroy(&own->change);
    if (own->has_lock)
        pthread_mutex_destroy(&own->lock);
    free(own->worker);
    free(own->place_of);
    free(own->lost);
    free(own);
}

static const tarry_engine_methods methods = {
    .name = "mpi",
    .address = get_address,
    .form = form,
    .start = start,
    .wait = wait,
    .wake = wake,
    .abandon = abandon,
    .free = release,
    .forms = true,
};

tarry_engine *sum_engine_create(post *to, int kind, uint32_t rank, uint32_t ranks)
{
    sum_engine *own = calloc(1, sizeof(*own));
    if (own == NULL)
        return NULL;
    own->base.methods = &methods;
    own->to = to;
    own->kind = kind;
    own->rank = rank;
    own->ranks = ranks;
    own->has_lock = pthread_mutex_init(&own->lock, NULL) == 0;
    own->has_change = clock_init_condition(&own->change);
    own->worker = calloc(ranks, sizeof(*own->worker));
    own->place_of = calloc(ranks, sizeof(*own->place_of));
    own->lost = calloc(ranks, sizeof(*own->lost));
    if (!own->has_lock || !own->has_change || own->worker == NULL || own->place_of == NULL ||
        own->lost == NULL) {
        release(&own->base);
        return NULL;
    }
    return &own->base;
}
