/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/hex.h"
#include "test.h"

TEST(every_byte_is_what_printf_writes)
{
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

TEST(only_pairs_of_digits_are_read)
{
    uint8_t bytes[3];
    for (unsigned other = 0; other < 256; other++) {
        char text[] = {'1', '2', 'a', (char)other, '3', '4'};
        size_t wanted = other != 0 && strchr("0123456789abcdef", (char)other) != NULL ? 3 : 1;
        assert_int_equal(hex_get(text, sizeof(text), bytes, 3), wanted);
        assert_int_equal(bytes[0], 0x12);
    }
}

TEST(nothing_is_touched_beyond_its_room)
{
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
