/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/codec.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
