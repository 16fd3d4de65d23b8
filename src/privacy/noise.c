/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/noise.h"

#include <math.h>

enum { PIECE = 512, GRID_BITS = 8 };

/* Box and Muller's: two numbers from two, with a radius of 64 bits, so that tails reach 9.5. */
static void normal_pair(const uint64_t bits[2], double pair[2])
{
    const double turn = 6.283185307179586;
    double radius = sqrt(-2 * log(((double)bits[0] + 0.5) * 0x1p-64));
    double angle = turn * ((double)(bits[1] >> 11) * 0x1p-53);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

double noise_grid(double deviation)
{
    int exponent;
    frexp(deviation, &exponent);
    return ldexp(1, exponent - 1 - GRID_BITS);
}

int noise_add(const uint8_t key[KEYSTREAM_KEY_BYTES], uint64_t release, double deviation,
              float *numbers, size_t count)
{
    const double grid = noise_grid(deviation), cells = 1 / grid;
    uint64_t bits[PIECE];
    for (size_t done = 0; done < count; done += PIECE) {
        const size_t piece = count - done < PIECE ? count - done : PIECE;
        if (keystream_read(key, release, done, bits, piece + piece % 2) != 0)
            return -1;
        for (size_t i = 0; i < piece; i += 2) {
            double pair[2];
            normal_pair(bits + i, pair);
            for (size_t k = i; k < piece && k < i + 2; k++)
                numbers[done + k] =
                    (float)(grid * rint((numbers[done + k] + deviation * pair[k - i]) * cells));
        }
    }
    return 0;
}
