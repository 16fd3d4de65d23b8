/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/record.h"
#include "test.h"

typedef enum colour { RED, GREEN, COLOURS } colour;

typedef struct sample {
    bool truth;
    uint32_t whole;
    uint64_t large, known, seconds, fingerprint;
    double real;
    colour word;
    char text[32];
} sample;

static const char *const colours[COLOURS] = {"red", "green"};

static const record_member table[] = {
    {"truth", RECORD_TRUTH, offsetof(sample, truth), 0, NULL},
    {"whole", RECORD_WHOLE_32, offsetof(sample, whole), 0, NULL},
    {"large", RECORD_WHOLE_64, offsetof(sample, large), 0, NULL},
    {"known", RECORD_WHOLE_KNOWN, offsetof(sample, known), 0, NULL},
    {"seconds", RECORD_SECONDS, offsetof(sample, seconds), 0, NULL},
    {"real", RECORD_REAL, offsetof(sample, real), 0, NULL},
    {"fingerprint", RECORD_FINGERPRINT, offsetof(sample, fingerprint), 0, NULL},
    {"word", RECORD_WORD, offsetof(sample, word), COLOURS, colours},
    {"text", RECORD_TEXT, offsetof(sample, text), 32, NULL},
    {0},
};

static const char *written(const record_member *members, const sample *its)
{
    static char text[512];
    record_out out = {.text = text, .size = sizeof(text) - 1};
    record_put_object(&out, members, its);
    assert_false(out.full);
    text[out.length] = '\0';
    assert_true(record_is_line(text, out.length));
    return text;
}

TEST(every_kind)
{
    const sample some = {
        .truth = true,
        .whole = UINT32_MAX,
        .large = INT64_MAX,
        .known = 7,
        .seconds = UINT64_C(12000000345),
        .fingerprint = 0xab,
        .real = 0.1,
        .word = GREEN,
        .text = "a\"b\\",
    };
    const sample none = {.large = UINT64_MAX, .real = NAN};
    assert_string_equal(written(table, &some),
                        "{\"truth\":true,\"whole\":4294967295,\"large\":9223372036854775807,"
                        "\"known\":7,\"seconds\":12.000000345,\"real\":0.10000000000000001,"
                        "\"fingerprint\":\"00000000000000ab\",\"word\":\"green\","
                        "\"text\":\"a\\\"b\\\\\"}");
    assert_string_equal(written(table, &none),
                        "{\"truth\":false,\"whole\":0,\"large\":9223372036854775807,"
                        "\"known\":null,\"seconds\":null,\"real\":null,\"fingerprint\":null,"
                        "\"word\":\"red\",\"text\":\"\"}");
}

TEST(reals_look_like_reals)
{
    static const struct {
        double real;
        const char *text;
    } cases[] = {
        {3, "{\"real\":3.0}"},
        {-0.0, "{\"real\":-0.0}"},
        {0x1p100, "{\"real\":1.2676506002282294e+30}"},
        {0.5, "{\"real\":0.5}"},
        {INFINITY, "{\"real\":null}"},
        {1e16, "{\"real\":10000000000000000.0}"},
    };
    const record_member real[] = {table[5], {0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(written(real, &(sample){.real = cases[i].real}), cases[i].text);
}

TEST(texts_move_no_cursor)
{
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"", ""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa2", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa2"},
        {"a\nb\x1b[2J\x7f", "a?b?[2J?"},
        {"\xc2\x9b|\xc2\xa0", "?|\xc2\xa0"}, /* a control character of two bytes */
        {"\xe2\x80\xa8|\xe2\x80\xa9|\xe2\x80\xa7", "?|?|\xe2\x80\xa7"}, /* separators of lines */
        {"\x80|\xff|\xc3|\xe2\x82", "?|?|?|??"},                        /* no characters */
        {"\xc0\x80|\xe0\x80\x8a|\xc1\x8a", "??|???|??"},                /* longer than needed */
        {"\xed\xa0\x80|\xf4\x90\x80\x80", "???|????"}, /* a surrogate; above the last one */
        {"\xf4\x8f\xbf\xbf|\xf8\x88\x80\x80\x80", "\xf4\x8f\xbf\xbf|?????"},
    };
    const record_member text[] = {table[8], {0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sample its = {.whole = 0};
        char expected[64];
        strcpy(its.text, cases[i].text);
        snprintf(expected, sizeof(expected), "{\"text\":\"%s\"}", cases[i].written);
        assert_string_equal(written(text, &its), expected);
        assert_int_equal(record_is_line(cases[i].text, strlen(cases[i].text)),
                         strcmp(cases[i].text, cases[i].written) == 0);
    }
}

TEST(what_does_not_fit_is_cut_off)
{
    const sample its = {.text = "text"};
    char whole[512], some[512];
    record_out all = {.text = whole, .size = sizeof(whole)};
    record_put_object(&all, table, &its);
    for (size_t size = 0; size <= all.length; size++) {
        record_out out = {.text = some, .size = size};
        memset(some, 'x', sizeof(some));
        record_put_object(&out, table, &its);
        assert_int_equal(out.full, size < all.length);
        assert_int_equal(out.length, size);
        assert_memory_equal(some, whole, size);
        assert_int_equal(some[size], 'x');
    }
}
