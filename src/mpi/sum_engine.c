/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/sum_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/sum_form.h>

#include "mpi/cut.h"
#include "runtime/clock.h"

enum {
    AHEAD_BYTES = 2 << 20, /* of its coded part that a member sends before it has the sum of it */
    LEAST_AHEAD = 2,       /* stripes */
    SHARE_NUMBERS = 32768, /* of a block of a coded part, at most */
    MOST_AHEAD = 16,       /* stripes of its coded part that a member sends before it has the sum of
                              them */
    /* A member may have the sum of `ahead` stripes more than this one, which have all come to be
     * decoded here, and sends its part `ahead` of that. */
    MOST_SLOTS = 2 * MOST_AHEAD + 2,
};

typedef enum block_type {
    BLOCK_CODED,  /* of a coded part: the receiver's share of a stripe */
    BLOCK_ZEROS,  /* the sender's coded part is zeros */
    BLOCK_SUMMED, /* the sender's share of a stripe of the sum, of all parts */
} block_type;

/* What a block begins with; it lies in the first POST_HEAD bytes. Ranks are of one kind of machine
 * as MPI has them here: messages are bytes. */
typedef struct block_head {
    uint64_t epoch;
    uint32_t type, stripe;
    uint32_t form; /* of its numbers, a tarry_compress */
} block_head;

/* A block of a group that is still to be formed. */
typedef struct early_block {
    struct early_block *next;
    uint32_t from;
    post_block *block;
} early_block;

/* A stripe that is in progress. */
typedef struct stripe_slot {
    post_block **coded; /* per member; NULL: not there */
    uint32_t count;     /* of them */
    uint32_t summed;    /* members whose shares of the sum are there */
    bool decoded;       /* the own share is */
} stripe_slot;

typedef struct sum_engine {
    tarry_engine base;
    post *to;
    uint32_t rank, ranks;
    bool has_lock, has_change;
    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t change;
    bool woken;
    uint64_t epoch, least_epoch; /* blocks of groups below the second are dropped */
    uint32_t count, place;       /* of the group; count 0: none */
    uint32_t *worker;            /* id of each member, */
    uint32_t *rank_of;           /* and its rank */
    uint32_t *place_of;          /* per rank; UINT32_MAX: no member */
    bool *lost;                  /* per rank: nothing reaches it */
    early_block *early;
    tarry_engine_progress progress;
    tarry_engine_sum sum; /* while it runs */
    cut cut;
    uint32_t ahead, slot_count; /* stripes; slots are taken in turn */
    stripe_slot slots[MOST_SLOTS];
    post_block **places; /* slots x count */
    bool *zeros;         /* per member */
    uint32_t zero_count;
    uint32_t sent;     /* stripes of the own coded part */
    uint32_t gathered; /* stripes of the sum that are whole */
    const float **in;  /* per member: what is decoded, */
    float *weights;    /* and with which weights */
    float *term;       /* SHARE_NUMBERS of a coded part that came in a form; NULL: none does */
} sum_engine;

static const block_head *head_of(const post_block *block)
{
    return (const block_head *)block->bytes;
}

/* What is behind its head: float32, or numbers in a form. */
static void *numbers_of(post_block *block)
{
    return block->bytes + POST_HEAD;
}

static bool rounds(const sum_engine *own, tarry_way way)
{
    return tarry_sum_form_rounds(&own->sum, way);
}

/* Of a share of a coded part, as it is sent. */
static size_t coded_bytes(const sum_engine *own, cut_share its)
{
    return tarry_sum_form_bytes(&own->sum, TARRY_WAY_UP, cut_place(&own->cut, 0, its), its.length);
}

/* The same of a share of the sum. */
static size_t summed_bytes(const sum_engine *own, cut_share its)
{
    return rounds(own, TARRY_WAY_DOWN)
               ? tarry_sum_form_bytes(&own->sum, TARRY_WAY_DOWN, cut_place(&own->cut, 0, its),
                                      its.length)
               : cut_numbers(&own->cut, its) * sizeof(float);
}

static uint32_t form_of(const sum_engine *own, block_type type)
{
    return type == BLOCK_CODED    ? own->sum.compress
           : type == BLOCK_SUMMED ? own->sum.compress_down
                                  : TARRY_COMPRESS_NONE;
}

static stripe_slot *slot_of(sum_engine *own, uint32_t stripe)
{
    return &own->slots[stripe % own->slot_count];
}

/* ---- the end of a sum ---- */

static void release_slot(const sum_engine *own, stripe_slot *slot)
{
    for (uint32_t i = 0; i < own->count; i++) {
        post_release(slot->coded[i]);
        slot->coded[i] = NULL;
    }
    slot->count = slot->summed = 0;
    slot->decoded = false;
}

