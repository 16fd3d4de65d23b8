/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/job_code.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "base/parse.h"
#include "cli/text/report_json.h"

enum { VERSION = 2, NUMBER_SIZE = 24, HASH_SIZE = 32 };

_Static_assert((int)JOB_DIGEST_SIZE == HASH_SIZE && (int)KEYSTREAM_KEY_BYTES == HASH_SIZE,
               "digests and keys are read alike");

static const uint64_t most_rows = UINT64_C(1) << 48;
static const double most_clip = 1e12; /* of --dp */

static const char *const models[] = {
    [MODEL_LEAST_SQUARES] = "least-squares",
    [MODEL_LOGISTIC] = "logistic",
    [MODEL_SOFTMAX] = "softmax",
    [MODEL_PERCEPTRON] = "perceptron",
};

static const char *const optimizers[] = {
    [OPTIMIZER_GD] = "gd",
    [OPTIMIZER_MOMENTUM] = "momentum",
    [OPTIMIZER_NESTEROV] = "nesterov",
    [OPTIMIZER_ADAM] = "adam",
};

/* Whole numbers go as text: JSON's readers take no more than 53 or 63 bits of them. */
static json_t *whole(uint64_t number)
{
    char text[NUMBER_SIZE];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    return json_string(text);
}

static json_t *hexadecimal(const uint8_t bytes[HASH_SIZE])
{
    char text[2 * HASH_SIZE + 1];
    hex_put(text, bytes, HASH_SIZE);
    return json_string(text);
}

static json_t *widths(const objective_settings *model)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < model->hidden_layers; i++)
        list = json_append(list, json_integer(model->hidden[i]));
    return list;
}

static json_t *optimizer_object(const optimizer_settings *settings)
{
    return json_pack("{s:s, s:f, s:f}", "name", optimizers[settings->kind], "rate", settings->rate,
                     "decay", settings->decay);
}

/* What only some jobs have: what workers step with, alone or on everyone's sum, and that sums are
 * private; NULL is passed on. */
static json_t *add_steps(json_t *job, const job_spec *spec)
{
    int failed = 0;
    if (job == NULL)
        return job;
    if (spec->secure)
        failed = json_object_set_new(job, "secure", json_true());
    if (spec->clip > 0)
        failed |= json_object_set_new(job, "clip", json_real(spec->clip)) |
                  json_object_set_new(job, "sample", json_real(spec->sample));
    if (spec->tells_draws)
        failed |= json_object_set_new(job, "draws", hexadecimal(spec->draws));
    if (spec->everywhere)
        failed |= json_object_set_new(job, "optimizer", optimizer_object(&spec->optimizer));
    if (spec->local.steps > 0)
        failed |=
            json_object_set_new(job, "local_steps", json_integer((json_int_t)spec->local.steps)) |
            json_object_set_new(job, "inner", optimizer_object(&spec->local.inner));
    if (spec->local.seconds > 0)
        failed |= json_object_set_new(job, "local_seconds", json_real(spec->local.seconds));
    if (failed == 0)
        return job;
    json_decref(job);
    return NULL;
}

int job_encode(const job_spec *spec, char **text)
{
    const objective_settings *model = &spec->model;
    json_t *job = json_pack(
        "{s:i, s:s, s:I, s:I, s:b, s:o, s:b, s:f, s:o, s:I, s:o, s:o, s:f, s:o, s:o}", "version",
        VERSION, "model", models[model->model], "features", (json_int_t)model->features, "classes",
        (json_int_t)model->classes, "sparse", spec->sparse, "hidden", widths(model), "intercept",
        model->intercept, "l2", model->l2, "rows", whole(spec->batch.rows), "chunks",
        (json_int_t)spec->batch.chunks, "batch", whole(spec->batch.batch), "seed",
        whole(spec->batch.seed), "holdout", spec->holdout, "made_samples",
        whole(spec->made_samples), "data", hexadecimal(spec->data));
    job = add_steps(job, spec);
    char *dumped = job != NULL ? json_dumps(job, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(job);
    if (dumped == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *text = dumped;
    return TARRY_OK;
}

/* ---- reading ---- */

/* Values are read one after the other; the first that is wrong is told of. */
typedef struct reader {
    const json_t *job;
    const char *wrong; /* the name; NULL: all were right so far */
} reader;

static const json_t *look_up(reader *from, const char *name)
{
    return from->wrong == NULL ? json_object_get(from->job, name) : NULL;
}

static void reject(reader *from, const char *name)
{
    if (from->wrong == NULL)
        from->wrong = name;
}

static uint64_t read_whole(reader *from, const char *name, uint64_t least, uint64_t most)
{
    const json_t *value = look_up(from, name);
    uint64_t number = 0;
    if (!json_is_string(value) ||
        parse_whole(json_string_value(value), least, most, &number, NULL) != TARRY_OK)
        reject(from, name);
    return number;
}

static uint32_t read_count(reader *from, const char *name, uint32_t least)
{
    const json_t *value = look_up(from, name);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < least || number > UINT32_MAX)
        reject(from, name);
    return (uint32_t)number;
}

static double read_real(reader *from, const char *name, double most)
{
    const json_t *value = look_up(from, name);
    double number = json_real_value(value);
    if (!json_is_real(value) || !(number >= 0 && number <= most))
        reject(from, name);
    return number;
}

static bool read_flag(reader *from, const char *name)
{
    const json_t *value = look_up(from, name);
    if (!json_is_boolean(value))
        reject(from, name);
    return json_is_true(value);
}

static const char *read_text(reader *from, const char *name)
{
    const json_t *value = look_up(from, name);
    if (!json_is_string(value))
        reject(from, name);
    return json_is_string(value) ? json_string_value(value) : "";
}

/* The place of the text among those of a list. */
static size_t read_choice(reader *from, const char *name, const char *const choices[], size_t count)
{
    const char *text = read_text(from, name);
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, choices[i]) == 0)
            return i;
    reject(from, name);
    return 0;
}

