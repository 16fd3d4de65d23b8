/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures as JSON objects, by a table of their members. The writer puts text into a buffer of
 * the caller's and needs no memory; the tools read with record_read (cli/text/numbers.h).
 */
#ifndef BASE_RECORD_H
#define BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JSON readers hold whole numbers in 63 bits: a larger one is written as INT64_MAX. */
typedef enum record_kind {
    RECORD_TRUTH,       /* bool */
    RECORD_WHOLE_32,    /* uint32_t */
    RECORD_WHOLE_64,    /* uint64_t */
    RECORD_WHOLE_KNOWN, /* uint64_t; 0 is null */
    RECORD_SECONDS,     /* uint64_t nanoseconds, written as seconds; 0 is null */
    RECORD_REAL,        /* double; null if it is not finite. LC_NUMERIC has to be "C" */
    RECORD_FINGERPRINT, /* uint64_t as 16 hexadecimal digits; 0 is null */
    RECORD_WORD,        /* an enum: its value is the index of one of `limit` words */
    RECORD_TEXT,        /* char[limit], with a NUL: what record_is_line refuses becomes '?' */
} record_kind;

/* One row of a table, which ends with a row without key. */
typedef struct record_member {
    const char *key;
    record_kind kind;
    size_t offset; /* in the structure */
    uint32_t limit;
    const char *const *words;
} record_member;

/* The rest of a row but of RECORD_WORD and RECORD_TEXT. */
#define RECORD_AT(structure, member) offsetof(structure, member), 0, NULL

/* Where the text goes. What does not fit is cut off, and `full` is set. There is no NUL. */
typedef struct record_out {
    char *text;
    size_t size, length;
    bool full;
} record_out;

/* JSON as it stands in the source. */
void record_put(record_out *out, const char *json);
void record_put_whole(record_out *out, uint64_t value);
void record_put_object(record_out *out, const record_member *table, const void *record);

/* Whether `text` is UTF-8 (RFC 3629) without control characters and separators of lines. */
bool record_is_line(const char *text, size_t length);

#endif