/* Nothing of the sum is read or written any more. */
static void sum_reduce_end(sum_engine *own, tarry_engine_state state)
{
    for (uint32_t i = 0; i < own->slot_count; i++)
        release_slot(own, &own->slots[i]);
    own->progress.state = state;
    pthread_cond_broadcast(&own->change);
}

static void sum_reduce_fail(sum_engine *own, uint32_t suspect, const char *why)
{
    own->progress.suspect = suspect;
    snprintf(own->progress.why, sizeof(own->progress.why), "%s", why);
    sum_reduce_end(own, TARRY_ENGINE_FAILED);
}

/* ---- what goes out ---- */

static post_block *make_block(const sum_engine *own, block_type type, uint32_t stripe, size_t bytes)
{
    post_block *made = post_block_reuse(own->to, POST_HEAD + bytes);
    if (made == NULL)
        return NULL;
    memset(made->bytes, 0, POST_HEAD);
    *(block_head *)made->bytes = (block_head){
        .epoch = own->epoch, .type = type, .stripe = stripe, .form = form_of(own, type)};
    return made;
}

static void put(sum_engine *own, uint32_t place, post_block *block)
{
    own->progress.moved += block->size - POST_HEAD;
    post_put(own->to, own->rank_of[place], own->epoch, block);
}

/* Others learn that they need not wait for a coded part. False: there is no memory. */
static bool sum_reduce_send_zeros(sum_engine *own)
{
    post_block *block = make_block(own, BLOCK_ZEROS, 0, 0);
    for (uint32_t i = 0; i < own->count && block != NULL; i++)
        if (i != own->place)
            put(own, i, post_hold(block));
    bool sent = block != NULL;
    post_release(block);
    return sent;
}

static void pack_coded(const sum_engine *own, cut_share its, void *into)
{
    const float *numbers = own->sum.part + its.first;
    if (rounds(own, TARRY_WAY_UP))
        tarry_sum_form_encode(&own->sum, TARRY_WAY_UP, own->worker[own->place],
                              cut_place(&own->cut, 0, its), its.length, numbers, into);
    else
        memcpy(into, numbers, its.length * sizeof(float));
}

static bool send_stripe(sum_engine *own)
{
    for (uint32_t step = 1; step < own->count; step++) {
        uint32_t place = (own->place + step) % own->count; /* all begin with another one */
        cut_share its = cut_share_of(&own->cut, own->sent, place);
        if (its.length == 0)
            continue;
        post_block *block = make_block(own, BLOCK_CODED, own->sent, coded_bytes(own, its));
        if (block == NULL)
            return false;
        pack_coded(own, its, numbers_of(block));
        put(own, place, block);
    }
    own->sent++;
    return true;
}

/* ---- what is summed ---- */

static void tell_came(const sum_engine *own, uint32_t part, cut_share of)
{
    size_t count = cut_exists(&own->cut, part, of);
    if (own->sum.came != NULL && count > 0)
        own->sum.came(own->sum.user, cut_place(&own->cut, part, of), count);
}

static bool has_part(const sum_engine *own, uint32_t place)
{
    return place == own->place ? own->sum.part != NULL : !own->zeros[place];
}

/* Of one part, what all have sent of the own share. */
static void combine(sum_engine *own, const stripe_slot *slot, cut_share its, uint32_t part,
                    float *out)
{
    uint32_t terms = 0;
    for (uint32_t i = 0; i < own->count; i++) {
        if (!has_part(own, i))
            continue;
        own->in[terms] = i == own->place ? own->sum.part + its.first : numbers_of(slot->coded[i]);
        own->weights[terms++] = own->sum.weights[(size_t)part * own->count + i];
    }
    cut_combine(out, own->in, own->weights, terms, cut_exists(&own->cut, part, its));
}

/* The same of parts in a form, of which there is one, a term after the other. */
static void combine_rounded(const sum_engine *own, const stripe_slot *slot, cut_share its,
                            float *out)
{
    memset(out, 0, its.length * sizeof(*out));
    for (uint32_t i = 0; i < own->count; i++) {
        const float *term = own->term;
        if (!has_part(own, i))
            continue;
        if (i == own->place)
            term = own->sum.part + its.first;
        else
            tarry_sum_form_decode(&own->sum, TARRY_WAY_UP, cut_place(&own->cut, 0, its), its.length,
                                  numbers_of(slot->coded[i]), own->term);
        cut_add(out, term, own->sum.weights[i], its.length);
    }
}

