/* SPDX-License-Identifier: Apache-2.0 */
#include "base/svd.h"

#include <math.h>
#include <stddef.h>

#include "base/dot.h"

enum { MOST_SWEEPS = 40 };

/* The square of some units in the last place; and what that is of the largest column's squared
 * length: columns of a singular matrix that are nothing but rounding errors need no rotation, and
 * each would make new ones. */
static const double ROUNDING = 1.6e-31, NOISE = 1e-32;

static void rotate(double *a, double *b, uint32_t size, double cosine, double sine)
{
    for (uint32_t i = 0; i < size; i++) {
        double from = a[i];
        a[i] = cosine * from - sine * b[i];
        b[i] = sine * from + cosine * b[i];
    }
}

/* Makes the columns x and y of A orthogonal, and takes V along. False if they were: but for what
 * rounding makes of the product of orthogonal columns, or for `noise`. */
static bool orthogonalise(double *columns, uint32_t rows, uint32_t count, double *basis,
                          double noise, uint32_t x, uint32_t y)
{
    double *a = columns + (size_t)x * rows, *b = columns + (size_t)y * rows;
    double aa = dot(a, a, rows), bb = dot(b, b, rows), ab = dot(a, b, rows);
    if (ab * ab <= ROUNDING * rows * aa * bb || fabs(ab) <= noise)
        return false;
    double zeta = (bb - aa) / (2 * ab);
    double tangent = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    double cosine = 1 / sqrt(1 + tangent * tangent), sine = cosine * tangent;
    rotate(a, b, rows, cosine, sine);
    if (basis != NULL)
        rotate(basis + (size_t)x * count, basis + (size_t)y * count, count, cosine, sine);
    return true;
}

bool svd_rotate(double *columns, uint32_t rows, uint32_t count, double *basis)
{
    for (uint32_t x = 0; basis != NULL && x < count; x++) {
        for (uint32_t y = 0; y < count; y++)
            basis[(size_t)x * count + y] = x == y;
    }
    double noise = 0;
    for (uint32_t x = 0; x < count; x++) {
        double square = dot(columns + (size_t)x * rows, columns + (size_t)x * rows, rows);
        noise = square > noise ? square : noise;
    }
    noise *= NOISE;
    bool rotated = true;
    for (int sweep = 0; sweep < MOST_SWEEPS && rotated; sweep++) {
        rotated = false;
        for (uint32_t x = 0; x + 1 < count; x++) {
            for (uint32_t y = x + 1; y < count; y++)
                rotated |= orthogonalise(columns, rows, count, basis, noise, x, y);
        }
    }
    return !rotated;
}
