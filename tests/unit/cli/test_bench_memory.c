/* SPDX-License-Identifier: Apache-2.0 */
#include "program/memory.h"
#include "test.h"

TEST(reading_is_a_sum)
{
    float values[300];
    for (size_t length = 0; length <= 300; length += 7) {
        for (size_t x = 0; x < length; x++)
            values[x] = (float)(x + 1);
        assert_true(bench_read(values, length) == (float)(length * (length + 1) / 2));
    }
}

TEST(more_than_the_machine_has_is_refused)
{
    bench_memory memory;
    assert_int_equal(bench_memory_create(1024, SIZE_MAX / 8, BENCH_LINE, &memory),
                     TARRY_ERROR_NO_MEMORY);
    assert_int_equal(bench_memory_create(1, SIZE_MAX, BENCH_PAGE, &memory), TARRY_ERROR_NO_MEMORY);
    assert_ok(bench_memory_create(3, 100, BENCH_LINE, &memory));
    assert_int_equal(memory.stride, 112);
    assert_int_equal((uintptr_t)memory.vectors % 64, 0);
    bench_memory_free(&memory);
}
