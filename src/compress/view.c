/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/view.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/memory.h"
#include "base/word_digest.h"
#include "compress/compress.h"

/* A view as it comes, and its digest. */

/* ---- the digest ---- */

/* Of a piece's numbers. */
static uint64_t view_digest_piece(uint64_t stamp, const float *numbers, size_t count)
{
    return XXH3_64bits_withSeed(numbers, count * sizeof(*numbers), stamp);
}

/* Of all of them, by those of the pieces. */
static uint64_t view_digest_all(uint64_t stamp, const uint64_t *digests, size_t pieces)
{
    word_digest all;
    word_digest_begin(&all, stamp);
    for (size_t i = 0; i < pieces; i++)
        word_digest_add(&all, digests[i]);
    return word_digest_end(&all);
}

uint64_t view_digest_of(uint64_t stamp, const float *numbers, uint64_t count)
{
    word_digest all;
    word_digest_begin(&all, stamp);
    for (uint64_t first = 0; first < count; first += VIEW_PIECE) {
        uint64_t left = count - first;
        word_digest_add(&all, view_digest_piece(stamp, numbers + first,
                                                left < VIEW_PIECE ? (size_t)left : VIEW_PIECE));
    }
    return word_digest_end(&all);
}

/* ---- what comes ---- */

static bool is_sound(const view_piece *piece, tarry_compress form, uint64_t numbers)
{
    bool whole = piece->base == 0;
    uint64_t left = piece->first < numbers ? numbers - piece->first : 0;
    return piece->round < UINT64_MAX && piece->stamp > piece->base &&
           piece->stamp <= piece->round + 1 && (!whole || piece->stamp == piece->round + 1) &&
           piece->form == (whole ? TARRY_COMPRESS_NONE : form) && piece->first % VIEW_PIECE == 0 &&
           left > 0 && piece->count == (left < VIEW_PIECE ? left : VIEW_PIECE);
}

/* More of what is being sent. */
static bool continues(const view_intake *self, const view_piece *piece)
{
    const view_piece *at = &self->at;
    return self->active && piece->first == self->arrived && piece->round == at->round &&
           piece->stamp == at->stamp && piece->base == at->base && piece->digest == at->digest;
}

/* The next change of those that are sent for one round. */
static bool follows(const view_intake *self, const view_piece *piece)
{
    return !self->active && self->at.round == piece->round && self->at.stamp == piece->base &&
           self->at.stamp != self->has;
}

int view_intake_begin(view_intake *self, const view_piece *piece, tarry_compress form,
                      uint64_t numbers)
{
    if (!is_sound(piece, form, numbers))
        return TARRY_ERROR_FORMAT;
    if (piece->first > 0) {
        if (!continues(self, piece))
            return TARRY_ERROR_FORMAT;
    } else if (piece->base == 0 || piece->base == self->has) {
        self->moved = false;
        self->arrived = 0;
    } else if (follows(self, piece)) {
        self->moved = true;
        self->arrived = 0;
    } else {
        return TARRY_ERROR_FORMAT;
    }
    self->active = true;
    self->at = *piece;
    return TARRY_OK;
}

static void apply(const view_intake *self, const uint8_t *bytes, const float *current, float *next)
{
    const view_piece *piece = &self->at;
    float *to = next + piece->first;
    if (piece->base == 0) {
        if (bytes != (const uint8_t *)to)
            memcpy(to, bytes, piece->count * sizeof(*to));
        return;
    }
    if (!self->moved)
        memcpy(to, current + piece->first, piece->count * sizeof(*to));
    compress_decode_add((compress_form){.kind = piece->form}, bytes, piece->count, 1, to);
}

int view_intake_add(view_intake *self, const uint8_t *bytes, uint64_t numbers, const float *current,
                    float *next, uint64_t *digests, bool *complete)
{
    const view_piece *piece = &self->at;
    *complete = false;
    apply(self, bytes, current, next);
    digests[piece->first / VIEW_PIECE] =
        view_digest_piece(piece->stamp, next + piece->first, piece->count);
    self->arrived += piece->count;
    if (self->arrived < numbers)
        return TARRY_OK;
    self->active = false;
    size_t pieces = (size_t)((numbers + VIEW_PIECE - 1) / VIEW_PIECE);
    if (view_digest_all(piece->stamp, digests, pieces) != piece->digest) {
        self->has = 0;
        return TARRY_ERROR_FORMAT;
    }
    *complete = piece->stamp == piece->round + 1;
    if (*complete)
        self->has = piece->stamp;
    return TARRY_OK;
}

