/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "coding/norm.h"
#include "seed.h"

static void is_that_of_long_doubles_rounded(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    float numbers[MOST + 1];
    random_stream stream = random_stream_make(test_seed("norm", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 2000; run++) {
        uint32_t count = random_below(&stream, MOST + 1), offset = random_below(&stream, 2);
        count -= offset > 0 && count == MOST + 1;
        long double sum = 0;
        double scale = exp(20 * random_normal(&stream));
        for (uint32_t i = 0; i < count && offset + i <= MOST; i++) {
            float number = (float)fmin(fmax(scale * random_normal(&stream), -1e37), 1e37);
            numbers[offset + i] = number;
            sum += (long double)number * (long double)number;
        }
        count = offset + count > MOST + 1 ? MOST + 1 - offset : count;
        double norm = (double)norm_of(numbers + offset, count), truth = (double)sqrtl(sum);
        if (truth > (double)FLT_MAX)
            assert_true(norm == (double)FLT_MAX);
        else
            assert_true(fabs(norm - truth) <= 6.1e-8 * truth + 1e-45);
    }
}

static void what_is_not_finite_is_the_largest(void **state)
{
    (void)state;
    const float odd[] = {INFINITY, -INFINITY, NAN, FLT_MAX};
    for (size_t i = 0; i < 4; i++) {
        float numbers[20] = {1};
        numbers[17] = odd[i];
        assert_true(norm_of(numbers, 20) == FLT_MAX);
    }
    const float large[2] = {FLT_MAX, FLT_MAX};
    assert_true(norm_of(large, 2) == FLT_MAX);
    assert_true(norm_of(large, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_that_of_long_doubles_rounded),
        cmocka_unit_test(what_is_not_finite_is_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
