/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "protocol/upload.h"
#include "seed.h"

static void one_length_means_time_in_proportion(void **state)
{
    (void)state;
    upload_line seen = {0};
    assert_false(seen.known);
    for (int i = 0; i < 5; i++)
        upload_add(&seen, 100, 1000);
    assert_true(seen.known);
    assert_float_equal(upload_at(&seen, 100), 1000, 1e-9);
    assert_float_equal(upload_at(&seen, 50), 500, 1e-9);
    assert_float_equal(upload_at(&seen, 200), 2000, 1e-9);
}

static void two_lengths_show_the_latency(void **state)
{
    (void)state;
    upload_line seen = {0};
    upload_add(&seen, 100, 700); /* 300 + 4 n */
    upload_add(&seen, 50, 500);
    assert_float_equal(upload_at(&seen, 100), 700, 1e-6);
    assert_float_equal(upload_at(&seen, 25), 400, 1e-6);
    for (int i = 0; i < 20; i++)
        upload_add(&seen, 50, 500);
    assert_float_equal(upload_at(&seen, 100), 700, 1e-6);
}

static void time_neither_falls_with_the_length_nor_grows_faster(void **state)
{
    (void)state;
    upload_line falling = {0}, steep = {0};
    upload_add(&falling, 100, 100);
    upload_add(&falling, 50, 300);
    assert_float_equal(upload_at(&falling, 200), upload_at(&falling, 10), 1e-9);
    upload_add(&steep, 100, 10000);
    upload_add(&steep, 90, 10);
    assert_true(upload_at(&steep, 0) >= 0);
    assert_true(fabs(upload_at(&steep, 400) - 4 * upload_at(&steep, 100)) < 1e-6);
}

static void one_that_was_held_up_counts_little(void **state)
{
    (void)state;
    upload_line seen = {0};
    for (int i = 0; i < 8; i++)
        upload_add(&seen, 100, 1000);
    upload_add(&seen, 100, 1e12);
    assert_float_equal(upload_at(&seen, 100), 1375, 1e-6);
    for (int i = 0; i < 60; i++)
        upload_add(&seen, 100, 10);
    assert_true(upload_at(&seen, 100) < 12);
}

static void predictions_stay_within_what_was_seen(void **state)
{
    (void)state;
    random_stream stream = random_stream_make(test_seed("upload", 1), RANDOM_TEST, 0, 0);
    for (uint32_t run = 0; run < 2000; run++) {
        upload_line seen = {0};
        double longest = 0;
        for (uint32_t i = 0; i < 20; i++) {
            double numbers = 1 + random_below(&stream, 4), time = random_below(&stream, 1000);
            longest = time > longest ? time : longest;
            upload_add(&seen, numbers, time);
            double before = 0;
            for (double length = 1; length <= 4; length++) {
                double at = upload_at(&seen, length);
                assert_true(at >= before - 1e-6 && at <= 4 * longest + 1e-6);
                before = at;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_length_means_time_in_proportion),
        cmocka_unit_test(two_lengths_show_the_latency),
        cmocka_unit_test(time_neither_falls_with_the_length_nor_grows_faster),
        cmocka_unit_test(one_that_was_held_up_counts_little),
        cmocka_unit_test(predictions_stay_within_what_was_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
