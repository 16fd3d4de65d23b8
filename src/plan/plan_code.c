/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan_code.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "plan/rack/rack.h"

enum {
    VERSION = 1,
    NAME_BYTES = 8,
    SIZES_BYTES = 3 * 4,
    SPAN_BYTES = 4 * 4,
    WEIGHT_BYTES = 8,
    SEAL_BYTES = 32,
    TAIL_BYTES = TARRY_DIGEST_SIZE + SEAL_BYTES,
};

/* What of the body is not in every plan. */
enum { HAS_SPANS = 1, HAS_RACKS = 2, HAS_ALL = HAS_SPANS | HAS_RACKS };

static const char NAME[NAME_BYTES + 1] = "tarrypln";

/* How far the square of a column's length may be from 1 by rounding. */
static const double rounding = 1e-9;

static size_t weights_of(const tarry_plan *plan)
{
    return (size_t)plan->parts * plan->workers;
}

/* ---- writing ---- */

size_t plan_encoded_size(const tarry_plan *plan)
{
    size_t size = PLAN_CODE_HEAD_BYTES + SIZES_BYTES + TAIL_BYTES;
    size += 4 * ((size_t)plan->workers + 1 + plan_edges(plan));
    size += WEIGHT_BYTES * weights_of(plan);
    if (plan->span != NULL)
        size +=
            4 * ((size_t)plan->chunks + 2) + SPAN_BYTES * (size_t)plan->span_offset[plan->chunks];
    if (plan->rack != NULL)
        size += 4 * (size_t)plan->workers;
    return size;
}

static uint8_t *put_words(uint8_t *at, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        at = bytes_put(at, words[i], 4);
    return at;
}

static uint8_t *put_head(const tarry_plan *plan, uint8_t *at)
{
    memcpy(at, NAME, NAME_BYTES);
    at = bytes_put(at + NAME_BYTES, VERSION, 4);
    at = bytes_put(at, plan->order, 1);
    at = bytes_put(at, 0, 1);
    at = bytes_put(at, plan->conditioning.complete, 1);
    unsigned has = (plan->span != NULL ? HAS_SPANS : 0U) | (plan->rack != NULL ? HAS_RACKS : 0U);
    at = bytes_put(at, has, 1);
    at = bytes_put(at, plan->pieces, 4);
    at = bytes_put(at, plan->seed, 8);
    at = bytes_put_f64(at, plan->conditioning.worst);
    at = bytes_put_f64(at, plan->conditioning.median);
    return bytes_put(at, plan->conditioning.subsets, 8);
}

static uint8_t *put_spans(const tarry_plan *plan, uint8_t *at)
{
    at = put_words(at, &plan->origins, 1);
    at = put_words(at, plan->span_offset, (size_t)plan->chunks + 1);
    for (uint32_t i = 0; i < plan->span_offset[plan->chunks]; i++) {
        const tarry_span *span = &plan->span[i];
        const uint32_t numbers[] = {span->origin, span->first, span->count, span->of};
        at = put_words(at, numbers, 4);
    }
    return at;
}

/* What the plan's digest is of, in the same sequence. */
static uint8_t *put_body(const tarry_plan *plan, uint8_t *at)
{
    const uint32_t sizes[] = {plan->workers, plan->chunks, plan->parts};
    at = put_words(at, sizes, 3);
    at = put_words(at, plan->worker_offset, (size_t)plan->workers + 1);
    at = put_words(at, plan->slot_chunk, plan_edges(plan));
    for (size_t i = 0; i < weights_of(plan); i++)
        at = bytes_put_f64(at, plan->decode[i]);
    if (plan->span != NULL)
        at = put_spans(plan, at);
    return plan->rack != NULL ? put_words(at, plan->rack, plan->workers) : at;
}

