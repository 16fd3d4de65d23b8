/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as pairs of lower-case hexadecimal digits. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Writes 2 * count digits and a zero, and gives back where that is. */
char *hex_put(char *at, const uint8_t *bytes, size_t count);
/* Reads as many bytes as there are pairs of digits at the start of `size` characters, up to `most`;
 * gives back how many. */
size_t hex_get(const char *text, size_t size, uint8_t *bytes, size_t most);

#endif
