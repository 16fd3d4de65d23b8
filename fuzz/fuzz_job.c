/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the job that a server sends to its workers. What is read is written as a job that is
 * read as the same; it makes an objective, unless that would be too wide for any memory, and the
 * samples of its chunks follow each other and are all that there are. The input is the bytes, or
 * values in the place of those of a job that was good.
 */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "cli/job/job.h"
#include "fuzz_input.h"

enum { MADE = 1 }; /* of the first byte */
enum { MOST_HIDDEN = 2 * OBJECTIVE_MAX_HIDDEN, DIGITS = 2 * JOB_DIGEST_SIZE };

static void check_writing(const job_spec *spec)
{
    job_spec again;
    char *text, *same;
    require(job_encode(spec, &text) == TARRY_OK);
    require(job_decode(text, strlen(text), &again, NULL) == TARRY_OK);
    require(job_encode(&again, &same) == TARRY_OK && strcmp(text, same) == 0);
    free(same);
    free(text);
}

/* Fewer would be no reason to refuse it. */
enum { MANY = 1 << 28 };

static bool is_wide(const objective_settings *settings)
{
    bool wide = settings->features >= MANY || settings->classes >= MANY;
    for (uint32_t i = 0; i < settings->hidden_layers; i++)
        wide |= settings->hidden[i] >= MANY;
    return wide;
}

static void check_model(const objective_settings *settings)
{
    objective *model = NULL;
    int error = objective_create(settings, NULL, &model, NULL);
    if (error == TARRY_OK)
        require(objective_dimension(model) >= settings->features);
    else
        require(error == TARRY_ERROR_ARGUMENT && is_wide(settings));
    objective_free(model);
}

static void check_optimizer(const optimizer_settings *settings)
{
    require(settings->kind <= OPTIMIZER_ADAM && settings->rate > 0 && settings->decay >= 0 &&
            settings->decay < 1);
}

static void check_steps(const job_spec *spec)
{
    if (spec->everywhere)
        check_optimizer(&spec->optimizer);
    if (spec->local.steps > 0)
        check_optimizer(&spec->local.inner);
    require(spec->clip == 0 ||
            (spec->clip > 0 && spec->sample > 0 && spec->sample <= 1 && spec->batch.batch == 0 &&
             spec->local.steps == 0 && !spec->everywhere && !spec->secure));
    require(spec->clip > 0 || !spec->tells_draws);
}

static void check_chunks(const batch_settings *settings)
{
    const uint32_t last = settings->chunks - 1;
    size_t first, count, next;
    batch_chunk(settings, 0, &first, &count);
    require(first == 0);
    if (last > 0) {
        batch_chunk(settings, 1, &next, &(size_t){0});
        require(next == count);
    }
    batch_chunk(settings, last, &first, &count);
    require(first + count == settings->rows);
    if (settings->batch == 0)
        require(batch_count(settings, last) == count);
    else
        require(batch_count(settings, last) <= settings->batch);
}

static void read(const char *text, size_t size)
{
    job_spec spec;
    tarry_diagnostic why;
    int error = job_decode(text, size, &spec, &why);
    if (error != TARRY_OK) {
        require(error == TARRY_ERROR_FORMAT && why.text[0] != '\0');
        return;
    }
    check_writing(&spec);
    check_model(&spec.model);
    check_steps(&spec);
    check_chunks(&spec.batch);
}

/* ---- jobs that are made up ---- */

/* Near a bound that somebody may have, or small. */
static uint64_t draw_number(input *in)
{
    static const unsigned bounds[] = {0, 31, 32, 48, 53, 59, 63};
    uint8_t choice = take(in);
    uint64_t bound = UINT64_C(1) << bounds[choice / 4 % 7];
    switch (choice % 4) {
    case 0:
        return bound;
    case 1:
        return bound - 1;
    case 2:
        return bound + 1;
    default:
        return choice / 4;
    }
}

static json_t *draw_real(input *in)
{
    static const double reals[] = {0, -0.0, 1e-300, 0.1, 0.99, 1, 1e9, 1e300, -1};
    return json_real(reals[take(in) % (sizeof(reals) / sizeof(reals[0]))]);
}

static json_t *draw_text(input *in)
{
    char text[DIGITS + 1] = "";
    uint8_t kind = take(in);
    snprintf(text, sizeof(text), "%" PRIu64, draw_number(in));
    for (size_t i = 0; kind >= 0xc0 && i < DIGITS - (kind == 0xff); i++)
        text[i] = "0123456789abcdefg"[take(in) % 17];
    return json_string(text);
}

