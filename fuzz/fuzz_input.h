/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzer's bytes, taken one after the other as choices. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

/* Ends the fuzzer, and says what did not hold. */
#define require(condition) require_at((condition), __FILE__, __LINE__, #condition)

static inline void require_at(bool holds, const char *file, int line, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    abort();
}

/* 0 when there are none left. */
static inline uint8_t take(input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

/* Changes some of bytes[0..size-1], size > 0, by what is left of the input: places, two bytes each,
 * and what is put there. */
static inline void take_patches(input *in, uint8_t *bytes, size_t size)
{
    while (in->left > 0) {
        size_t place = take(in);
        place |= (size_t)take(in) << 8;
        bytes[place % size] = take(in);
    }
}

#endif
