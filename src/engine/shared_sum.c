/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a sum in shared memory: see shared_state.h. */
#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* a state that needs no allocation */
#include <xxhash.h>

#include "base/memory.h"
#include "engine/shared_state.h"

/* ---- what members say of themselves ---- */

static segment *memory_of(shared_engine *engine, uint32_t place)
{
    return place == engine->place ? &engine->own : &engine->members[place].memory;
}

static segment_board *board_of(shared_engine *engine, uint32_t place)
{
    return memory_of(engine, place)->board;
}

static float *slot_of(shared_engine *engine, uint32_t place, uint32_t stripe)
{
    return memory_of(engine, place)->numbers + stripe % SHARED_SLOTS * engine->slot_numbers;
}

/* Where a member's share of the sum lies in its slot. */
static float *summed_in(shared_engine *engine, uint32_t place, uint32_t stripe)
{
    return slot_of(engine, place, stripe) + engine->cut.stripe_length;
}

static bool is_of(segment_side *side, uint64_t tag)
{
    return atomic_load(&side->tag) == tag;
}

/* Stripes of this sum that the side shows. */
static uint32_t shows(shared_engine *engine, segment_side *side)
{
    return is_of(side, engine->tag) ? atomic_load(&side->count) : 0;
}

/* Says that this side is of another sum, before anything that it showed is overwritten. */
static void side_begin(segment_side *side, uint64_t tag, bool zeros)
{
    atomic_store(&side->tag, 0);
    atomic_store(&side->count, 0);
    atomic_store(&side->zeros, zeros);
    atomic_store(&side->tag, tag);
    atomic_thread_fence(memory_order_release);
}

static void ring_those_who_wait(shared_engine *engine)
{
    for (uint32_t i = 0; i < engine->count; i++)
        if (i != engine->place && engine->members[i].open &&
            atomic_load(&board_of(engine, i)->waits_for) == engine->place + 1)
            segment_ring(memory_of(engine, i));
}

static void side_show(shared_engine *engine, segment_side *side, uint32_t count)
{
    atomic_store(&side->count, count);
    ring_those_who_wait(engine);
}

/* ---- beginning and end ---- */

static uint64_t make_tag(const shared_engine *engine, const tarry_engine_sum *sum)
{
    const uint64_t words[] = {engine->epoch,     engine->count,     sum->name.step, sum->name.term,
                              sum->name.attempt, sum->dimension,    sum->parts,     sum->whole,
                              sum->compress,     sum->compress_down};
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, words, sizeof(words));
    XXH3_64bits_update(&state, sum->weights,
                       (size_t)sum->parts * engine->count * sizeof(*sum->weights));
    for (uint32_t i = 0; i < engine->count; i++)
        XXH3_64bits_update(&state, engine->members[i].address, SEGMENT_ADDRESS);
    uint64_t tag = XXH3_64bits_digest(&state);
    return tag == 0 ? 1 : tag;
}

/* The longest stripes of which a slot takes the coded part and all parts' shares, as equal as they
 * can be. 0: none. */
static size_t stripe_length(size_t slot_numbers, const tarry_engine_sum *sum, uint32_t count)
{
    size_t part = (sum->dimension - 1) / sum->parts + 1;
    /* A share is at most that much longer than the n-th of its stripe. */
    size_t rounding = (size_t)sum->parts * 2 * LAYOUT_LINE;
    if (slot_numbers <= rounding)
        return 0;
    size_t most =
        (slot_numbers - rounding) / (count + sum->parts) * count / LAYOUT_LINE * LAYOUT_LINE;
    if (most == 0)
        return 0;
    size_t stripes = (part - 1) / most + 1;
    size_t equal = (part - 1) / stripes + 1;
    return (equal + LAYOUT_LINE - 1) / LAYOUT_LINE * LAYOUT_LINE;
}

