/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tarry/codec.h>
#include <tarry/error.h>
#include <tarry/event.h>
#include <tarry/plan.h>

#include "base/bitset.h"
#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "coding/coefficients.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "plan/rack/rack.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/fields.h"
#include "protocol/wire/wire_bodies.h"

/* ---- messages: codec.h ---- */

/* The flags of frames, in their second byte: a bit means another thing in another type. */
enum {
    FLAG_FAILED = 1 << 0,
    FLAG_FETCHED = 1 << 0, /* of HELD and FAILED */
    FLAG_DIGESTS = 1 << 0, /* of LOAD and COMMIT */
    FLAG_STOOD = 1 << 0,   /* of ROUND and FINISH */
    FLAG_FIRST = 1 << 1,
    FLAG_BARRED = 1 << 2,
    FLAG_CREDITED = 1 << 3,
    FLAG_GROUP = 1 << 3,   /* of a SIGNAL, which tells no fate */
    FLAG_WEIGHTS = 1 << 3, /* of a ROUND, the same */
    FLAG_STALE = 1 << 4,
    FLAG_DROPPED = 1 << 5,
    FLAG_TERM = 1 << 6,
    FLAG_RECALLED = 1 << 7,
    FLAG_HOLDERS = 1 << 7, /* of a SIGNAL, which recalls nothing */
    FLAGS_OF_FATE = FLAG_CREDITED | FLAG_DROPPED,
};

/* ---- what each type has behind its header, in this order ---- */

typedef enum item_kind {
    ITEM_FLAG,   /* a bool; takes no bytes */
    ITEM_TERM,   /* uint32_t, not 0 */
    ITEM_NUMBER, /* uint32_t or uint64_t */
    ITEM_NAME,   /* a tarry_sum_id without its digest, of a step that is not 0 */
    ITEM_SUM,    /* a tarry_sum_id */
    ITEM_SCALE,  /* double, finite and above 0 */
    /* Borrowed sets, of as many bits or numbers of four bytes as the shape says: */
    ITEM_BITS,
    ITEM_NUMBERS,
    ITEM_WEIGHTS, /* float, 0 or finite and at least 1 */
} item_kind;

typedef struct item {
    uint8_t flag; /* with which it is there; 0: always */
    item_kind kind;
    uint8_t bytes;  /* but of sets */
    uint16_t place; /* in a message */
    uint16_t of;    /* sets: place of their size in a shape */
} item;

#define FIXED(flags, what, size, member)                                                           \
    {                                                                                              \
        .flag = (flags), .kind = (what), .bytes = (size), .place = offsetof(tarry_message, member) \
    }
#define SET(flags, what, member, dimension)                                                        \
    {                                                                                              \
        .flag = (flags), .kind = (what), .place = offsetof(tarry_message, member),                 \
        .of = offsetof(codec_shape, dimension)                                                     \
    }
#define TERM FIXED(FLAG_TERM, ITEM_TERM, CODEC_TERM_BYTES, term)
#define FIRST_AND_BARRED                                                                           \
    SET(FLAG_FIRST, ITEM_BITS, first, slots), SET(FLAG_BARRED, ITEM_BITS, barred, slots)
#define LIFE_AND_STOOD                                                                             \
    FIXED(FLAG_STOOD, ITEM_NUMBER, CODEC_STOOD_BYTES, life),                                       \
        SET(FLAG_STOOD, ITEM_NUMBERS, stood, stripes)

static const item round_items[] = {
    LIFE_AND_STOOD,
    SET(FLAG_WEIGHTS, ITEM_WEIGHTS, weights, slots),
    FIRST_AND_BARRED,
};
static const item signal_items[] = {
    TERM,
    FIXED(FLAG_GROUP, ITEM_NAME, CODEC_NAME_BYTES, sum),
    FIXED(FLAG_GROUP, ITEM_SCALE, 8, scale),
    SET(FLAG_HOLDERS, ITEM_NUMBERS, lives, workers),
    SET(FLAG_HOLDERS, ITEM_NUMBERS, holders, chunks),
    SET(0, ITEM_BITS, psi, psi_bits),
    SET(0, ITEM_BITS, stripes, stripes),
    SET(FLAG_GROUP, ITEM_BITS, group, workers),
    SET(FLAG_STALE, ITEM_BITS, stale, slots),
};
static const item resume_items[] = {TERM, FIRST_AND_BARRED};
static const item news_items[] = {
    TERM,
    FIRST_AND_BARRED,
    SET(FLAG_RECALLED, ITEM_BITS, recalled, slots),
};
static const item finish_items[] = {LIFE_AND_STOOD};
static const item report_items[] = {FIXED(FLAG_FAILED, ITEM_FLAG, 0, failed), TERM};
static const item sum_items[] = {FIXED(0, ITEM_SUM, CODEC_SUM_BYTES, sum)};
static const item order_items[] = {
    FIXED(FLAG_DIGESTS, ITEM_FLAG, 0, digests),
    FIXED(0, ITEM_SUM, CODEC_SUM_BYTES, sum),
};
static const item held_items[] = {
    FIXED(FLAG_FETCHED, ITEM_FLAG, 0, fetched),
    FIXED(0, ITEM_SUM, CODEC_SUM_BYTES, sum),
};
static const item state_items[] = {
    FIXED(0, ITEM_SUM, CODEC_SUM_BYTES, last),
    FIXED(0, ITEM_SUM, CODEC_SUM_BYTES, sum),
    FIXED(0, ITEM_NUMBER, 8, state),
};

typedef struct layout_row {
    const item *items;
    uint8_t count;
    bool tells_next; /* in the place of the attempt: what the worker computes now */
    bool sequence;   /* a count tells which of two that overtook each other is the newer one */
} layout_row;

#define ITEMS(table) .items = (table), .count = sizeof(table) / sizeof((table)[0])

static const layout_row rows[TARRY_MESSAGE_TYPES] = {
    [TARRY_MESSAGE_ROUND] = {ITEMS(round_items), .sequence = true},
    [TARRY_MESSAGE_SIGNAL] = {ITEMS(signal_items)},
    [TARRY_MESSAGE_RESUME] = {ITEMS(resume_items), .sequence = true},
    [TARRY_MESSAGE_NEWS] = {ITEMS(news_items), .sequence = true},
    [TARRY_MESSAGE_FINISH] = {ITEMS(finish_items)},
    [TARRY_MESSAGE_REPORT] = {ITEMS(report_items), .tells_next = true, .sequence = true},
    [TARRY_MESSAGE_ALIVE] = {.tells_next = true, .sequence = true},
    [TARRY_MESSAGE_BREAK] = {ITEMS(sum_items)},
    [TARRY_MESSAGE_FETCH] = {ITEMS(sum_items)},
    [TARRY_MESSAGE_LOAD] = {ITEMS(order_items)},
    [TARRY_MESSAGE_COMMIT] = {ITEMS(order_items)},
    [TARRY_MESSAGE_HELD] = {ITEMS(held_items)},
    [TARRY_MESSAGE_FAILED] = {ITEMS(held_items)},
    [TARRY_MESSAGE_STATE] = {ITEMS(state_items)},
};

