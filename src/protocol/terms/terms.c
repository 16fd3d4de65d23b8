/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/terms/terms.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/settings.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/number.h"
#include "base/sized.h"
#include "protocol/form.h"

/* ---- defaults ---- */

/* As tarry_server_settings_init has them; everything else is 0. Encodings leave defaults out: if
 * one changes, WIRE_VERSION and the version of the coordinator's checkpoint change as well. */
static const run_terms defaults = {
    .server =
        {
            .stop = TARRY_STOP_EXACT,
            .credit = TARRY_CREDIT_CHUNK,
            .learn_costs = true,
            .ahead = TARRY_USUAL_AHEAD,
            .conditioning_limit = 1000,
            .silence_ns = UINT64_C(2000000000),
            .stripe_length = 65536,
            .voters_grace_ns = UINT64_C(2000000000),
            .digest_steps = 16,
            .attempt_limit_ns = UINT64_C(60000000000),
            .reports_per_frame = 128,
        },
};

void tarry_server_settings_init_sized(tarry_server_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = defaults.server;
    settings->size = size;
}

void run_terms_set(run_terms *terms, const tarry_server_settings *settings)
{
    memset(terms, 0, sizeof(*terms));
    terms->server = *settings;
    terms->server.compress_matrix_count = 0;
    terms->server.compress_matrices = NULL;
    if (settings->compress_matrices != NULL &&
        settings->compress_matrix_count <= TARRY_COMPRESS_MATRICES_MOST) {
        terms->matrices.count = settings->compress_matrix_count;
        memcpy(terms->matrices.shapes, settings->compress_matrices,
               terms->matrices.count * sizeof(*terms->matrices.shapes));
    }
    terms->secure.bits = settings->secure;
}

/* ---- when a field counts ---- */

typedef bool terms_test(const run_terms *terms);

static bool keeps_credited(const run_terms *terms)
{
    return terms->server.keep == TARRY_KEEP_CREDITED;
}

static bool stops_by_time(const run_terms *terms)
{
    return terms->server.stop == TARRY_STOP_DEADLINE;
}

static bool stops_by_error(const run_terms *terms)
{
    return terms->server.stop == TARRY_STOP_ERROR;
}

static bool stops_by_workers(const run_terms *terms)
{
    return terms->server.stop == TARRY_STOP_WORKERS;
}

static bool sums_everywhere(const run_terms *terms)
{
    return terms->server.sum == TARRY_SUM_EVERYWHERE;
}

static bool workers_round(const run_terms *terms)
{
    return form_workers_round(&terms->server);
}

static bool sends_shares(const run_terms *terms)
{
    return terms->server.compress == TARRY_COMPRESS_TOPK;
}

static bool sends_products(const run_terms *terms)
{
    return terms->server.compress == TARRY_COMPRESS_POWERSGD;
}

static bool samples(const run_terms *terms)
{
    return terms->server.sample_chunks > 0;
}

static bool is_secure(const run_terms *terms)
{
    return terms->server.secure != 0;
}

/* ---- the table ---- */

typedef enum terms_kind {
    TERMS_BOOL,
    TERMS_U32,
    TERMS_I32, /* -most..most */
    TERMS_U64,
    TERMS_SIZE,   /* a size_t */
    TERMS_REAL,   /* a double; finite unless `most` is INFINITY */
    TERMS_CHOICE, /* an enumeration from 0 on: its value is sent as a name */
    TERMS_DIGEST,
    TERMS_MATRICES,
} terms_kind;

typedef struct terms_field {
    const char *name;
    size_t offset; /* in run_terms */
    terms_kind kind;
    unsigned needs;             /* who needs it */
    terms_test *counts;         /* NULL: always. A field that does not count has its default */
    uint64_t least, most;       /* of whole numbers and choices */
    double low, high;           /* REAL: */
    bool above;                 /* the value must exceed `low` */
    bool is_width;              /* the value must be 0, 32 or 64 */
    const char *const *choices; /* CHOICE: by value, up to `most` */
    tarry_setting pair;         /* what the rules on pairs of settings call it, if they have it */
} terms_field;

