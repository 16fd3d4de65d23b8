/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/random.h"
#include "plan/evolve/evolve.h"
#include "plan/plan.h"
#include "plan_check.h"
#include "seed.h"

/* Spans as bytes, one for each of UNITS units of each of ORIGINS chunks. */
enum { ORIGINS = 3, UNITS = 32, MOST_SPANS = ORIGINS * UNITS };

typedef struct field {
    uint8_t has[ORIGINS * UNITS];
} field;

static field field_of(const tarry_span *spans, uint32_t count)
{
    field made = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t factor = UNITS / spans[i].of;
        for (uint32_t unit = 0; unit < spans[i].count * factor; unit++)
            made.has[spans[i].origin * UNITS + spans[i].first * factor + unit]++;
    }
    return made;
}

/* A random set of units, as spans of random units in random sequence. */
static uint32_t draw_spans(random_stream *stream, tarry_span *spans)
{
    uint32_t count = 0;
    for (uint32_t origin = 0; origin < ORIGINS; origin++) {
        uint32_t of = UINT32_C(1) << random_below(stream, 6);
        for (uint32_t unit = 0; unit < of; unit++)
            if (random_below(stream, 3) > 0)
                spans[count++] = (tarry_span){origin, unit, 1, of};
    }
    if (count == 0)
        spans[count++] = (tarry_span){1, 0, 1, 1};
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t other = random_below(stream, i + 1);
        tarry_span moved = spans[i];
        spans[i] = spans[other];
        spans[other] = moved;
    }
    return count;
}

static void assert_in_order(const tarry_span *spans, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tarry_span span = spans[i];
        assert_true(span.count >= 1 && span.first + span.count <= span.of);
        assert_true(span.of == 1 || span.first % 2 == 1 || span.count % 2 == 1);
        assert_true(
            i == 0 || spans[i - 1].origin < span.origin ||
            (spans[i - 1].origin == span.origin && span_end(spans[i - 1]) < span_begin(span)));
    }
}

TEST(spans_in_order_are_the_same_data)
{
    random_stream stream = random_stream_make(test_seed("span", 61), RANDOM_TEST, 0, 0);
    for (int trial = 0; trial < 3000; trial++) {
        tarry_span spans[MOST_SPANS];
        uint32_t count = draw_spans(&stream, spans);
        field before = field_of(spans, count);
        double size = span_size(spans, count);
        uint32_t left = span_put_in_order(spans, count);
        field after = field_of(spans, left);
        assert_memory_equal(&before, &after, sizeof(before));
        assert_in_order(spans, left);
        assert_true(span_size(spans, left) == size);
    }
}

/* The parts of a cut, one behind the other, are the list; all have the same size. */
TEST(cuts_are_equal_and_exact)
{
    random_stream stream = random_stream_make(test_seed("span cut", 62), RANDOM_TEST, 0, 0);
    int cut = 0;
    for (int trial = 0; trial < 3000; trial++) {
        tarry_span spans[MOST_SPANS], part[MOST_SPANS];
        uint32_t count = span_put_in_order(spans, draw_spans(&stream, spans));
        uint32_t pieces = UINT32_C(1) << random_below(&stream, 6);
        assert_true(span_can_cut(spans, count, pieces));
        tarry_span all[2 * MOST_SPANS];
        uint32_t listed = 0;
        bool fits = true;
        for (uint32_t piece = 0; piece < pieces; piece++) {
            uint32_t found = span_cut(spans, count, pieces, piece, part);
            assert_in_range(found, 1, count);
            assert_in_order(part, found);
            assert_true(span_size(part, found) == span_size(spans, count) / pieces);
            for (uint32_t i = 0; i < found; i++)
                fits = fits && part[i].of <= UNITS;
            assert_true(listed + found <= 2 * MOST_SPANS);
            memcpy(all + listed, part, found * sizeof(*part));
            listed += found;
        }
        for (uint32_t i = 1; i < listed; i++)
            assert_true(all[i - 1].origin < all[i].origin ||
                        span_end(all[i - 1]) <= span_begin(all[i]));
        if (fits) {
            field before = field_of(spans, count), after = field_of(all, listed);
            assert_memory_equal(&before, &after, sizeof(before));
            cut++;
        }
        assert_int_equal(span_put_in_order(all, listed), count);
        assert_memory_equal(all, spans, count * sizeof(*spans));
    }
    assert_true(cut > 500);
}

TEST(the_finest_units_are_not_cut)
{
    const tarry_span unit = {0, 12345, 1, SPAN_MOST_UNITS};
    assert_false(span_can_cut(&unit, 1, 2));
    const tarry_span whole = {0, 0, 1, 1};
    assert_true(span_can_cut(&whole, 1, SPAN_MOST_UNITS));
    tarry_span part;
    assert_int_equal(span_cut(&whole, 1, SPAN_MOST_UNITS, SPAN_MOST_UNITS - 1, &part), 1);
    assert_int_equal(part.first, SPAN_MOST_UNITS - 1);
    assert_int_equal(part.of, SPAN_MOST_UNITS);
}

/* However a chunk is cut, its spans have each sample once. */
TEST(samples_are_cut_exactly)
{
    for (uint64_t samples = 0; samples < 40; samples++) {
        for (uint32_t of = 1; of <= 64; of *= 2) {
            uint64_t begin, end, reached = 0;
            for (uint32_t unit = 0; unit < of; unit++) {
                tarry_span_samples((tarry_span){0, unit, 1, of}, samples, &begin, &end);
                assert_true(begin == reached && end >= begin);
                reached = end;
            }
            assert_true(reached == samples);
        }
    }
    uint64_t begin, end;
    const tarry_span last = {0, SPAN_MOST_UNITS - 1, 1, SPAN_MOST_UNITS};
    tarry_span_samples(last, UINT64_C(1) << 32, &begin, &end);
    assert_true(begin == (UINT64_C(1) << 32) - 2 && end == UINT64_C(1) << 32);
}

TEST(plans_that_are_made_are_original)
{
    OWNED(tarry_plan) plan = plan_of(4, 6, 2, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, 1);
    assert_true(tarry_plan_is_original(plan));
    assert_int_equal(tarry_plan_origins(plan), 6);
    for (uint32_t chunk = 0; chunk < 6; chunk++) {
        assert_int_equal(tarry_plan_span_count(plan, chunk), 1);
        tarry_span span = tarry_plan_span(plan, chunk, 0);
        assert_true(span.origin == chunk && span.first == 0 && span.count == 1 && span.of == 1);
    }
}