int plan_encode(const tarry_plan *plan, uint8_t *bytes)
{
    uint8_t *at = put_body(plan, put_head(plan, bytes));
    memcpy(at, plan->digest, TARRY_DIGEST_SIZE);
    at += TARRY_DIGEST_SIZE;
    assert((size_t)(at - bytes) + SEAL_BYTES == plan_encoded_size(plan));
    return digest_of_bytes(bytes, (size_t)(at - bytes), at) == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* ---- reading ---- */

/* What of the body is still to be read. */
typedef struct cursor {
    const uint8_t *at;
    size_t left;
    tarry_diagnostic *diagnostic;
} cursor;

static int refuse(const cursor *in, const char *why)
{
    return diagnose(in->diagnostic, TARRY_ERROR_FORMAT, "plan: %s", why);
}

/* The next count things of `size` (small) bytes; NULL if so many are not there. */
static const uint8_t *take(cursor *in, uint64_t count, size_t size)
{
    if (count > in->left / size)
        return NULL;
    const uint8_t *taken = in->at;
    in->at += count * size;
    in->left -= count * size;
    return taken;
}

static uint32_t word(const uint8_t *words, size_t index)
{
    return (uint32_t)bytes_get(words + 4 * index, 4);
}

/* Takes count + 1 words that ascend from 0, each by at least `step`, into memory of the plan. */
static int read_offsets(tarry_plan *plan, cursor *in, uint32_t count, uint32_t step,
                        uint32_t **offsets)
{
    const uint8_t *words = take(in, (uint64_t)count + 1, 4);
    if (words == NULL)
        return refuse(in, "the bytes end early");
    *offsets = memory_allocate(&plan->allocator, (size_t)count + 1, sizeof(**offsets));
    if (*offsets == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t offset = word(words, i), before = i == 0 ? 0 : (*offsets)[i - 1];
        if (i == 0 ? offset != 0 : offset < before || offset - before < step)
            return refuse(in, "a list that ends before it begins");
        (*offsets)[i] = offset;
    }
    return TARRY_OK;
}

static int read_head(tarry_plan *plan, cursor *in, unsigned *has)
{
    const uint8_t *at = take(in, 1, PLAN_CODE_HEAD_BYTES) + NAME_BYTES + 4;
    plan->order = (tarry_order)at[0];
    *has = at[3];
    plan->pieces = (uint32_t)bytes_get(at + 4, 4);
    plan->seed = bytes_get(at + 8, 8);
    plan->conditioning = (tarry_conditioning){
        .worst = bytes_get_f64(at + 16),
        .median = bytes_get_f64(at + 24),
        .subsets = bytes_get(at + 32, 8),
        .complete = at[2] != 0,
    };
    if (at[0] > TARRY_ORDER_AS_IS || at[1] != 0 || at[2] > 1 || at[3] > HAS_ALL)
        return refuse(in, "a setting that does not exist");
    if (plan->pieces == 0)
        return refuse(in, "no pieces");
    if (!(plan->conditioning.worst >= plan->conditioning.median && plan->conditioning.median > 0))
        return refuse(in, "a conditioning that can't be");
    return TARRY_OK;
}

static int read_sizes(tarry_plan *plan, cursor *in)
{
    const uint8_t *sizes = take(in, 3, 4);
    if (sizes == NULL)
        return refuse(in, "the bytes end early");
    plan->workers = word(sizes, 0);
    plan->chunks = word(sizes, 1);
    plan->parts = word(sizes, 2);
    if (plan->workers < 1 || plan->workers == UINT32_MAX || plan->chunks < 1 ||
        plan->chunks == UINT32_MAX || plan->parts < 1 || plan->parts > TARRY_MOST_PARTS)
        return refuse(in, "workers, chunks or parts out of range");
    return TARRY_OK;
}

/* Who has what, no chunk twice; and from that the view by chunk, in which each has its holders. */
static int read_assignment(tarry_plan *plan, cursor *in)
{
    int error = read_offsets(plan, in, plan->workers, 0, &plan->worker_offset);
    if (error != TARRY_OK)
        return error;
    uint32_t edges = plan_edges(plan);
    const uint8_t *slots = take(in, edges, 4);
    if (slots == NULL || edges > PLAN_MAX_EDGES || plan->chunks > edges)
        return refuse(in, "lists of chunks that are too long or too short");
    plan->slot_chunk = memory_allocate(&plan->allocator, edges, sizeof(*plan->slot_chunk));
    uint32_t *last = memory_allocate(&plan->allocator, plan->chunks, sizeof(*last));
    error = TARRY_ERROR_NO_MEMORY;
    if (plan->slot_chunk == NULL || last == NULL)
        goto release;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        for (uint32_t i = plan->worker_offset[worker]; i < plan->worker_offset[worker + 1]; i++) {
            uint32_t chunk = word(slots, i);
            if (chunk >= plan->chunks || last[chunk] == worker + 1) {
                error = refuse(in, "a chunk that is not there, or twice at a worker");
                goto release;
            }
            last[chunk] = worker + 1;
            plan->slot_chunk[i] = chunk;
        }
    }
    error = plan_arrange(plan, TARRY_ORDER_AS_IS);
    if (error == TARRY_OK && plan->min_replication < plan->parts)
        error = refuse(in, "a chunk at fewer workers than parts");

release:
    memory_release(&plan->allocator, last);
    return error;
}