/* The number of the header's last field: in a PART a stripe, in votes another worker. */
static size_t place_of_index(tarry_message_type type)
{
    return type == TARRY_MESSAGE_PART ? offsetof(tarry_message, stripe)
           : codec_votes(type)        ? offsetof(tarry_message, from)
                                      : offsetof(tarry_message, slot);
}

static size_t place_of_count(tarry_message_type type)
{
    return rows[type].tells_next ? offsetof(tarry_message, next) : offsetof(tarry_message, attempt);
}

static const void *member_of(const tarry_message *message, size_t place)
{
    return (const char *)message + place;
}

static bool is_there(const item *of, unsigned flags)
{
    return of->flag == 0 || (flags & of->flag) != 0;
}

static bool is_set(const item *of)
{
    return of->kind >= ITEM_BITS;
}

/* NULL: it is not sent. */
static const void *set_of(const tarry_message *message, const item *of)
{
    const void *set;
    memcpy(&set, member_of(message, of->place), sizeof(set));
    return set;
}

static size_t count_of(const codec_shape *shape, const item *of)
{
    size_t count;
    memcpy(&count, (const char *)shape + of->of, sizeof(count));
    return count;
}

static size_t bytes_of(const codec_shape *shape, const item *of)
{
    if (!is_set(of))
        return of->bytes;
    size_t count = count_of(shape, of);
    return of->kind == ITEM_BITS ? (count + 7) / 8 : count * sizeof(uint32_t);
}

/* 64-bit words that a set takes in memory. */
static size_t words_of(const codec_shape *shape, const item *of)
{
    if (!is_set(of))
        return 0;
    size_t count = count_of(shape, of);
    return of->kind == ITEM_BITS ? bitset_words(count) : (count + 1) / 2;
}

/* Which flags a frame of the type can have. */
static unsigned allowed_flags(tarry_message_type type)
{
    unsigned flags = type == TARRY_MESSAGE_NEWS ? FLAGS_OF_FATE : 0;
    for (size_t i = 0; i < rows[type].count; i++)
        flags |= rows[type].items[i].flag;
    return flags;
}

static unsigned flags_of(const tarry_message *message)
{
    const layout_row *row = &rows[message->type];
    unsigned flags = 0;
    for (size_t i = 0; i < row->count; i++) {
        const item *of = &row->items[i];
        bool there = is_set(of)              ? set_of(message, of) != NULL
                     : of->kind == ITEM_TERM ? message->term != 0
                     : of->kind == ITEM_FLAG ? *(const bool *)member_of(message, of->place)
                                             : false; /* its set has the same flag */
        flags |= there ? of->flag : 0U;
    }
    if (message->type == TARRY_MESSAGE_NEWS)
        flags |= message->fate == TARRY_FATE_CREDITED  ? (unsigned)FLAG_CREDITED
                 : message->fate == TARRY_FATE_DROPPED ? (unsigned)FLAG_DROPPED
                                                       : 0U;
    return flags;
}

codec_shape codec_shape_of(const tarry_plan *plan, uint32_t worker, uint32_t stripes)
{
    return (codec_shape){
        .psi_bits = coverage_view_bits(plan, worker),
        .stripes = stripes,
        .slots = tarry_plan_load(plan, worker),
        .workers = plan->workers,
    };
}

void codec_shape_secure(codec_shape *shape, const tarry_plan *plan)
{
    shape->chunks = plan->chunks;
}

static size_t size_of(const codec_shape *shape, tarry_message_type type, unsigned flags)
{
    const layout_row *row = &rows[type];
    size_t size = CODEC_HEADER_BYTES;
    for (size_t i = 0; i < row->count; i++)
        size += is_there(&row->items[i], flags) ? bytes_of(shape, &row->items[i]) : 0;
    return size;
}

size_t codec_size_with_sets(const codec_shape *shape, const tarry_message *message)
{
    return size_of(shape, message->type, flags_of(message));
}

/* The flags of the type's longest frame; without secure sums no SIGNAL names holders. */
static unsigned most_flags(const codec_shape *shape, tarry_message_type type)
{
    bool plain = type == TARRY_MESSAGE_SIGNAL && shape->chunks == 0;
    return allowed_flags(type) & (plain ? ~(unsigned)FLAG_HOLDERS : ~0U);
}

/* Of frames without the flags `none` of a ROUND. */
static size_t max_size(const codec_shape *shape, unsigned none)
{
    size_t most = 0;
    for (unsigned type = 0; type < TARRY_MESSAGE_TYPES; type++) {
        tarry_message_type each = (tarry_message_type)type;
        unsigned flags = most_flags(shape, each) & (each == TARRY_MESSAGE_ROUND ? ~none : ~0U);
        size_t size = size_of(shape, each, flags);
        most = size > most ? size : most;
    }
    return most;
}

size_t codec_max_size(const codec_shape *shape)
{
    return max_size(shape, 0);
}

size_t codec_plain_max_size(const codec_shape *shape)
{
    return max_size(shape, FLAG_WEIGHTS);
}

static size_t words_with(const codec_shape *shape, tarry_message_type type, unsigned flags)
{
    const layout_row *row = &rows[type];
    size_t words = 0;
    for (size_t i = 0; i < row->count; i++)
        words += is_there(&row->items[i], flags) ? words_of(shape, &row->items[i]) : 0;
    return words;
}

size_t codec_words(const codec_shape *shape)
{
    size_t most = 0;
    for (unsigned type = 0; type < TARRY_MESSAGE_TYPES; type++) {
        tarry_message_type each = (tarry_message_type)type;
        size_t words = words_with(shape, each, most_flags(shape, each));
        most = words > most ? words : most;
    }
    return most;
}

/* ---- writing ---- */

static uint8_t *put_bits(uint8_t *at, const uint64_t *set, size_t bits)
{
    for (size_t byte = 0; byte < (bits + 7) / 8; byte++)
        *at++ = (uint8_t)(set[byte / 8] >> 8 * (byte % 8));
    if (bits % 8 != 0)
        at[-1] &= (uint8_t)((1u << bits % 8) - 1);
    return at;
}

static uint8_t *put_name(uint8_t *at, const tarry_sum_id *sum)
{
    at = bytes_put(at, sum->step, 8);
    at = bytes_put(at, sum->term, 4);
    return bytes_put(at, sum->attempt, 4);
}

static uint8_t *put_item(const codec_shape *shape, const item *of, const tarry_message *message,
                         uint8_t *at)
{
    const void *member = member_of(message, of->place);
    const float *weights;
    const uint32_t *numbers;
    switch (of->kind) {
    case ITEM_FLAG:
        break;
    case ITEM_TERM:
    case ITEM_NUMBER:
        return of->bytes == 8 ? bytes_put(at, *(const uint64_t *)member, 8)
                              : bytes_put(at, *(const uint32_t *)member, 4);
    case ITEM_NAME:
        return put_name(at, member);
    case ITEM_SUM:
        return bytes_put(put_name(at, member), ((const tarry_sum_id *)member)->digest, 8);
    case ITEM_SCALE:
        return bytes_put_f64(at, *(const double *)member);
    case ITEM_BITS:
        return put_bits(at, set_of(message, of), count_of(shape, of));
    case ITEM_NUMBERS:
        numbers = set_of(message, of);
        for (size_t i = 0; i < count_of(shape, of); i++)
            at = bytes_put(at, numbers[i], 4);
        break;
    case ITEM_WEIGHTS:
        weights = set_of(message, of);
        for (size_t i = 0; i < count_of(shape, of); i++)
            at = bytes_put_f32(at, weights[i]);
        break;
    }
    return at;
}

