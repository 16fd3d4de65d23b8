/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Singular values of small matrices by one-sided Jacobi rotations (M. R. Hestenes, 1958): pairs of
 * columns are rotated in their plane until all columns are orthogonal. Small singular values come
 * out to nearly full relative accuracy (J. Demmel and K. Veselic, 1992).
 *
 * Nothing but + - * / and sqrt occurs, in a fixed order and without contraction, so that every
 * compiler and every processor gives the same bits.
 */
#ifndef BASE_SVD_H
#define BASE_SVD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes the `count` columns of A orthogonal: `columns` holds them one behind the other, `rows`
 * numbers each, and becomes A V with an orthogonal V. The columns' lengths are then the singular
 * values of A, in no particular order; with fewer rows than columns, count - rows of them are
 * rounding errors. `basis` is NULL, or has room for V: count x count numbers, column by column.
 * Gives back false if the columns are not orthogonal after 40 sweeps, which takes numbers that
 * aren't finite.
 */
bool svd_rotate(double *columns, uint32_t rows, uint32_t count, double *basis);

#endif