/* Whether the weights are what they have to be: ones for one part, unit columns for more. */
static bool check_decode(const tarry_plan *plan)
{
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        double square = 0;
        for (uint32_t part = 0; part < plan->parts; part++) {
            double weight = plan->decode[(size_t)part * plan->workers + worker];
            square += weight * weight;
        }
        if (plan->parts == 1 ? plan->decode[worker] != 1 : !(fabs(square - 1) <= rounding))
            return false;
    }
    return true;
}

static int read_decode(tarry_plan *plan, cursor *in)
{
    size_t count = weights_of(plan);
    const uint8_t *weights = take(in, count, WEIGHT_BYTES);
    if (weights == NULL)
        return refuse(in, "the bytes end early");
    plan->decode = memory_allocate(&plan->allocator, count, sizeof(*plan->decode));
    if (plan->decode == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        plan->decode[i] = bytes_get_f64(weights + WEIGHT_BYTES * i);
    return check_decode(plan) ? TARRY_OK : refuse(in, "decode weights that can't be");
}

/* ---- spans ---- */

static bool check_span(const tarry_plan *plan, tarry_span span)
{
    if (span.origin >= plan->origins || span.of < 1 || span.of > SPAN_MOST_UNITS ||
        (span.of & (span.of - 1)) != 0)
        return false;
    if (span.count < 1 || (uint64_t)span.first + span.count > span.of)
        return false;
    return span.of == 1 || span.first % 2 != 0 || span.count % 2 != 0;
}

static int compare(const void *a, const void *b)
{
    const tarry_span *x = a, *y = b;
    if (x->origin != y->origin)
        return x->origin < y->origin ? -1 : 1;
    return (span_begin(*x) > span_begin(*y)) - (span_begin(*x) < span_begin(*y));
}

/* Each span is one by itself, and those of a chunk ascend without touching. */
static bool check_lists(const tarry_plan *plan)
{
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t first = plan->span_offset[chunk];
        for (uint32_t i = first; i < plan->span_offset[chunk + 1]; i++) {
            const tarry_span *span = &plan->span[i], *before = span - 1;
            if (!check_span(plan, *span))
                return false;
            if (i > first &&
                (span->origin < before->origin ||
                 (span->origin == before->origin && span_begin(*span) <= span_end(*before))))
                return false;
        }
    }
    return true;
}

/* Whether sorted spans follow each other from the first original chunk to the last. Their places
 * are multiples of 2^-31, so that doubles say them exactly. */
static bool cover_all_once(const tarry_span *sorted, uint32_t count, uint32_t origins)
{
    uint32_t origin = 0;
    double reached = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (sorted[i].origin != origin || span_begin(sorted[i]) != reached)
            return false;
        reached = span_end(sorted[i]);
        if (reached == 1) {
            origin++;
            reached = 0;
        }
    }
    return origin == origins;
}

/* Whether all chunks are their originals, of which a plan then says nothing. */
static bool say_nothing(const tarry_plan *plan)
{
    if (plan->origins != plan->chunks)
        return false;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        if (plan->span[chunk].origin != chunk || plan->span[chunk].of != 1)
            return false;
    return true;
}

