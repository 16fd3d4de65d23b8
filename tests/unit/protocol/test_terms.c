/* SPDX-License-Identifier: Apache-2.0 */
/* Terms: what is written is read, what differs or is unknown is named, and nothing else is read. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include <tarry/settings.h>

#include "protocol/terms/terms.h"
#include "test.h"

enum { EVERYTHING = TERMS_TOLD | TERMS_KEPT | TERMS_SETTINGS };

/* Each field that counts has a value of its own. */
static void set_all(run_terms *terms)
{
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    server.stop = TARRY_STOP_WORKERS;
    server.workers_needed = 3;
    server.credit = TARRY_CREDIT_WHOLE;
    server.pick = TARRY_PICK_SHARE;
    server.learn_costs = false;
    server.keep = TARRY_KEEP_CREDITED;
    server.ahead = 5;
    server.fill = TARRY_FILL_STALE;
    server.reproducible = true;
    server.conditioning_limit = 77;
    server.silence_ns = 7;
    server.dimension = 1000;
    server.stripe_length = 10;
    server.compress = TARRY_COMPRESS_POWERSGD;
    server.compress_down = TARRY_COMPRESS_BF16;
    server.compress_seed = 12;
    server.compress_exact = 13;
    server.compress_rank = 2;
    server.sample_chunks = 4;
    server.sample_seed = 14;
    server.secure = 64;
    server.reports_per_frame = 3;
    server.element = TARRY_ELEMENT_FLOAT64;
    run_terms_set(terms, &server);
    terms->workers = 6;
    terms->parameters = 2000;
    terms->ships = true;
    terms->matrices.count = TARRY_COMPRESS_MATRICES_MOST;
    for (uint32_t i = 0; i < terms->matrices.count; i++)
        terms->matrices.shapes[i] = (tarry_matrix){1 + i, 2};
    terms->secure.fraction = -2;
    terms->secure.bound = 0.5;
    terms->secure.colluders = 1;
    terms->secure.least = 100;
    memset(terms->secure.roster, 'r', TARRY_DIGEST_SIZE);
}

static void set_least(run_terms *terms)
{
    tarry_server_settings server;
    tarry_server_settings_init(&server);
    server.dimension = 9;
    run_terms_set(terms, &server);
    terms->workers = 2;
}

TEST(what_is_written_is_read)
{
    const unsigned needs[] = {TERMS_TOLD, TERMS_PREPARED, TERMS_KEPT, EVERYTHING};
    static uint8_t bytes[TERMS_BYTES], again[TERMS_BYTES];
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        run_terms all, read;
        set_all(&all);
        const size_t size = terms_encode(&all, needs[i], bytes);
        assert_in_range(size, 1, TERMS_BYTES);
        assert_ok(terms_decode(bytes, size, needs[i], &read, NULL));
        assert_false(terms_differ(&all, &read, needs[i], NULL));
        assert_int_equal(terms_encode(&read, needs[i], again), size);
        assert_memory_equal(again, bytes, size);
        assert_int_equal(read.secure.bits, read.server.secure);
    }
}

TEST(a_default_takes_no_bytes)
{
    run_terms terms, read;
    uint8_t bytes[TERMS_BYTES];
    set_least(&terms);
    assert_int_equal(terms_encode(&terms, TERMS_TOLD, bytes), 14 + 20);
    assert_ok(terms_decode(bytes, 14 + 20, TERMS_TOLD, &read, NULL));
    /* If one of these changes, so does WIRE_VERSION. */
    assert_int_equal(read.server.stripe_length, 65536);
    assert_int_equal(read.server.ahead, 3);
    assert_true(read.server.conditioning_limit == 1000);
    assert_int_equal(read.server.silence_ns, 2000000000);
    assert_int_equal(read.server.reports_per_frame, 128);
}