/* Numbers from slot to slot: as many as the smallest segment has room for. */
static size_t common_slot(const shared_engine *engine)
{
    size_t least = engine->own.count;
    for (uint32_t i = 0; i < engine->count; i++) {
        size_t count;
        if (segment_read_address(engine->members[i].address, SEGMENT_ADDRESS, &count) &&
            count < least)
            least = count;
    }
    return least / SHARED_SLOTS / LAYOUT_LINE * LAYOUT_LINE;
}

/* In slots of another shape the coded part may come to lie where shares of the sum before still
 * do, which others may be about to read: they are taken back first. In the same shape they stay. */
static void take_shape(shared_engine *engine, layout cut, size_t slot)
{
    if (slot != engine->slot_numbers || cut.stripe_length != engine->cut.stripe_length)
        atomic_store(&engine->own.board->summed.tag, 0);
    engine->cut = cut;
    engine->slot_numbers = slot;
    engine->share_stride = share_most(&engine->cut, engine->count);
}

int shared_sum_begin(shared_engine *engine, const tarry_engine_sum *asked)
{
    tarry_engine_sum rest;
    const tarry_engine_sum *sum = &rest;
    size_t stride;
    int error = share_rest(asked, &rest, &stride);
    if (error == TARRY_OK)
        error = sum_forms_of(&rest, engine->count, engine->members[engine->place].worker,
                             &engine->forms);
    if (error != TARRY_OK)
        return error;
    size_t slot = common_slot(engine), stripe = stripe_length(slot, sum, engine->count);
    if (stripe == 0)
        return TARRY_ERROR_NO_MEMORY;
    uint32_t *places = memory_allocate(&engine->allocator, engine->count, sizeof(*places));
    float *rows =
        memory_allocate(&engine->allocator, (size_t)engine->count * sum->parts, sizeof(*rows));
    layout cut = layout_make(sum->dimension, sum->parts, stripe);
    bool rounds = sum_form_rounds(&engine->forms, TARRY_WAY_UP) ||
                  sum_form_rounds(&engine->forms, TARRY_WAY_DOWN);
    uint8_t *packed = NULL;
    if (rounds)
        packed = memory_allocate(&engine->allocator, share_most(&cut, engine->count) + 1,
                                 2 * sizeof(float)); /* of one number: the most in any form */
    if (places == NULL || rows == NULL || (rounds && packed == NULL)) {
        memory_release(&engine->allocator, packed);
        memory_release(&engine->allocator, rows);
        memory_release(&engine->allocator, places);
        return TARRY_ERROR_NO_MEMORY;
    }
    engine->terms = (share_terms){.places = places, .rows = rows};
    engine->packed = packed;
    engine->sum = *sum;
    engine->stride = stride;
    take_shape(engine, cut, slot);
    engine->copied = engine->summed = engine->gathered = 0;
    engine->tag = make_tag(engine, sum);
    engine->progress =
        (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING, .suspect = TARRY_ENGINE_NOBODY};
    for (uint32_t i = 0; i < engine->count; i++)
        engine->members[i].begun = false;
    side_begin(&engine->own.board->coded, engine->tag, sum->part == NULL);
    return TARRY_OK;
}

void shared_sum_end(shared_engine *engine, tarry_engine_state state)
{
    if (state != TARRY_ENGINE_DONE) { /* what is done, others may still want to read */
        atomic_store(&engine->own.board->coded.tag, 0);
        ring_those_who_wait(engine);
    }
    memory_release(&engine->allocator, engine->packed);
    memory_release(&engine->allocator, engine->terms.rows);
    memory_release(&engine->allocator, engine->terms.places);
    engine->terms = (share_terms){0};
    engine->packed = NULL;
    engine->progress.state = state;
    size_t gathered = engine->gathered * engine->cut.stripe_length;
    engine->progress.whole =
        engine->sum.whole +
        (gathered < engine->cut.part_length ? gathered : engine->cut.part_length);
}

