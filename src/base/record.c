/* SPDX-License-Identifier: Apache-2.0 */
#include "base/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DELETE = 0x7f, LAST_CONTROL = 0x9f, LINE_SEPARATOR = 0x2028, PARAGRAPH_SEPARATOR = 0x2029 };

#define NS_PER_SECOND UINT64_C(1000000000)

/* ---- characters ---- */

/*
 * Reads the character that `bytes` begin with and gives back how many of the `count` it takes; 0 if
 * they begin with none (RFC 3629: no longer form than needed, no surrogate, none above U+10FFFF).
 */
static size_t read_character(const uint8_t *bytes, size_t count, uint32_t *character)
{
    static const struct {
        uint8_t mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < sizeof(forms) / sizeof(forms[0]); more++) {
        if ((bytes[0] & forms[more].mask) != forms[more].lead)
            continue;
        uint32_t value = bytes[0] & (uint8_t)~forms[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if (i >= count || (bytes[i] & 0xc0) != 0x80)
                return 0;
            value = value << 6 | (bytes[i] & 0x3f);
        }
        bool surrogate = value >= 0xd800 && value <= 0xdfff;
        if (value < forms[more].least || value > 0x10ffff || surrogate)
            return 0;
        *character = value;
        return more + 1;
    }
    return 0;
}

/* Neither of the two sets of control characters, nor a separator of lines or paragraphs. */
static bool is_printable(uint32_t character)
{
    return character >= ' ' && (character < DELETE || character > LAST_CONTROL) &&
           character != LINE_SEPARATOR && character != PARAGRAPH_SEPARATOR;
}

bool record_is_line(const char *text, size_t length)
{
    const uint8_t *bytes = (const uint8_t *)text;
    for (size_t i = 0, size; i < length; i += size) {
        uint32_t character;
        size = read_character(bytes + i, length - i, &character);
        if (size == 0 || !is_printable(character))
            return false;
    }
    return true;
}

/* ---- values ---- */

static void put_bytes(record_out *out, const char *bytes, size_t count)
{
    if (count > out->size - out->length) {
        out->full = true;
        count = out->size - out->length;
    }
    memcpy(out->text + out->length, bytes, count);
    out->length += count;
}

void record_put(record_out *out, const char *json)
{
    put_bytes(out, json, strlen(json));
}

/* At least so many digits. */
static void put_digits(record_out *out, uint64_t value, size_t least)
{
    char digits[20];
    size_t count = 0;
    do
        digits[sizeof(digits) - ++count] = (char)('0' + value % 10);
    while ((value /= 10) > 0 || count < least);
    put_bytes(out, digits + sizeof(digits) - count, count);
}

void record_put_whole(record_out *out, uint64_t value)
{
    put_digits(out, value < INT64_MAX ? value : INT64_MAX, 1);
}

static void put_seconds(record_out *out, uint64_t ns)
{
    put_digits(out, ns / NS_PER_SECOND, 1);
    record_put(out, ".");
    put_digits(out, ns % NS_PER_SECOND, 9);
}

static void put_real(record_out *out, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.17g", value);
    record_put(out, text);
    if (strpbrk(text, ".e") == NULL) /* readers tell reals from whole numbers by that */
        record_put(out, ".0");
}

static void put_fingerprint(record_out *out, uint64_t value)
{
    char text[16 + 1];
    snprintf(text, sizeof(text), "%016" PRIx64, value);
    record_put(out, text);
}

/* Without quotation marks. What is not printable, or breaks the line, becomes one '?'; so does each
 * byte that is part of no character. */
static void put_text(record_out *out, const char *text, size_t length)
{
    const uint8_t *bytes = (const uint8_t *)text;
    for (size_t i = 0; i < length;) {
        uint32_t character = 0;
        size_t size = read_character(bytes + i, length - i, &character);
        if (character == '"' || character == '\\')
            record_put(out, "\\");
        if (size > 0 && is_printable(character))
            put_bytes(out, text + i, size);
        else
            record_put(out, "?");
        i += size > 0 ? size : 1;
    }
}

/* ---- objects ---- */

static bool is_null(record_kind kind, const void *at)
{
    if (kind == RECORD_REAL)
        return !isfinite(*(const double *)at);
    return (kind == RECORD_WHOLE_KNOWN || kind == RECORD_SECONDS || kind == RECORD_FINGERPRINT) &&
           *(const uint64_t *)at == 0;
}

static void put_value(record_out *out, const record_member *member, const void *at)
{
    const bool quoted = member->kind >= RECORD_FINGERPRINT;
    if (is_null(member->kind, at)) {
        record_put(out, "null");
        return;
    }
    record_put(out, quoted ? "\"" : "");
    switch (member->kind) {
    case RECORD_TRUTH:
        record_put(out, *(const bool *)at ? "true" : "false");
        break;
    case RECORD_WHOLE_32:
        record_put_whole(out, *(const uint32_t *)at);
        break;
    case RECORD_WHOLE_64:
    case RECORD_WHOLE_KNOWN:
        record_put_whole(out, *(const uint64_t *)at);
        break;
    case RECORD_SECONDS:
        put_seconds(out, *(const uint64_t *)at);
        break;
    case RECORD_REAL:
        put_real(out, *(const double *)at);
        break;
    case RECORD_FINGERPRINT:
        put_fingerprint(out, *(const uint64_t *)at);
        break;
    case RECORD_WORD:
        record_put(out, member->words[*(const unsigned *)at]);
        break;
    case RECORD_TEXT:
        put_text(out, at, strnlen(at, member->limit));
        break;
    }
    record_put(out, quoted ? "\"" : "");
}

void record_put_object(record_out *out, const record_member *table, const void *record)
{
    record_put(out, "{");
    for (const record_member *member = table; member->key != NULL; member++) {
        record_put(out, member == table ? "\"" : ",\"");
        record_put(out, member->key);
        record_put(out, "\":");
        put_value(out, member, (const char *)record + member->offset);
    }
    record_put(out, "}");
}
