/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of what a SIGNAL of secure sums says to all, and what does not go with it. */
#include "edge_plan.h"
#include "protocol/wire/codec.h"
#include "test.h"

enum { HOLDERS = 0x80, FRAME = 24 + 4 + 4 * 2 + 4 * 3 + 1 + 1 };

static const uint64_t psi = 0x15, stripes = 1;
static const uint32_t holders[] = {1, 0, 0x01020304}, lives[] = {0x0a0b0c0d, 2};
static const codec_shape shape = {
    .psi_bits = 6, .stripes = 1, .slots = 3, .workers = 2, .chunks = 3};

static tarry_message a_signal(void)
{
    return (tarry_message){.type = TARRY_MESSAGE_SIGNAL,
                           .term = 9,
                           .psi = &psi,
                           .stripes = &stripes,
                           .holders = holders,
                           .lives = lives};
}

TEST(frames_have_the_documented_bytes)
{
    uint8_t frame[FRAME];
    tarry_message signal = a_signal();
    assert_int_equal(codec_size(&shape, &signal), FRAME);
    codec_encode(&shape, &signal, frame);
    assert_int_equal(frame[1], HOLDERS | 0x40);
    const uint8_t behind[] = {
        9,    0,    0,    0,                            /* the term */
        0x0d, 0x0c, 0x0b, 0x0a, 2, 0, 0, 0,             /* lives */
        1,    0,    0,    0,    0, 0, 0, 0, 4, 3, 2, 1, /* holders */
        0x15, 1,                                        /* psi, stripes */
    };
    assert_memory_equal(frame + CODEC_HEADER_BYTES, behind, sizeof(behind));
}

TEST(they_say_little_else)
{
    uint8_t frame[2 * FRAME + 64];
    uint64_t words[16];
    assert_true(codec_words(&shape) <= 16);
    tarry_message read;
    for (int flag = 1; flag < 0x80; flag <<= 1) {
        tarry_message signal = a_signal();
        codec_encode(&shape, &signal, frame);
        frame[1] |= (uint8_t)flag;
        /* Whatever its size would be with that. */
        for (size_t size = CODEC_HEADER_BYTES; size <= sizeof(frame); size++)
            assert_int_equal(codec_decode(&shape, frame, size, words, &read),
                             flag == 0x40 && size == FRAME ? TARRY_OK : TARRY_ERROR_FORMAT);
    }
}

/* One of a run whose sums are not secure has no such flag. */
TEST(without_secure_sums_there_are_none)
{
    codec_shape plain = shape;
    plain.chunks = 0;
    uint8_t frame[FRAME];
    uint64_t words[16];
    tarry_message signal = a_signal(), read;
    codec_encode(&shape, &signal, frame);
    for (size_t size = 0; size <= FRAME; size++)
        assert_int_equal(codec_decode(&plain, frame, size, words, &read), TARRY_ERROR_FORMAT);
    signal.holders = signal.lives = NULL;
    codec_encode(&shape, &signal, frame);
    assert_ok(codec_decode(&shape, frame, codec_size(&shape, &signal), words, &read));
    assert_null(read.holders);
    assert_null(read.lives);
}

TEST(the_shape_knows_all_chunks)
{
    const edge edges[] = {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 2}};
    OWNED(tarry_plan) plan = edge_plan_make(4, 3, 1, edges, 5, NULL);
    codec_shape of = codec_shape_of(plan, 2, 6);
    assert_int_equal(of.chunks, 0);
    size_t plain = codec_max_size(&of);
    codec_shape_secure(&of, plan);
    assert_int_equal(of.chunks, 3);
    assert_true(codec_max_size(&of) > plain);
}
