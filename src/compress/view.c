/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/view.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "compress/view_digest.h"

enum {
    NUMBER_BYTES = 4,
    CHANGES_MOST = 3,
    /* In the place of a worker, of which there are fewer: nothing else is rounded by this key. */
    DOWNWARD = UINT32_MAX,
};

/* Q(x - v), piece by piece. */
typedef struct view_change {
    uint64_t base, stamp, digest; /* stamp 0: none */
    uint64_t arrived;             /* numbers of it, */
    uint64_t applied;             /* and of these, that the view has: more if it comes again */
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
    view_intake intake; /* a relay's */
    bool repeated;      /* the piece that began is one of a change that it has */
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
    change->arrived = change->applied = self->length;
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

/* How many numbers of the view of that stamp are there, from the first one on. */
static uint64_t ready_numbers(const view *self, uint64_t stamp)
{
    const view_intake *intake = &self->intake;
    if (self->stamp == stamp)
        return self->length;
    return intake->active && intake->at.stamp == stamp ? intake->arrived : 0;
}

static uint64_t digest_of(const view *self, uint64_t stamp)
{
    return self->stamp == stamp ? self->digest : self->intake.at.digest;
}

static bool next_of_change(view_reader *reader, const view *from, const view_change *change,
                           view_piece *piece, const uint8_t **bytes)
{
    if (reader->first >= change->arrived)
        return false;
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
    return true;
}

static bool next_of_whole(view_reader *reader, const view *from, view_piece *piece,
                          const uint8_t **bytes)
{
    const uint64_t stamp = reader->round + 1;
    if (reader->first >= ready_numbers(from, stamp))
        return false;
    reader->has = 0; /* a relay takes it in the place of what it has */
    *piece = (view_piece){
        .round = reader->round,
        .stamp = stamp,
        .digest = digest_of(from, stamp),
        .first = reader->first,
        .count = count_at(from->length, reader->first),
    };
    *bytes = (const uint8_t *)(from->numbers + reader->first);
    reader->first += piece->count;
    if (reader->first == from->length)
        reader->at = stamp;
    return true;
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
    if (change != NULL)
        return next_of_change(reader, from, change, piece, bytes);
    /* From where the sender is itself, the next change is still to come. */
    if (!reader->whole && reader->at != 0 && reader->at == from->stamp)
        return false;
    if (!reader->whole)
        reader->first = 0;
    reader->whole = true;
    return next_of_whole(reader, from, piece, bytes);
}

void view_reader_end(view_reader *reader, bool lost)
{
    if (reader->active && !lost && view_reader_is_done(reader))
        reader->has = reader->at;
    reader->active = false;
}

/* ---- relays ---- */

/* A change that is sent again is the same: what the view has of it stays. */
static view_change *change_of(view *self, const view_piece *piece)
{
    view_change *last = &self->changes[self->last];
    if (last->stamp == piece->stamp && last->base == piece->base)
        return last;
    return add_change(self, piece->base, piece->stamp);
}

/* The sender goes by what the relay had before the changes for a round that was cut off. */
static const view_change *find_repeated(const view *self, const view_piece *piece)
{
    const view_change *change = piece->base != 0 ? find_change(self, piece->base) : NULL;
    bool same = change != NULL && change->stamp == piece->stamp &&
                change->digest == piece->digest && change->applied == self->length &&
                piece->first < self->length && piece->first % VIEW_PIECE == 0 &&
                piece->count == count_at(self->length, piece->first) &&
                piece->form == self->form.kind;
    return same ? change : NULL;
}

int view_place_piece(view *self, const view_piece *piece, uint8_t **place)
{
    const view_change *repeated = find_repeated(self, piece);
    self->repeated = repeated != NULL;
    if (repeated != NULL) {
        *place = bytes_at(self, repeated, piece->first);
        return TARRY_OK;
    }
    int error = view_intake_begin(&self->intake, piece, self->form.kind, self->length);
    if (error != TARRY_OK)
        return error;
    if (piece->base == 0) {
        if (piece->first == 0)
            forget_changes(self);
        self->stamp = self->intake.has = 0;
        *place = (uint8_t *)(self->numbers + piece->first);
        return TARRY_OK;
    }
    view_change *change = change_of(self, piece);
    change->digest = piece->digest;
    change->arrived = piece->first;
    *place = bytes_at(self, change, piece->first);
    return TARRY_OK;
}

int view_take_piece(view *self)
{
    const view_piece *piece = &self->intake.at;
    if (self->repeated)
        return TARRY_OK;
    view_change *change = piece->base == 0 ? NULL : &self->changes[self->last];
    const uint8_t *bytes = change == NULL ? (const uint8_t *)(self->numbers + piece->first)
                                          : bytes_at(self, change, piece->first);
    bool complete, known = change != NULL && piece->first < change->applied;
    int error = view_intake_add(&self->intake, known ? NULL : bytes, self->length, self->numbers,
                                self->numbers, self->digests, &complete);
    if (error != TARRY_OK)
        return error;
    if (change != NULL) {
        change->arrived = piece->first + piece->count;
        change->applied = change->applied > change->arrived ? change->applied : change->arrived;
    }
    if (self->intake.has == piece->stamp) {
        self->stamp = piece->stamp;
        self->digest = piece->digest;
    }
    return TARRY_OK;
}
