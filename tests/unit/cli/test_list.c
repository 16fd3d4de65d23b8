/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/options.h"
#include "test.h"

TEST(whole_numbers)
{
    whole_list list;
    assert_ok(list_whole("4", 1, 9, &list, NULL));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.values[0], 4);
    assert_ok(list_whole("9,1,1e0", 1, 9, &list, NULL));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.values[0], 9);
    assert_int_equal(list.values[2], 1);
}

TEST(what_is_no_list_changes_nothing)
{
    whole_list whole = {.count = 77};
    const char *const bad[] = {"", ",", "1,", ",1", "1,,2", "0", "10", "1 2", "x", "1:2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(list_whole(bad[i], 1, 9, &whole, NULL), TARRY_ERROR_FORMAT);
        assert_int_equal(whole.count, 77);
    }
    real_list real = {.count = 77};
    const char *const wrong[] = {
        "",     ",",     "0",        "-1",    "1,1",   "2,1",   "11",     "nan",     "1:",  "1:2",
        "1:2:", "1:2:1", "1:2:1001", "2:1:3", "1:1:3", "0:1:3", "1:11:3", "1:2:3:4", ":1:2"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(list_ascending(wrong[i], 10, &real, NULL), TARRY_ERROR_FORMAT);
        assert_int_equal(real.count, 77);
    }
}

TEST(ascending_numbers_and_ranges)
{
    real_list list;
    assert_ok(list_ascending("0.5,1,1e1", 10, &list, NULL));
    assert_int_equal(list.count, 3);
    assert_true(list.values[0] == 0.5 && list.values[2] == 10);
    assert_ok(list_ascending("2:4:5", 10, &list, NULL));
    assert_int_equal(list.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(list.values[i] == 2 + 0.5 * (double)i);
    assert_ok(list_ascending("1:10:1000", 10, &list, NULL));
    assert_int_equal(list.count, LIST_MOST);
    assert_true(list.values[LIST_MOST - 1] == 10);
}

TEST(too_many)
{
    char text[2 * LIST_MOST + 3];
    for (size_t i = 0; i <= LIST_MOST; i++)
        memcpy(text + 2 * i, "1,", 2);
    whole_list list;
    text[2 * LIST_MOST + 1] = '\0';
    assert_int_equal(list_whole(text, 1, 1, &list, NULL), TARRY_ERROR_FORMAT);
    text[2 * LIST_MOST - 1] = '\0';
    assert_ok(list_whole(text, 1, 1, &list, NULL));
    assert_int_equal(list.count, LIST_MOST);
}

TEST(items_one_by_one)
{
    const char *left = "abc,,d";
    char item[4];
    assert_true(list_next(&left, ',', item, sizeof(item)));
    assert_string_equal(item, "abc");
    assert_string_equal(left, ",d");
    assert_true(list_next(&left, ',', item, sizeof(item)));
    assert_string_equal(item, "");
    assert_true(list_next(&left, ',', item, sizeof(item)));
    assert_string_equal(item, "d");
    assert_null(left);
    const char *const text = "a:bcde";
    left = text;
    assert_false(list_next(&left, ',', item, sizeof(item)));
    assert_ptr_equal(left, text);
    assert_string_equal(item, "d");
    assert_true(list_next(&left, ':', item, sizeof(item)));
    assert_false(list_next(&left, ':', item, sizeof(item)));
    assert_string_equal(left, "bcde");
}