/* ---- view ---- */

enum {
    NUMBER_BYTES = 4,
    CHANGES_MOST = 3,
    /* In the place of a worker, of which there are fewer: nothing else is rounded by this key. */
    DOWNWARD = UINT32_MAX,
};

/* Q(x - v), piece by piece. */
typedef struct view_change {
    uint64_t base, stamp, digest; /* stamp 0: none */
    uint8_t *bytes;
} view_change;

struct view {
    tarry_allocator allocator;
    compress_form form;
    size_t length;
    float *numbers;
    uint64_t *digests; /* per piece */
    float *difference; /* a piece's */
    view_change changes[CHANGES_MOST];
    uint32_t kept, last; /* so many of these are used; the last one that there was */
    uint64_t stamp, digest;
};

static size_t pieces_of(uint64_t numbers)
{
    return (size_t)((numbers + VIEW_PIECE - 1) / VIEW_PIECE);
}

static uint32_t count_at(uint64_t numbers, uint64_t first)
{
    uint64_t left = numbers - first;
    return (uint32_t)(left < VIEW_PIECE ? left : VIEW_PIECE);
}

uint32_t view_kept(tarry_compress form)
{
    size_t bytes = compress_bytes((compress_form){.kind = form}, VIEW_PIECE);
    uint32_t shorter = (uint32_t)((VIEW_PIECE * NUMBER_BYTES - 1) / bytes);
    return shorter < CHANGES_MOST ? shorter : CHANGES_MOST;
}

static size_t change_bytes(compress_form form, uint64_t numbers)
{
    size_t whole = pieces_of(numbers) - 1;
    return whole * compress_bytes(form, VIEW_PIECE) +
           compress_bytes(form, count_at(numbers, whole * (uint64_t)VIEW_PIECE));
}

uint64_t view_bytes(tarry_compress form, uint64_t numbers)
{
    return numbers * NUMBER_BYTES + pieces_of(numbers) * sizeof(uint64_t) +
           VIEW_PIECE * NUMBER_BYTES +
           view_kept(form) * (uint64_t)change_bytes((compress_form){.kind = form}, numbers);
}

int view_create(tarry_compress form, size_t numbers, const tarry_allocator *allocator, view **made)
{
    assert(numbers > 0 && (form == TARRY_COMPRESS_BF16 || form == TARRY_COMPRESS_INT8));
    view *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->form = (compress_form){.kind = form};
    self->length = numbers;
    self->kept = view_kept(form);
    self->numbers = vector_allocate(allocator, numbers);
    self->difference = vector_allocate(allocator, VIEW_PIECE);
    self->digests = memory_allocate(allocator, pieces_of(numbers), sizeof(*self->digests));
    bool good = self->numbers != NULL && self->difference != NULL && self->digests != NULL;
    for (uint32_t i = 0; i < self->kept && good; i++) {
        self->changes[i].bytes = memory_allocate(allocator, change_bytes(self->form, numbers), 1);
        good = self->changes[i].bytes != NULL;
    }
    if (!good) {
        view_free(self);
        return TARRY_ERROR_NO_MEMORY;
    }
    *made = self;
    return TARRY_OK;
}

void view_free(view *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    for (uint32_t i = 0; i < self->kept; i++)
        memory_release(&allocator, self->changes[i].bytes);
    memory_release(&allocator, self->digests);
    vector_release(&allocator, self->difference);
    vector_release(&allocator, self->numbers);
    memory_release(&allocator, self);
}

const float *view_numbers(const view *self)
{
    return self->numbers;
}

uint64_t view_stamp(const view *self)
{
    return self->stamp;
}

uint64_t view_digest(const view *self)
{
    return self->digest;
}

tarry_compress view_form(const view *self)
{
    return self->form.kind;
}

static void forget_changes(view *self)
{
    for (uint32_t i = 0; i < self->kept; i++)
        self->changes[i].stamp = 0;
}

