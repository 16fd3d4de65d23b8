/* SPDX-License-Identifier: Apache-2.0 */
/* Published vectors, as they are printed. */
#ifndef TEST_PRIVACY_SECURE_HEX_H
#define TEST_PRIVACY_SECURE_HEX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Lower-case digits, two a byte. */
static inline void read_hex(const char *text, uint8_t *bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; text[2 * i] != '\0'; i++)
        bytes[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) * 16 +
                             (strchr(digits, text[2 * i + 1]) - digits));
}

#endif