void codec_encode(const codec_shape *shape, const tarry_message *message, uint8_t *frame)
{
    const layout_row *row = &rows[message->type];
    const bool part = message->type == TARRY_MESSAGE_PART;
    const unsigned flags = flags_of(message);
    uint8_t *at = bytes_put(frame, message->type, 1);
    at = bytes_put(at, part ? message->form : flags, 1);
    at = bytes_put(at, row->sequence ? message->sequence : 0, 2);
    at = bytes_put(at, message->epoch, 4);
    at = bytes_put(at, message->round, 8);
    at = bytes_put(at, *(const uint32_t *)member_of(message, place_of_count(message->type)), 4);
    at = bytes_put(at, *(const uint32_t *)member_of(message, place_of_index(message->type)), 4);
    for (size_t i = 0; i < row->count; i++)
        if (is_there(&row->items[i], flags))
            at = put_item(shape, &row->items[i], message, at);
}

/* ---- reading ---- */

/* What is left to read of a frame, and room for its sets. */
typedef struct cursor {
    const uint8_t *at;
    uint64_t *words;
    bool damaged; /* something has a value that would not have been sent */
} cursor;

static void get_bits(cursor *from, size_t bits)
{
    const size_t bytes = (bits + 7) / 8;
    if (bits == 0)
        return; /* where no sets are expected there is no room for any */
    memset(from->words, 0, bitset_words(bits) * sizeof(uint64_t));
    for (size_t byte = 0; byte < bytes; byte++)
        from->words[byte / 8] |= (uint64_t)from->at[byte] << 8 * (byte % 8);
    if (bits % 8 != 0 && from->at[bits / 8] >> bits % 8 != 0)
        from->damaged = true;
}

static void get_numbers(cursor *from, size_t count)
{
    uint32_t *numbers = (uint32_t *)from->words;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)bytes_get(from->at + i * 4, 4);
}

static void get_weights(cursor *from, size_t count)
{
    float *weights = (float *)from->words;
    for (size_t i = 0; i < count; i++) {
        weights[i] = bytes_get_f32(from->at + i * 4);
        bool none = bytes_get(from->at + i * 4, 4) == 0; /* and not -0 */
        bool good = none || (weights[i] >= 1 && isfinite(weights[i]));
        from->damaged = from->damaged || !good;
    }
}

static tarry_sum_id get_name(const uint8_t *at)
{
    return (tarry_sum_id){
        .step = bytes_get(at, 8),
        .term = (uint32_t)bytes_get(at + 8, 4),
        .attempt = (uint32_t)bytes_get(at + 12, 4),
    };
}

/* Reads the item into the message, a set to from->words. The frame has as many bytes. */
static void get_item(const codec_shape *shape, const item *of, cursor *from, tarry_message *message)
{
    void *member = (char *)message + of->place;
    tarry_sum_id *sum = member;
    double scale;
    switch (of->kind) {
    case ITEM_FLAG:
        *(bool *)member = true;
        break;
    case ITEM_TERM:
        message->term = (uint32_t)bytes_get(from->at, 4);
        from->damaged = from->damaged || message->term == 0;
        break;
    case ITEM_NUMBER:
        if (of->bytes == 8)
            *(uint64_t *)member = bytes_get(from->at, 8);
        else
            *(uint32_t *)member = (uint32_t)bytes_get(from->at, 4);
        break;
    case ITEM_NAME:
        *sum = get_name(from->at);
        from->damaged = from->damaged || sum->step == 0;
        break;
    case ITEM_SUM:
        *sum = get_name(from->at);
        sum->digest = bytes_get(from->at + CODEC_NAME_BYTES, 8);
        break;
    case ITEM_SCALE:
        *(double *)member = scale = bytes_get_f64(from->at);
        from->damaged = from->damaged || !(scale > 0 && isfinite(scale));
        break;
    case ITEM_BITS:
        get_bits(from, count_of(shape, of));
        break;
    case ITEM_NUMBERS:
        get_numbers(from, count_of(shape, of));
        break;
    case ITEM_WEIGHTS:
        get_weights(from, count_of(shape, of));
        break;
    }
    if (is_set(of))
        memcpy(member, &from->words, sizeof(from->words));
    from->at += bytes_of(shape, of);
    if (from->words != NULL) /* where no sets are expected there is no room for any */
        from->words += words_of(shape, of);
}

/* A REPORT's frame, which is most of what comes in at a server: the table's way takes longer. */

/* Reads one of `size` bytes, at least a header's. Errors: FORMAT; nothing is set then. */
/* All fields are named, so that none is set twice. */
static int codec_report_get(const uint8_t *frame, size_t size, tarry_message *message)
{
    unsigned flags = frame[1];
    bool termed = (flags & FLAG_TERM) != 0;
    if ((flags & ~(unsigned)(FLAG_FAILED | FLAG_TERM)) != 0 ||
        size != CODEC_HEADER_BYTES + (size_t)(termed ? CODEC_TERM_BYTES : 0))
        return TARRY_ERROR_FORMAT;
    uint32_t term = termed ? (uint32_t)bytes_get(frame + CODEC_HEADER_BYTES, CODEC_TERM_BYTES) : 0;
    if (termed && term == 0)
        return TARRY_ERROR_FORMAT;
    *message = (tarry_message){
        .type = TARRY_MESSAGE_REPORT,
        .round = bytes_get(frame + 8, 8),
        .epoch = (uint32_t)bytes_get(frame + 4, 4),
        .attempt = 0,
        .slot = (uint32_t)bytes_get(frame + 20, 4),
        .next = (uint32_t)bytes_get(frame + 16, 4),
        .sequence = (uint16_t)bytes_get(frame + 2, 2),
        .stripe = 0,
        .failed = (flags & FLAG_FAILED) != 0,
        .fetched = false,
        .digests = false,
        .from = 0,
        .sum = {0},
        .last = {0},
        .state = 0,
        .scale = 0,
        .fate = TARRY_FATE_OPEN,
        .term = term,
        .psi = NULL,
        .stripes = NULL,
        .stale = NULL,
        .first = NULL,
        .barred = NULL,
        .recalled = NULL,
        .life = 0,
        .stood = NULL,
        .weights = NULL,
        .group = NULL,
        .holders = NULL,
        .lives = NULL,
    };
    return TARRY_OK;
}

/* Whether what the flags say goes together, and with the shape. */
static bool flags_agree(const codec_shape *shape, tarry_message_type type, unsigned flags)
{
    if ((flags & ~allowed_flags(type)) != 0)
        return false;
    if (type == TARRY_MESSAGE_SIGNAL && (flags & FLAG_HOLDERS))
        return shape->chunks > 0 && (flags & ~(unsigned)(FLAG_HOLDERS | FLAG_TERM)) == 0;
    return type != TARRY_MESSAGE_NEWS || (flags & FLAGS_OF_FATE) != FLAGS_OF_FATE;
}

