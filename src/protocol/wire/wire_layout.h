/* SPDX-License-Identifier: Apache-2.0 */
/* How many bytes the fields of each body take: all but a text, numbers and bytes of a blob. The
 * fields in their order are those of wire_bodies.c and wire_status.c; docs/wire.md has them all. */
#ifndef PROTOCOL_WIRE_LAYOUT_H
#define PROTOCOL_WIRE_LAYOUT_H

#include "protocol/wire/codec.h"
#include "protocol/wire/wire_mesh.h"
#include "protocol/wire/wire_status.h"

enum {
    LAYOUT_HELLO_VERSIONS = 10, /* what every version's HELLO begins with */
    LAYOUT_HELLO = 16 + 3 * WIRE_ID_BYTES + WIRE_DIGEST_BYTES,
    LAYOUT_WELCOME = 152, /* and matrices */
    LAYOUT_REFUSED = 2,
    LAYOUT_BYE = 1,
    LAYOUT_PART = CODEC_HEADER_BYTES,
    LAYOUT_PARAMETERS = 16,
    LAYOUT_VIEW = 48,
    LAYOUT_BLOB = 24,
    LAYOUT_FETCH = 8,
    LAYOUT_READY = 2 * WIRE_DIGEST_BYTES + 8, /* and the engine's address */
    LAYOUT_SHARE = 16,
    LAYOUT_SHARED = 2,
    LAYOUT_STATUS = 152,
    LAYOUT_STATUS_WORKER = 56 + TARRY_RACK_BYTES + 1,
    LAYOUT_MEMBER = 12 + WIRE_DIGEST_BYTES,
    LAYOUT_GREETING_VERSIONS = 10,
    LAYOUT_GREETING = 16 + 2 * WIRE_ID_BYTES,
    LAYOUT_BEGUN = 44,
    LAYOUT_BLOCK = 36,
    LAYOUT_ASK = 32,
    LAYOUT_ANSWER = 40 + WIRE_DIGEST_BYTES,
    LAYOUT_PIECE = 16,
    LAYOUT_SECURE = 32 + WIRE_DIGEST_BYTES,
    LAYOUT_KEY = 68, /* and certificate and signature */
};

#endif