static const char *const stops[] = {"exact", "deadline", "error", "workers"};
static const char *const credits[] = {"chunk", "whole"};
static const char *const picks[] = {"plan", "share"};
static const char *const keeps[] = {"all", "credited"};
static const char *const fills[] = {"none", "scale", "stale"};
static const char *const places[] = {"server", "everywhere"};
static const char *const elements[] = {"float32", "float64"};
static const char *const forms[] = {"none", "bf16", "int8", "int4", "topk", "sign", "powersgd"};

#define RUN(field) .name = #field, .offset = offsetof(run_terms, field)
#define SERVER(field) .name = #field, .offset = offsetof(run_terms, server.field)
#define SECURE(field) .name = "secure_" #field, .offset = offsetof(run_terms, secure.field)
#define TOLD (TERMS_TOLD | TERMS_PREPARED)

/* In the order in which fields are encoded. A field comes after those that its `counts` looks at.
 * New fields go to the end: a row in between would change the digests of runs that use it. */
static const terms_field fields[] = {
    {RUN(workers), TERMS_U32, .needs = TOLD, .least = 1, .most = UINT32_MAX},
    {RUN(parameters), TERMS_U64, .needs = TOLD, .most = TERMS_VECTOR_MOST},
    {RUN(ships), TERMS_BOOL, .needs = TOLD, .most = 1},
    {SERVER(dimension), TERMS_SIZE, .needs = TOLD | TERMS_KEPT, .least = 1,
     .most = TERMS_VECTOR_MOST},
    {SERVER(stripe_length), TERMS_SIZE, .needs = TOLD | TERMS_KEPT, .least = 1,
     .most = TERMS_VECTOR_MOST},
    {SERVER(stop), TERMS_CHOICE, .needs = TERMS_KEPT, .most = TARRY_STOP_WORKERS, .choices = stops,
     .pair = TARRY_SETTING_STOP},
    {SERVER(deadline_ns), TERMS_U64, .needs = TERMS_KEPT, .counts = stops_by_time, .least = 1,
     .most = UINT64_MAX},
    {SERVER(error_limit), TERMS_REAL, .needs = TERMS_KEPT, .counts = stops_by_error, .high = 1},
    {SERVER(workers_needed), TERMS_U32, .needs = TERMS_KEPT, .counts = stops_by_workers, .least = 1,
     .most = UINT32_MAX},
    {SERVER(credit), TERMS_CHOICE, .needs = TERMS_KEPT, .most = TARRY_CREDIT_WHOLE,
     .choices = credits, .pair = TARRY_SETTING_CREDIT},
    {SERVER(pick), TERMS_CHOICE, .most = TARRY_PICK_SHARE, .choices = picks,
     .pair = TARRY_SETTING_ORDER},
    {SERVER(learn_costs), TERMS_BOOL, .most = 1},
    {SERVER(keep), TERMS_CHOICE, .needs = TOLD | TERMS_KEPT, .most = TARRY_KEEP_CREDITED,
     .choices = keeps, .pair = TARRY_SETTING_KEEP},
    {SERVER(ahead), TERMS_U32, .needs = TOLD, .counts = keeps_credited, .most = UINT32_MAX},
    {SERVER(fill), TERMS_CHOICE, .needs = TOLD | TERMS_KEPT, .most = TARRY_FILL_STALE,
     .choices = fills, .pair = TARRY_SETTING_FILL},
    {SERVER(reproducible), TERMS_BOOL, .needs = TERMS_KEPT, .most = 1,
     .pair = TARRY_SETTING_REPRODUCIBLE},
    {SERVER(conditioning_limit), TERMS_REAL, .needs = TOLD | TERMS_KEPT, .low = 1, .above = true,
     .high = INFINITY},
    {SERVER(silence_ns), TERMS_U64, .needs = TERMS_TOLD | TERMS_KEPT, .least = 1,
     .most = UINT64_MAX},
    {SERVER(sum), TERMS_CHOICE, .needs = TOLD | TERMS_KEPT, .most = TARRY_SUM_EVERYWHERE,
     .choices = places, .pair = TARRY_SETTING_SUM},
    {SERVER(voters_grace_ns), TERMS_U64, .counts = sums_everywhere, .most = UINT64_MAX},
    {SERVER(attempts_most), TERMS_U32, .counts = sums_everywhere, .most = UINT32_MAX},
    {SERVER(digest_steps), TERMS_U32, .counts = sums_everywhere, .most = UINT32_MAX},
    {SERVER(attempt_limit_ns), TERMS_U64, .counts = sums_everywhere, .most = UINT64_MAX},
    {SERVER(compress), TERMS_CHOICE, .needs = TOLD, .most = TARRY_COMPRESSES - 1, .choices = forms,
     .pair = TARRY_SETTING_COMPRESS},
    {SERVER(compress_down), TERMS_CHOICE, .needs = TOLD, .most = TARRY_COMPRESS_INT8,
     .choices = forms, .pair = TARRY_SETTING_COMPRESS_DOWN},
    {SERVER(compress_seed), TERMS_U64, .needs = TOLD, .counts = workers_round, .most = UINT64_MAX},
    {SERVER(compress_exact), TERMS_U32, .needs = TOLD, .counts = workers_round, .most = UINT32_MAX},
    {SERVER(compress_share), TERMS_U32, .needs = TOLD, .counts = sends_shares, .least = 1,
     .most = TARRY_COMPRESS_SHARE_MOST},
    {SERVER(compress_rank), TERMS_U32, .needs = TOLD, .counts = sends_products, .least = 1,
     .most = TARRY_COMPRESS_RANK_MOST},
    {.name = "compress_matrices",
     .kind = TERMS_MATRICES,
     .offset = offsetof(run_terms, matrices),
     .needs = TOLD,
     .counts = sends_products},
    {SERVER(sample_chunks), TERMS_U32, .needs = TERMS_KEPT, .most = UINT32_MAX,
     .pair = TARRY_SETTING_SAMPLE},
    {SERVER(sample_seed), TERMS_U64, .needs = TERMS_KEPT, .counts = samples, .most = UINT64_MAX},
    {SERVER(secure), TERMS_U32, .needs = TOLD | TERMS_AGREED | TERMS_KEPT, .most = 64,
     .is_width = true, .pair = TARRY_SETTING_SECURE},
    {SECURE(fraction), TERMS_I32, .needs = TERMS_TOLD | TERMS_AGREED, .counts = is_secure,
     .most = 126},
    {SECURE(bound), TERMS_REAL, .needs = TERMS_TOLD | TERMS_AGREED, .counts = is_secure,
     .above = true, .high = DBL_MAX},
    {SECURE(colluders), TERMS_U32, .needs = TERMS_TOLD | TERMS_AGREED, .counts = is_secure,
     .most = UINT32_MAX},
    {SECURE(least), TERMS_U64, .needs = TERMS_TOLD | TERMS_AGREED, .counts = is_secure,
     .most = UINT64_MAX},
    {SECURE(roster), TERMS_DIGEST, .needs = TERMS_TOLD | TERMS_AGREED, .counts = is_secure},
    {SERVER(reports_per_frame), TERMS_U32, .needs = TOLD, .least = 1, .most = 128},
    {SERVER(element), TERMS_CHOICE, .needs = TOLD | TERMS_KEPT, .most = TARRY_ELEMENT_FLOAT64,
     .choices = elements},
};

enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static bool is_setting(const terms_field *field)
{
    const size_t first = offsetof(run_terms, server);
    return field->offset >= first && field->offset < first + sizeof(tarry_server_settings);
}

static bool is_secure_rule(const terms_field *field)
{
    return field->offset >= offsetof(run_terms, secure);
}

/* A setting by its public name; compress_matrices stands for two fields. */
static bool is_public(const terms_field *field)
{
    return is_setting(field) || field->kind == TERMS_MATRICES;
}

static bool does_count(const terms_field *field, const run_terms *terms)
{
    return field->counts == NULL || field->counts(terms);
}

static bool is_needed(const terms_field *field, unsigned needs)
{
    return (field->needs & needs) != 0 || ((needs & TERMS_SETTINGS) != 0 && is_setting(field));
}

/* ---- values ---- */

static const struct {
    size_t size;    /* in memory */
    unsigned bytes; /* of a whole number on the wire; 0: it is not one */
} kinds[] = {
    [TERMS_BOOL] = {sizeof(bool), 1},
    [TERMS_U32] = {sizeof(uint32_t), 4},
    [TERMS_I32] = {sizeof(int32_t), 4},
    [TERMS_U64] = {sizeof(uint64_t), 8},
    [TERMS_SIZE] = {sizeof(size_t), 8},
    [TERMS_REAL] = {sizeof(double), 0},
    [TERMS_CHOICE] = {sizeof(uint32_t), 0},
    [TERMS_DIGEST] = {TARRY_DIGEST_SIZE, 0},
    [TERMS_MATRICES] = {sizeof(run_matrices), 0},
};