int codec_decode(const codec_shape *shape, const uint8_t *frame, size_t size, uint64_t *words,
                 tarry_message *message)
{
    if (size < CODEC_HEADER_BYTES || frame[0] >= TARRY_MESSAGE_TYPES)
        return TARRY_ERROR_FORMAT;
    const tarry_message_type type = (tarry_message_type)frame[0];
    if (type == TARRY_MESSAGE_REPORT)
        return codec_report_get(frame, size, message);
    const layout_row *row = &rows[type];
    const bool part = type == TARRY_MESSAGE_PART;
    const unsigned flags = part ? 0 : frame[1], form = part ? frame[1] : TARRY_COMPRESS_NONE;
    const uint16_t sequence = (uint16_t)bytes_get(frame + 2, 2);
    if (form >= TARRY_COMPRESSES || (sequence != 0 && !row->sequence) ||
        !flags_agree(shape, type, flags) || size != size_of(shape, type, flags))
        return TARRY_ERROR_FORMAT;
    tarry_message read = {
        .type = type,
        .epoch = (uint32_t)bytes_get(frame + 4, 4),
        .round = bytes_get(frame + 8, 8),
        .sequence = sequence,
        .form = (tarry_compress)form,
    };
    *(uint32_t *)((char *)&read + place_of_count(type)) = (uint32_t)bytes_get(frame + 16, 4);
    *(uint32_t *)((char *)&read + place_of_index(type)) = (uint32_t)bytes_get(frame + 20, 4);
    if (type == TARRY_MESSAGE_NEWS && (flags & FLAGS_OF_FATE))
        read.fate = flags & FLAG_CREDITED ? TARRY_FATE_CREDITED : TARRY_FATE_DROPPED;
    cursor from = {.at = frame + CODEC_HEADER_BYTES, .words = words};
    for (size_t i = 0; i < row->count; i++)
        if (is_there(&row->items[i], flags))
            get_item(shape, &row->items[i], &from, &read);
    if (from.damaged)
        return TARRY_ERROR_FORMAT; /* nothing is set by a frame that is damaged */
    *message = read;
    return TARRY_OK;
}

int codec_peek(const uint8_t *frame, size_t size, tarry_message_type *type, uint64_t *round)
{
    if (size < CODEC_HEADER_BYTES || frame[0] >= TARRY_MESSAGE_TYPES)
        return TARRY_ERROR_FORMAT;
    *type = (tarry_message_type)frame[0];
    *round = bytes_get(frame + 8, 8);
    return TARRY_OK;
}

size_t codec_kept_words(const codec_shape *shape, const tarry_message *message)
{
    return words_with(shape, message->type, flags_of(message));
}

void codec_keep_sets(const codec_shape *shape, tarry_message *message, uint64_t *words)
{
    const layout_row *row = &rows[message->type];
    const unsigned flags = flags_of(message);
    for (size_t i = 0; i < row->count; i++) {
        const item *of = &row->items[i];
        if (!is_set(of) || !is_there(of, flags))
            continue;
        const size_t count = count_of(shape, of), taken = words_of(shape, of);
        const size_t kept = of->kind == ITEM_BITS ? taken * sizeof(*words) : count * 4;
        if (kept > 0)
            memcpy(words, set_of(message, of), kept);
        memcpy((char *)message + of->place, &words, sizeof(words));
        words += taken;
    }
}

/* ---- public ---- */

struct tarry_codec {
    tarry_allocator allocator;
    codec_shape shape;
    uint64_t *words; /* of the message that was decoded last */
};

int tarry_codec_create(const tarry_plan *plan, uint32_t worker, size_t dimension,
                       size_t stripe_length, const tarry_allocator *allocator, tarry_codec **codec,
                       tarry_diagnostic *diagnostic)
{
    if (worker >= plan->workers || dimension == 0 || stripe_length == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "codec: a worker of the plan, dimension and stripe_length must be set");
    tarry_codec *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "codec");
    layout cut = layout_make(dimension, plan->parts, stripe_length);
    made->allocator = memory_allocator(allocator);
    made->shape = codec_shape_of(plan, worker, cut.stripes);
    codec_shape_secure(&made->shape, plan); /* of whatever run the frames may be */
    made->words = memory_allocate(allocator, codec_words(&made->shape), sizeof(uint64_t));
    if (made->words == NULL) {
        memory_release(allocator, made);
        return diagnose_no_memory(diagnostic, "codec");
    }
    *codec = made;
    return TARRY_OK;
}

void tarry_codec_free(tarry_codec *codec)
{
    if (codec == NULL)
        return;
    tarry_allocator allocator = codec->allocator;
    memory_release(&allocator, codec->words);
    memory_release(&allocator, codec);
}

size_t tarry_codec_most(const tarry_codec *codec)
{
    return codec_max_size(&codec->shape);
}

size_t tarry_codec_size(const tarry_codec *codec, const tarry_message *message)
{
    return codec_size(&codec->shape, message);
}

void tarry_codec_encode(const tarry_codec *codec, const tarry_message *message, void *frame)
{
    codec_encode(&codec->shape, message, frame);
}

int tarry_codec_decode(tarry_codec *codec, const void *frame, size_t size, tarry_message *message)
{
    return codec_decode(&codec->shape, frame, size, codec->words, message);
}

/* ---- frames: wire.h ---- */

enum {
    NUMBER_BYTES = 4,
    VERSIONS_BYTES = 10, /* what every version's HELLO and GREETING begin with */
    WELCOME_BYTES = 72,  /* of WELCOME, before the terms */
    DELETE = 0x7f,
};

_Static_assert(WIRE_MESSAGE_BYTES < CODEC_HEADER_BYTES + WIRE_NUMBERS_MOST * NUMBER_BYTES,
               "the longest body of a MESSAGE is a PART's");

/* ---- the fields of each body, in their order on the wire ---- */

#define COUNTED(what, body, member, counter)                                                       \
    {                                                                                              \
        .name = #member, .kind = (what), .offset = offsetof(body, member),                         \
        .count = offsetof(body, counter)                                                           \
    }
/* The name of a sum, with and without its digest. */
#define SUM_NAME(body, sum)                                                                        \
    WIRE_ANY_NUMBER(body, sum.step), WIRE_ANY_NUMBER(body, sum.term),                              \
        WIRE_ANY_NUMBER(body, sum.attempt)
#define SUM(body, sum) SUM_NAME(body, sum), WIRE_ANY_NUMBER(body, sum.digest)
/* A form without feedback. */
#define FORM(body, member, wire_bytes)                                                             \
    WIRE_NUMBER(body, member, wire_bytes, TARRY_COMPRESS_NONE, TARRY_COMPRESS_INT8)

static const wire_field hello_fields[] = {
    WIRE_FIELD(WIRE_FIELD_VERSIONS, wire_hello, oldest, 10, 0, 0),
    WIRE_NUMBER(wire_hello, role, 1, 0, WIRE_ROLES - 1),
    WIRE_ANY_NUMBER(wire_hello, ranking),
    WIRE_ANY_NUMBER(wire_hello, worker),
    WIRE_ARRAY(wire_hello, instance),
    WIRE_ARRAY(wire_hello, job),
    WIRE_ARRAY(wire_hello, plan),
    WIRE_FIELD(WIRE_FIELD_RACK, wire_hello, rack, 0, 0, 0),
};

static const wire_field refused_fields[] = {
    WIRE_NUMBER(wire_refused, reason, 2, WIRE_REFUSED_VERSION, WIRE_REASONS - 1),
    WIRE_FIELD(WIRE_FIELD_WORDS, wire_refused, text, 0, 0, 0),
};

