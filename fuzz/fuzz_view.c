/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes choose pieces of views: those that a sender would send next to a worker, with fields
 * and bytes changed on the way, or any fields. A worker that says that a view is there has that of
 * the digest, and does not write beyond its vector.
 */
#include <string.h>

#include "compress/view.h"
#include "fuzz_arena.h"
#include "fuzz_input.h"

enum { MOST_STEPS = 40 };

/* A worker. */
typedef struct receiver {
    view_reader reader;
    view_intake intake;
    float *vector[2];
    uint32_t current;
    uint64_t digests[2];
} receiver;

typedef struct run {
    const tarry_allocator *allocator;
    tarry_compress form;
    size_t length;
    view *source;
    receiver worker;
    float *x;
    uint64_t round;
} run;

static void *room(const run *its, size_t count, size_t size)
{
    void *made = its->allocator->allocate(its->allocator->user, count, size);
    require(made != NULL);
    return made;
}

static void give_back(const run *its, void *block)
{
    its->allocator->release(its->allocator->user, block);
}

static void begin(run *its, input *in)
{
    uint8_t choice = take(in);
    its->form = (choice & 1) != 0 ? TARRY_COMPRESS_INT8 : TARRY_COMPRESS_BF16;
    its->length = (choice & 2) != 0 ? VIEW_PIECE + 20 : 1 + take(in);
    require(view_create(its->form, its->length, its->allocator, &its->source) == TARRY_OK);
    its->x = room(its, its->length, sizeof(float));
    for (uint32_t side = 0; side < 2; side++)
        its->worker.vector[side] = room(its, its->length, sizeof(float));
    view_set(its->source, 0, its->x);
}

static void end(run *its)
{
    for (uint32_t side = 0; side < 2; side++)
        give_back(its, its->worker.vector[side]);
    give_back(its, its->x);
    view_free(its->source);
}

static void begin_round(run *its, uint8_t step, bool lost)
{
    its->x[step % its->length] += (float)step;
    view_move(its->source, ++its->round, its->x, 1);
    view_reader_end(&its->worker.reader, lost);
    view_reader_begin(&its->worker.reader, its->round);
}

static void change(view_piece *piece, uint8_t how, uint8_t by)
{
    switch (how % 8) {
    case 1:
        piece->stamp += by;
        break;
    case 2:
        piece->base ^= by;
        break;
    case 3:
        piece->digest ^= by;
        break;
    case 4:
        piece->first += by * (uint64_t)VIEW_PIECE;
        break;
    case 5:
        piece->count ^= by;
        break;
    case 6:
        piece->round += by;
        break;
    case 7:
        piece->form = (tarry_compress)(by % TARRY_COMPRESSES);
        break;
    default:
        break;
    }
}

/* The piece's bytes in a block of their own, one of them perhaps changed. */
static uint8_t *copy(const run *its, const view_piece *piece, const uint8_t *bytes, size_t size,
                     uint8_t at, uint8_t by)
{
    size_t wanted = view_piece_bytes(piece);
    uint8_t *made = room(its, wanted > 0 ? wanted : 1, 1);
    memcpy(made, bytes, size < wanted ? size : wanted);
    if (wanted > 0)
        made[at % wanted] ^= by;
    return made;
}

static void receive(run *its, receiver *to, const view_piece *piece, const uint8_t *bytes)
{
    bool complete;
    if (view_intake_begin(&to->intake, piece, its->form, its->length) != TARRY_OK)
        return;
    if (view_intake_add(&to->intake, bytes, its->length, to->vector[to->current],
                        to->vector[!to->current], to->digests, &complete) != TARRY_OK) {
        require(!complete);
        to->reader.has = 0; /* its connection ends */
        to->intake = (view_intake){0};
        return;
    }
    if (!complete)
        return;
    to->current = !to->current;
    require(to->intake.has == piece->stamp);
    require(view_digest_of(piece->stamp, to->vector[to->current], its->length) == piece->digest);
}

static void step(run *its, input *in)
{
    uint8_t what = take(in), how = take(in), by = take(in);
    view_piece piece;
    const uint8_t *bytes;
    if (what % 4 == 0) {
        begin_round(its, by, (how & 1) != 0);
        return;
    }
    if (!view_reader_next(&its->worker.reader, its->source, &piece, &bytes))
        return;
    size_t size = view_piece_bytes(&piece);
    change(&piece, how, by);
    uint8_t *own = copy(its, &piece, bytes, size, how, (what & 0x80) != 0 ? by : 0);
    receive(its, &its->worker, &piece, own);
    give_back(its, own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    run its = {.allocator = arena_begin()};
    begin(&its, &in);
    for (int i = 0; i < MOST_STEPS && in.left > 0; i++)
        step(&its, &in);
    end(&its);
    arena_end();
    return 0;
}
