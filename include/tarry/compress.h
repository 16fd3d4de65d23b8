/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which numbers of coded parts travel (docs/compression.md). */
#ifndef TARRY_COMPRESS_H
#define TARRY_COMPRESS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tarry_compress {
    TARRY_COMPRESS_NONE, /* float32, as they are */
    TARRY_COMPRESS_BF16, /* 2 bytes a number */
    TARRY_COMPRESS_INT8, /* a byte a number, and a scale for each block of 256 */
} tarry_compress;

#define TARRY_COMPRESSES (TARRY_COMPRESS_INT8 + 1)

#ifdef __cplusplus
}
#endif

#endif