static const wire_field bye_fields[] = {
    {"reason", WIRE_FIELD_NUMBER, .bytes = 1, .width = sizeof(wire_bye), .least = WIRE_BYE_LEAVING,
     .most = WIRE_BYES - 1},
};

static const wire_field parameters_fields[] = {
    WIRE_ANY_NUMBER(wire_parameters, round),
    WIRE_NUMBER(wire_parameters, first, 8, 0, WIRE_VECTOR_MOST),
    WIRE_FIELD(WIRE_FIELD_BEHIND, wire_parameters, count, NUMBER_BYTES, 1, WIRE_NUMBERS_MOST),
};

static const wire_field view_fields[] = {
    WIRE_NUMBER(view_piece, round, 8, 0, UINT64_MAX - 1),
    WIRE_NUMBER(view_piece, stamp, 8, 1, UINT64_MAX),
    WIRE_ANY_NUMBER(view_piece, base),
    WIRE_ANY_NUMBER(view_piece, digest),
    WIRE_NUMBER(view_piece, first, 8, 0, WIRE_VECTOR_MOST),
    WIRE_NUMBER(view_piece, count, 4, 1, WIRE_VIEW_NUMBERS),
    FORM(view_piece, form, 4),
    WIRE_FIELD(WIRE_FIELD_VIEW, view_piece, count, 0, 0, 0),
};

static const wire_field blob_fields[] = {
    WIRE_NUMBER(wire_blob, kind, 1, WIRE_BLOB_PLAN, WIRE_BLOBS - 1),
    WIRE_RESERVED(3),
    WIRE_ANY_NUMBER(wire_blob, index),
    WIRE_NUMBER(wire_blob, total, 8, 0, WIRE_BLOB_MOST),
    WIRE_ANY_NUMBER(wire_blob, first),
    WIRE_FIELD(WIRE_FIELD_BEHIND, wire_blob, count, 1, 0, WIRE_BLOB_BYTES),
};

static const wire_field fetch_fields[] = {
    WIRE_NUMBER(wire_fetch, kind, 1, WIRE_BLOB_PLAN, WIRE_BLOBS - 1),
    WIRE_RESERVED(3),
    WIRE_ANY_NUMBER(wire_fetch, index),
};

static const wire_field ready_fields[] = {
    WIRE_ARRAY(wire_ready, plan),
    WIRE_ARRAY(wire_ready, data),
    WIRE_ANY_NUMBER(wire_ready, numerics),
    WIRE_ANY_NUMBER(wire_ready, turn),
    WIRE_FIELD(WIRE_FIELD_LEFT, wire_ready, size, 0, 0, WIRE_ENGINE_BYTES),
    COUNTED(WIRE_FIELD_COUNTED, wire_ready, address, size),
};

static const wire_field key_fields[] = {
    WIRE_ANY_NUMBER(wire_key, worker),
    WIRE_ANY_NUMBER(wire_key, epoch),
    WIRE_ARRAY(wire_key, instance),
    WIRE_ARRAY(wire_key, key),
    WIRE_ANY_NUMBER(wire_key, numerics),
    WIRE_NUMBER(wire_key, certificate_size, 2, 1, WIRE_CERTIFICATE_BYTES),
    WIRE_NUMBER(wire_key, signature_size, 2, 1, WIRE_SIGNATURE_BYTES),
    COUNTED(WIRE_FIELD_BORROWED, wire_key, certificate, certificate_size),
    COUNTED(WIRE_FIELD_BORROWED, wire_key, signature, signature_size),
};

static const wire_field member_fields[] = {
    WIRE_ANY_NUMBER(wire_member, worker),
    WIRE_ANY_NUMBER(wire_member, arrival),
    WIRE_NUMBER(wire_member, present, 1, 0, 1),
    WIRE_RESERVED(1),
    WIRE_NUMBER(wire_member, size, 2, 0, WIRE_ENGINE_BYTES),
    WIRE_ARRAY(wire_member, fingerprint),
    COUNTED(WIRE_FIELD_COUNTED, wire_member, address, size),
};

static const wire_field greeting_fields[] = {
    WIRE_FIELD(WIRE_FIELD_VERSIONS, wire_greeting, oldest, 10, 0, 0),
    WIRE_RESERVED(6),
    WIRE_ARRAY(wire_greeting, instance),
    WIRE_ARRAY(wire_greeting, wanted),
};

static const wire_field begun_fields[] = {
    SUM_NAME(wire_begun, name),
    WIRE_ANY_NUMBER(wire_begun, epoch),
    WIRE_NUMBER(wire_begun, dimension, 8, 1, WIRE_VECTOR_MOST),
    WIRE_NUMBER(wire_begun, parts, 4, 1, WIRE_PARTS_MOST),
    WIRE_NUMBER(wire_begun, empty, 1, 0, 1),
    FORM(wire_begun, up, 1),
    FORM(wire_begun, down, 1),
    WIRE_RESERVED(1),
};

static const wire_field block_fields[] = {
    SUM_NAME(wire_block, name),
    WIRE_NUMBER(wire_block, kind, 1, 0, WIRE_BLOCKS - 1),
    FORM(wire_block, form, 1),
    WIRE_RESERVED(2),
    WIRE_NUMBER(wire_block, part, 4, 0, WIRE_PARTS_MOST - 1),
    WIRE_NUMBER(wire_block, first, 8, 0, WIRE_VECTOR_MOST),
    WIRE_NUMBER(wire_block, count, 4, 1, WIRE_BLOCK_NUMBERS),
    WIRE_FIELD(WIRE_FIELD_BEHIND, wire_block, bytes, 1, 1, WIRE_BLOCK_NUMBERS *NUMBER_BYTES),
};

static const wire_field pass_fields[] = {
    WIRE_NUMBER(wire_pass, type, 1, 0, WIRE_PASSES - 1),
    WIRE_RESERVED(3),
    WIRE_ANY_NUMBER(wire_pass, ticket),
    SUM(wire_pass, sum),
    WIRE_ANY_NUMBER(wire_pass, first),
    WIRE_NUMBER(wire_pass, until, 8, 0, WIRE_BLOB_MOST),
    WIRE_FIELD(WIRE_FIELD_BEHIND, wire_pass, count, 1, 0, WIRE_PIECE_BYTES),
};

static const wire_field say_fields[] = {
    WIRE_ANY_NUMBER(wire_say, kind),
    WIRE_FIELD(WIRE_FIELD_BEHIND, wire_say, count, 1, 1, WIRE_SAY_BYTES),
};

/* ---- rules for several fields: the name of one that does not go with the others, or NULL ---- */

static const char *parameters_conflict(const wire_any *body)
{
    const wire_parameters *parameters = &body->parameters;
    return parameters->first > WIRE_VECTOR_MOST - parameters->count ? "first" : NULL;
}

static const char *view_conflict(const wire_any *body)
{
    const view_piece *piece = &body->view;
    if (piece->stamp > piece->round + 1)
        return "stamp";
    if (piece->base >= piece->stamp)
        return "base";
    return (piece->base == 0) != (piece->form == TARRY_COMPRESS_NONE) ? "form" : NULL;
}

