/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages (event.h) as bytes, for runtimes of your own: a runtime's server host and worker host
 * (host.h) exchange them, and they travel over TCP. A frame is self-contained and the same on every
 * machine; docs/wire.md has its layout. Numbers of parameters and coded parts are not part of it.
 */
#ifndef TARRY_CODEC_H
#define TARRY_CODEC_H

#include <tarry/event.h>
#include <tarry/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How messages between the server and one worker of a plan are written. One thread at a time. */
typedef struct tarry_codec tarry_codec;

/* `dimension` and `stripe_length` as the server has them; nothing is borrowed. Errors: ARGUMENT,
 * NO_MEMORY. */
TARRY_API int tarry_codec_create(const tarry_plan *plan, uint32_t worker, size_t dimension,
                                 size_t stripe_length, const tarry_allocator *allocator,
                                 tarry_codec **codec, tarry_diagnostic *diagnostic);
TARRY_API void tarry_codec_free(tarry_codec *codec); /* NULL is allowed */

/* Bytes of the longest frame, and of the message's. */
TARRY_API size_t tarry_codec_most(const tarry_codec *codec);
TARRY_API size_t tarry_codec_size(const tarry_codec *codec, const tarry_message *message);
/* Writes the message's frame, tarry_codec_size bytes. */
TARRY_API void tarry_codec_encode(const tarry_codec *codec, const tarry_message *message,
                                  void *frame);
/*
 * Reads a frame of `size` bytes, which may be any; the message's bit sets stay until the next call.
 * Errors: FORMAT (it is no frame of this plan). Positions, stripes and rounds are the machines' to
 * check.
 */
TARRY_API int tarry_codec_decode(tarry_codec *codec, const void *frame, size_t size,
                                 tarry_message *message);

#ifdef __cplusplus
}
#endif

#endif
