/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/codec.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "protocol/wire/codec.h"

struct tarry_codec {
    tarry_allocator allocator;
    codec_shape shape;
    uint64_t *words; /* of the message that was decoded last */
};

int tarry_codec_create(const tarry_plan *plan, uint32_t worker, size_t dimension,
                       size_t stripe_length, const tarry_allocator *allocator, tarry_codec **codec,
                       tarry_diagnostic *diagnostic)
{
    if (worker >= plan->workers || dimension == 0 || stripe_length == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "codec: a worker of the plan, dimension and stripe_length must be set");
    tarry_codec *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "codec");
    layout cut = layout_make(dimension, plan_least_parts(plan), stripe_length);
    made->allocator = memory_allocator(allocator);
    made->shape = codec_shape_of(plan, worker, cut.stripes);
    codec_shape_secure(&made->shape, plan); /* of whatever run the frames may be */
    made->words = memory_allocate(allocator, codec_words(&made->shape), sizeof(uint64_t));
    if (made->words == NULL) {
        memory_release(allocator, made);
        return diagnose_no_memory(diagnostic, "codec");
    }
    *codec = made;
    return TARRY_OK;
}

void tarry_codec_free(tarry_codec *codec)
{
    if (codec == NULL)
        return;
    tarry_allocator allocator = codec->allocator;
    memory_release(&allocator, codec->words);
    memory_release(&allocator, codec);
}

size_t tarry_codec_most(const tarry_codec *codec)
{
    return codec_max_size(&codec->shape);
}

size_t tarry_codec_size(const tarry_codec *codec, const tarry_message *message)
{
    return codec_size(&codec->shape, message);
}

void tarry_codec_encode(const tarry_codec *codec, const tarry_message *message, void *frame)
{
    codec_encode(&codec->shape, message, frame);
}

int tarry_codec_decode(tarry_codec *codec, const void *frame, size_t size, tarry_message *message)
{
    return codec_decode(&codec->shape, frame, size, codec->words, message);
}
