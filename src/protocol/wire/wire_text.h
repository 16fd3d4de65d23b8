/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of frames: one byte that says how many follow, 0..255, and these, without a terminator.
 * They come from outside and end in logs and terminals, so that none may move a cursor there.
 */
#ifndef PROTOCOL_WIRE_TEXT_H
#define PROTOCOL_WIRE_TEXT_H

#include "protocol/wire/wire_cursor.h"

/* Writes the text up to its terminator or, at most, WIRE_TEXT_BYTES of it. Gives back what follows.
 */
uint8_t *wire_put_text(uint8_t *at, const char *text);
/* Bytes that wire_put_text writes. */
size_t wire_text_size(const char *text);
/* Words for people, in printable ASCII: every byte that is not is read as '?'. `text` has room for
 * WIRE_TEXT_BYTES + 1. */
void wire_get_words(wire_reader *from, char *text);
/* The same in UTF-8: what is not printable, or breaks the line, is read as one '?'; so is each byte
 * that is part of no character. */
void wire_get_utf8(wire_reader *from, char *text);
/* A rack's name; any other text makes the frame one that is refused. */
void wire_get_rack(wire_reader *from, wire_rack rack);
/* A name that the system is to find: any bytes but those of control characters, which make the
 * frame one that is refused. */
void wire_get_name(wire_reader *from, char *text);

#endif