void shared_sum_fail(shared_engine *engine, uint32_t suspect, const char *why)
{
    engine->progress.suspect = suspect;
    snprintf(engine->progress.why, sizeof(engine->progress.why), "%s", why);
    shared_sum_end(engine, TARRY_ENGINE_FAILED);
}

static void fail_without(shared_engine *engine, uint32_t place)
{
    char why[64];
    snprintf(why, sizeof(why), "worker %u ended the sum", engine->members[place].worker);
    shared_sum_fail(engine, TARRY_ENGINE_NOBODY, why);
}

/* ---- waiting ---- */

/* Whether all have copied that stripe; else *place is one who has not. */
static bool all_copied(shared_engine *engine, uint32_t stripe, uint32_t *place)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        segment_side *side = &board_of(engine, i)->coded;
        bool its = is_of(side, engine->tag);
        engine->members[i].begun = engine->members[i].begun || its;
        if (!its || atomic_load(&side->count) <= stripe) {
            *place = i;
            return false;
        }
    }
    return true;
}

static bool all_summed(shared_engine *engine, uint32_t stripe, uint32_t *place)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        if (shows(engine, &board_of(engine, i)->summed) <= stripe) {
            *place = i;
            return false;
        }
    }
    return true;
}

bool shared_sum_laggard(shared_engine *engine, uint32_t *place)
{
    bool summing = engine->gathered < engine->summed;
    if (summing ? all_summed(engine, engine->gathered, place)
                : all_copied(engine, engine->summed, place))
        return false;
    shared_member *member = &engine->members[*place];
    /* What is not there yet won't come from one who is in this sum no more. It may have come just
     * before that. */
    if (!member->begun || is_of(&board_of(engine, *place)->coded, engine->tag))
        return true;
    if (summing && shows(engine, &board_of(engine, *place)->summed) > engine->gathered)
        return false;
    fail_without(engine, *place);
    return false;
}

/* ---- the steps ---- */

/* The numbers begin .. end - 1 of the own coded part, into the slot of the stripe that begins at
 * `start`. */
static void copy_range(const shared_engine *engine, float *slot, size_t start, size_t begin,
                       size_t end)
{
    memcpy(slot + (begin - start), engine->sum.part + begin, (end - begin) * sizeof(*slot));
}

/* Numbers of a share become what they were if they had been sent. */
static void pass(const shared_engine *engine, tarry_way way, share of, float *numbers)
{
    const size_t length = engine->cut.part_length;
    if (!sum_form_rounds(&engine->forms, way) || of.length == 0)
        return;
    sum_form_encode(&engine->forms, way, length, of.first, of.length, numbers, engine->packed);
    sum_form_decode(sum_form_of(&engine->forms, way, length, of.first, of.length), engine->packed,
                    of.length, numbers);
}

/* Each other's share of what was copied, which is all that they read. */
static void pass_up(const shared_engine *engine, float *slot, uint32_t stripe, size_t start)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        share its = share_of(&engine->cut, stripe, engine->count, i);
        if (i != engine->place)
            pass(engine, TARRY_WAY_UP, its, slot + (its.first - start));
    }
}

/* All but the own share, which nobody else reads. */
static void copy_stripe(shared_engine *engine)
{
    uint32_t stripe = engine->copied;
    size_t start = layout_stripe_start(&engine->cut, stripe);
    size_t end = start + layout_stripe_length(&engine->cut, stripe);
    if (engine->sum.part != NULL) {
        share own = share_of(&engine->cut, stripe, engine->count, engine->place);
        float *slot = slot_of(engine, engine->place, stripe);
        copy_range(engine, slot, start, start, own.first);
        copy_range(engine, slot, start, own.first + own.length, end);
        pass_up(engine, slot, stripe, start);
    }
    side_show(engine, &engine->own.board->coded, ++engine->copied);
}