/* What is sent of the own share of a stripe. In a form the own sum becomes what that says, too. */
static void pack_summed(const sum_engine *own, cut_share its, void *into)
{
    float *numbers = own->sum.sum + cut_place(&own->cut, 0, its);
    if (rounds(own, TARRY_WAY_DOWN)) {
        size_t place = cut_place(&own->cut, 0, its);
        tarry_sum_form_encode(&own->sum, TARRY_WAY_DOWN, own->worker[own->place], place, its.length,
                              numbers, into);
        tarry_sum_form_decode(&own->sum, TARRY_WAY_DOWN, place, its.length, into, numbers);
        return;
    }
    float *at = into;
    for (uint32_t part = 0; part < own->cut.parts; part++) {
        size_t exists = cut_exists(&own->cut, part, its);
        memcpy(at, own->sum.sum + cut_place(&own->cut, part, its), exists * sizeof(*at));
        at += exists;
    }
}

/* Decodes the own share of a stripe, which goes to all. */
static bool decode(sum_engine *own, uint32_t stripe)
{
    stripe_slot *slot = slot_of(own, stripe);
    cut_share its = cut_share_of(&own->cut, stripe, own->place);
    post_block *block = make_block(own, BLOCK_SUMMED, stripe, summed_bytes(own, its));
    if (block == NULL)
        return false;
    for (uint32_t part = 0; part < own->cut.parts; part++) {
        float *out = own->sum.sum + cut_place(&own->cut, part, its);
        if (rounds(own, TARRY_WAY_UP))
            combine_rounded(own, slot, its, out);
        else
            combine(own, slot, its, part, out);
    }
    pack_summed(own, its, numbers_of(block));
    for (uint32_t part = 0; part < own->cut.parts; part++)
        tell_came(own, part, its);
    for (uint32_t step = 1; step < own->count; step++)
        put(own, (own->place + step) % own->count, post_hold(block));
    post_release(block);
    slot->decoded = true;
    slot->summed++;
    return true;
}

static bool can_decode(sum_engine *own, uint32_t stripe)
{
    const stripe_slot *slot = slot_of(own, stripe);
    return !slot->decoded && cut_share_of(&own->cut, stripe, own->place).length > 0 &&
           slot->count + own->zero_count + 1 >= own->count;
}

/* Members with a share of the stripe: their shares come. */
static uint32_t count_owners(const sum_engine *own, uint32_t stripe)
{
    uint32_t owners = 0;
    for (uint32_t i = 0; i < own->count; i++)
        owners += cut_share_of(&own->cut, stripe, i).length > 0;
    return owners;
}

/* Stripes that may be in progress now. */
static uint32_t horizon(const sum_engine *own)
{
    uint32_t left = own->cut.stripes - own->gathered;
    return own->gathered + (left < own->ahead ? left : own->ahead);
}

/* All that can be done. */
static void sum_reduce(sum_engine *own)
{
    while (own->progress.state == TARRY_ENGINE_RUNNING) {
        bool done = false;
        if (own->sum.part != NULL && own->sent < horizon(own)) {
            done = true;
            if (!send_stripe(own)) {
                sum_reduce_fail(own, TARRY_ENGINE_NOBODY, "there is no memory for its blocks");
                return;
            }
        }
        for (uint32_t stripe = own->gathered; stripe < horizon(own); stripe++) {
            if (!can_decode(own, stripe))
                continue;
            done = true;
            if (!decode(own, stripe)) {
                sum_reduce_fail(own, TARRY_ENGINE_NOBODY, "there is no memory for its blocks");
                return;
            }
        }
        stripe_slot *first = slot_of(own, own->gathered);
        if (first->summed == count_owners(own, own->gathered)) {
            done = true;
            release_slot(own, first);
            if (++own->gathered == own->cut.stripes)
                sum_reduce_end(own, TARRY_ENGINE_DONE);
        }
        if (!done)
            return;
    }
}

/* ---- what comes ---- */

static void unpack_summed(const sum_engine *own, cut_share its, const void *bytes)
{
    if (rounds(own, TARRY_WAY_DOWN)) {
        size_t place = cut_place(&own->cut, 0, its);
        tarry_sum_form_decode(&own->sum, TARRY_WAY_DOWN, place, its.length, bytes,
                              own->sum.sum + place);
        return;
    }
    const float *from = bytes;
    for (uint32_t part = 0; part < own->cut.parts; part++) {
        size_t exists = cut_exists(&own->cut, part, its);
        memcpy(own->sum.sum + cut_place(&own->cut, part, its), from, exists * sizeof(*from));
        from += exists;
    }
}

/* A share of the sum. False: it is none. */
static bool take_summed(sum_engine *own, uint32_t place, post_block *block)
{
    uint32_t stripe = head_of(block)->stripe;
    cut_share its = cut_share_of(&own->cut, stripe, place);
    if (block->size != POST_HEAD + summed_bytes(own, its))
        return false;
    unpack_summed(own, its, numbers_of(block));
    for (uint32_t part = 0; part < own->cut.parts; part++)
        tell_came(own, part, its);
    slot_of(own, stripe)->summed++;
    return true;
}

