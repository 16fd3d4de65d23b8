/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which numbers of coded parts travel (docs/compression.md). */
#ifndef TARRY_COMPRESS_H
#define TARRY_COMPRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tarry_compress {
    TARRY_COMPRESS_NONE, /* float32, as they are */
    TARRY_COMPRESS_BF16, /* 2 bytes a number */
    TARRY_COMPRESS_INT8, /* a byte a number, and a scale for each block of 256 */
    /* With feedback: what rounding lost stays at the worker, and is added to its next part. */
    TARRY_COMPRESS_INT4,     /* half a byte a number, and a scale for each block of 256 */
    TARRY_COMPRESS_TOPK,     /* the largest numbers alone, as in INT4, and their places */
    TARRY_COMPRESS_SIGN,     /* a bit a number, and a scale for each block of 256 */
    TARRY_COMPRESS_POWERSGD, /* of each matrix its product with a thin one that all share */
} tarry_compress;

#define TARRY_COMPRESSES (TARRY_COMPRESS_POWERSGD + 1)

/* TARRY_COMPRESS_TOPK: the share of the numbers that is sent, in millionths: 1 to so many. */
#define TARRY_COMPRESS_SHARE_MOST 500000

/* TARRY_COMPRESS_POWERSGD: numbers of a gradient that are a matrix, row by row. */
typedef struct tarry_matrix {
    uint32_t rows, columns; /* each at least 1 */
} tarry_matrix;

/* So many columns at most of a thin matrix, and so many matrices. */
#define TARRY_COMPRESS_RANK_MOST 64
#define TARRY_COMPRESS_MATRICES_MOST 1024

#ifdef __cplusplus
}
#endif

#endif