static const char *blob_conflict(const wire_any *body)
{
    const wire_blob *blob = &body->blob;
    if (blob->index != 0 && blob->kind == WIRE_BLOB_JOB)
        return "index";
    /* A frame without a byte is all of a blob that has none. */
    if (blob->total < blob->count || (blob->count == 0 && blob->total != 0))
        return "total";
    return blob->first > blob->total - blob->count ? "first" : NULL;
}

static const char *fetch_conflict(const wire_any *body)
{
    return body->fetch.index != 0 && body->fetch.kind != WIRE_BLOB_DATA ? "index" : NULL;
}

static const char *member_conflict(const wire_any *body)
{
    return body->member.size != 0 && !body->member.present ? "size" : NULL;
}

static const char *block_conflict(const wire_any *body)
{
    const wire_block *block = &body->block;
    if (block->kind == WIRE_BLOCK_PART && block->part != 0)
        return "part";
    bool plain = block->form == TARRY_COMPRESS_NONE;
    return plain && block->bytes != block->count * NUMBER_BYTES ? "count" : NULL;
}

static const char *pass_conflict(const wire_any *body)
{
    const wire_pass *pass = &body->pass;
    if ((pass->count > 0) != (pass->type == WIRE_PASS_PIECE))
        return "count";
    return pass->count > 0 && pass->first > WIRE_BLOB_MOST - pass->count ? "first" : NULL;
}

/* ---- the kinds ---- */

typedef struct wire_row {
    const char *name;     /* NULL: it has functions of its own instead of a table */
    uint32_t least, most; /* bytes of a body */
    uint16_t fixed;       /* of these, before numbers or bytes of a blob; 0: none follow */
    uint16_t size;        /* of the structure */
    uint16_t count;       /* of fields */
    const wire_field *fields;
    const char *(*conflict)(const wire_any *body);
} wire_row;

#define TABLE(body, table)                                                                         \
    .size = sizeof(body), .count = sizeof(table) / sizeof((table)[0]), .fields = (table)

static const wire_row frames[WIRE_KINDS] = {
    [WIRE_HELLO] = {"HELLO", VERSIONS_BYTES, WIRE_SMALL_BYTES, TABLE(wire_hello, hello_fields)},
    [WIRE_WELCOME] = {.least = WELCOME_BYTES, .most = WIRE_WELCOME_BYTES},
    [WIRE_REFUSED] = {"REFUSED", 3, 3 + WIRE_TEXT_BYTES, TABLE(wire_refused, refused_fields)},
    [WIRE_HEARTBEAT] = {.name = "HEARTBEAT"},
    [WIRE_BYE] = {"BYE", 1, 1, TABLE(wire_bye, bye_fields)},
    [WIRE_MESSAGE] = {.least = CODEC_HEADER_BYTES,
                      .most = CODEC_HEADER_BYTES + WIRE_NUMBERS_MOST * NUMBER_BYTES,
                      .fixed = CODEC_HEADER_BYTES},
    [WIRE_PARAMETERS] = {"PARAMETERS", 16 + NUMBER_BYTES, 16 + WIRE_NUMBERS_MOST *NUMBER_BYTES,
                         .fixed = 16, TABLE(wire_parameters, parameters_fields),
                         parameters_conflict},
    [WIRE_BLOB] = {"BLOB", 24, 24 + WIRE_BLOB_BYTES, .fixed = 24, TABLE(wire_blob, blob_fields),
                   blob_conflict},
    [WIRE_FETCH] = {"FETCH", 8, 8, TABLE(wire_fetch, fetch_fields), fetch_conflict},
    [WIRE_READY] = {"READY", 76, 76 + WIRE_ENGINE_BYTES, TABLE(wire_ready, ready_fields)},
    [WIRE_KEY - 1] = {.least = 1}, /* of no length */
    [WIRE_KEY] = {"KEY", 68 + 2, WIRE_KEY_FRAME_BYTES, TABLE(wire_key, key_fields)},
    [WIRE_STATUS] = {.least = 2, .most = WIRE_STATUS_BYTES},
    [WIRE_MEMBER] = {"MEMBER", 44, 44 + WIRE_ENGINE_BYTES, TABLE(wire_member, member_fields),
                     member_conflict},
    [WIRE_GREETING] = {"GREETING", VERSIONS_BYTES, WIRE_SMALL_BYTES,
                       TABLE(wire_greeting, greeting_fields)},
    [WIRE_BEGUN] = {"BEGUN", 40, 40, TABLE(wire_begun, begun_fields)},
    [WIRE_BLOCK] = {"BLOCK", WIRE_BLOCK_HEAD_BYTES + 1,
                    WIRE_BLOCK_HEAD_BYTES + WIRE_BLOCK_NUMBERS *NUMBER_BYTES,
                    .fixed = WIRE_BLOCK_HEAD_BYTES, TABLE(wire_block, block_fields),
                    block_conflict},
    [WIRE_PASS] = {"PASS", WIRE_PASS_BYTES, WIRE_PASS_BYTES + WIRE_PIECE_BYTES,
                   .fixed = WIRE_PASS_BYTES, TABLE(wire_pass, pass_fields), pass_conflict},
    [WIRE_PASS + 1] = {.least = 1}, /* of no length, as the next one */
    [WIRE_PASS + 2] = {.least = 1},
    [WIRE_BATCH] = {.least = WIRE_BATCH_HEAD_BYTES + WIRE_BATCH_REPORT_BYTES,
                    .most = WIRE_BATCH_HEAD_BYTES + WIRE_BATCH_MOST * WIRE_BATCH_REPORT_BYTES},
    [WIRE_VIEW] = {"VIEW", 48 + 2, 48 + WIRE_VIEW_NUMBERS *NUMBER_BYTES, .fixed = 48,
                   TABLE(view_piece, view_fields), view_conflict},
    [WIRE_SAY] = {"SAY", 4 + 1, 4 + WIRE_SAY_BYTES, .fixed = 4, TABLE(wire_say, say_fields)},
};

uint32_t wire_most_length(wire_kind kind)
{
    assert(kind >= WIRE_HELLO && kind < WIRE_KINDS);
    return frames[kind].most;
}

int wire_head_decode(const uint8_t bytes[WIRE_HEAD_BYTES], wire_head *head)
{
    uint64_t all = bytes_get(bytes, WIRE_HEAD_BYTES);
    uint32_t length = (uint32_t)all;
    uint64_t kind = all >> 32; /* with what is reserved, which is zero */
    if (kind < WIRE_HELLO || kind >= WIRE_KINDS)
        return TARRY_ERROR_FORMAT;
    if (length < frames[kind].least || length > frames[kind].most)
        return TARRY_ERROR_FORMAT;
    *head = (wire_head){.kind = (wire_kind)kind, .length = length};
    return TARRY_OK;
}

void wire_head_encode(wire_kind kind, uint32_t length, uint8_t bytes[WIRE_HEAD_BYTES])
{
    assert(length <= wire_most_length(kind));
    bytes_put(bytes_put(bytes, length, 4), kind, 4);
}

uint32_t wire_fixed_length_of_large(const wire_head *head, uint8_t first)
{
    assert(head->kind != WIRE_MESSAGE || first == TARRY_MESSAGE_PART);
    (void)first;
    return frames[head->kind].fixed != 0 ? frames[head->kind].fixed : head->length;
}

