/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/codec_round.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

uint8_t *codec_round_put(const tarry_message *round, size_t slots, uint8_t *at)
{
    for (size_t slot = 0; round->weights != NULL && slot < slots; slot++)
        at = bytes_put_f32(at, round->weights[slot]);
    for (size_t slot = 0; round->ranked != NULL && slot < slots; slot++)
        at = bytes_put(at, round->ranked[slot], CODEC_SLOT_BYTES);
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

bool codec_ranked_get(const uint8_t *at, size_t slots, uint32_t *ranked)
{
    bool good = true;
    for (size_t slot = 0; slot < slots; slot++, at += CODEC_SLOT_BYTES) {
        ranked[slot] = (uint32_t)bytes_get(at, CODEC_SLOT_BYTES);
        good = good && ranked[slot] < slots;
    }
    return good;
}

uint64_t *codec_round_keep(tarry_message *round, size_t slots, uint64_t *words)
{
    if (round->weights != NULL) {
        round->weights = memcpy(words, round->weights, slots * sizeof(*round->weights));
        words += codec_number_words(slots);
    }
    if (round->ranked != NULL) {
        round->ranked = memcpy(words, round->ranked, slots * sizeof(*round->ranked));
        words += codec_number_words(slots);
    }
    return words;
}
