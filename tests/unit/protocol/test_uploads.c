/* SPDX-License-Identifier: Apache-2.0 */
/* What a part costs those behind it, from how parts came in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/uploads.h"

enum { PARTS = 8, STRIPES = 4, ALONE = 1000 };

/* All are asked for at 0, and end one `after` the other from `first` on. */
static void all_at_once(uploads *seen, uint64_t now, uint64_t first, uint64_t after)
{
    for (int i = 0; i < PARTS; i++)
        uploads_begin(seen, now);
    uploads_hear(seen, now + first / STRIPES, STRIPES);
    for (uint64_t i = 0; i < PARTS; i++)
        uploads_end(seen, first + i * after, now + first + i * after, STRIPES);
}

static void parts_that_queue_delay_each_other(void **state)
{
    (void)state;
    uploads seen = {0};
    all_at_once(&seen, 5, ALONE, ALONE);
    assert_true(seen.known);
    assert_float_equal(seen.alone_ns, ALONE, 1e-9);
    assert_float_equal(seen.each_ns, ALONE, ALONE * 1e-2);
}

static void parts_of_links_of_their_own_delay_nobody(void **state)
{
    (void)state;
    uploads seen = {0};
    all_at_once(&seen, 5, ALONE, 0);
    assert_true(seen.known);
    assert_float_equal(seen.each_ns, 0, 1e-9);
}

/* A card that all share lets all end at the same time: one that came alone shows it. */
static void one_that_comes_alone_shows_what_is_shared(void **state)
{
    (void)state;
    uploads seen = {0};
    uploads_begin(&seen, 0);
    uploads_hear(&seen, ALONE / STRIPES, STRIPES);
    uploads_end(&seen, ALONE, ALONE, STRIPES);
    assert_false(seen.known);
    all_at_once(&seen, 5000, PARTS * ALONE, 0);
    assert_true(seen.known);
    /* The first stripes of all take as long as a whole part each fraction of it. */
    assert_float_equal(seen.each_ns, ALONE * (1 - 1.0 / STRIPES), ALONE * 0.1);
}

/* Parts that wait for nobody say nothing of what they would cost if they did. */
static void parts_one_after_the_other_teach_nothing(void **state)
{
    (void)state;
    uploads seen = {0};
    all_at_once(&seen, 5, ALONE, ALONE);
    double known = seen.each_ns;
    for (uint64_t i = 1; i < 4; i++) {
        uploads_begin(&seen, 100000 * i);
        uploads_hear(&seen, 100000 * i + 1, STRIPES);
        uploads_end(&seen, ALONE, 100000 * i + ALONE, STRIPES);
    }
    assert_float_equal(seen.each_ns, known, 1e-12);
}

static void what_is_withdrawn_does_not_count(void **state)
{
    (void)state;
    uploads seen = {0};
    for (int i = 0; i < 3; i++)
        uploads_begin(&seen, 0);
    uploads_end(&seen, 10, 10, STRIPES);
    uploads_forget(&seen);
    uploads_end(&seen, 20, 20, STRIPES);
    assert_false(seen.known);
    all_at_once(&seen, 50, ALONE, ALONE);
    assert_float_equal(seen.each_ns, ALONE, ALONE * 1e-2);
}

/* Whoever sends them. */
static void stripes_flow_while_they_come_as_fast_as_before(void **state)
{
    (void)state;
    uploads seen = {0};
    uploads_begin(&seen, 1000);
    uploads_begin(&seen, 1000);
    assert_true(uploads_flow(&seen, 9000, STRIPES)); /* nothing shows yet */
    for (uint64_t i = 1; i <= 2 * STRIPES; i++)
        uploads_hear(&seen, 1000 + 10 * i, STRIPES);
    assert_true(uploads_flow(&seen, 1080 + 79, STRIPES)); /* 40 for as many as a part has */
    assert_false(uploads_flow(&seen, 1080 + 80, STRIPES));
    for (uint64_t i = 1; i < STRIPES; i++)
        uploads_hear(&seen, 1200 + i, STRIPES);
    assert_false(uploads_flow(&seen, 1210, STRIPES));
    uploads_hear(&seen, 1210, STRIPES);
    assert_true(uploads_flow(&seen, 1210, STRIPES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_that_queue_delay_each_other),
        cmocka_unit_test(parts_of_links_of_their_own_delay_nobody),
        cmocka_unit_test(one_that_comes_alone_shows_what_is_shared),
        cmocka_unit_test(parts_one_after_the_other_teach_nothing),
        cmocka_unit_test(what_is_withdrawn_does_not_count),
        cmocka_unit_test(stripes_flow_while_they_come_as_fast_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
