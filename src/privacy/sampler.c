/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

enum { PIECE = 256 };

/* As 64 bits below rate 2^64, rounded down: no sample is drawn more often than the rate says. */
static bool is_in(double rate, uint64_t bits)
{
    return rate >= 1 || bits < (uint64_t)ldexp(rate, 64);
}

int sampler_draw(const sampler *of, uint64_t round, uint64_t first, size_t count, size_t *samples,
                 size_t *drawn)
{
    uint64_t bits[PIECE];
    size_t found = 0;
    assert(of->rate >= 0 && of->rate <= 1);
    for (size_t done = 0; done < count;) {
        const size_t piece = count - done < PIECE ? count - done : PIECE;
        if (keystream_read(of->key, round, first + done, bits, piece) != 0)
            return -1;
        for (size_t i = 0; i < piece; i++)
            if (is_in(of->rate, bits[i]))
                samples[found++] = (size_t)first + done + i;
        done += piece;
    }
    *drawn = found;
    return 0;
}