#define CHOICES(list) (list), sizeof(list) / sizeof((list)[0])

static void read_optimizer(reader *from, const char *name, optimizer_settings *out)
{
    reader within = {.job = look_up(from, name)};
    *out = (optimizer_settings){
        .kind = (optimizer_kind)read_choice(&within, "name", CHOICES(optimizers)),
        .rate = read_real(&within, "rate", 1e9),
        .decay = read_real(&within, "decay", 1),
    };
    if (within.wrong != NULL || out->rate == 0 || out->decay == 1)
        reject(from, name);
}

static void read_steps(reader *from, job_spec *spec)
{
    spec->secure = look_up(from, "secure") != NULL && read_flag(from, "secure");
    spec->everywhere = look_up(from, "optimizer") != NULL;
    if (spec->everywhere)
        read_optimizer(from, "optimizer", &spec->optimizer);
    if (look_up(from, "local_steps") != NULL) {
        spec->local.steps = read_count(from, "local_steps", 1);
        read_optimizer(from, "inner", &spec->local.inner);
    }
    if (look_up(from, "local_seconds") != NULL) {
        spec->local.seconds = read_real(from, "local_seconds", 1e9);
        if (spec->local.steps == 0 || spec->local.seconds == 0 || spec->everywhere || spec->secure)
            reject(from, "local_seconds");
    }
}

static void read_hidden(reader *from, objective_settings *model)
{
    const json_t *list = look_up(from, "hidden");
    size_t layers = json_array_size(list);
    if (!json_is_array(list) || layers > OBJECTIVE_MAX_HIDDEN ||
        (layers > 0) != (model->model == MODEL_PERCEPTRON))
        return reject(from, "hidden");
    for (size_t i = 0; i < layers; i++) {
        const json_t *width = json_array_get(list, i);
        json_int_t number = json_integer_value(width);
        if (!json_is_integer(width) || number < 1 || number > UINT32_MAX)
            return reject(from, "hidden");
        model->hidden[i] = (uint32_t)number;
    }
    model->hidden_layers = (uint32_t)layers;
}

static void read_hexadecimal(reader *from, const char *name, uint8_t bytes[HASH_SIZE])
{
    const char *text = read_text(from, name);
    size_t length = strlen(text);
    if (length != 2 * HASH_SIZE || hex_get(text, length, bytes, HASH_SIZE) != HASH_SIZE)
        reject(from, name);
}

/* What a sample adds is bounded in a sum over chunks alone. */
static void read_privacy(reader *from, job_spec *spec)
{
    spec->tells_draws = look_up(from, "draws") != NULL;
    if (look_up(from, "clip") == NULL) {
        if (spec->tells_draws)
            reject(from, "draws");
        return;
    }
    spec->clip = read_real(from, "clip", most_clip);
    spec->sample = read_real(from, "sample", 1);
    if (spec->clip == 0 || spec->batch.batch != 0 || spec->local.steps != 0 || spec->everywhere ||
        spec->secure)
        reject(from, "clip");
    if (spec->sample == 0)
        reject(from, "sample");
    if (spec->tells_draws)
        read_hexadecimal(from, "draws", spec->draws);
}

static void read_all(reader *from, job_spec *spec)
{
    objective_settings *model = &spec->model;
    model->model = (model_kind)read_choice(from, "model", CHOICES(models));
    bool classes = objective_labels(model->model) == LABEL_CLASS;
    model->features = read_count(from, "features", 1);
    model->classes = read_count(from, "classes", classes ? 2 : 0);
    spec->sparse = read_flag(from, "sparse");
    read_hidden(from, model);
    model->intercept = read_flag(from, "intercept");
    model->l2 = read_real(from, "l2", 1e9);
    spec->batch.rows = read_whole(from, "rows", 1, most_rows);
    spec->batch.chunks = read_count(from, "chunks", 1);
    spec->batch.batch = read_whole(from, "batch", 0, most_rows);
    spec->batch.seed = read_whole(from, "seed", 0, UINT64_MAX);
    spec->holdout = read_real(from, "holdout", 0.99);
    spec->made_samples = read_whole(from, "made_samples", 0, most_rows);
    read_hexadecimal(from, "data", spec->data);
    read_steps(from, spec);
    read_privacy(from, spec);
}

int job_decode(const void *text, size_t size, job_spec *out, tarry_diagnostic *diagnostic)
{
    json_error_t unused;
    json_t *job = json_loadb(text, size, JSON_REJECT_DUPLICATES, &unused);
    const json_t *version = json_object_get(job, "version");
    int error = TARRY_OK;
    job_spec spec = {0};
    reader from = {.job = job};
    if (!json_is_integer(version))
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "the server's job: this is none");
    else if (json_integer_value(version) != VERSION)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "the server's job: version %lld is not known; this worker knows %d",
                         (long long)json_integer_value(version), VERSION);
    if (error == TARRY_OK) {
        read_all(&from, &spec);
        if (from.wrong != NULL)
            error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                             "the server's job: %s: missing, or out of range", from.wrong);
    }
    json_decref(job);
    if (error == TARRY_OK)
        *out = spec;
    return error;
}
