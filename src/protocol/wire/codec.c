/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/codec.h"

#include <math.h>
#include <string.h>

#include "base/bitset.h"
#include "base/bytes.h"
#include "coding/coverage.h"
#include "protocol/wire/codec_flags.h"
#include "protocol/wire/codec_report.h"
#include "protocol/wire/codec_round.h"
#include "protocol/wire/codec_secure.h"
#include "protocol/wire/codec_vote.h"

/* The sets of one bit per position, in the order in which a frame has them. */
static const struct {
    unsigned flag;
    size_t offset; /* in a message */
} slot_sets[] = {
    {FLAG_FIRST, offsetof(tarry_message, first)},
    {FLAG_BARRED, offsetof(tarry_message, barred)},
    {FLAG_STALE, offsetof(tarry_message, stale)},
    {FLAG_RECALLED, offsetof(tarry_message, recalled)},
};

enum { SLOT_SETS = sizeof(slot_sets) / sizeof(slot_sets[0]) };

/* Which flags a frame of the type can have. */
static const uint8_t type_flags[] = {
    [TARRY_MESSAGE_ROUND] = FLAG_STOOD | FLAG_FIRST | FLAG_BARRED | FLAG_WEIGHTS,
    [TARRY_MESSAGE_SIGNAL] = FLAG_LIMIT | FLAG_GROUP | FLAG_STALE | FLAG_TERM | FLAG_HOLDERS,
    [TARRY_MESSAGE_RESUME] = FLAG_FIRST | FLAG_BARRED | FLAG_TERM,
    [TARRY_MESSAGE_NEWS] =
        FLAG_FIRST | FLAG_BARRED | FLAG_CREDITED | FLAG_DROPPED | FLAG_TERM | FLAG_RECALLED,
    [TARRY_MESSAGE_FINISH] = FLAG_STOOD,
    [TARRY_MESSAGE_REPORT] = CODEC_REPORT_FLAGS,
    [TARRY_MESSAGE_LOAD] = FLAG_DIGESTS,
    [TARRY_MESSAGE_COMMIT] = FLAG_DIGESTS,
    [TARRY_MESSAGE_HELD] = FLAG_FETCHED | FLAG_TIMED,
    [TARRY_MESSAGE_FAILED] = FLAG_FETCHED,
    [TARRY_MESSAGE_STATE] = 0,
};

static const uint64_t **slot_set(tarry_message *message, size_t index)
{
    return (const uint64_t **)((char *)message + slot_sets[index].offset);
}

static const uint64_t *slot_set_of(const tarry_message *message, size_t index)
{
    return *(const uint64_t *const *)((const char *)message + slot_sets[index].offset);
}

/* Of the flags those of sets of one bit per position. */
static unsigned sets_of(tarry_message_type type, unsigned flags)
{
    return flags & FLAGS_OF_SETS & (type == TARRY_MESSAGE_SIGNAL ? ~(unsigned)FLAG_HOLDERS : ~0U);
}