void wire_message_head(size_t size, size_t behind, uint8_t bytes[WIRE_HEAD_BYTES])
{
    assert(size <= WIRE_MESSAGE_BYTES && behind <= WIRE_NUMBERS_MOST * NUMBER_BYTES);
    wire_head_encode(WIRE_MESSAGE, (uint32_t)(size + behind), bytes);
}

/* ---- writing a body ---- */

static const char magic[6] = "TARRY"; /* with its terminator */

static size_t counted(const wire_field *field, const void *body)
{
    return wire_member_get((const uint8_t *)body + field->count, sizeof(uint16_t));
}

/* Gives back what follows the field; sets *behind if it says what follows elsewhere. */
static uint8_t *put_field(const wire_field *field, const void *body, uint8_t *at, size_t *behind)
{
    const uint8_t *member = (const uint8_t *)body + field->offset;
    const uint8_t *borrowed;
    switch (field->kind) {
    case WIRE_FIELD_NUMBER:
        return bytes_put(at, wire_member_get(member, field->width), field->bytes);
    case WIRE_FIELD_BYTES:
        return wire_put_bytes(at, member, field->bytes);
    case WIRE_FIELD_ZEROS:
        return bytes_put(at, 0, field->bytes);
    case WIRE_FIELD_VERSIONS: /* the newest stands behind the oldest */
        at = wire_put_bytes(at, magic, sizeof(magic));
        at = bytes_put(at, wire_member_get(member, 2), 2);
        return bytes_put(at, wire_member_get(member + 2, 2), 2);
    case WIRE_FIELD_WORDS:
    case WIRE_FIELD_RACK:
        return wire_put_text(at, (const char *)member);
    case WIRE_FIELD_COUNTED:
        return wire_put_bytes(at, member, counted(field, body));
    case WIRE_FIELD_BORROWED:
        memcpy(&borrowed, member, sizeof(borrowed));
        return wire_put_bytes(at, borrowed, counted(field, body));
    case WIRE_FIELD_BEHIND:
        *behind = wire_member_get(member, field->width) * field->bytes;
        return at;
    case WIRE_FIELD_VIEW:
        *behind = view_piece_bytes(body);
        return at;
    case WIRE_FIELD_LEFT:
        break;
    }
    return at;
}

size_t wire_encode(wire_kind kind, const void *body, uint8_t *frame)
{
    const wire_row *row = &frames[kind];
    assert(row->name != NULL);
    uint8_t *at = frame + WIRE_HEAD_BYTES;
    size_t behind = 0;
    for (size_t i = 0; i < row->count; i++)
        at = put_field(&row->fields[i], body, at, &behind);
    return wire_close(kind, frame, at, behind);
}

/* ---- reading a body ---- */

_Static_assert(offsetof(wire_hello, newest) == offsetof(wire_hello, oldest) + 2 &&
                   offsetof(wire_greeting, newest) == offsetof(wire_greeting, oldest) + 2,
               "VERSIONS reads both");

/* What is read, and where it went wrong. */
typedef struct wire_parse {
    wire_reader from;
    size_t behind;
    bool foreign; /* this version is not among those of the sender: the rest is not looked at */
    bool longer;  /* the sender speaks a newer version: there may be more behind the last field */
    const wire_field *field; /* that was read last */
    uint64_t value;          /* of it, if it is a number */
    const char *conflict;    /* the name of a field that does not go with others */
} wire_parse;

static void get_versions(wire_parse *parse, uint8_t *member)
{
    wire_reader *from = &parse->from;
    const uint8_t *word = wire_take(from, sizeof(magic));
    wire_require(from, word != NULL && memcmp(word, magic, sizeof(magic)) == 0);
    uint64_t oldest = wire_get_between(from, 2, 1, UINT16_MAX);
    uint64_t newest = wire_get_between(from, 2, oldest, UINT16_MAX);
    wire_member_set(member, 2, oldest);
    wire_member_set(member + 2, 2, newest);
    parse->foreign = oldest > WIRE_VERSION || newest < WIRE_VERSION;
    parse->longer = parse->foreign || newest > WIRE_VERSION;
}

static void get_words(wire_reader *from, char *text)
{
    size_t count;
    const uint8_t *bytes = wire_take_text(from, &count);
    for (size_t i = 0; i < count; i++) /* so that none moves a cursor in a terminal */
        text[i] = bytes[i] >= ' ' && bytes[i] < DELETE ? (char)bytes[i] : '?';
    text[count] = 0;
}

static void get_rack(wire_reader *from, char *rack)
{
    size_t count;
    const uint8_t *bytes = wire_take_text(from, &count);
    wire_require(from, count <= TARRY_RACK_BYTES);
    for (size_t i = 0; i < count && i < TARRY_RACK_BYTES; i++) {
        wire_require(from, rack_is_letter(bytes[i]));
        rack[i] = (char)bytes[i];
    }
}

static void get_field(const wire_field *field, wire_parse *parse, void *body)
{
    uint8_t *member = (uint8_t *)body + field->offset;
    wire_reader *from = &parse->from;
    const uint8_t *borrowed;
    switch (field->kind) {
    case WIRE_FIELD_NUMBER:
        parse->value = wire_get_between(from, field->bytes, field->least, field->most);
        wire_member_set(member, field->width, parse->value);
        break;
    case WIRE_FIELD_BYTES:
        wire_get_bytes(from, member, field->bytes);
        break;
    case WIRE_FIELD_ZEROS:
        wire_get_zeros(from, field->bytes);
        break;
    case WIRE_FIELD_VERSIONS:
        get_versions(parse, member);
        break;
    case WIRE_FIELD_WORDS:
        get_words(from, (char *)member);
        break;
    case WIRE_FIELD_RACK:
        get_rack(from, (char *)member);
        break;
    case WIRE_FIELD_COUNTED:
        wire_get_bytes(from, member, counted(field, body));
        break;
    case WIRE_FIELD_BORROWED:
        borrowed = wire_take(from, counted(field, body));
        memcpy(member, &borrowed, sizeof(borrowed));
        break;
    case WIRE_FIELD_LEFT:
        parse->value = from->left;
        wire_require(from, parse->value <= field->most);
        wire_member_set(member, field->width, parse->value);
        break;
    case WIRE_FIELD_BEHIND:
        parse->value = parse->behind / field->bytes;
        wire_require(from, parse->behind % field->bytes == 0 && parse->value >= field->least &&
                               parse->value <= field->most);
        wire_member_set(member, field->width, parse->value);
        break;
    case WIRE_FIELD_VIEW:
        wire_require(from, parse->behind == view_piece_bytes(body));
        break;
    }
}

/* False if the body is one that is refused. */
static bool parse_body(const wire_head *head, const uint8_t *bytes, wire_any *read,
                       wire_parse *parse)
{
    const wire_row *row = &frames[head->kind];
    size_t fixed = row->fixed != 0 ? row->fixed : head->length;
    *parse = (wire_parse){.from = wire_reader_make(bytes, fixed), .behind = head->length - fixed};
    wire_reader *from = &parse->from;
    if (row->name == NULL || head->length < row->least)
        return false;
    memset(read, 0, row->size);
    for (size_t i = 0; i < row->count && !parse->foreign; i++) {
        parse->field = &row->fields[i];
        parse->value = parse->field->least;
        get_field(parse->field, parse, read);
        if (from->damaged)
            return false;
    }
    if (row->conflict != NULL)
        parse->conflict = row->conflict(read);
    return parse->conflict == NULL && (from->left == 0 || parse->longer);
}

