/* SPDX-License-Identifier: Apache-2.0 */
/* A sum over MPI: what goes out, what is summed, and what comes. */
#include <stdio.h>
#include <string.h>

#include <tarry/sum_form.h>

#include "mpi/sum_engine_state.h"

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

void sum_reduce_end(sum_engine *own, tarry_engine_state state)
{
    for (uint32_t i = 0; i < own->slot_count; i++)
        release_slot(own, &own->slots[i]);
    own->progress.state = state;
    size_t whole = own->gathered * own->cut.stripe_length;
    own->progress.whole =
        own->cut.whole + (whole < own->cut.part_length ? whole : own->cut.part_length);
    pthread_cond_broadcast(&own->change);
}

void sum_reduce_fail(sum_engine *own, uint32_t suspect, const char *why)
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
    post_put(own->to, own->worker[place], own->kind, block);
}

bool sum_reduce_send_zeros(sum_engine *own)
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
    const float *numbers = own->sum.part + own->cut.whole + its.first;
    if (rounds(own, TARRY_WAY_UP))
        tarry_sum_form_encode(&own->sum, TARRY_WAY_UP, own->rank, cut_place(&own->cut, 0, its),
                              its.length, numbers, into);
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
        own->in[terms] = i == own->place ? own->sum.part + own->cut.whole + its.first
                                         : numbers_of(slot->coded[i]);
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
            term = own->sum.part + own->cut.whole + its.first;
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
        tarry_sum_form_encode(&own->sum, TARRY_WAY_DOWN, own->rank, place, its.length, numbers,
                              into);
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

void sum_reduce(sum_engine *own)
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

void sum_reduce_use(sum_engine *own, uint32_t from, post_block *block)
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
        sum_reduce_fail(own, from, "a member sends numbers in another form");
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