/* Neither in the bytes, nor in the digest, nor as a difference. */
TEST(what_does_not_count_is_not_looked_at)
{
    run_terms one, other;
    uint8_t bytes[2][TERMS_BYTES], digests[2][TARRY_DIGEST_SIZE];
    set_least(&one);
    other = one;
    other.server.ahead = 77;         /* of all that are kept */
    other.server.compress_seed = 5;  /* of nothing that is rounded */
    other.server.compress_share = 1; /* of all */
    other.server.deadline_ns = 1;    /* of no deadline */
    other.server.sample_seed = 3;    /* of no samples */
    other.secure.colluders = 9;      /* of sums that are not secure */
    other.matrices.count = 1;        /* of no thin matrix */
    const size_t size = terms_encode(&one, EVERYTHING, bytes[0]);
    assert_int_equal(terms_encode(&other, EVERYTHING, bytes[1]), size);
    assert_memory_equal(bytes[0], bytes[1], size);
    assert_false(terms_differ(&one, &other, EVERYTHING, NULL));
    assert_ok(terms_digest(&one, digests[0]));
    assert_ok(terms_digest(&other, digests[1]));
    assert_memory_equal(digests[0], digests[1], TARRY_DIGEST_SIZE);
}

static void assert_differs(const run_terms *one, const run_terms *other, const char *text)
{
    char what[TERMS_TEXT_BYTES];
    assert_true(terms_differ(one, other, EVERYTHING, what));
    assert_string_equal(what, text);
}

TEST(what_differs_is_named)
{
    run_terms one, other;
    set_all(&one);
    other = one;
    other.server.sample_seed++;
    assert_differs(&one, &other, "sample_seed is 14, not 15");
    other.server.compress_down = TARRY_COMPRESS_INT8;
    assert_differs(&one, &other, "compress_down is bf16, not int8");
    other.server.conditioning_limit = 7.5;
    assert_differs(&one, &other, "conditioning_limit is 77, not 7.5");
    other.ships = false;
    assert_differs(&one, &other, "ships is true, not false");
    other = one;
    other.secure.fraction = 3;
    assert_differs(&one, &other, "secure_fraction is -2, not 3");
    other = one;
    other.secure.roster[0] = 'x';
    assert_differs(&one, &other, "secure_roster is 72727272.., not 78727272..");
    other = one;
    other.matrices.count--;
    assert_differs(&one, &other, "compress_matrices is 1024 matrices, not 1023 matrices");
    other = one;
    other.server.silence_ns++;
    assert_differs(&one, &other, "silence_ns is 7, not 8");
    assert_false(terms_differ(&one, &other, TERMS_PREPARED, NULL));
}

static void assert_refused(const void *bytes, size_t size, const char *text)
{
    run_terms read, before;
    tarry_diagnostic why;
    memset(&read, 0x5a, sizeof(read));
    before = read;
    assert_int_equal(terms_decode(bytes, size, TERMS_TOLD, &read, &why), TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, text);
    assert_memory_equal(&read, &before, sizeof(read));
}

#define BYTES(text) text, sizeof(text) - 1
#define LEAST                                                                                      \
    "\7workers\4\0\2\0\0\0\x09"                                                                    \
    "dimension\x8\0\x9\0\0\0\0\0\0\0"

TEST(what_is_unknown_is_named)
{
    assert_refused(BYTES(LEAST "\6shades\4\0\1\0\0\0"),
                   "this version does not know the setting 'shades'");
    assert_refused(BYTES(LEAST "\6sh\x1b[5m\4\0\1\0\0\0"),
                   "this version does not know the setting 'sh?[5m'");
    assert_refused(BYTES(LEAST "\4pick\5\0share"), /* which workers are not told */
                   "this version does not know the setting 'pick'");
    assert_refused(BYTES(LEAST "\x08"
                               "compress\4\0int2"),
                   "this version does not know compress 'int2'");
    assert_refused(BYTES(LEAST "\x0d"
                               "compress_down\4\0int4"),
                   "this version does not know compress_down 'int4'");
    assert_refused(BYTES("\7workers\2\0\2\0"), "the setting 'workers' has another form");
    assert_refused(BYTES("\5ships\1\0\2"), "the setting 'ships' has another form");
}