static size_t bytes_of(size_t bits)
{
    return (bits + 7) / 8;
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

static bool has_parts(tarry_message_type type)
{
    return type == TARRY_MESSAGE_SIGNAL || type == TARRY_MESSAGE_PART;
}

/* Whether its answer may have to have a digest; an answer itself may be to a FETCH. */
static bool wants_digests(tarry_message_type type)
{
    return type == TARRY_MESSAGE_LOAD || type == TARRY_MESSAGE_COMMIT;
}

/* Whether it says what the worker computes now. */
static bool tells_next(tarry_message_type type)
{
    return type == TARRY_MESSAGE_REPORT || type == TARRY_MESSAGE_ALIVE;
}

/* Whether a count tells which of two that overtook each other is the newer one. */
static bool has_sequence(tarry_message_type type)
{
    return tells_next(type) || type == TARRY_MESSAGE_ROUND || type == TARRY_MESSAGE_NEWS ||
           type == TARRY_MESSAGE_RESUME;
}

/* Whether it may say what stands in a sum. */
static bool tells_stood(tarry_message_type type)
{
    return type == TARRY_MESSAGE_ROUND || type == TARRY_MESSAGE_FINISH;
}

static unsigned flags_of(const tarry_message *message)
{
    unsigned allowed = type_flags[message->type];
    bool signal = message->type == TARRY_MESSAGE_SIGNAL;
    unsigned flags = 0;
    if (signal) {
        flags |= message->limit != 0 ? FLAG_LIMIT : 0;
        flags |= message->group != NULL ? FLAG_GROUP : 0;
        flags |= message->holders != NULL ? FLAG_HOLDERS : 0;
    } else if (codec_votes(message->type)) {
        bool wants = wants_digests(message->type);
        flags |= wants && message->digests ? FLAG_DIGESTS : 0;
        flags |= !wants && message->fetched ? FLAG_FETCHED : 0;
        flags |= codec_is_timed(message) ? FLAG_TIMED : 0;
    } else {
        flags |= tells_stood(message->type) && message->stood != NULL ? FLAG_STOOD : 0;
        flags |= message->type == TARRY_MESSAGE_REPORT && message->failed ? FLAG_FAILED : 0;
        bool news = message->type == TARRY_MESSAGE_NEWS;
        flags |= news && message->fate == TARRY_FATE_CREDITED ? FLAG_CREDITED : 0;
        flags |= news && message->fate == TARRY_FATE_DROPPED ? FLAG_DROPPED : 0;
    }
    if (message->type == TARRY_MESSAGE_ROUND)
        flags |= message->weights != NULL ? FLAG_WEIGHTS : 0;
    flags |= message->term != 0 ? FLAG_TERM : 0;
    unsigned sets = sets_of(message->type, allowed);
    for (size_t i = 0; sets != 0 && i < SLOT_SETS; i++)
        flags |= slot_set_of(message, i) != NULL ? slot_sets[i].flag & sets : 0;
    return flags & allowed;
}

static bool has_weights(tarry_message_type type, unsigned flags)
{
    return type == TARRY_MESSAGE_ROUND && (flags & FLAG_WEIGHTS) != 0;
}

static size_t size_of(const codec_shape *shape, tarry_message_type type, unsigned flags)
{
    size_t size = CODEC_HEADER_BYTES + (flags & FLAG_TERM ? CODEC_TERM_BYTES : 0);
    if (type == TARRY_MESSAGE_SIGNAL)
        size += bytes_of(shape->psi_bits) + bytes_of(shape->stripes) +
                (flags & FLAG_LIMIT ? CODEC_LIMIT_BYTES : 0) +
                (flags & FLAG_GROUP ? CODEC_GROUP_BYTES + bytes_of(shape->workers) : 0) +
                (flags & FLAG_HOLDERS ? codec_secure_size(shape) : 0);
    else if (codec_votes(type))
        size += codec_vote_size(type, (flags & FLAG_TIMED) != 0);
    else if (tells_stood(type) && (flags & FLAG_STOOD))
        size += (1 + shape->stripes) * CODEC_STOOD_BYTES;
    if (has_weights(type, flags))
        size += shape->slots * CODEC_SLOT_BYTES;
    unsigned of_sets = sets_of(type, flags);
    for (size_t i = 0; of_sets != 0 && i < SLOT_SETS; i++)
        size += of_sets & slot_sets[i].flag ? bytes_of(shape->slots) : 0;
    return size;
}

size_t codec_size_with_sets(const codec_shape *shape, const tarry_message *message)
{
    return size_of(shape, message->type, flags_of(message));
}

/* Of frames without the flags `none` of a ROUND. */
static size_t max_size(const codec_shape *shape, unsigned none)
{
    size_t most = 0;
    for (unsigned type = 0; type < TARRY_MESSAGE_TYPES; type++) {
        tarry_message_type each = (tarry_message_type)type;
        unsigned flags = type_flags[type] & (each == TARRY_MESSAGE_ROUND ? ~none : ~0U);
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

static size_t stood_words(const codec_shape *shape)
{
    return codec_number_words(shape->stripes);
}

size_t codec_words(const codec_shape *shape)
{
    size_t group = bitset_words(shape->workers), secure = codec_secure_words(shape);
    size_t sets = bitset_words(shape->psi_bits) + bitset_words(shape->stripes) +
                  (group > secure ? group : secure),
           round = stood_words(shape) + codec_number_words(shape->slots);
    return (sets > round ? sets : round) + SLOT_SETS * bitset_words(shape->slots);
}

static uint8_t *put_bits(uint8_t *at, const uint64_t *set, size_t bits)
{
    for (size_t byte = 0; byte < bytes_of(bits); byte++)
        *at++ = (uint8_t)(set[byte / 8] >> 8 * (byte % 8));
    if (bits % 8 != 0)
        at[-1] &= (uint8_t)((1u << bits % 8) - 1);
    return at;
}

void codec_encode(const codec_shape *shape, const tarry_message *message, uint8_t *frame)
{
    unsigned flags = flags_of(message);
    bool tells = tells_next(message->type);
    bool part = message->type == TARRY_MESSAGE_PART;
    uint8_t *at = bytes_put(frame, message->type, 1);
    at = bytes_put(at, part ? message->form : flags, 1);
    uint16_t sequence_or_parts = has_sequence(message->type) ? message->sequence
                                 : has_parts(message->type)  ? (uint16_t)message->parts
                                                             : 0;
    at = bytes_put(at, sequence_or_parts, 2);
    at = bytes_put(at, message->epoch, 4);
    at = bytes_put(at, message->round, 8);
    at = bytes_put(at, tells ? message->next : message->attempt, 4);
    bool among = codec_votes(message->type) ||
                 (message->type == TARRY_MESSAGE_SIGNAL && (flags & FLAG_GROUP) != 0);
    uint32_t index = part ? message->stripe : among ? message->from : message->slot;
    at = bytes_put(at, index, 4);
    if (flags & FLAG_TERM)
        at = bytes_put(at, message->term, CODEC_TERM_BYTES);
    if (message->type == TARRY_MESSAGE_SIGNAL) {
        if (flags & FLAG_LIMIT)
            at = bytes_put_f64(at, message->limit);
        if (flags & FLAG_GROUP)
            at = codec_group_put(at, message);
        if (flags & FLAG_HOLDERS)
            at = codec_secure_put(shape, message, at);
        at = put_bits(at, message->psi, shape->psi_bits);
        at = put_bits(at, message->stripes, shape->stripes);
        if (flags & FLAG_GROUP)
            at = put_bits(at, message->group, shape->workers);
    } else if (codec_votes(message->type)) {
        at = codec_vote_put(at, message);
    } else if (tells_stood(message->type) && (flags & FLAG_STOOD)) {
        at = bytes_put(at, message->life, CODEC_STOOD_BYTES);
        for (size_t stripe = 0; stripe < shape->stripes; stripe++)
            at = bytes_put(at, message->stood[stripe], CODEC_STOOD_BYTES);
    }
    if (has_weights(message->type, flags))
        at = codec_weights_put(message->weights, shape->slots, at);
    unsigned sets = sets_of(message->type, flags);
    for (size_t i = 0; i < SLOT_SETS; i++)
        if (sets & slot_sets[i].flag)
            at = put_bits(at, slot_set_of(message, i), shape->slots);
}

/* What is left to read of a frame, and room for its sets. */
typedef struct cursor {
    const uint8_t *at;
    uint64_t *words;
    bool damaged; /* a padding bit is set: this is not the set that was sent */
} cursor;

static const uint64_t *get_bits(cursor *from, size_t bits)
{
    uint64_t *set = from->words;
    if (bits == 0)
        return set; /* where no sets are expected there is no room for any */
    memset(set, 0, bitset_words(bits) * sizeof(*set));
    for (size_t byte = 0; byte < bytes_of(bits); byte++)
        set[byte / 8] |= (uint64_t)from->at[byte] << 8 * (byte % 8);
    if (bits % 8 != 0 && from->at[bits / 8] >> bits % 8 != 0)
        from->damaged = true;
    from->at += bytes_of(bits);
    from->words += bitset_words(bits);
    return set;
}

static const uint32_t *get_stood(cursor *from, size_t stripes, size_t words, uint32_t *life)
{
    uint32_t *stood = (uint32_t *)from->words;
    *life = (uint32_t)bytes_get(from->at, CODEC_STOOD_BYTES);
    from->at += CODEC_STOOD_BYTES;
    if (stripes == 0)
        return stood; /* no room, as above */
    for (size_t stripe = 0; stripe < stripes; stripe++)
        stood[stripe] =
            (uint32_t)bytes_get(from->at + stripe * CODEC_STOOD_BYTES, CODEC_STOOD_BYTES);
    from->at += stripes * CODEC_STOOD_BYTES;
    from->words += words;
    return stood;
}

static const float *get_weights(cursor *from, size_t slots)
{
    float *weights = (float *)from->words;
    if (slots == 0)
        return weights; /* no room, as above */
    from->damaged = !codec_weights_get(from->at, slots, weights) || from->damaged;
    from->at += slots * CODEC_SLOT_BYTES;
    from->words += codec_number_words(slots);
    return weights;
}

static uint32_t get_term(cursor *from)
{
    uint32_t term = (uint32_t)bytes_get(from->at, CODEC_TERM_BYTES);
    from->at += CODEC_TERM_BYTES;
    from->damaged = from->damaged || term == 0; /* which would not have been written */
    return term;
}

static double get_limit(cursor *from)
{
    double limit = bytes_get_f64(from->at);
    from->at += CODEC_LIMIT_BYTES;
    from->damaged = from->damaged || !(limit > 1 && isfinite(limit));
    return limit;
}

static int decode_vote(const uint8_t *frame, size_t size, tarry_message *message)
{
    tarry_message_type type = (tarry_message_type)frame[0];
    unsigned flags = frame[1];
    bool held = type == TARRY_MESSAGE_HELD, timed = held && (flags & FLAG_TIMED) != 0;
    if ((flags & ~(unsigned)type_flags[type]) != 0 || bytes_get(frame + 2, 2) != 0 ||
        (timed && (flags & FLAG_FETCHED) != 0) ||
        size != CODEC_HEADER_BYTES + codec_vote_size(type, timed))
        return TARRY_ERROR_FORMAT;
    tarry_message read = {
        .type = type,
        .epoch = (uint32_t)bytes_get(frame + 4, 4),
        .round = bytes_get(frame + 8, 8),
        .attempt = (uint32_t)bytes_get(frame + 16, 4),
        .from = (uint32_t)bytes_get(frame + 20, 4),
        .fetched = !wants_digests(type) && (flags & FLAG_FETCHED) != 0,
        .digests = wants_digests(type) && (flags & FLAG_DIGESTS) != 0,
    };
    int error = codec_vote_get(frame + CODEC_HEADER_BYTES, timed, &read);
    if (error == TARRY_OK)
        *message = read;
    return error;
}

static void get_group(cursor *from, tarry_message *signal)
{
    from->damaged = from->damaged || codec_group_get(from->at, signal) != TARRY_OK;
    from->at += CODEC_GROUP_BYTES;
}

static void get_secure(cursor *from, const codec_shape *shape, tarry_message *signal)
{
    from->at = codec_secure_get(shape, from->at, &from->words, signal);
}

/* Whether what the flags say goes together, and with the shape. */
static bool flags_agree(const codec_shape *shape, tarry_message_type type, unsigned flags)
{
    if (type == TARRY_MESSAGE_SIGNAL && (flags & FLAG_HOLDERS))
        return shape->chunks > 0 && (flags & ~(unsigned)(FLAG_HOLDERS | FLAG_TERM)) == 0;
    return type != TARRY_MESSAGE_NEWS ||
           (flags & (FLAG_CREDITED | FLAG_DROPPED)) != (FLAG_CREDITED | FLAG_DROPPED);
}

int codec_decode(const codec_shape *shape, const uint8_t *frame, size_t size, uint64_t *words,
                 tarry_message *message)
{
    if (size < CODEC_HEADER_BYTES || frame[0] >= TARRY_MESSAGE_TYPES)
        return TARRY_ERROR_FORMAT;
    tarry_message_type type = (tarry_message_type)frame[0];
    if (type == TARRY_MESSAGE_REPORT)
        return codec_report_get(frame, size, message);
    if (codec_votes(type))
        return decode_vote(frame, size, message);
    bool part = type == TARRY_MESSAGE_PART;
    unsigned flags = part ? 0 : frame[1], form = part ? frame[1] : TARRY_COMPRESS_NONE;
    uint16_t sequence_or_parts = (uint16_t)bytes_get(frame + 2, 2);
    if (form >= TARRY_COMPRESSES || (flags & ~(unsigned)type_flags[type]) != 0 ||
        (has_parts(type) && sequence_or_parts == 0) ||
        (sequence_or_parts != 0 && !has_parts(type) && !has_sequence(type)) ||
        size != size_of(shape, type, flags) || !flags_agree(shape, type, flags))
        return TARRY_ERROR_FORMAT;

    /* What lies behind the header first, as nothing is set by a frame that is damaged. */
    cursor from = {.at = frame + CODEC_HEADER_BYTES, .words = words};
    bool signal = type == TARRY_MESSAGE_SIGNAL;
    uint32_t term = flags & FLAG_TERM ? get_term(&from) : 0;
    double limit = signal && (flags & FLAG_LIMIT) ? get_limit(&from) : 0;
    bool grouped = signal && (flags & FLAG_GROUP);
    tarry_message named = {0};
    if (grouped)
        get_group(&from, &named);
    if (signal && (flags & FLAG_HOLDERS))
        get_secure(&from, shape, &named);
    const uint64_t *psi = signal ? get_bits(&from, shape->psi_bits) : NULL;
    const uint64_t *stripes = signal ? get_bits(&from, shape->stripes) : NULL;
    const uint64_t *group = grouped ? get_bits(&from, shape->workers) : NULL;
    uint32_t life = 0;
    const uint32_t *stood = tells_stood(type) && (flags & FLAG_STOOD)
                                ? get_stood(&from, shape->stripes, stood_words(shape), &life)
                                : NULL;
    bool round = type == TARRY_MESSAGE_ROUND;
    const float *weights = has_weights(type, flags) ? get_weights(&from, shape->slots) : NULL;
    const uint64_t *sets[SLOT_SETS] = {NULL};
    unsigned of_sets = sets_of(type, flags);
    for (size_t i = 0; of_sets != 0 && i < SLOT_SETS; i++)
        if (of_sets & slot_sets[i].flag)
            sets[i] = get_bits(&from, shape->slots);
    if (from.damaged)
        return TARRY_ERROR_FORMAT;

    bool tells = tells_next(type);
    uint32_t count = (uint32_t)bytes_get(frame + 16, 4), index = (uint32_t)bytes_get(frame + 20, 4);
    *message = (tarry_message){
        .type = type,
        .limit = limit,
        .epoch = (uint32_t)bytes_get(frame + 4, 4),
        .round = bytes_get(frame + 8, 8),
        .attempt = tells ? 0 : count,
        .next = tells ? count : 0,
        .sequence = has_sequence(type) ? sequence_or_parts : 0,
        .stripe = part ? index : 0,
        .slot = part || grouped ? 0 : index,
        .from = grouped ? index : 0,
        .parts = has_parts(type) ? sequence_or_parts : 0,
        .form = (tarry_compress)form,
        .sum = named.sum,
        .piece = named.piece,
        .whole = named.whole,
        .scale = named.scale,
        .shape = named.shape,
        .group = group,
        .holders = named.holders,
        .lives = named.lives,
        .fate = signal || round         ? TARRY_FATE_OPEN
                : flags & FLAG_CREDITED ? TARRY_FATE_CREDITED
                : flags & FLAG_DROPPED  ? TARRY_FATE_DROPPED
                                        : TARRY_FATE_OPEN,
        .term = term,
        .psi = psi,
        .stripes = stripes,
        .life = life,
        .stood = stood,
        .weights = weights,
    };
    for (size_t i = 0; of_sets != 0 && i < SLOT_SETS; i++)
        *slot_set(message, i) = sets[i];
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
    unsigned flags = flags_of(message);
    size_t words = 0;
    if (message->type == TARRY_MESSAGE_SIGNAL)
        words = bitset_words(shape->psi_bits) + bitset_words(shape->stripes) +
                (flags & FLAG_GROUP ? bitset_words(shape->workers) : 0) +
                (flags & FLAG_HOLDERS ? codec_secure_words(shape) : 0);
    else if (tells_stood(message->type) && (flags & FLAG_STOOD))
        words = stood_words(shape);
    if (has_weights(message->type, flags))
        words += codec_number_words(shape->slots);
    unsigned sets = sets_of(message->type, flags);
    for (size_t i = 0; i < SLOT_SETS; i++)
        words += sets & slot_sets[i].flag ? bitset_words(shape->slots) : 0;
    return words;
}

static const uint64_t *keep(const uint64_t *set, size_t bits, uint64_t **words)
{
    uint64_t *kept = *words;
    memcpy(kept, set, bitset_words(bits) * sizeof(*kept));
    *words += bitset_words(bits);
    return kept;
}

void codec_keep_sets(const codec_shape *shape, tarry_message *message, uint64_t *words)
{
    unsigned flags = flags_of(message);
    if (message->type == TARRY_MESSAGE_SIGNAL) {
        message->psi = keep(message->psi, shape->psi_bits, &words);
        message->stripes = keep(message->stripes, shape->stripes, &words);
        if (flags & FLAG_GROUP)
            message->group = keep(message->group, shape->workers, &words);
        if (flags & FLAG_HOLDERS)
            words = codec_secure_keep(shape, message, words);
    } else if (tells_stood(message->type) && (flags & FLAG_STOOD)) {
        memcpy(words, message->stood, shape->stripes * sizeof(uint32_t));
        message->stood = (const uint32_t *)words;
        words += stood_words(shape);
    }
    if (has_weights(message->type, flags)) {
        message->weights = memcpy(words, message->weights, shape->slots * sizeof(float));
        words += codec_number_words(shape->slots);
    }
    unsigned sets = sets_of(message->type, flags);
    for (size_t i = 0; i < SLOT_SETS; i++)
        if (sets & slot_sets[i].flag)
            *slot_set(message, i) = keep(slot_set_of(message, i), shape->slots, &words);
}
