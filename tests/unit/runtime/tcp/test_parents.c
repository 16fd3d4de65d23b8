/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "failing_allocator.h"
#include "runtime/tcp/net/parents.h"

static parents of(const char *list)
{
    parents made;
    assert_int_equal(parents_check(list, NULL), TARRY_OK);
    assert_int_equal(parents_init(&made, list, NULL), TARRY_OK);
    return made;
}

/* The texts in the order in which they are tried from the current one on, and "-" for each wait. */
static void assert_tried(parents *self, size_t steps, const char *expected)
{
    char tried[1024];
    snprintf(tried, sizeof(tried), "%s", parents_current(self));
    for (size_t i = 0; i < steps; i++) {
        bool next = parents_next(self);
        if (!next)
            parents_settle(self);
        size_t used = strlen(tried);
        snprintf(tried + used, sizeof(tried) - used, " %s%s", next ? "" : "- ",
                 parents_current(self));
    }
    assert_string_equal(tried, expected);
}

static void each_is_tried_once_before_a_wait(void **state)
{
    (void)state;
    parents self = of("a:1,unix:/b,[::1]:3");
    assert_tried(&self, 6, "a:1 unix:/b [::1]:3 - a:1 unix:/b [::1]:3 - a:1");
    parents_destroy(&self, NULL);
    self = of("a:1");
    assert_tried(&self, 2, "a:1 - a:1 - a:1");
    parents_destroy(&self, NULL);
}

/* The one that a connection was lost of is not the next to be tried. */
static void after_a_connection_the_next_one_comes_first(void **state)
{
    (void)state;
    parents self = of("a:1,b:2,c:3");
    assert_true(parents_next(&self));
    parents_settle(&self);
    assert_tried(&self, 4, "b:2 c:3 a:1 - a:1 b:2");
    parents_destroy(&self, NULL);
}

static void one_that_is_named_twice_is_one(void **state)
{
    (void)state;
    parents self = of("a:1,a:1,b:2");
    assert_tried(&self, 2, "a:1 b:2 - a:1");
    parents_destroy(&self, NULL);
}

static void those_that_are_learned_come_behind_those_that_are_given(void **state)
{
    (void)state;
    parents self = of("a:1,b:2");
    parents_learn(&self, "r:1,b:2,no address,r:2,");
    assert_tried(&self, 4, "a:1 b:2 r:1 r:2 - a:1");
    parents_learn(&self, "r:3");
    assert_tried(&self, 3, "a:1 b:2 r:3 - a:1");
    parents_destroy(&self, NULL);
}

static void the_current_one_stays_when_others_are_learned(void **state)
{
    (void)state;
    parents self = of("a:1");
    parents_learn(&self, "r:1,r:2");
    assert_true(parents_next(&self) && parents_next(&self));
    assert_string_equal(parents_current(&self), "r:2");
    parents_learn(&self, "r:3,r:4");
    assert_tried(&self, 4, "r:2 r:3 r:4 a:1 - a:1");
    parents_destroy(&self, NULL);
}

/* Somebody is connected to it already. */
static void one_of_them_is_chosen(void **state)
{
    (void)state;
    parents self = of("a:1,b:2");
    parents_learn(&self, "r:1");
    parents_choose(&self, "r:1");
    parents_settle(&self);
    assert_tried(&self, 3, "r:1 a:1 b:2 - a:1");
    parents_choose(&self, "somebody:else");
    assert_string_equal(parents_current(&self), "a:1");
    parents_destroy(&self, NULL);
}

static void no_more_are_kept_than_there_is_room_for(void **state)
{
    (void)state;
    parents self = of("a:1");
    char list[16 * 2 * PARENTS_MOST] = "", longest[2 * PARENTS_TEXT_BYTES];
    for (int i = 0; i < 2 * PARENTS_MOST; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "r:%d,", i + 1);
    parents_learn(&self, list);
    for (int i = 1; i < PARENTS_MOST; i++)
        assert_true(parents_next(&self));
    assert_false(parents_next(&self));
    assert_int_equal(parents_check(list, NULL), TARRY_ERROR_FORMAT);
    memset(longest, 'x', sizeof(longest));
    memcpy(longest + sizeof(longest) - 3, ":1", 3);
    assert_int_equal(parents_check(longest, NULL), TARRY_ERROR_FORMAT);
    parents_learn(&self, longest);
    assert_false(parents_next(&self) && parents_next(&self));
    parents_destroy(&self, NULL);
}

static void a_list_is_checked_one_by_one(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", ",", "a:1,", ",a:1", "a:1,,b:2", "a:1,b", "a:1,unix:"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tarry_diagnostic why = {""};
        assert_int_equal(parents_check(wrong[i], &why), TARRY_ERROR_FORMAT);
        assert_true(why.text[0] != '\0');
    }
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    failing_allocator failing;
    parents self;
    failing_allocator_init(&failing, 0);
    assert_int_equal(parents_init(&self, "a:1", &failing.allocator), TARRY_ERROR_NO_MEMORY);
    parents_destroy(&self, &failing.allocator);
    assert_int_equal(failing.live, 0);
}

/* Those that refuse us for good: only if all do there is nothing left. A list that is learned again
 * is of others. */
static void all_may_refuse_for_good(void **state)
{
    (void)state;
    parents self = of("a:1,b:2");
    assert_false(parents_close(&self));
    assert_false(parents_close(&self));
    assert_true(parents_next(&self));
    assert_true(parents_close(&self));
    parents_learn(&self, "c:3");
    assert_false(parents_close(&self));
    parents_choose(&self, "c:3");
    assert_true(parents_close(&self));
    parents_learn(&self, "d:4");
    assert_false(parents_close(&self));
    parents_destroy(&self, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_may_refuse_for_good),
        cmocka_unit_test(each_is_tried_once_before_a_wait),
        cmocka_unit_test(after_a_connection_the_next_one_comes_first),
        cmocka_unit_test(one_that_is_named_twice_is_one),
        cmocka_unit_test(those_that_are_learned_come_behind_those_that_are_given),
        cmocka_unit_test(the_current_one_stays_when_others_are_learned),
        cmocka_unit_test(one_of_them_is_chosen),
        cmocka_unit_test(no_more_are_kept_than_there_is_room_for),
        cmocka_unit_test(a_list_is_checked_one_by_one),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