TEST(what_is_missing_or_out_of_range_is_named)
{
    assert_refused(BYTES(""), "workers must be at least 1, not 0");
    assert_refused(BYTES("\7workers\4\0\2\0\0\0"), "dimension must be at least 1, not 0");
    run_terms terms;
    tarry_diagnostic why;
    set_all(&terms);
    assert_ok(terms_check(&terms, EVERYTHING, "run: ", &why));
    terms.server.compress_rank = 65;
    assert_int_equal(terms_check(&terms, EVERYTHING, "run: ", &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "run: compress_rank must be at most 64, not 65");
    terms.server.compress = TARRY_COMPRESS_NONE;
    assert_ok(terms_check(&terms, EVERYTHING, "run: ", &why));
    terms.server.secure = 33;
    assert_int_equal(terms_check(&terms, EVERYTHING, "run: ", &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "run: secure must be 0, 32 or 64, not 33");
    terms.server.secure = 32;
    terms.secure.fraction = -127;
    assert_int_equal(terms_check(&terms, EVERYTHING, "run: ", &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "run: secure_fraction must be -126 to 126, not -127");
    terms.secure.fraction = 126;
    const double bounds[] = {0, -1, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        terms.secure.bound = bounds[i];
        assert_int_equal(terms_check(&terms, EVERYTHING, "run: ", &why), TARRY_ERROR_ARGUMENT);
        assert_non_null(strstr(why.text, "secure_bound must be above 0 and finite, not "));
    }
    terms.secure.bound = 1;
    terms.server.conditioning_limit = NAN;
    assert_int_equal(terms_check(&terms, EVERYTHING, "run: ", &why), TARRY_ERROR_ARGUMENT);
    assert_non_null(strstr(why.text, "conditioning_limit must be above 1, not "));
    terms.server.conditioning_limit = INFINITY;
    terms.server.credit = (tarry_credit)2;
    assert_int_equal(terms_check(&terms, EVERYTHING, "run: ", &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "run: credit must be chunk or whole, not 2");
    terms.server.credit = TARRY_CREDIT_CHUNK;
    terms.matrices.shapes[1].rows = 0; /* which does not count */
    assert_ok(terms_check(&terms, EVERYTHING, "run: ", &why));
    terms.server.compress = TARRY_COMPRESS_POWERSGD;
    terms.server.compress_rank = 1;
    assert_int_equal(terms_check(&terms, TERMS_TOLD, "run: ", &why), TARRY_ERROR_ARGUMENT);
}

TEST(only_one_form_is_read)
{
    const char canonical[] = "the settings are not in canonical form";
    run_terms read;
    assert_ok(terms_decode((const uint8_t *)LEAST, sizeof(LEAST) - 1, TERMS_TOLD, &read, NULL));
    assert_refused(BYTES(LEAST "\7workers\4\0\2\0\0\0"), canonical); /* twice */
    assert_refused(BYTES(LEAST "\5ships\1\0\1"), canonical);         /* in another order */
    assert_refused(BYTES(LEAST "\4keep\3\0all"), canonical);         /* a default */
    assert_refused(BYTES(LEAST "\5"
                               "ahead\4\0\5\0\0\0"),
                   canonical); /* does not count */
    for (size_t size = 0; size < sizeof(LEAST) - 1; size++)
        assert_int_equal(terms_decode((const uint8_t *)LEAST, size, TERMS_TOLD, &read, NULL),
                         TARRY_ERROR_FORMAT);
    assert_refused(BYTES("\7work"), "they end in the middle of a setting");
    assert_refused(BYTES("\7workers\4\0\2\0"), "they end in the middle of a setting");
}

/* Masks depend on all that a worker was told: no two readings have one digest. */
TEST(every_byte_is_in_the_digest)
{
    run_terms all, read;
    static uint8_t bytes[TERMS_BYTES];
    uint8_t truth[TARRY_DIGEST_SIZE], seen[TARRY_DIGEST_SIZE];
    uint32_t read_otherwise = 0;
    set_all(&all);
    all.matrices.count = 2;
    const size_t size = terms_encode(&all, TERMS_TOLD, bytes);
    assert_ok(terms_digest(&all, truth));
    for (size_t at = 0; at < size; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[at] ^= (uint8_t)(1U << bit);
            if (terms_decode(bytes, size, TERMS_TOLD, &read, NULL) == TARRY_OK) {
                assert_ok(terms_digest(&read, seen));
                assert_memory_not_equal(seen, truth, TARRY_DIGEST_SIZE);
                read_otherwise++;
            }
            bytes[at] ^= (uint8_t)(1U << bit);
        }
    assert_true(read_otherwise > 300);
}

/* ---- settings by name ---- */

static const char *written(const tarry_server_settings *settings, const tarry_secure_rules *rules)
{
    static char text[32768];
    assert_in_range(tarry_server_settings_write(settings, rules, text, sizeof(text)), 2,
                    sizeof(text) - 1);
    return text;
}

TEST(each_setting_has_a_name)
{
    size_t count = 0, pairs = 0;
    tarry_setting pair;
    assert_string_equal(tarry_server_setting_name(0, NULL), "dimension");
    for (const char *name; (name = tarry_server_setting_name(count, &pair)) != NULL; count++) {
        pairs += pair != TARRY_SETTING_NONE;
        if (strcmp(name, "pick") == 0)
            assert_int_equal(pair, TARRY_SETTING_ORDER);
        if (strcmp(name, "compress_matrices") == 0)
            assert_int_equal(pair, TARRY_SETTING_NONE);
    }
    assert_int_equal(pairs, 11);
    assert_null(tarry_server_setting_name(SIZE_MAX, NULL));
}

TEST(settings_are_written_as_json)
{
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    settings.dimension = 9;
    settings.conditioning_limit = INFINITY;
    settings.deadline_ns = 5; /* does not count */
    assert_string_equal(
        written(&settings, NULL),
        "{\"dimension\": 9, \"stripe_length\": 65536, \"stop\": \"exact\", \"credit\": \"chunk\", "
        "\"pick\": \"plan\", \"learn_costs\": true, \"keep\": \"all\", \"fill\": \"none\", "
        "\"reproducible\": false, \"conditioning_limit\": null, \"silence_ns\": 2000000000, "
        "\"sum\": \"server\", \"compress\": \"none\", \"compress_down\": \"none\", "
        "\"sample_chunks\": 0, \"secure\": 0, \"reports_per_frame\": 128, "
        "\"element\": \"float32\"}");
    const tarry_matrix shapes[] = {{3, 4}, {UINT32_MAX, 1}};
    settings.compress = TARRY_COMPRESS_POWERSGD;
    settings.compress_rank = 2;
    settings.compress_seed = UINT64_MAX;
    settings.compress_matrix_count = 2;
    settings.compress_matrices = shapes;
    assert_non_null(strstr(written(&settings, NULL),
                           "\"compress_seed\": 18446744073709551615, \"compress_exact\": 0, "
                           "\"compress_rank\": 2, \"compress_matrices\": "
                           "[[3, 4], [4294967295, 1]], "));
    tarry_secure_rules rules = {.bits = 32,
                                .fraction = -3,
                                .bound = 0.1,
                                .colluders = 1,
                                .least = 100,
                                .roster = {0xab, 0x01}};
    assert_null(strstr(written(&settings, &rules), "secure_"));
    settings.secure = 32;
    assert_null(strstr(written(&settings, NULL), "secure_"));
    assert_non_null(strstr(written(&settings, &rules),
                           "\"secure\": 32, \"secure_fraction\": -3, \"secure_bound\": 0.1, "
                           "\"secure_colluders\": 1, \"secure_least\": 100, "
                           "\"secure_roster\": \"ab0100"));
    memset(rules.roster, 0, sizeof(rules.roster));
    assert_non_null(strstr(written(&settings, &rules), "\"secure_roster\": null"));
}

TEST(what_does_not_fit_is_counted)
{
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    char text[20];
    memset(text, 'x', sizeof(text));
    const size_t length = strlen(written(&settings, NULL));
    assert_int_equal(tarry_server_settings_write(&settings, NULL, NULL, 0), length);
    assert_int_equal(tarry_server_settings_write(&settings, NULL, text, 10), length);
    assert_string_equal(text, "{\"dimensi");
    assert_int_equal(text[10], 'x');
}

/* What is written is read back, and a number has the digits for that; in each locale. */
TEST(a_number_is_read_back)
{
    const double numbers[] = {1.5, 0.1, 1.0 / 3, 1e300, 123456789.123, DBL_MAX, 1 + DBL_EPSILON};
    const char *const locales[] = {"C", "de_DE.UTF-8"};
    char text[40];
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    for (size_t where = 0; where < 2; where++) {
        setlocale(LC_NUMERIC, locales[where]); /* which the machine may lack */
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            settings.conditioning_limit = 1 + numbers[i];
            const char *at = strstr(written(&settings, NULL), "\"conditioning_limit\": ");
            assert_int_equal(sscanf(at, "\"conditioning_limit\": %39[^,]", text), 1);
            settings.conditioning_limit = 0;
            assert_ok(tarry_server_settings_set(&settings, "conditioning_limit", text, NULL));
            assert_true(settings.conditioning_limit == 1 + numbers[i]);
        }
    }
    setlocale(LC_NUMERIC, "C");
}

static void set(tarry_server_settings *settings, const char *name, const char *text)
{
    assert_ok(tarry_server_settings_set(settings, name, text, NULL));
}

TEST(a_setting_is_set_from_text)
{
    tarry_server_settings settings;
    tarry_server_settings_init(&settings);
    set(&settings, "stop", "workers");
    set(&settings, "workers_needed", "3");
    set(&settings, "dimension", "1000000");
    set(&settings, "learn_costs", "false");
    set(&settings, "reproducible", "true");
    set(&settings, "error_limit", "1e-3");
    set(&settings, "conditioning_limit", "inf");
    set(&settings, "silence_ns", "18446744073709551615");
    set(&settings, "compress_down", "int8");
    set(&settings, "secure", "64");
    assert_int_equal(settings.stop, TARRY_STOP_WORKERS);
    assert_int_equal(settings.workers_needed, 3);
    assert_int_equal(settings.dimension, 1000000);
    assert_false(settings.learn_costs);
    assert_true(settings.reproducible);
    assert_true(settings.error_limit == 1e-3);
    assert_true(isinf(settings.conditioning_limit));
    assert_true(settings.silence_ns == UINT64_MAX);
    assert_int_equal(settings.compress_down, TARRY_COMPRESS_INT8);
    assert_int_equal(settings.secure, 64);
    set(&settings, "compress_rank", "0"); /* the default, which powersgd refuses */
    set(&settings, "secure", "0");
    assert_int_equal(settings.secure, 0);
}

static void assert_unset(const char *name, const char *text, const char *said)
{
    tarry_server_settings settings, before;
    tarry_diagnostic why;
    memset(&settings, 0x5a, sizeof(settings));
    settings.size = sizeof(settings);
    before = settings;
    assert_int_equal(tarry_server_settings_set(&settings, name, text, &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, said);
    assert_memory_equal(&settings, &before, sizeof(settings));
}

TEST(text_that_is_no_value_is_refused_with_the_range)
{
    assert_unset("deadlin", "1", "'deadlin' is not a setting that can be set from text");
    assert_unset("workers", "1", "'workers' is not a setting that can be set from text");
    assert_unset("secure_least", "1", "'secure_least' is not a setting that can be set from text");
    assert_unset("compress_matrices", "[]",
                 "'compress_matrices' is not a setting that can be set from text");
    assert_unset("stop", "so\x1bon",
                 "stop must be exact or deadline or error or workers, not 'so?on'");
    assert_unset("compress_down", "int4", "compress_down must be none or bf16 or int8, not 'int4'");
    assert_unset("learn_costs", "1", "learn_costs must be true or false, not '1'");
    assert_unset("ahead", "-1", "ahead must be a whole number from 0 to 4294967295, not '-1'");
    assert_unset("ahead", "4294967296",
                 "ahead must be a whole number from 0 to 4294967295, not '4294967296'");
    assert_unset("ahead", "", "ahead must be a whole number from 0 to 4294967295, not ''");
    assert_unset("compress_rank", "65",
                 "compress_rank must be a whole number from 1 to 64, not '65'");
    assert_unset("error_limit", "1.5", "error_limit must be 0 to 1, not '1.5'");
    assert_unset("error_limit", "nan", "error_limit must be 0 to 1, not 'nan'");
    assert_unset("conditioning_limit", "1", "conditioning_limit must be above 1, not '1'");
    assert_unset("secure", "33", "secure must be 0, 32 or 64, not '33'");
    tarry_server_settings settings = {.size = 8};
    char text[] = "?";
    assert_int_equal(tarry_server_settings_set(&settings, "ahead", "1", NULL),
                     TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_server_settings_write(&settings, NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
}