static int check_spans(const tarry_plan *plan, const cursor *in)
{
    if (!check_lists(plan))
        return refuse(in, "spans that are none, or not in order");
    uint32_t count = plan->span_offset[plan->chunks];
    tarry_span *sorted = memory_allocate(&plan->allocator, count, sizeof(*sorted));
    if (sorted == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(sorted, plan->span, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare);
    bool good = cover_all_once(sorted, count, plan->origins) && !say_nothing(plan);
    memory_release(&plan->allocator, sorted);
    return good ? TARRY_OK : refuse(in, "spans that are not all of the data once");
}

static int read_spans(tarry_plan *plan, cursor *in)
{
    const uint8_t *origins = take(in, 1, 4);
    if (origins == NULL)
        return refuse(in, "the bytes end early");
    plan->origins = word(origins, 0);
    if (plan->origins > PLAN_MAX_EDGES / plan->parts)
        return refuse(in, "more original chunks than a plan can have");
    int error = read_offsets(plan, in, plan->chunks, 1, &plan->span_offset);
    if (error != TARRY_OK)
        return error;
    uint32_t count = plan->span_offset[plan->chunks];
    const uint8_t *spans = take(in, count, SPAN_BYTES);
    if (spans == NULL)
        return refuse(in, "the bytes end early");
    plan->span = memory_allocate(&plan->allocator, count, sizeof(*plan->span));
    if (plan->span == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        plan->span[i] = (tarry_span){
            .origin = word(spans, 4 * i),
            .first = word(spans, 4 * i + 1),
            .count = word(spans, 4 * i + 2),
            .of = word(spans, 4 * i + 3),
        };
    error = check_spans(plan, in);
    return error == TARRY_OK ? span_weigh(plan) : error;
}

/* ---- racks ---- */

static int read_racks(tarry_plan *plan, cursor *in)
{
    const uint8_t *words = take(in, plan->workers, 4);
    if (words == NULL)
        return refuse(in, "the bytes end early");
    plan->rack = memory_allocate(&plan->allocator, plan->workers, sizeof(*plan->rack));
    if (plan->rack == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        plan->rack[worker] = word(words, worker);
        if (plan->rack[worker] > plan->racks)
            return refuse(in, "racks that are not numbered as they occur");
        plan->racks += plan->rack[worker] == plan->racks ? 1 : 0;
    }
    return rack_measure(plan);
}

/* ---- all of it ---- */

static int read_plan(tarry_plan *plan, cursor *in)
{
    unsigned has = 0;
    int error = read_head(plan, in, &has);
    if (error == TARRY_OK)
        error = read_sizes(plan, in);
    if (error == TARRY_OK)
        error = read_assignment(plan, in);
    if (error == TARRY_OK)
        error = read_decode(plan, in);
    if (error != TARRY_OK)
        return error;
    plan->origins = plan->chunks;
    if (has & HAS_SPANS)
        error = read_spans(plan, in);
    if (error == TARRY_OK && (has & HAS_RACKS))
        error = read_racks(plan, in);
    if (error != TARRY_OK)
        return error;
    if (in->left > 0)
        return refuse(in, "more bytes than it has");
    if (plan->origins % plan->pieces != 0)
        return refuse(in, "chunks that are not whole numbers of pieces");
    return plan_take_digest(plan);
}

/* Name, version, seal; the bytes are at least head and tail then. */
static int check_frame(const uint8_t *bytes, size_t size, tarry_diagnostic *diagnostic)
{
    const cursor in = {.diagnostic = diagnostic};
    if (size < PLAN_CODE_HEAD_BYTES + TAIL_BYTES || memcmp(bytes, NAME, NAME_BYTES) != 0)
        return refuse(&in, "the bytes are none");
    if (bytes_get(bytes + NAME_BYTES, 4) != VERSION)
        return refuse(&in, "the bytes are of another version");
    uint8_t seal[SEAL_BYTES];
    if (digest_of_bytes(bytes, size - SEAL_BYTES, seal) != 0)
        return diagnose_no_memory(diagnostic, "plan");
    if (memcmp(seal, bytes + size - SEAL_BYTES, SEAL_BYTES) != 0)
        return refuse(&in, "the bytes are damaged");
    return TARRY_OK;
}

int plan_decode_bytes(const uint8_t *bytes, size_t size, const tarry_allocator *allocator,
                      tarry_plan **out, tarry_diagnostic *diagnostic)
{
    int error = check_frame(bytes, size, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_plan *plan = memory_allocate(allocator, 1, sizeof(*plan));
    if (plan == NULL)
        return diagnose_no_memory(diagnostic, "plan");
    plan->allocator = memory_allocator(allocator);
    cursor in = {.at = bytes, .left = size - TAIL_BYTES, .diagnostic = diagnostic};
    error = read_plan(plan, &in);
    if (error == TARRY_ERROR_NO_MEMORY)
        diagnose_no_memory(diagnostic, "plan");
    if (error == TARRY_OK && memcmp(plan->digest, in.at, TARRY_DIGEST_SIZE) != 0)
        error = refuse(&in, "its digest is of another plan");
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    *out = plan;
    return TARRY_OK;
}
