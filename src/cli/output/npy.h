/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stddef.h>
#include <stdio.h>

/*
 * Writes values[0..count-1] as a one-dimensional float32 array in NumPy's format 1.0
 * (numpy.lib.format). Errors show in the stream.
 */
void npy_write(FILE *stream, const float *values, size_t count);

#endif
