/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are refused, or read as a message that is written as the same bytes. */
#include <string.h>

#include "fuzz_input.h"
#include "protocol/wire/codec.h"

enum { SHAPE_BYTES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < SHAPE_BYTES)
        return 0;
    codec_shape shape = {
        .psi_bits = data[0], .stripes = data[1] + 1U, .slots = data[2], .workers = data[3] + 1U};
    if (data[1] & 1) /* sums are secure */
        shape.chunks = data[2] + 1U;
    data += SHAPE_BYTES;
    size -= SHAPE_BYTES;
    /* Blocks of their very size, so that the sanitizer sees a step beyond them. */
    uint64_t *words = calloc(codec_words(&shape), sizeof(*words));
    uint8_t *again = malloc(codec_max_size(&shape));
    require(words != NULL && again != NULL);
    tarry_message message;
    if (codec_decode(&shape, data, size, words, &message) == TARRY_OK) {
        require(codec_size(&shape, &message) == size);
        codec_encode(&shape, &message, again);
        require(memcmp(again, data, size) == 0);
    }
    free(again);
    free(words);
    return 0;
}
