/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan_code.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/random.h"
#include "evolve_check.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test_file.h"

/* Where the parts of the bytes of a plan begin. */
enum { ORDER_AT = 12, ADAPTIVE_AT, COMPLETE_AT, SPANS_AT, PIECES_AT, WORST_AT = 28, SIZES_AT = 52 };
enum { LISTS_AT = SIZES_AT + 12, SEAL_BYTES = 32, TAIL_BYTES = 64 };

typedef struct code {
    uint8_t *bytes;
    size_t size;
} code;

static void code_free(code *of)
{
    free(of->bytes);
}
OWNED_STRUCT_BY(code, code_free)

static code code_of(const tarry_plan *plan)
{
    code made = {.size = plan_encoded_size(plan)};
    made.bytes = checked_malloc(made.size);
    assert_ok(plan_encode(plan, made.bytes));
    return made;
}

/* Gives the bytes the digest and the seal that belong to them, as a forger would. */
static void seal(code *forged)
{
    uint8_t *tail = forged->bytes + forged->size - TAIL_BYTES;
    assert_int_equal(
        digest_of_bytes(forged->bytes + SIZES_AT, forged->size - SIZES_AT - TAIL_BYTES, tail), 0);
    assert_int_equal(
        digest_of_bytes(forged->bytes, forged->size - SEAL_BYTES, tail + TARRY_DIGEST_SIZE), 0);
}

static void assert_refused(const uint8_t *bytes, size_t size, const char *why)
{
    /* A block of its very size, so that the sanitizer sees a step beyond it. */
    OWNED(uint8_t) exact = checked_malloc(size > 0 ? size : 1);
    memcpy(exact, bytes, size);
    tarry_plan *plan = NULL;
    tarry_diagnostic diagnostic = {""};
    assert_int_equal(plan_decode_bytes(exact, size, NULL, &plan, &diagnostic), TARRY_ERROR_FORMAT);
    assert_null(plan);
    if (why != NULL)
        assert_string_equal(diagnostic.text, why);
}

static void assert_words_equal(const uint32_t *a, const uint32_t *b, size_t count)
{
    assert_memory_equal(a, b, count * sizeof(*a));
}

static void assert_same(const tarry_plan *a, const tarry_plan *b)
{
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->chunks, b->chunks);
    assert_int_equal(a->pieces, b->pieces);
    assert_int_equal(a->parts, b->parts);
    assert_int_equal(a->order, b->order);
    assert_int_equal(a->seed, b->seed);
    assert_int_equal(a->origins, b->origins);
    assert_int_equal(a->max_load, b->max_load);
    assert_int_equal(a->max_replication, b->max_replication);
    assert_int_equal(a->min_replication, b->min_replication);
    assert_words_equal(a->worker_offset, b->worker_offset, (size_t)a->workers + 1);
    assert_words_equal(a->chunk_offset, b->chunk_offset, (size_t)a->chunks + 1);
    size_t edges = plan_edges(a);
    assert_words_equal(a->slot_chunk, b->slot_chunk, edges);
    assert_words_equal(a->slot_holder, b->slot_holder, edges);
    assert_words_equal(a->holder_worker, b->holder_worker, edges);
    assert_words_equal(a->holder_position, b->holder_position, edges);
    assert_words_equal(a->replication_count, b->replication_count, (size_t)a->max_replication + 1);
    size_t weights = (size_t)a->parts * a->workers;
    assert_memory_equal(a->decode, b->decode, weights * sizeof(*a->decode));
    assert_int_equal(a->racks, b->racks);
    assert_int_equal(a->rack == NULL, b->rack == NULL);
    if (a->rack != NULL)
        assert_words_equal(a->rack, b->rack, a->workers);
    assert_memory_equal(&a->rack_spread, &b->rack_spread, sizeof(a->rack_spread));
    assert_int_equal(a->span == NULL, b->span == NULL);
    if (a->span != NULL) {
        assert_words_equal(a->span_offset, b->span_offset, (size_t)a->chunks + 1);
        assert_memory_equal(a->span, b->span, a->span_offset[a->chunks] * sizeof(*a->span));
        assert_memory_equal(a->weight, b->weight, a->chunks * sizeof(*a->weight));
    }
    assert_true(a->conditioning.worst == b->conditioning.worst);
    assert_true(a->conditioning.median == b->conditioning.median);
    assert_int_equal(a->conditioning.subsets, b->conditioning.subsets);
    assert_int_equal(a->conditioning.complete, b->conditioning.complete);
    assert_memory_equal(a->digest, b->digest, TARRY_DIGEST_SIZE);
}

