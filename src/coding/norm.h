/* SPDX-License-Identifier: Apache-2.0 */
/* The Euclidean norm of a vector. */
#ifndef CODING_NORM_H
#define CODING_NORM_H

#include <stddef.h>

/*
 * sqrt(sum x_i^2) of `count` numbers, rounded to a float: added up in double precision, in which
 * each square is exact, in one order, so that every machine gives the same bits. FLT_MAX where that
 * is more, or where a number is not finite.
 */
float norm_of(const float *numbers, size_t count);

#endif