/* Whether all that was read since is of this sum. */
static bool still_of(shared_engine *engine, bool summed)
{
    atomic_thread_fence(memory_order_acquire);
    for (uint32_t i = 0; i < engine->count; i++) {
        segment_board *board = board_of(engine, i);
        if (!is_of(summed ? &board->summed : &board->coded, engine->tag)) {
            fail_without(engine, i);
            return false;
        }
    }
    return true;
}

/* The first stripe: all have begun, so that nobody needs a sum before this one. */
static void begin_summing(shared_engine *engine)
{
    for (uint32_t i = 0; i < engine->count; i++)
        engine->has[i] = !atomic_load(&board_of(engine, i)->coded.zeros);
    share_terms_set(&engine->terms, engine->sum.weights, engine->sum.parts, engine->count,
                    engine->has);
    side_begin(&engine->own.board->summed, engine->tag, false);
}

static void sum_stripe(shared_engine *engine)
{
    uint32_t stripe = engine->summed;
    if (stripe == 0)
        begin_summing(engine);
    share own = share_of(&engine->cut, stripe, engine->count, engine->place);
    size_t offset = own.first - layout_stripe_start(&engine->cut, stripe);
    for (uint32_t t = 0; t < engine->terms.count; t++) {
        uint32_t place = engine->terms.places[t];
        if (place == engine->place) {
            engine->z[t] = engine->sum.part + own.first;
        } else {
            engine->z[t] = slot_of(engine, place, stripe) + offset;
            engine->progress.moved += own.length * sizeof(float);
        }
    }
    share_decode(engine->with, &engine->cut, own, &engine->terms, engine->z, KERNEL_SET,
                 summed_in(engine, engine->place, stripe), engine->share_stride);
    pass(engine, TARRY_WAY_DOWN, own, summed_in(engine, engine->place, stripe));
    if (still_of(engine, false))
        side_show(engine, &engine->own.board->summed, ++engine->summed);
}

static void gather_share(shared_engine *engine, uint32_t stripe, uint32_t place)
{
    share its = share_of(&engine->cut, stripe, engine->count, place);
    const float *from = summed_in(engine, place, stripe);
    for (uint32_t part = 0; part < engine->cut.parts && its.length > 0; part++) {
        size_t exists = layout_exists(&engine->cut, part, its.first, its.length);
        memcpy(engine->sum.sum + part * engine->stride + its.first,
               from + part * engine->share_stride, exists * sizeof(*from));
        if (place != engine->place)
            engine->progress.moved += exists * sizeof(*from);
    }
}

static void tell_came(const shared_engine *engine, uint32_t stripe)
{
    const tarry_engine_sum *sum = &engine->sum;
    size_t first = layout_stripe_start(&engine->cut, stripe);
    size_t length = layout_stripe_length(&engine->cut, stripe);
    for (uint32_t part = 0; sum->came != NULL && part < engine->cut.parts; part++) {
        size_t exists = layout_exists(&engine->cut, part, first, length);
        if (exists > 0)
            sum->came(sum->user, part * engine->stride + sum->whole + first, exists);
    }
}

static void gather_stripe(shared_engine *engine)
{
    uint32_t stripe = engine->gathered;
    for (uint32_t i = 0; i < engine->count; i++)
        gather_share(engine, stripe, i);
    if (!still_of(engine, true))
        return;
    tell_came(engine, stripe);
    if (++engine->gathered == engine->cut.stripes)
        shared_sum_end(engine, TARRY_ENGINE_DONE);
}

bool shared_sum_step(shared_engine *engine)
{
    uint32_t place, stripes = engine->cut.stripes;
    if (engine->progress.state != TARRY_ENGINE_RUNNING)
        return false;
    if (engine->gathered < engine->summed && all_summed(engine, engine->gathered, &place))
        gather_stripe(engine);
    else if (engine->summed < engine->copied && all_copied(engine, engine->summed, &place))
        sum_stripe(engine);
    else if (engine->copied < stripes && engine->copied < engine->gathered + SHARED_SLOTS)
        copy_stripe(engine);
    else
        return false;
    return true;
}