/* In the place of the oldest one. */
static view_change *add_change(view *self, uint64_t base, uint64_t stamp)
{
    self->last = (self->last + 1) % self->kept;
    view_change *change = &self->changes[self->last];
    *change = (view_change){.base = base, .stamp = stamp, .bytes = change->bytes};
    return change;
}

static uint8_t *bytes_at(const view *self, const view_change *change, uint64_t first)
{
    return change->bytes + first / VIEW_PIECE * compress_bytes(self->form, VIEW_PIECE);
}

/* ---- the server's ---- */

void view_set(view *self, uint64_t round, const float *x)
{
    memcpy(self->numbers, x, self->length * sizeof(float));
    forget_changes(self);
    self->stamp = round + 1;
    for (size_t piece = 0; piece < pieces_of(self->length); piece++)
        self->digests[piece] =
            view_digest_piece(self->stamp, self->numbers + piece * VIEW_PIECE,
                              count_at(self->length, piece * (uint64_t)VIEW_PIECE));
    self->digest = view_digest_all(self->stamp, self->digests, pieces_of(self->length));
}

/* One pass through memory: a piece stays in a cache from the difference to the digest. */
void view_move(view *self, uint64_t round, const float *x, uint64_t seed)
{
    const uint64_t stamp = round + 1;
    assert(self->stamp > 0 && self->stamp < stamp);
    view_change *change = add_change(self, self->stamp, stamp);
    for (uint64_t first = 0; first < self->length; first += VIEW_PIECE) {
        const uint32_t count = count_at(self->length, first),
                       piece = (uint32_t)(first / VIEW_PIECE);
        float *seen = self->numbers + first;
        uint8_t *bytes = bytes_at(self, change, first);
        for (uint32_t i = 0; i < count; i++)
            self->difference[i] = x[first + i] - seen[i];
        compress_encode(self->form, self->difference, count,
                        compress_key(seed, round, 0, DOWNWARD, piece), bytes);
        compress_decode_add(self->form, bytes, count, 1, seen);
        self->digests[piece] = view_digest_piece(stamp, seen, count);
    }
    self->stamp = stamp;
    self->digest = view_digest_all(stamp, self->digests, pieces_of(self->length));
    change->digest = self->digest;
}

/* ---- readers ---- */

void view_reader_begin(view_reader *reader, uint64_t round)
{
    reader->active = reader->has != round + 1;
    reader->whole = false;
    reader->round = round;
    reader->at = reader->has;
    reader->first = 0;
}

static const view_change *find_change(const view *self, uint64_t base)
{
    for (uint32_t i = 0; i < self->kept; i++)
        if (self->changes[i].stamp != 0 && self->changes[i].base == base)
            return &self->changes[i];
    return NULL;
}

static void next_of_change(view_reader *reader, const view *from, const view_change *change,
                           view_piece *piece, const uint8_t **bytes)
{
    *piece = (view_piece){
        .round = reader->round,
        .stamp = change->stamp,
        .base = change->base,
        .digest = change->digest,
        .first = reader->first,
        .count = count_at(from->length, reader->first),
        .form = from->form.kind,
    };
    *bytes = bytes_at(from, change, reader->first);
    reader->first += piece->count;
    if (reader->first == from->length) {
        reader->at = change->stamp;
        reader->first = 0;
    }
}

static void next_of_whole(view_reader *reader, const view *from, view_piece *piece,
                          const uint8_t **bytes)
{
    *piece = (view_piece){
        .round = reader->round,
        .stamp = from->stamp,
        .digest = from->digest,
        .first = reader->first,
        .count = count_at(from->length, reader->first),
    };
    *bytes = (const uint8_t *)(from->numbers + reader->first);
    reader->first += piece->count;
    if (reader->first == from->length)
        reader->at = from->stamp;
}

bool view_reader_is_done(const view_reader *reader)
{
    return !reader->active || reader->at == reader->round + 1;
}

bool view_reader_next(view_reader *reader, const view *from, view_piece *piece,
                      const uint8_t **bytes)
{
    if (view_reader_is_done(reader))
        return false;
    const view_change *change =
        reader->whole || reader->at == 0 ? NULL : find_change(from, reader->at);
    if (change != NULL) {
        next_of_change(reader, from, change, piece, bytes);
        return true;
    }
    if (!reader->whole)
        reader->first = 0;
    reader->whole = true;
    next_of_whole(reader, from, piece, bytes);
    return true;
}