static json_t *draw_model(input *in)
{
    static const char *const models[] = {"least-squares", "logistic", "softmax", "perceptron", ""};
    return json_string(models[take(in) % 5]);
}

static json_t *draw_optimizer(input *in)
{
    static const char *const optimizers[] = {"gd", "momentum", "nesterov", "adam", ""};
    return json_string(optimizers[take(in) % 5]);
}

static json_t *draw_list(input *in)
{
    json_t *list = json_array();
    for (uint8_t left = take(in) % MOST_HIDDEN; left > 0; left--)
        json_array_append_new(list, json_integer((json_int_t)draw_number(in)));
    return list;
}

typedef json_t *drawing(input *in);

static json_t *draw_whole(input *in)
{
    return json_integer((json_int_t)draw_number(in));
}

static json_t *draw_flag(input *in)
{
    return json_boolean(take(in) % 2);
}

static json_t *draw_nothing(input *in)
{
    (void)in;
    return json_null();
}

static char *encode(const job_spec *good)
{
    char *text;
    require(job_encode(good, &text) == TARRY_OK);
    return text;
}

static char *write_good(model_kind model)
{
    job_spec good = {
        .model = {.model = model, .features = 20, .classes = 3, .l2 = 1e-4},
        .batch = {.rows = 3200, .chunks = 12, .batch = 100, .seed = 1},
        .holdout = 0.2,
        .made_samples = 4000,
        .everywhere = model != MODEL_LEAST_SQUARES,
        .optimizer = {(optimizer_kind)model, 0.5, OPTIMIZER_USUAL_DECAY},
    };
    good.model.hidden_layers = good.model.model == MODEL_PERCEPTRON;
    good.model.hidden[0] = 16;
    if (model != MODEL_PERCEPTRON)
        good.local = (local_settings){10, good.optimizer};
    return encode(&good);
}

/* With differential privacy; the key is zeros. */
static char *write_private(void)
{
    const job_spec good = {
        .model = {.model = MODEL_LOGISTIC, .features = 20, .l2 = 1e-4},
        .batch = {.rows = 3200, .chunks = 12, .seed = 1},
        .clip = 1,
        .sample = 0.04,
        .tells_draws = true,
    };
    return encode(&good);
}

static json_t *make_good(input *in)
{
    enum { MODELS = 4 };
    static char *texts[MODELS + 1]; /* by model, and a private one; each is written once */
    uint8_t which = take(in) % (MODELS + 1);
    if (texts[which] == NULL)
        texts[which] = which < MODELS ? write_good((model_kind)which) : write_private();
    json_t *job = json_loads(texts[which], 0, NULL);
    require(job != NULL);
    return job;
}

/* Mostly of the kind that the name asks for. */
static void replace(json_t *job, input *in)
{
    static const struct {
        const char *name;
        drawing *draw;
    } values[] = {
        {"version", draw_whole},       {"model", draw_model},       {"features", draw_whole},
        {"classes", draw_whole},       {"hidden", draw_list},       {"intercept", draw_flag},
        {"sparse", draw_flag},         {"l2", draw_real},           {"rows", draw_text},
        {"chunks", draw_whole},        {"batch", draw_text},        {"seed", draw_text},
        {"holdout", draw_real},        {"made_samples", draw_text}, {"data", draw_text},
        {"optimizer", draw_optimizer}, {"rate", draw_real},         {"more", draw_nothing},
        {"clip", draw_real},           {"sample", draw_real},       {"draws", draw_text},
    };
    const size_t count = sizeof(values) / sizeof(values[0]);
    uint8_t choice = take(in);
    size_t name = choice % count;
    size_t kind = choice < 0xe0 ? name : take(in) % count;
    require(json_object_set_new(job, values[name].name, values[kind].draw(in)) == 0);
}

static char *make(input *in)
{
    json_t *job = make_good(in);
    while (in->left > 0)
        replace(job, in);
    char *text = json_dumps(job, JSON_COMPACT | JSON_REAL_PRECISION(17));
    require(text != NULL);
    json_decref(job);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    if ((take(&in) & MADE) == 0) {
        read((const char *)in.data, in.left);
        return 0;
    }
    char *text = make(&in);
    read(text, strlen(text));
    free(text);
    return 0;
}
