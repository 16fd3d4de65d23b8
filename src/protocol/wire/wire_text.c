/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire_text.h"

#include "plan/rack/rack.h"

enum { DELETE = 0x7f };

size_t wire_text_size(const char *text)
{
    const char *end = memchr(text, 0, WIRE_TEXT_BYTES);
    return 1 + (end != NULL ? (size_t)(end - text) : WIRE_TEXT_BYTES);
}

uint8_t *wire_put_text(uint8_t *at, const char *text)
{
    size_t count = wire_text_size(text) - 1;
    at = bytes_put(at, count, 1);
    return wire_put_bytes(at, text, count);
}

static const uint8_t *take_text(wire_reader *from, size_t *count)
{
    *count = (size_t)wire_get(from, 1);
    const uint8_t *bytes = wire_take(from, *count);
    if (bytes == NULL)
        *count = 0;
    return bytes;
}

static bool is_printable_ascii(uint8_t byte)
{
    return byte >= ' ' && byte < DELETE;
}

void wire_get_words(wire_reader *from, char *text)
{
    size_t count;
    const uint8_t *bytes = take_text(from, &count);
    for (size_t i = 0; i < count; i++)
        text[i] = is_printable_ascii(bytes[i]) ? (char)bytes[i] : '?';
    text[count] = 0;
}

void wire_get_name(wire_reader *from, char *text)
{
    size_t count;
    const uint8_t *bytes = take_text(from, &count);
    for (size_t i = 0; i < count; i++) {
        wire_require(from, bytes[i] >= ' ' && bytes[i] != DELETE);
        text[i] = (char)bytes[i];
    }
    text[count] = 0;
}

void wire_get_rack(wire_reader *from, wire_rack rack)
{
    size_t count;
    const uint8_t *bytes = take_text(from, &count);
    wire_require(from, count <= TARRY_RACK_BYTES);
    for (size_t i = 0; i < count && i < TARRY_RACK_BYTES; i++) {
        wire_require(from, rack_is_letter(bytes[i]));
        rack[i] = (char)bytes[i];
    }
}

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
    return character >= ' ' && (character < DELETE || character > 0x9f) && character != 0x2028 &&
           character != 0x2029;
}

void wire_get_utf8(wire_reader *from, char *text)
{
    size_t count, written = 0;
    const uint8_t *bytes = take_text(from, &count);
    for (size_t i = 0; i < count;) {
        uint32_t character = 0;
        size_t size = read_character(bytes + i, count - i, &character);
        if (size > 0 && is_printable(character)) {
            memcpy(text + written, bytes + i, size);
            written += size;
        } else {
            text[written++] = '?';
        }
        i += size > 0 ? size : 1;
    }
    text[written] = 0;
}