int wire_decode(const wire_head *head, const uint8_t *bytes, void *body)
{
    wire_any read;
    wire_parse parse;
    if (!parse_body(head, bytes, &read, &parse))
        return TARRY_ERROR_FORMAT;
    memcpy(body, &read, frames[head->kind].size);
    return TARRY_OK;
}

bool wire_explain(const wire_head *head, const uint8_t *bytes, char *text, size_t size)
{
    const wire_row *row = &frames[head->kind];
    wire_any read;
    wire_parse parse;
    if (row->name == NULL || parse_body(head, bytes, &read, &parse))
        return false;
    const wire_field *field = parse.field;
    if (field == NULL)
        snprintf(text, size, "%s: %" PRIu32 " bytes are too few", row->name, head->length);
    else if (parse.conflict != NULL)
        snprintf(text, size, "%s: %s contradicts another field", row->name, parse.conflict);
    else if (!parse.from.damaged)
        snprintf(text, size, "%s: %zu unknown bytes follow %s", row->name, parse.from.left,
                 field->name);
    else if (parse.value < field->least || parse.value > field->most)
        snprintf(text, size, "%s: %s must be %" PRIu64 " to %" PRIu64 ", not %" PRIu64, row->name,
                 field->name, field->least, field->most, parse.value);
    else
        snprintf(text, size, "%s: %s is malformed or cut short", row->name, field->name);
    return true;
}

/* ---- welcome: the run's terms have tables of their own ---- */

size_t wire_welcome_encode(const wire_welcome *welcome, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, welcome->version, 2);
    at = bytes_put(at, 0, 2);
    at = bytes_put(at, welcome->worker, 4);
    at = wire_put_bytes(at, welcome->job, WIRE_ID_BYTES);
    at = wire_put_bytes(at, welcome->plan, WIRE_DIGEST_BYTES);
    at = bytes_put(at, welcome->plan_bytes, 8);
    at = bytes_put(at, welcome->job_bytes, 8);
    at += terms_encode(&welcome->terms, TERMS_TOLD, at);
    return wire_close(WIRE_WELCOME, frame, at, 0);
}

int wire_welcome_decode(const wire_head *head, const uint8_t *body, wire_welcome *welcome,
                        tarry_diagnostic *why)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_welcome read = {.version =
                             (uint16_t)wire_get_between(&from, 2, WIRE_VERSION, WIRE_VERSION)};
    diagnose(why, TARRY_ERROR_FORMAT, "%s", "");
    wire_get_zeros(&from, 2);
    read.worker = (uint32_t)wire_get(&from, 4);
    wire_get_bytes(&from, read.job, WIRE_ID_BYTES);
    wire_get_bytes(&from, read.plan, WIRE_DIGEST_BYTES);
    read.plan_bytes = wire_get_between(&from, 8, 0, WIRE_BLOB_MOST);
    read.job_bytes = wire_get_between(&from, 8, 0, WIRE_BLOB_MOST);
    tarry_diagnostic what;
    if (from.damaged)
        return TARRY_ERROR_FORMAT;
    if (terms_decode(from.at, from.left, TERMS_TOLD, &read.terms, &what) != TARRY_OK)
        return diagnose(why, TARRY_ERROR_FORMAT, "the server's settings: %s", what.text);
    const tarry_server_settings *server = &read.terms.server;
    if (read.worker >= read.terms.workers && read.worker != WIRE_ANY_WORKER)
        return TARRY_ERROR_FORMAT;
    if (server->stripe_length > WIRE_NUMBERS_MOST)
        return diagnose(why, TARRY_ERROR_FORMAT,
                        "the server's settings: stripe_length must be at most %d, not %zu",
                        WIRE_NUMBERS_MOST, server->stripe_length);
    if (server->sum == TARRY_SUM_EVERYWHERE && server->compress > TARRY_COMPRESS_INT8)
        return diagnose(why, TARRY_ERROR_FORMAT,
                        "the server's settings: with sum everywhere compress must be none, bf16 or "
                        "int8");
    *welcome = read;
    return TARRY_OK;
}

/* ---- why a peer is refused ---- */

static const struct {
    const char *text;
    bool passes;
} reasons[WIRE_REASONS] = {
    [WIRE_REFUSED_VERSION] = {"no version of the protocol that both speak", false},
    [WIRE_REFUSED_FORMAT] = {"what came is not of this protocol", false},
    [WIRE_REFUSED_IDENTITY] = {"the credential does not allow this role or id", false},
    [WIRE_REFUSED_REVOKED] = {"the credential is revoked", false},
    [WIRE_REFUSED_RANGE] = {"no such worker in this job", false},
    [WIRE_REFUSED_TAKEN] = {"another worker with this id is there", true},
    [WIRE_REFUSED_FULL] = {"no worker's id is free", true},
    [WIRE_REFUSED_DATA] = {"the data are not those of this job", false},
    [WIRE_REFUSED_FLOOD] = {"more messages than a worker has to say", false},
    [WIRE_REFUSED_CLOSING] = {"the run ends", true},
    [WIRE_REFUSED_ARRIVALS] = {"came back too often lately", true},
    [WIRE_REFUSED_RANKING] = {"ranks and coefficients come about in another way", false},
};

static bool is_reason(wire_reason reason)
{
    return reason >= WIRE_REFUSED_VERSION && reason < WIRE_REASONS;
}

const char *wire_reason_text(wire_reason reason)
{
    return is_reason(reason) ? reasons[reason].text : "unknown reason";
}

bool wire_reason_passes(wire_reason reason)
{
    return is_reason(reason) && reasons[reason].passes;
}

/* ---- batch ---- */

size_t wire_batch_encode(const wire_batch *batch, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, batch->round, 8);
    at = bytes_put(at, batch->term, 4);
    at = bytes_put(at, 0, 4);
    return wire_close(WIRE_BATCH, frame, at + batch->count * WIRE_BATCH_REPORT_BYTES, 0);
}

/* The last two bytes of each: a flag, and a zero. */
static bool are_reports(const wire_batch *batch)
{
    const uint8_t *last = batch->reports + WIRE_BATCH_REPORT_BYTES - 2;
    unsigned wrong = 0;
    for (uint32_t i = 0; i < batch->count; i++, last += WIRE_BATCH_REPORT_BYTES)
        wrong |= (last[0] & ~1U) | last[1];
    return wrong == 0;
}

int wire_batch_decode(const wire_head *head, const uint8_t *body, wire_batch *batch)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_batch read = {.round = wire_get(&from, 8)};
    read.term = (uint32_t)wire_get(&from, 4);
    wire_get_zeros(&from, 4);
    size_t count = from.left / WIRE_BATCH_REPORT_BYTES;
    wire_require(&from, count >= 1 && count <= WIRE_BATCH_MOST);
    if (from.damaged)
        return TARRY_ERROR_FORMAT;
    read.count = (uint32_t)count;
    read.reports = wire_take(&from, count * WIRE_BATCH_REPORT_BYTES);
    if (!wire_ended(&from) || !are_reports(&read))
        return TARRY_ERROR_FORMAT;
    *batch = read;
    return TARRY_OK;
}
