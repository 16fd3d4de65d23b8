/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/hex.h"

static void every_byte_is_what_printf_writes(void **state)
{
    (void)state;
    for (unsigned value = 0; value < 256; value++) {
        uint8_t byte = (uint8_t)value, again = 0;
        char text[3] = "xx", wanted[3];
        snprintf(wanted, sizeof(wanted), "%02x", value);
        assert_ptr_equal(hex_put(text, &byte, 1), text + 2);
        assert_string_equal(text, wanted);
        assert_int_equal(hex_get(text, 2, &again, 1), 1);
        assert_int_equal(again, byte);
    }
}

static void only_pairs_of_digits_are_read(void **state)
{
    (void)state;
    uint8_t bytes[3];
    for (unsigned other = 0; other < 256; other++) {
        char text[] = {'1', '2', 'a', (char)other, '3', '4'};
        size_t wanted = other != 0 && strchr("0123456789abcdef", (char)other) != NULL ? 3 : 1;
        assert_int_equal(hex_get(text, sizeof(text), bytes, 3), wanted);
        assert_int_equal(bytes[0], 0x12);
    }
}

static void nothing_is_touched_beyond_its_room(void **state)
{
    (void)state;
    uint8_t bytes[3] = {7, 7, 7};
    char text[] = "xx";
    assert_int_equal(hex_get("0102", 3, bytes, 3), 1);
    assert_int_equal(hex_get("0102", 0, bytes, 3), 0);
    assert_int_equal(hex_get("0102", 4, bytes, 1), 1);
    assert_int_equal(bytes[1], 7);
    assert_ptr_equal(hex_put(text, bytes, 0), text);
    assert_string_equal(text, "");
    assert_int_equal(text[1], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_what_printf_writes),
        cmocka_unit_test(only_pairs_of_digits_are_read),
        cmocka_unit_test(nothing_is_touched_beyond_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
