/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of frames, in their second byte: a bit means another thing in another type. */
#ifndef PROTOCOL_CODEC_FLAGS_H
#define PROTOCOL_CODEC_FLAGS_H

enum {
    FLAG_FAILED = 1 << 0,
    FLAG_LIMIT = 1 << 0,   /* of a SIGNAL, which can't fail */
    FLAG_FETCHED = 1 << 0, /* of HELD and FAILED */
    FLAG_DIGESTS = 1 << 0, /* of LOAD and COMMIT */
    FLAG_STOOD = 1 << 0,   /* of ROUND and FINISH */
    FLAG_FIRST = 1 << 1,
    FLAG_BARRED = 1 << 2,
    FLAG_CREDITED = 1 << 3,
    FLAG_GROUP = 1 << 3,   /* of a SIGNAL, which tells no fate */
    FLAG_WEIGHTS = 1 << 3, /* of a ROUND, the same */
    FLAG_TIMED = 1 << 3,   /* of HELD that is not fetched */
    FLAG_STALE = 1 << 4,
    FLAG_DROPPED = 1 << 5,
    FLAG_TERM = 1 << 6,
    FLAG_RECALLED = 1 << 7,
    FLAG_HOLDERS = 1 << 7, /* of a SIGNAL, which recalls nothing */
    CODEC_REPORT_FLAGS = FLAG_FAILED | FLAG_TERM,
    FLAGS_OF_SETS = FLAG_FIRST | FLAG_BARRED | FLAG_STALE | FLAG_RECALLED,
};

#endif
