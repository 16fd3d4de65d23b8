/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of a view (view.h), for its own files. */
#ifndef COMPRESS_VIEW_DIGEST_H
#define COMPRESS_VIEW_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Of a piece's numbers. */
uint64_t view_digest_piece(uint64_t stamp, const float *numbers, size_t count);
/* Of all of them, by those of the pieces. */
uint64_t view_digest_all(uint64_t stamp, const uint64_t *digests, size_t pieces);

#endif
