/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/codec_round.h"

#include <math.h>

#include "base/bytes.h"

uint8_t *codec_weights_put(const float *weights, size_t slots, uint8_t *at)
{
    for (size_t slot = 0; slot < slots; slot++)
        at = bytes_put_f32(at, weights[slot]);
    return at;
}

bool codec_weights_get(const uint8_t *at, size_t slots, float *weights)
{
    bool good = true;
    for (size_t slot = 0; slot < slots; slot++, at += CODEC_SLOT_BYTES) {
        weights[slot] = bytes_get_f32(at);
        bool none = bytes_get(at, CODEC_SLOT_BYTES) == 0; /* and not -0 */
        good = good && (none || (weights[slot] >= 1 && isfinite(weights[slot])));
    }
    return good;
}