static void assert_comes_back(const tarry_plan *plan)
{
    OWNED(code) written = code_of(plan);
    OWNED(tarry_plan) read = NULL;
    tarry_diagnostic why;
    assert_ok_or(why, plan_decode_bytes(written.bytes, written.size, NULL, &read, &why));
    plan_check_views(read);
    assert_same(plan, read);
    OWNED(code) again = code_of(read);
    assert_int_equal(again.size, written.size);
    assert_memory_equal(again.bytes, written.bytes, written.size);
}

TEST(plans_of_all_designs_come_back)
{
    const struct {
        uint32_t workers, chunks, replication, pieces;
        tarry_design design;
    } cases[] = {
        {1, 1, 1, 1, TARRY_DESIGN_CYCLIC},     {8, 12, 3, 1, TARRY_DESIGN_CYCLIC},
        {9, 6, 3, 2, TARRY_DESIGN_FRACTIONAL}, {10, 10, 4, 3, TARRY_DESIGN_RANDOM},
        {12, 9, 4, 2, TARRY_DESIGN_CYCLIC},    {64, 40, 5, 1, TARRY_DESIGN_RANDOM},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        for (uint32_t variant = 0; variant < 6; variant++) {
            tarry_plan_settings settings =
                plan_settings(cases[i].workers, cases[i].chunks, cases[i].replication,
                              cases[i].design, (tarry_order)(variant % 3), 5 + variant);
            settings.pieces = cases[i].pieces;
            settings.parts = variant == 0 ? 1 : cases[i].replication;
            settings.rack_size = variant % 2 == 0 ? 0 : 1 + cases[i].workers / 3;
            OWNED(tarry_plan) plan = plan_make(&settings);
            assert_comes_back(plan);
        }
    }
}

TEST(design_file_comes_back)
{
    const char text[] = "2 0 1\n3 1\n-\n0 2 3\n";
    assert_int_equal(test_file_make(NULL), 0);
    write_text(test_file, text);
    tarry_plan_settings settings = plan_settings(4, 4, 0, TARRY_DESIGN_FILE, TARRY_ORDER_AS_IS, 1);
    settings.file = test_file;
    settings.parts = 2;
    settings.pieces = 2;
    OWNED(tarry_plan) plan = plan_make(&settings);
    test_file_remove(NULL);
    assert_comes_back(plan);
}

/* Plans over some rounds of uneven paces and costs, with splits, merges and moves. */
TEST(evolved_plans_come_back)
{
    random_stream stream = random_stream_make(test_seed("plan_code", 3), RANDOM_TEST, 1, 0);
    for (uint32_t trial = 0; trial < 20; trial++) {
        tarry_plan_settings settings =
            plan_settings(6, 8, 3, TARRY_DESIGN_RANDOM, (tarry_order)(trial % 3), 100 + trial);
        settings.parts = 1 + trial % 3;
        settings.rack_size = trial % 4 / 2 * 2;
        tarry_plan *plan = plan_make(&settings);
        for (uint32_t round = 0; round < 4; round++) {
            double pace[6], cost[4096];
            for (uint32_t i = 0; i < 6; i++)
                pace[i] = 0.5 + random_uniform(&stream);
            assert_true(plan->chunks <= 4096);
            for (uint32_t i = 0; i < plan->chunks; i++)
                cost[i] = random_below(&stream, 4) == 0 ? 3 : 0.1 + random_uniform(&stream);
            const tarry_plan_evolution wanted = {
                .pace = pace, .cost = cost, .heaviest = 1.5, .lightest = 0.5, .most_moves = 10};
            tarry_plan *next = plan_evolve(plan, &wanted, NULL);
            tarry_plan_free(plan);
            plan = next;
            assert_comes_back(plan);
        }
        assert_false(tarry_plan_is_original(plan));
        tarry_plan_free(plan);
    }
}

/* A plan that was read evolves to the bit as the one that was written. */
TEST(read_plan_evolves_the_same)
{
    tarry_plan_settings settings =
        plan_settings(6, 8, 3, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, 2);
    settings.parts = 2;
    OWNED(tarry_plan) plan = plan_make(&settings), read = NULL;
    OWNED(code) written = code_of(plan);
    assert_ok(plan_decode_bytes(written.bytes, written.size, NULL, &read, NULL));
    const double pace[] = {1, 4, 1, 2, 1, 9}, cost[] = {1, 1, 5, 1, 1, 1, 0.25, 1};
    const tarry_plan_evolution wanted = {
        .pace = pace, .cost = cost, .heaviest = 2, .lightest = 0.5, .most_moves = 20};
    OWNED(tarry_plan)
    next = plan_evolve(plan, &wanted, NULL), other = plan_evolve(read, &wanted, NULL);
    assert_false(tarry_plan_is_original(next));
    assert_same(next, other);
}

/* ---- what is no plan ---- */

