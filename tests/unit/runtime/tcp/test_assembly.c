/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <tarry/error.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "runtime/tcp/net/assembly.h"
#include "seed.h"

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

static void pieces_make_the_whole(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("assembly", 1), RANDOM_TEST, 0, 0);
    fill(&stream);
    for (int i = 0; i < 50; i++)
        assert_int_equal(assemble(&stream, NULL), TARRY_OK);
    assert_true(fail_each_allocation(assemble, &stream) > 3);
}

static void what_does_not_follow_is_refused(void **state)
{
    (void)state;
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
static void large_totals_take_little(void **state)
{
    (void)state;
    assembly own = {0};
    assert_non_null(assembly_reserve(&own, 0, 100, ASSEMBLY_MOST_BYTES, NULL));
    assert_true(own.room <= 4096);
    assert_null(assembly_reserve(&own, 0, 100, ASSEMBLY_MOST_BYTES + 1, NULL));
    assert_null(assembly_reserve(&own, 0, UINT64_MAX, UINT64_MAX, NULL));
    assembly_clear(&own, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(what_does_not_follow_is_refused),
        cmocka_unit_test(large_totals_take_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