/* The field's value; its default if it does not count. */
static const void *value_of(const terms_field *field, const run_terms *terms)
{
    return (const char *)(does_count(field, terms) ? terms : &defaults) + field->offset;
}

static size_t matrices_size(const run_matrices *matrices)
{
    return offsetof(run_matrices, shapes) + matrices->count * sizeof(*matrices->shapes);
}

static bool is_same(const terms_field *field, const run_terms *one, const run_terms *other)
{
    const void *a = value_of(field, one), *b = value_of(field, other);
    if (field->kind == TERMS_MATRICES)
        return ((const run_matrices *)a)->count == ((const run_matrices *)b)->count &&
               memcmp(a, b, matrices_size(a)) == 0;
    return memcmp(a, b, kinds[field->kind].size) == 0;
}

static double real_of(const void *at)
{
    double value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t whole_of(const terms_field *field, const void *at)
{
    uint32_t word;
    uint64_t value;
    if (field->kind == TERMS_BOOL)
        return *(const bool *)at ? 1 : 0;
    if (kinds[field->kind].size == sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        return word;
    }
    memcpy(&value, at, sizeof(value));
    return value;
}

/* False: there is no room for it. */
static bool set_whole(const terms_field *field, void *at, uint64_t value)
{
    const uint32_t word = (uint32_t)value;
    if (field->kind == TERMS_BOOL)
        *(bool *)at = value != 0;
    else if (kinds[field->kind].size == sizeof(word))
        memcpy(at, &word, sizeof(word));
    else
        memcpy(at, &value, sizeof(value));
    return whole_of(field, at) == value;
}

static void write_value(const terms_field *field, const void *at, char *text, size_t size)
{
    const uint64_t whole = kinds[field->kind].size <= sizeof(whole) ? whole_of(field, at) : 0;
    const uint8_t *bytes = at;
    if (field->kind == TERMS_BOOL)
        snprintf(text, size, "%s", whole != 0 ? "true" : "false");
    else if (field->kind == TERMS_I32)
        snprintf(text, size, "%" PRId32, (int32_t)whole);
    else if (field->kind == TERMS_REAL)
        snprintf(text, size, "%.15g", real_of(at));
    else if (field->kind == TERMS_CHOICE && whole <= field->most)
        snprintf(text, size, "%s", field->choices[whole]);
    else if (field->kind == TERMS_DIGEST)
        snprintf(text, size, "%02x%02x%02x%02x..", bytes[0], bytes[1], bytes[2], bytes[3]);
    else if (field->kind == TERMS_MATRICES)
        snprintf(text, size, "%" PRIu32 " matrices", ((const run_matrices *)at)->count);
    else
        snprintf(text, size, "%" PRIu64, whole);
}

bool terms_differ(const run_terms *one, const run_terms *other, unsigned needs,
                  char text[TERMS_TEXT_BYTES])
{
    char ours[64], theirs[64];
    const terms_field *field = fields;
    while (field < fields + FIELDS && (!is_needed(field, needs) || is_same(field, one, other)))
        field++;
    if (field == fields + FIELDS)
        return false;
    if (text == NULL)
        return true;
    write_value(field, value_of(field, one), ours, sizeof(ours));
    write_value(field, value_of(field, other), theirs, sizeof(theirs));
    snprintf(text, TERMS_TEXT_BYTES, "%s is %s, not %s", field->name, ours, theirs);
    return true;
}

/* ---- ranges ---- */

static bool is_in_range(const terms_field *field, const void *at)
{
    const run_matrices *matrices = at;
    double real;
    int32_t number;
    switch (field->kind) {
    case TERMS_REAL:
        real = real_of(at);
        return (field->above ? real > field->low : real >= field->low) && real <= field->high;
    case TERMS_I32:
        memcpy(&number, at, sizeof(number));
        return number >= -(int64_t)field->most && number <= (int64_t)field->most;
    case TERMS_DIGEST:
        return true;
    case TERMS_MATRICES:
        for (uint32_t i = 0; i < matrices->count; i++)
            if (matrices->shapes[i].rows == 0 || matrices->shapes[i].columns == 0)
                return false;
        return true;
    default:
        if (field->is_width)
            return whole_of(field, at) == 0 || whole_of(field, at) == 32 ||
                   whole_of(field, at) == 64;
        return whole_of(field, at) >= field->least && whole_of(field, at) <= field->most;
    }
}

static void write_choices(const terms_field *field, char *text, size_t size)
{
    int used = 0;
    for (uint64_t i = 0; i <= field->most && used >= 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%s", i == 0 ? "" : " or ",
                         field->choices[i]);
}

/* What the value, which is out of its range, must be; at NULL: what any value must be. */
static void write_range(const terms_field *field, const void *at, char *text, size_t size)
{
    if (field->kind == TERMS_REAL && field->above)
        snprintf(text, size, "above %g%s", field->low, isinf(field->high) ? "" : " and finite");
    else if (field->kind == TERMS_REAL)
        snprintf(text, size, "%g to %g", field->low, field->high);
    else if (field->kind == TERMS_MATRICES)
        snprintf(text, size, "matrices with rows and columns");
    else if (field->kind == TERMS_CHOICE)
        write_choices(field, text, size);
    else if (field->kind == TERMS_I32)
        snprintf(text, size, "-%" PRIu64 " to %" PRIu64, field->most, field->most);
    else if (field->kind == TERMS_BOOL)
        snprintf(text, size, "true or false");
    else if (field->is_width)
        snprintf(text, size, "0, 32 or 64");
    else if (at == NULL)
        snprintf(text, size, "a whole number from %" PRIu64 " to %" PRIu64, field->least,
                 field->most);
    else if (whole_of(field, at) < field->least)
        snprintf(text, size, "at least %" PRIu64, field->least);
    else
        snprintf(text, size, "at most %" PRIu64, field->most);
}

int terms_check(const run_terms *terms, unsigned needs, const char *of, tarry_diagnostic *why)
{
    char range[96], value[64];
    for (const terms_field *field = fields; field < fields + FIELDS; field++) {
        const void *at = value_of(field, terms);
        if (!is_needed(field, needs) || !does_count(field, terms) || is_in_range(field, at))
            continue;
        write_range(field, at, range, sizeof(range));
        write_value(field, at, value, sizeof(value));
        return diagnose(why, TARRY_ERROR_ARGUMENT, "%s%s must be %s, not %s", of, field->name,
                        range, value);
    }
    return TARRY_OK;
}

/* ---- the encoding ---- */

static uint8_t *put_text(uint8_t *at, const char *text, unsigned length_bytes)
{
    const size_t length = strlen(text);
    at = bytes_put(at, length, length_bytes);
    memcpy(at, text, length);
    return at + length;
}

/* The value behind its length. */
static uint8_t *put_value(const terms_field *field, const void *value, uint8_t *at)
{
    const run_matrices *matrices = value;
    switch (field->kind) {
    case TERMS_REAL:
        return bytes_put_f64(bytes_put(at, 8, 2), real_of(value));
    case TERMS_CHOICE:
        return put_text(at, field->choices[whole_of(field, value)], 2);
    case TERMS_DIGEST:
        memcpy(bytes_put(at, TARRY_DIGEST_SIZE, 2), value, TARRY_DIGEST_SIZE);
        return at + 2 + TARRY_DIGEST_SIZE;
    case TERMS_MATRICES:
        at = bytes_put(at, 8 * matrices->count, 2);
        for (uint32_t i = 0; i < matrices->count; i++) {
            at = bytes_put(at, matrices->shapes[i].rows, 4);
            at = bytes_put(at, matrices->shapes[i].columns, 4);
        }
        return at;
    default:
        at = bytes_put(at, kinds[field->kind].bytes, 2);
        return bytes_put(at, whole_of(field, value), kinds[field->kind].bytes);
    }
}

size_t terms_encode(const run_terms *terms, unsigned needs, uint8_t *bytes)
{
    uint8_t *at = bytes;
    for (const terms_field *field = fields; field < fields + FIELDS; field++)
        if (is_needed(field, needs) && !is_same(field, terms, &defaults))
            at = put_value(field, value_of(field, terms), put_text(at, field->name, 1));
    assert(at <= bytes + TERMS_BYTES);
    return (size_t)(at - bytes);
}

/* The value of a choice's name. False: the name is unknown. */
static bool get_choice(const terms_field *field, const void *name, size_t size, void *at)
{
    for (uint64_t i = 0; i <= field->most; i++)
        if (strlen(field->choices[i]) == size && memcmp(field->choices[i], name, size) == 0)
            return set_whole(field, at, i);
    return false;
}

static bool get_value(const terms_field *field, const uint8_t *bytes, size_t size, void *at)
{
    run_matrices *matrices = at;
    double real;
    switch (field->kind) {
    case TERMS_REAL:
        real = size == 8 ? bytes_get_f64(bytes) : NAN;
        memcpy(at, &real, sizeof(real));
        return size == 8;
    case TERMS_CHOICE:
        return get_choice(field, bytes, size, at);
    case TERMS_DIGEST:
        if (size == TARRY_DIGEST_SIZE)
            memcpy(at, bytes, size);
        return size == TARRY_DIGEST_SIZE;
    case TERMS_MATRICES:
        matrices->count = (uint32_t)(size / 8);
        if (size % 8 != 0 || matrices->count > TARRY_COMPRESS_MATRICES_MOST)
            return false;
        for (uint32_t i = 0; i < matrices->count; i++)
            matrices->shapes[i] = (tarry_matrix){(uint32_t)bytes_get(bytes + 8 * i, 4),
                                                 (uint32_t)bytes_get(bytes + 8 * i + 4, 4)};
        return true;
    default:
        return size == kinds[field->kind].bytes &&
               set_whole(field, at, bytes_get(bytes, kinds[field->kind].bytes));
    }
}

static const terms_field *field_of(const uint8_t *name, size_t size, unsigned needs)
{
    for (const terms_field *field = fields; field < fields + FIELDS; field++)
        if (is_needed(field, needs) && strlen(field->name) == size &&
            memcmp(field->name, name, size) == 0)
            return field;
    return NULL;
}

/* Text of a peer, of which no byte may move a cursor. */
static const char *printable(const uint8_t *bytes, size_t size, char text[64])
{
    size_t count = size < 63 ? size : 63;
    for (size_t i = 0; i < count; i++)
        text[i] = bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '?';
    text[count] = 0;
    return text;
}

/* One field; gives back how many bytes it takes, 0 if it is refused. */
static size_t get_field(const uint8_t *at, size_t left, unsigned needs, run_terms *terms,
                        tarry_diagnostic *why)
{
    char name[64], value[64];
    const size_t name_size = left > 0 ? at[0] : 0;
    const uint8_t *bytes = at + 1 + name_size + 2;
    if (left < 1 + name_size + 2 || left - (1 + name_size + 2) < bytes_get(bytes - 2, 2)) {
        diagnose(why, TARRY_ERROR_FORMAT, "they end in the middle of a setting");
        return 0;
    }
    const size_t size = (size_t)bytes_get(bytes - 2, 2);
    const terms_field *field = field_of(at + 1, name_size, needs);
    printable(at + 1, name_size, name);
    if (field == NULL) {
        diagnose(why, TARRY_ERROR_FORMAT, "this version does not know the setting '%s'", name);
        return 0;
    }
    if (!get_value(field, bytes, size, (char *)terms + field->offset)) {
        if (field->kind == TERMS_CHOICE)
            diagnose(why, TARRY_ERROR_FORMAT, "this version does not know %s '%s'", name,
                     printable(bytes, size, value));
        else
            diagnose(why, TARRY_ERROR_FORMAT, "the setting '%s' has another form", name);
        return 0;
    }
    return 1 + name_size + 2 + size;
}

int terms_decode(const uint8_t *bytes, size_t size, unsigned needs, run_terms *terms,
                 tarry_diagnostic *why)
{
    uint8_t again[TERMS_BYTES];
    run_terms read = defaults;
    for (size_t at = 0; at < size;) {
        size_t taken = get_field(bytes + at, size - at, needs, &read, why);
        if (taken == 0)
            return TARRY_ERROR_FORMAT;
        at += taken;
    }
    read.secure.bits = read.server.secure;
    if (terms_check(&read, needs, "", why) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    if (terms_encode(&read, needs, again) != size || memcmp(again, bytes, size) != 0)
        return diagnose(why, TARRY_ERROR_FORMAT, "the settings are not in canonical form");
    memcpy(terms, &read, sizeof(read));
    return TARRY_OK;
}

int terms_digest(const run_terms *terms, uint8_t out[TARRY_DIGEST_SIZE])
{
    static const char label[] = "tarry run terms 1";
    uint8_t bytes[sizeof(label) + TERMS_BYTES];
    memcpy(bytes, label, sizeof(label));
    const size_t size = terms_encode(terms, TERMS_TOLD, bytes + sizeof(label));
    return digest_of_bytes(bytes, sizeof(label) + size, out) == 0 ? TARRY_OK
                                                                  : TARRY_ERROR_NO_MEMORY;
}

/* ---- public: settings by name ---- */

const char *tarry_server_setting_name(size_t index, tarry_setting *pair)
{
    for (const terms_field *field = fields; field < fields + FIELDS; field++) {
        if (!is_public(field) || index-- > 0)
            continue;
        if (pair != NULL)
            *pair = field->pair;
        return field->name;
    }
    return NULL;
}

/* Reads a value into `at`, which has room for a number. False: the text has another form. */
static bool read_value(const terms_field *field, const char *text, void *at)
{
    uint64_t whole;
    double real;
    switch (field->kind) {
    case TERMS_BOOL:
        *(bool *)at = strcmp(text, "true") == 0;
        return *(bool *)at || strcmp(text, "false") == 0;
    case TERMS_CHOICE:
        return get_choice(field, text, strlen(text), at);
    case TERMS_REAL:
        if (strcmp(text, "inf") == 0)
            real = INFINITY;
        else if (!number_read(text, strlen(text), &real))
            return false;
        memcpy(at, &real, sizeof(real));
        return true;
    default:
        return parse_whole(text, 0, UINT64_MAX, &whole, NULL) == TARRY_OK &&
               set_whole(field, at, whole);
    }
}

int tarry_server_settings_set(tarry_server_settings *settings, const char *name, const char *text,
                              tarry_diagnostic *diagnostic)
{
    char shown[64], range[96];
    uint64_t value = 0;
    const terms_field *field = field_of((const uint8_t *)name, strlen(name), TERMS_SETTINGS);
    int error = sized_check(settings->size, sizeof(*settings), "server", diagnostic);
    if (error != TARRY_OK)
        return error;
    if (field == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "'%s' is not a setting that can be set from text",
                        printable((const uint8_t *)name, strlen(name), shown));
    if (!read_value(field, text, &value) ||
        (!is_in_range(field, &value) &&
         memcmp(&value, (const char *)&defaults + field->offset, kinds[field->kind].size) != 0)) {
        write_range(field, NULL, range, sizeof(range));
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s must be %s, not '%s'", name, range,
                        printable((const uint8_t *)text, strlen(text), shown));
    }
    memcpy((char *)settings + field->offset - offsetof(run_terms, server), &value,
           kinds[field->kind].size);
    return TARRY_OK;
}

/* Where JSON goes: as with snprintf, what does not fit is counted, and not written. */
typedef struct json_out {
    char *text;
    size_t size, length;
} json_out;

__attribute__((format(printf, 2, 3))) static void put_json(json_out *out, const char *format, ...)
{
    const size_t left = out->length < out->size ? out->size - out->length : 0;
    va_list arguments;
    va_start(arguments, format);
    const int length =
        vsnprintf(left > 0 ? out->text + out->length : NULL, left, format, arguments);
    va_end(arguments);
    out->length += length > 0 ? (size_t)length : 0;
}

/* With the fewest digits that are read as the same number; null if it is not finite. The locale's
 * decimal point, of whatever bytes, becomes '.'. */
static void put_json_real(json_out *out, double value)
{
    char text[48];
    int digits = 15;
    do
        snprintf(text, sizeof(text), "%.*g", digits, value);
    while (digits++ < 17 && strtod(text, NULL) != value);
    if (!isfinite(value)) {
        put_json(out, "null");
        return;
    }
    const size_t before = strspn(text, "-0123456789");
    const size_t point = strcspn(text + before, "0123456789e");
    put_json(out, "%.*s%s%s", (int)before, text, point > 0 ? "." : "", text + before + point);
}

static void put_json_value(json_out *out, const terms_field *field, const void *at)
{
    const run_matrices *matrices = at;
    static const uint8_t unset[TARRY_DIGEST_SIZE];
    char text[64];
    switch (field->kind) {
    case TERMS_REAL:
        put_json_real(out, real_of(at));
        return;
    case TERMS_DIGEST:
        if (memcmp(at, unset, sizeof(unset)) == 0) {
            put_json(out, "null");
            return;
        }
        put_json(out, "\"");
        for (size_t i = 0; i < TARRY_DIGEST_SIZE; i++)
            put_json(out, "%02x", ((const uint8_t *)at)[i]);
        put_json(out, "\"");
        return;
    case TERMS_MATRICES:
        put_json(out, "[");
        for (uint32_t i = 0; i < matrices->count; i++)
            put_json(out, "%s[%" PRIu32 ", %" PRIu32 "]", i == 0 ? "" : ", ",
                     matrices->shapes[i].rows, matrices->shapes[i].columns);
        put_json(out, "]");
        return;
    default:
        write_value(field, at, text, sizeof(text));
        put_json(out, field->kind == TERMS_CHOICE ? "\"%s\"" : "%s", text);
    }
}

size_t tarry_server_settings_write(const tarry_server_settings *settings,
                                   const tarry_secure_rules *rules, char *text, size_t size)
{
    json_out out = {text, size, 0};
    run_terms terms;
    if (size > 0)
        text[0] = '\0';
    if (sized_check(settings->size, sizeof(*settings), "server", NULL) != TARRY_OK)
        return 0;
    run_terms_set(&terms, settings);
    if (rules != NULL)
        terms.secure = *rules;
    for (const terms_field *field = fields; field < fields + FIELDS; field++) {
        if (!does_count(field, &terms) ||
            !(is_public(field) || (rules != NULL && is_secure_rule(field))))
            continue;
        put_json(&out, "%s\"%s\": ", out.length == 0 ? "{" : ", ", field->name);
        put_json_value(&out, field, (const char *)&terms + field->offset);
    }
    put_json(&out, "}");
    return out.length;
}
