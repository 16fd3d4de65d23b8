/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tarry/error.h>

#include "base/diagnostic.h"
#include "base/memory.h"

#define MOST_SECONDS 1.8e10 /* whose nanoseconds fit into 64 bits */

/* number with three significant digits, without an exponent. */
static void three_digits(double number, const char *unit, char text[NUMBER_TEXT_SIZE])
{
    int decimals = number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
    snprintf(text, NUMBER_TEXT_SIZE, "%.*f %s", decimals, number, unit);
}

void seconds_text(double seconds, char text[NUMBER_TEXT_SIZE])
{
    if (!isfinite(seconds))
        snprintf(text, NUMBER_TEXT_SIZE, "-");
    else if (seconds == 0)
        snprintf(text, NUMBER_TEXT_SIZE, "0 s");
    else if (seconds < 0.9995e-3)
        three_digits(seconds * 1e6, "us", text);
    else if (seconds < 0.9995)
        three_digits(seconds * 1e3, "ms", text);
    else if (seconds < 119.5)
        three_digits(seconds, "s", text);
    else if (seconds < 7170)
        snprintf(text, NUMBER_TEXT_SIZE, "%.0f min %02.0f s", floor(round(seconds) / 60),
                 fmod(round(seconds), 60));
    else
        snprintf(text, NUMBER_TEXT_SIZE, "%.0f h %02.0f min", floor(round(seconds / 60) / 60),
                 fmod(round(seconds / 60), 60));
}

void bytes_text(double bytes, char text[NUMBER_TEXT_SIZE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(text, NUMBER_TEXT_SIZE, "%.0f B", bytes);
    else
        three_digits(bytes, units[unit], text);
}

void whole_text(uint64_t number, char text[NUMBER_TEXT_SIZE])
{
    char digits[NUMBER_TEXT_SIZE];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    for (int i = 0; i < length; i++) {
        *text++ = digits[i];
        int left = length - 1 - i;
        if (left > 0 && left % 3 == 0)
            *text++ = ',';
    }
    *text = '\0';
}

json_t *number_json(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

/* ---- report json ---- */

json_t *json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    size_t length = strlen(text);
    char *ascii = memory_allocate(NULL, length + 1, 1);
    if (ascii == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++)
        ascii[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    string = json_string(ascii);
    memory_release(NULL, ascii);
    return string;
}

json_t *json_fingerprint(uint64_t fingerprint)
{
    return fingerprint == 0 ? json_null() : json_sprintf("%016" PRIx64, fingerprint);
}

static bool read_word(const record_member *member, const char *text, unsigned *out)
{
    for (*out = 0; text != NULL && *out < member->limit; ++*out)
        if (strcmp(text, member->words[*out]) == 0)
            return true;
    return false;
}

/* Whether the value is one that record_put_object writes. */
static bool read_value(const record_member *member, const json_t *value, void *at)
{
    const bool null = json_is_null(value);
    const char *text = json_string_value(value);
    const double real = null ? NAN : json_number_value(value);
    const json_int_t whole = json_integer_value(value);
    const bool is_whole = json_is_integer(value) && whole >= 0;
    switch (member->kind) {
    case RECORD_TRUTH:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value);
    case RECORD_WHOLE_32:
        *(uint32_t *)at = (uint32_t)whole;
        return is_whole && whole <= UINT32_MAX;
    case RECORD_WHOLE_64:
    case RECORD_WHOLE_KNOWN:
        *(uint64_t *)at = (uint64_t)whole;
        return is_whole || (null && member->kind == RECORD_WHOLE_KNOWN);
    case RECORD_SECONDS:
        *(uint64_t *)at = null ? 0 : (uint64_t)(fmax(fmin(real, MOST_SECONDS), 0) * 1e9 + 0.5);
        return null || (json_is_number(value) && real >= 0);
    case RECORD_REAL:
        *(double *)at = real;
        return null || json_is_number(value);
    case RECORD_FINGERPRINT:
        *(uint64_t *)at = text != NULL ? strtoull(text, NULL, 16) : 0;
        return null ||
               (text != NULL && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16);
    case RECORD_WORD:
        return read_word(member, text, at);
    case RECORD_TEXT:
        if (text == NULL || strlen(text) >= member->limit)
            return false;
        strcpy(at, text);
        return true;
    }
    return false;
}

int record_read(const record_member *table, const json_t *object, const char *prefix, void *record,
                tarry_diagnostic *diagnostic)
{
    for (const record_member *member = table; member->key != NULL; member++)
        if (!read_value(member, json_object_get(object, member->key),
                        (char *)record + member->offset))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s%s' is missing or wrong", prefix,
                            member->key);
    return TARRY_OK;
}

json_t *json_append(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0) /* which takes over the item in any case */
        return list;
    json_decref(list);
    return NULL;
}

int json_write(json_t *report, FILE *stream)
{
    if (report == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int failed = json_dumpf(report, stream, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    fputc('\n', stream);
    json_decref(report);
    return failed == 0 || ferror(stream) ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}