static bool take_coded(sum_engine *own, uint32_t place, post_block *block)
{
    uint32_t stripe = head_of(block)->stripe;
    cut_share its = cut_share_of(&own->cut, stripe, own->place);
    stripe_slot *slot = slot_of(own, stripe);
    if (block->size != POST_HEAD + coded_bytes(own, its) || slot->coded[place] != NULL)
        return false;
    slot->coded[place] = post_hold(block);
    slot->count++;
    return true;
}

/* A block of the sum that runs. */
static void sum_reduce_use(sum_engine *own, uint32_t from, post_block *block)
{
    const block_head *head = head_of(block);
    uint32_t place = own->place_of[from];
    bool good = place < own->count && place != own->place;
    if (good && head->type == BLOCK_ZEROS) {
        own->zero_count += !own->zeros[place];
        own->zeros[place] = true;
        return;
    }
    if (good && head->form != form_of(own, (block_type)head->type)) {
        sum_reduce_fail(own, own->worker[place], "a member sends numbers in another form");
        return;
    }
    good = good && head->stripe >= own->gathered && head->stripe < own->cut.stripes &&
           head->stripe - own->gathered < own->slot_count;
    if (good && head->type == BLOCK_CODED) {
        good = take_coded(own, place, block);
    } else if (good && head->type == BLOCK_SUMMED) {
        good = take_summed(own, place, block);
    } else {
        good = false;
    }
    if (!good)
        sum_reduce_fail(own, TARRY_ENGINE_NOBODY, "a member cuts the sum in another way");
}

/* ---- groups ---- */

static sum_engine *own_of(tarry_engine *engine)
{
    return (sum_engine *)engine;
}

/* False: the rank is no member. */
static bool fail_without(sum_engine *own, uint32_t rank)
{
    bool member = own->place_of[rank] < own->count;
    if (member)
        sum_reduce_fail(own, own->worker[own->place_of[rank]], "nothing reaches a member any more");
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

/* ---- what the post brings ---- */

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

/* With the lock held: who the members are. False if their addresses are not different ranks, with
 * the own one at its place. */
static bool list_members(sum_engine *own, const tarry_engine_group *group)
{
    for (uint32_t rank = 0; rank < own->ranks; rank++)
        own->place_of[rank] = UINT32_MAX;
    if (group->count > own->ranks)
        return false;
    for (uint32_t i = 0; i < group->count; i++) {
        const tarry_engine_member *member = &group->members[i];
        uint32_t rank = own->ranks;
        if (member->address_size == sizeof(rank))
            memcpy(&rank, member->address, sizeof(rank));
        if (rank >= own->ranks || own->place_of[rank] != UINT32_MAX)
            return false;
        own->worker[i] = member->worker;
        own->rank_of[i] = rank;
        own->place_of[rank] = i;
    }
    return own->rank_of[group->place] == own->rank;
}

/* With the lock held. Blocks of a sum that did not come to its end are not sent any more: those to
 * a dead rank would pile up. */
static void leave_group(sum_engine *own)
{
    if (own->progress.state == TARRY_ENGINE_RUNNING)
        sum_reduce_end(own, TARRY_ENGINE_FAILED);
    if (own->progress.state == TARRY_ENGINE_FAILED)
        post_drop(own->to, own->epoch);
    release_group(own);
}

static int form(tarry_engine *engine, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    sum_engine *own = own_of(engine);
    if (!post_begin(own->to)) {
        if (diagnostic != NULL)
            snprintf(diagnostic->text, sizeof(diagnostic->text), "mpi: cannot start its thread");
        return TARRY_ERROR_SYSTEM;
    }
    pthread_mutex_lock(&own->lock);
    leave_group(own);
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
    if (tarry_sum_form_check(sum) != TARRY_OK)
        return TARRY_ERROR_ARGUMENT;
    cut_make(sum, own->count, SHARE_NUMBERS, &own->cut);
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
    free(own->rank_of);
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

tarry_engine *sum_engine_create(post *to, uint32_t rank, uint32_t ranks)
{
    sum_engine *own = calloc(1, sizeof(*own));
    if (own == NULL)
        return NULL;
    own->base.methods = &methods;
    own->to = to;
    own->rank = rank;
    own->ranks = ranks;
    own->has_lock = pthread_mutex_init(&own->lock, NULL) == 0;
    own->has_change = clock_init_condition(&own->change) == 0;
    own->worker = calloc(ranks, sizeof(*own->worker));
    own->rank_of = calloc(ranks, sizeof(*own->rank_of));
    own->place_of = calloc(ranks, sizeof(*own->place_of));
    own->lost = calloc(ranks, sizeof(*own->lost));
    if (!own->has_lock || !own->has_change || own->worker == NULL || own->rank_of == NULL ||
        own->place_of == NULL || own->lost == NULL) {
        release(&own->base);
        return NULL;
    }
    return &own->base;
}
