/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <tarry/error.h>

#include "program/memory.h"

static void reading_is_a_sum(void **state)
{
    (void)state;
    float values[300];
    for (size_t length = 0; length <= 300; length += 7) {
        for (size_t x = 0; x < length; x++)
            values[x] = (float)(x + 1);
        assert_true(bench_read(values, length) == (float)(length * (length + 1) / 2));
    }
}

static void more_than_the_machine_has_is_refused(void **state)
{
    (void)state;
    bench_memory memory;
    assert_int_equal(bench_memory_create(1024, SIZE_MAX / 8, BENCH_LINE, &memory),
                     TARRY_ERROR_NO_MEMORY);
    assert_int_equal(bench_memory_create(1, SIZE_MAX, BENCH_PAGE, &memory), TARRY_ERROR_NO_MEMORY);
    assert_int_equal(bench_memory_create(3, 100, BENCH_LINE, &memory), TARRY_OK);
    assert_int_equal(memory.stride, 112);
    assert_int_equal((uintptr_t)memory.vectors % 64, 0);
    bench_memory_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_is_a_sum),
        cmocka_unit_test(more_than_the_machine_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