void view_reader_end(view_reader *reader, bool lost)
{
    if (reader->active && !lost && view_reader_is_done(reader))
        reader->has = reader->at;
    reader->active = false;
}

/* ---- residuals ---- */

/* Of its two places one has the residual, the other one what waits. */
typedef struct stripe_state {
    uint8_t side; /* of the residual: 0 or 1 */
    bool filled;  /* it is not all zeros; what its place holds is worth nothing otherwise */
    bool waits;   /* something does */
    bool leaves;  /* and is not all zeros */
} stripe_state;

struct residuals {
    tarry_allocator allocator;
    size_t length, stripe_length;
    stripe_state *stripes;
    float *side[2]; /* length numbers each */
};

int residuals_create(size_t length, size_t stripe_length, const tarry_allocator *allocator,
                     residuals **made)
{
    residuals *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->length = length;
    self->stripe_length = stripe_length;
    size_t stripes = (length + stripe_length - 1) / stripe_length;
    self->stripes = memory_allocate(allocator, stripes, sizeof(*self->stripes));
    self->side[0] = vector_allocate(allocator, length);
    self->side[1] = vector_allocate(allocator, length);
    if (self->stripes == NULL || self->side[0] == NULL || self->side[1] == NULL) {
        residuals_free(self);
        return TARRY_ERROR_NO_MEMORY;
    }
    *made = self;
    return TARRY_OK;
}

void residuals_free(residuals *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    vector_release(&allocator, self->side[0]);
    vector_release(&allocator, self->side[1]);
    memory_release(&allocator, self->stripes);
    memory_release(&allocator, self);
}

static size_t length_of(const residuals *self, uint32_t stripe)
{
    size_t start = stripe * self->stripe_length, rest = self->length - start;
    return rest < self->stripe_length ? rest : self->stripe_length;
}

const float *residuals_of(const residuals *self, uint32_t stripe)
{
    const stripe_state *state = &self->stripes[stripe];
    return state->filled ? self->side[state->side] + stripe * self->stripe_length : NULL;
}

uint32_t residuals_count(const residuals *self)
{
    size_t stripes = (self->length + self->stripe_length - 1) / self->stripe_length;
    uint32_t count = 0;
    for (size_t stripe = 0; stripe < stripes; stripe++)
        count += self->stripes[stripe].filled;
    return count;
}

/* z + e, where what waits is to be. */
static float *begin(residuals *self, uint32_t stripe, const float *z)
{
    stripe_state *state = &self->stripes[stripe];
    const float *before = residuals_of(self, stripe);
    float *sum = self->side[1 - state->side] + stripe * self->stripe_length;
    size_t count = length_of(self, stripe);
    if (before == NULL)
        memcpy(sum, z, count * sizeof(*sum));
    for (size_t i = 0; before != NULL && i < count; i++)
        sum[i] = z[i] + before[i];
    state->waits = true;
    return sum;
}

void residuals_encode(residuals *self, uint32_t stripe, compress_form form, const float *z,
                      uint64_t key, uint8_t *bytes)
{
    float *left = begin(self, stripe, z);
    size_t count = length_of(self, stripe);
    compress_encode(form, left, count, key, bytes);
    compress_decode_add(form, bytes, count, -1, left);
    for (size_t i = 0; i < count; i++)
        left[i] = fabsf(left[i]) <= FLT_MAX ? left[i] : 0;
    self->stripes[stripe].leaves = true;
}

const float *residuals_flush(residuals *self, uint32_t stripe, const float *z)
{
    self->stripes[stripe].leaves = false;
    return begin(self, stripe, z);
}

void residuals_commit(residuals *self, uint32_t stripe)
{
    stripe_state *state = &self->stripes[stripe];
    assert(state->waits);
    state->side = 1 - state->side;
    state->filled = state->leaves;
    state->waits = false;
}

void residuals_void(residuals *self, uint32_t stripe)
{
    self->stripes[stripe].filled = self->stripes[stripe].waits = false;
}
