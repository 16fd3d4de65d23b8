/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"

enum { NO_DIGIT = 16 };

char *hex_put(char *at, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    *at = '\0';
    return at;
}

static unsigned digit_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return (unsigned)(digit - '0');
    return digit >= 'a' && digit <= 'f' ? (unsigned)(digit - 'a') + 10 : NO_DIGIT;
}

size_t hex_get(const char *text, size_t size, uint8_t *bytes, size_t most)
{
    size_t count = 0;
    while (count < most && 2 * count + 1 < size) {
        unsigned high = digit_of(text[2 * count]), low = digit_of(text[2 * count + 1]);
        if (high == NO_DIGIT || low == NO_DIGIT)
            break;
        bytes[count++] = (uint8_t)(high << 4 | low);
    }
    return count;
}
