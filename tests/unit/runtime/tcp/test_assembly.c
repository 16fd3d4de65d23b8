/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "failing_allocator.h"
#include "runtime/tcp/net/channel_in.h"
#include "seed.h"
#include "test.h"

enum { TOTAL = 100000 };

static uint8_t whole[TOTAL];

static void fill(random_stream *stream)
{
    for (size_t i = 0; i < TOTAL; i++)
        whole[i] = (uint8_t)random_u32(stream);
}

static int assemble(void *user, const tarry_allocator *allocator)
{
    random_stream *stream = user;
    assembly own = {0};
    uint64_t first = 0;
    bool complete = false;
    while (!complete) {
        uint64_t count = 1 + random_below(stream, 5000);
        count = count < TOTAL - first ? count : TOTAL - first;
        uint8_t *place = assembly_reserve(&own, first, count, TOTAL, allocator);
        if (place == NULL) {
            assembly_clear(&own, allocator);
            return TARRY_ERROR_NO_MEMORY;
        }
        memcpy(place, whole + first, count);
        complete = assembly_add(&own, count);
        first += count;
        assert_true(own.room <= 2 * first || own.room <= 4096);
    }
    assert_int_equal(own.size, TOTAL);
    assert_memory_equal(own.bytes, whole, TOTAL);
    assembly_clear(&own, allocator);
    assert_null(own.bytes);
    return TARRY_OK;
}

TEST(pieces_make_the_whole)
{
    random_stream stream = random_stream_make(test_seed("assembly", 1), RANDOM_TEST, 0, 0);
    fill(&stream);
    for (int i = 0; i < 50; i++)
        assert_ok(assemble(&stream, NULL));
    assert_true(fail_each_allocation(assemble, &stream) > 3);
}

TEST(what_does_not_follow_is_refused)
{
    assembly own = {0};
    assert_null(assembly_reserve(&own, 10, 10, 100, NULL)); /* nothing has begun */
    assert_non_null(assembly_reserve(&own, 0, 10, 100, NULL));
    assert_false(assembly_add(&own, 10));
    assert_null(assembly_reserve(&own, 20, 10, 100, NULL)); /* a gap */
    assert_null(assembly_reserve(&own, 5, 10, 100, NULL));
    assert_null(assembly_reserve(&own, 10, 10, 99, NULL));
    assert_null(assembly_reserve(&own, 10, 91, 100, NULL));
    assert_non_null(assembly_reserve(&own, 10, 90, 100, NULL));
    assert_true(assembly_add(&own, 90));
    /* Anew. */
    assert_non_null(assembly_reserve(&own, 0, 3, 7, NULL));
    assert_false(assembly_add(&own, 3));
    assembly_clear(&own, NULL);
}

/* What is only announced takes no memory. */
TEST(large_totals_take_little)
{
    assembly own = {0};
    assert_non_null(assembly_reserve(&own, 0, 100, ASSEMBLY_MOST_BYTES, NULL));
    assert_true(own.room <= 4096);
    assert_null(assembly_reserve(&own, 0, 100, ASSEMBLY_MOST_BYTES + 1, NULL));
    assert_null(assembly_reserve(&own, 0, UINT64_MAX, UINT64_MAX, NULL));
    assembly_clear(&own, NULL);
}