/* 2 workers that both hold both chunks, chunk 1 split in two by the evolution. */
static tarry_plan *small_evolved(void)
{
    tarry_plan_settings settings =
        plan_settings(2, 2, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    settings.parts = 2;
    OWNED(tarry_plan) plan = plan_make(&settings);
    const double cost[] = {1, 4};
    const tarry_plan_evolution wanted = {.cost = cost, .heaviest = 1};
    tarry_plan *next = plan_evolve(plan, &wanted, NULL);
    assert_non_null(next->span);
    return next;
}

TEST(damage_is_refused)
{
    OWNED(tarry_plan) plan = small_evolved();
    OWNED(code) written = code_of(plan);
    for (size_t size = 0; size < written.size; size++)
        assert_refused(written.bytes, size, NULL);
    for (size_t bit = 0; bit < 8 * written.size; bit++) {
        written.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_refused(written.bytes, written.size, NULL);
        written.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* Every truncation and extension with the right seal is refused too, and none reads beyond. */
TEST(sealed_truncations_are_refused)
{
    OWNED(tarry_plan) plan = small_evolved();
    OWNED(code) written = code_of(plan);
    for (size_t size = SIZES_AT + TAIL_BYTES; size <= written.size + 4; size++) {
        if (size == written.size)
            continue;
        code cut = {.bytes = calloc(size, 1), .size = size};
        assert_non_null(cut.bytes);
        size_t kept = (size < written.size ? size : written.size) - TAIL_BYTES;
        memcpy(cut.bytes, written.bytes, kept);
        seal(&cut);
        assert_refused(cut.bytes, cut.size, NULL);
        free(cut.bytes);
    }
}

/* Writes `value` at `offset`, seals, and expects the refusal. */
static void assert_forged(const tarry_plan *plan, size_t offset, uint64_t value, unsigned bytes,
                          const char *why)
{
    OWNED(code) forged = code_of(plan);
    assert_true(offset + bytes <= forged.size - TAIL_BYTES);
    bytes_put(forged.bytes + offset, value, bytes);
    seal(&forged);
    assert_refused(forged.bytes, forged.size, why);
}

TEST(sealed_nonsense_is_refused)
{
    const char setting[] = "plan: a setting that does not exist";
    const char sizes[] = "plan: workers, chunks or parts out of range";
    const char lists[] = "plan: lists of chunks that are too long or too short";
    const char early[] = "plan: the bytes end early";
    const char weights[] = "plan: decode weights that can't be";
    tarry_plan *plan = small_evolved();
    assert_forged(plan, ORDER_AT, 3, 1, setting);
    assert_forged(plan, ADAPTIVE_AT, 2, 1, setting);
    assert_forged(plan, COMPLETE_AT, 2, 1, setting);
    assert_forged(plan, SPANS_AT, 4, 1, setting);
    assert_forged(plan, SPANS_AT, 3, 1, early);
    assert_forged(plan, SPANS_AT, 0, 1, "plan: more bytes than it has");
    assert_forged(plan, PIECES_AT, 0, 4, "plan: no pieces");
    assert_forged(plan, PIECES_AT, 3, 4, "plan: chunks that are not whole numbers of pieces");
    assert_forged(plan, WORST_AT, UINT64_MAX, 8, "plan: a conditioning that can't be");
    assert_forged(plan, SIZES_AT, 0, 4, sizes);
    assert_forged(plan, SIZES_AT, UINT32_MAX, 4, sizes);
    assert_forged(plan, SIZES_AT, UINT32_MAX - 1, 4, early);
    assert_forged(plan, SIZES_AT + 4, 0, 4, sizes);
    assert_forged(plan, SIZES_AT + 4, UINT32_MAX - 1, 4, lists);
    assert_forged(plan, SIZES_AT + 8, 0, 4, sizes);
    assert_forged(plan, SIZES_AT + 8, TARRY_MOST_PARTS, 4,
                  "plan: a chunk at fewer workers than parts");

    uint32_t edges = plan_edges(plan);
    assert_forged(plan, LISTS_AT, 1, 4, "plan: a list that ends before it begins");
    assert_forged(plan, LISTS_AT + 4, edges + 1, 4, "plan: a list that ends before it begins");
    assert_forged(plan, LISTS_AT + 8, UINT32_MAX, 4, lists);
    size_t slots = LISTS_AT + 4 * 3;
    assert_forged(plan, slots, plan->slot_chunk[1], 4,
                  "plan: a chunk that is not there, or twice at a worker");
    assert_forged(plan, slots, plan->chunks, 4,
                  "plan: a chunk that is not there, or twice at a worker");
    size_t decode = slots + 4 * edges;
    assert_forged(plan, decode, UINT64_C(0x7ff8000000000000), 8, weights); /* NaN */
    assert_forged(plan, decode, UINT64_C(0x7ff0000000000000), 8, weights); /* infinite */
    assert_forged(plan, decode, UINT64_C(0x4000000000000000), 8, weights); /* 2 */
    tarry_plan_free(plan);

    tarry_plan_settings settings =
        plan_settings(2, 2, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    plan = plan_make(&settings);
    assert_forged(plan, LISTS_AT + 4 * (3 + 4), UINT64_C(0xbff0000000000000), 8, weights); /* -1 */
    assert_forged(plan, SPANS_AT, 1, 1, early);
    assert_forged(plan, SPANS_AT, 2, 1, early);
    tarry_plan_free(plan);

    settings.rack_size = 1;
    plan = plan_make(&settings);
    size_t racks = LISTS_AT + 4 * (3 + 4) + 8 * 2;
    assert_forged(plan, SPANS_AT, 0, 1, "plan: more bytes than it has");
    assert_forged(plan, racks, 1, 4, "plan: racks that are not numbered as they occur");
    assert_forged(plan, racks + 4, 2, 4, "plan: racks that are not numbered as they occur");
    tarry_plan_free(plan);
}

TEST(sealed_nonsense_of_spans_is_refused)
{
    const char none[] = "plan: spans that are none, or not in order";
    const char cover[] = "plan: spans that are not all of the data once";
    OWNED(tarry_plan) plan = small_evolved();
    uint32_t last = plan->span_offset[plan->chunks] - 1;
    size_t spans = plan_encoded_size(plan) - TAIL_BYTES - 16 * ((size_t)last + 1);
    size_t origins = spans - 4 * ((size_t)plan->chunks + 2);
    const tarry_span first = plan->span[0];
    assert_int_equal(first.of, 1);
    assert_forged(plan, origins, plan->origins + 1, 4, cover);
    assert_forged(plan, origins, 1, 4, none);
    assert_forged(plan, origins, PLAN_MAX_EDGES / plan->parts + 1, 4,
                  "plan: more original chunks than a plan can have");
    assert_forged(plan, origins + 8, 0, 4, "plan: a list that ends before it begins");
    assert_forged(plan, origins + 4 + 4 * plan->chunks, UINT32_MAX, 4, "plan: the bytes end early");
    assert_forged(plan, spans, plan->origins, 4, none);  /* origin */
    assert_forged(plan, spans + 4, 1, 4, none);          /* first */
    assert_forged(plan, spans + 8, 0, 4, none);          /* count */
    assert_forged(plan, spans + 8, UINT32_MAX, 4, none); /* count */
    assert_forged(plan, spans + 12, 0, 4, none);         /* of */
    assert_forged(plan, spans + 12, 3, 4, none);         /* of: not a power of two */
    assert_forged(plan, spans + 12, 1U << 31, 4, cover); /* of: a part alone */
    size_t end = spans + 16 * (size_t)last;
    const tarry_span half = plan->span[last];
    assert_true(half.of > 1);
    assert_forged(plan, end + 4, half.first ^ 1, 4, cover); /* the other half, twice */
}

/* Spans that say that chunk i is original chunk i, of which the plan's digest knows nothing. */
TEST(needless_spans_are_refused)
{
    OWNED(tarry_plan) plan = plan_of(2, 2, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    OWNED(code) plain = code_of(plan);
    OWNED(code) forged = {.size = plain.size + 4 * 4 + 2 * 16};
    forged.bytes = checked_malloc(forged.size);
    memcpy(forged.bytes, plain.bytes, plain.size - TAIL_BYTES);
    forged.bytes[SPANS_AT] = 1;
    uint8_t *at = forged.bytes + plain.size - TAIL_BYTES;
    const uint32_t words[] = {2, 0, 1, 2, 0, 0, 1, 1, 1, 0, 1, 1};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        at = bytes_put(at, words[i], 4);
    seal(&forged);
    assert_refused(forged.bytes, forged.size, "plan: spans that are not all of the data once");
    /* The other way round they say something. */
    bytes_put(at - 32, 1, 4);
    bytes_put(at - 16, 0, 4);
    seal(&forged);
    OWNED(tarry_plan) read = NULL;
    assert_ok(plan_decode_bytes(forged.bytes, forged.size, NULL, &read, NULL));
    assert_int_equal(tarry_plan_span(read, 0, 0).origin, 1);
}

/* ---- memory ---- */

static int read_with(void *user, const tarry_allocator *allocator)
{
    const code *written = user;
    OWNED(tarry_plan) plan = NULL;
    return plan_decode_bytes(written->bytes, written->size, allocator, &plan, NULL);
}

TEST(each_allocation_may_fail)
{
    OWNED(tarry_plan) plan = small_evolved();
    OWNED(code) written = code_of(plan);
    size_t allocations = fail_each_allocation(read_with, &written);
    assert_true(allocations > 10);
}
