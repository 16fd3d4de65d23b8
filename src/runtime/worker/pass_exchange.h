/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange (exchange.h) over messages that somebody else carries from one party to another, in
 * order, or loses with the party. Who gets something asks for it piece by piece, so that no more
 * than a few pieces are on their way to it at a time, whatever their number.
 *
 * The parties are the workers, and behind them the server. A party that is gone without a word is
 * the owner's to tell (pass_exchange_lose): this exchange reads no clock to find that out.
 */
#ifndef RUNTIME_PASS_EXCHANGE_H
#define RUNTIME_PASS_EXCHANGE_H

#include <tarry/allocator.h>

#include "runtime/worker/exchange.h"

/* The longest message. */
enum { PASS_PIECE_BYTES = 1 << 16, PASS_MOST_BYTES = PASS_PIECE_BYTES + 32 };

typedef struct pass_exchange_settings {
    uint32_t parties;
    /* Takes a message to a party along; the bytes are borrowed for the call. It must not wait, nor
     * hand anything to this or another exchange within the call. Any thread that calls the
     * exchange. */
    void (*pass)(void *user, uint32_t to, const void *bytes, size_t size);
    void *user;
} pass_exchange_settings;

/* Errors: NO_MEMORY, SYSTEM. */
int pass_exchange_create(const pass_exchange_settings *settings, const tarry_allocator *allocator,
                         exchange **made);
/* Nobody calls it any more. NULL is allowed. */
void pass_exchange_free(exchange *self);

/* A message came from a party; copied. May call `pass` and what `serve` was told. One thread at a
 * time. Errors: FORMAT (no message of an exchange; any bytes may come in). */
int pass_exchange_take(exchange *self, uint32_t from, const void *bytes, size_t size);
/* The party is gone: what is got from it fails, and it gets nothing more. Any thread. */
void pass_exchange_lose(exchange *self, uint32_t party);

#endif
