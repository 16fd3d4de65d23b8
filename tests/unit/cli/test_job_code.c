/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/job.h"

#include <stdio.h>

#include "base/random.h"
#include "seed.h"
#include "test.h"

static optimizer_settings draw_optimizer(random_stream *stream)
{
    return (optimizer_settings){
        .kind = (optimizer_kind)random_below(stream, OPTIMIZER_ADAM + 1),
        .rate = random_exponential(stream),
        .decay = random_uniform(stream),
    };
}

static job_spec draw(random_stream *stream)
{
    job_spec spec = {
        .model =
            {
                .model = (model_kind)random_below(stream, 4),
                .features = 1 + random_u32(stream) % UINT32_MAX,
                .classes = 2 + random_below(stream, 1000),
                .intercept = random_below(stream, 2) == 1,
                .l2 = random_below(stream, 4) == 0 ? 0 : random_exponential(stream),
            },
        .batch =
            {
                .rows = 1 + (random_u64(stream) >> 16),
                .chunks = 1 + random_u32(stream) % UINT32_MAX,
                .batch = random_u64(stream) >> 16,
                .seed = random_u64(stream),
            },
        .sparse = random_below(stream, 2) == 1,
        .holdout = random_below(stream, 2) == 0 ? 0 : 0.99 * random_uniform(stream),
        .made_samples = random_u64(stream) >> 16,
    };
    if (spec.model.model == MODEL_PERCEPTRON) {
        spec.model.hidden_layers = 1 + random_below(stream, OBJECTIVE_MAX_HIDDEN);
        for (uint32_t i = 0; i < spec.model.hidden_layers; i++)
            spec.model.hidden[i] = 1 + random_u32(stream) % UINT32_MAX;
    }
    spec.secure = random_below(stream, 2) == 1;
    spec.everywhere = random_below(stream, 2) == 1;
    if (spec.everywhere)
        spec.optimizer = draw_optimizer(stream);
    if (random_below(stream, 2) == 1) {
        spec.local.steps = 1 + random_u32(stream) % UINT32_MAX;
        spec.local.inner = draw_optimizer(stream);
    }
    if (!spec.secure && !spec.everywhere && spec.local.steps == 0) {
        spec.batch.batch = 0;
        spec.clip = random_exponential(stream);
        spec.sample = 1 - random_uniform(stream);
        spec.tells_draws = spec.clip > 0 && random_below(stream, 2) == 1;
        for (size_t i = 0; spec.tells_draws && i < sizeof(spec.draws); i++)
            spec.draws[i] = (uint8_t)random_u32(stream);
    }
    for (size_t i = 0; i < JOB_DIGEST_SIZE; i++)
        spec.data[i] = (uint8_t)random_u32(stream);
    return spec;
}

static void assert_same_optimizer(const optimizer_settings *a, const optimizer_settings *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->rate == b->rate);
    assert_true(a->decay == b->decay);
}

static void assert_same(const job_spec *a, const job_spec *b)
{
    assert_int_equal(a->model.model, b->model.model);
    assert_int_equal(a->model.features, b->model.features);
    assert_int_equal(a->model.classes, b->model.classes);
    assert_int_equal(a->model.hidden_layers, b->model.hidden_layers);
    assert_memory_equal(a->model.hidden, b->model.hidden, sizeof(a->model.hidden));
    assert_int_equal(a->model.intercept, b->model.intercept);
    assert_true(a->model.l2 == b->model.l2);
    assert_true(a->batch.rows == b->batch.rows);
    assert_int_equal(a->batch.chunks, b->batch.chunks);
    assert_true(a->batch.batch == b->batch.batch);
    assert_true(a->batch.seed == b->batch.seed);
    assert_int_equal(a->sparse, b->sparse);
    assert_true(a->holdout == b->holdout);
    assert_true(a->made_samples == b->made_samples);
    assert_memory_equal(a->data, b->data, JOB_DIGEST_SIZE);
    assert_int_equal(a->secure, b->secure);
    assert_true(a->clip == b->clip);
    assert_true(a->sample == b->sample);
    assert_int_equal(a->tells_draws, b->tells_draws);
    assert_memory_equal(a->draws, b->draws, sizeof(a->draws));
    assert_int_equal(a->everywhere, b->everywhere);
    assert_same_optimizer(&a->optimizer, &b->optimizer);
    assert_int_equal(a->local.steps, b->local.steps);
    assert_same_optimizer(&a->local.inner, &b->local.inner);
}

TEST(every_job_comes_back)
{
    random_stream stream = random_stream_make(test_seed("job", 1), RANDOM_TEST, 0, 0);
    for (int i = 0; i < 500; i++) {
        const job_spec spec = draw(&stream);
        job_spec read;
        OWNED(char) text = NULL;
        tarry_diagnostic why;
        assert_ok(job_encode(&spec, &text));
        if (job_decode(text, strlen(text), &read, &why) != TARRY_OK)
            fail_msg("%s: %s", text, why.text);
        assert_same(&spec, &read);
    }
}

#define JOB(version, model, hidden, rest)                                                          \
    "{\"version\":" version ",\"model\":\"" model "\",\"hidden\":" hidden "," rest "}"
#define REST(features, classes, l2, rows, seed, data)                                              \
    "\"features\":" features ",\"classes\":" classes                                               \
    ",\"sparse\":false,\"intercept\":false,\"l2\":" l2 ",\"rows\":" rows                           \
    ",\"chunks\":2,\"batch\":\"0\",\"seed\":" seed                                                 \
    ",\"holdout\":0.0,\"made_samples\":\"0\",\"data\":\"" data "\""
#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define GOOD REST("3", "2", "0.5", "\"10\"", "\"7\"", DIGEST)
#define SOFTMAX(rest) JOB("2", "softmax", "[]", rest)

static job_spec accepted(const char *text)
{
    job_spec read;
    tarry_diagnostic why;
    assert_ok_or(why, job_decode(text, strlen(text), &read, &why));
    return read;
}

static void assert_refused(const char *text, const char *said)
{
    job_spec read = {.holdout = 7};
    tarry_diagnostic why;
    assert_int_equal(job_decode(text, strlen(text), &read, &why), TARRY_ERROR_FORMAT);
    assert_true(read.holdout == 7);
    assert_says(why.text, said);
}

TEST(what_can_t_be_is_refused)
{
    const char *good = SOFTMAX(GOOD);
    job_spec read = accepted(good);
    for (size_t size = 0; size < strlen(good); size++)
        assert_int_equal(job_decode(good, size, &read, NULL), TARRY_ERROR_FORMAT);
    assert_refused("[]", "this is none");
    assert_refused("{}", "this is none");
    assert_refused(JOB("3", "softmax", "[]", GOOD), "version 3 is not known");
    assert_refused(JOB("2", "soft", "[]", GOOD), "model: missing, or out of range");
    assert_refused(JOB("2", "softmax", "[3]", GOOD), "hidden:");
    assert_refused(JOB("2", "perceptron", "[]", GOOD), "hidden:");
    assert_refused(JOB("2", "perceptron", "[0]", GOOD), "hidden:");
    assert_refused(JOB("2", "perceptron", "[4294967296]", GOOD), "hidden:");
    assert_refused(JOB("2", "perceptron", "[1,1,1,1,1,1,1,1,1]", GOOD), "hidden:");
    assert_refused(SOFTMAX(REST("0", "2", "0.5", "\"10\"", "\"7\"", DIGEST)), "features:");
    assert_refused(SOFTMAX(REST("-3", "2", "0.5", "\"10\"", "\"7\"", DIGEST)), "features:");
    assert_refused(SOFTMAX(REST("3", "1", "0.5", "\"10\"", "\"7\"", DIGEST)), "classes:");
    assert_refused(SOFTMAX(REST("3", "2", "-0.5", "\"10\"", "\"7\"", DIGEST)), "l2:");
    assert_refused(SOFTMAX(REST("3", "2", "0.5", "10", "\"7\"", DIGEST)), "rows:");
    assert_refused(SOFTMAX(REST("3", "2", "0.5", "\"0\"", "\"7\"", DIGEST)), "rows:");
    assert_refused(SOFTMAX(REST("3", "2", "0.5", "\"10\"", "\"-7\"", DIGEST)), "seed:");
    assert_refused(SOFTMAX(REST("3", "2", "0.5", "\"10\"", "\"18446744073709551616\"", DIGEST)),
                   "seed:");
    assert_refused(SOFTMAX(REST("3", "2", "0.5", "\"10\"", "\"7\"", "0011")), "data:");
    assert_refused(
        SOFTMAX(REST("3", "2", "0.5", "\"10\"", "\"7\"",
                     "g0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")),
        "data:");
#define STEPS(name, rate, decay) "{\"name\":" name ",\"rate\":" rate ",\"decay\":" decay "}"
#define EVERYWHERE(steps) GOOD ",\"optimizer\":" steps
#define LOCALLY(count, steps) GOOD ",\"local_steps\":" count ",\"inner\":" steps
    read = accepted(SOFTMAX(EVERYWHERE(STEPS("\"nesterov\"", "0.5", "0.9"))));
    assert_true(read.everywhere && read.local.steps == 0);
    read = accepted(SOFTMAX(LOCALLY("5", STEPS("\"gd\"", "0.5", "0.9"))));
    assert_true(!read.everywhere && read.local.steps == 5);
    const char *const wrong[] = {
        STEPS("\"newton\"", "0.5", "0.9"),
        STEPS("null", "0.5", "0.9"),
        STEPS("\"gd\"", "0.0", "0.9"),
        STEPS("\"gd\"", "-0.5", "0.9"),
        STEPS("\"gd\"", "0.5", "1.0"),
        STEPS("\"gd\"", "0.5", "-0.1"),
        "\"gd\"",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char job[1024];
        snprintf(job, sizeof(job), SOFTMAX(EVERYWHERE("%s")), wrong[i]);
        assert_refused(job, "optimizer:");
        snprintf(job, sizeof(job), SOFTMAX(LOCALLY("5", "%s")), wrong[i]);
        assert_refused(job, "inner:");
    }
    assert_refused(SOFTMAX(LOCALLY("0", STEPS("\"gd\"", "0.5", "0.9"))), "local_steps:");
    assert_refused(SOFTMAX(GOOD ",\"local_steps\":5"), "inner:");
}

/* A sum that one sample changes by a bounded length is one of chunks that are drawn, and no other.
 */
TEST(what_breaks_privacy_is_refused)
{
#define PRIVATE(clip, sample, rest) SOFTMAX(GOOD ",\"clip\":" clip ",\"sample\":" sample rest)
    job_spec read = accepted(PRIVATE("0.5", "1.0", ""));
    assert_true(read.clip == 0.5 && read.sample == 1 && !read.tells_draws);
#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddee" /* and a byte */
    read = accepted(PRIVATE("0.5", "1.0", ",\"draws\":\"" KEY "7f\""));
    assert_true(read.tells_draws && read.draws[1] == 0x11 && read.draws[31] == 0x7f);
    assert_refused(PRIVATE("0.0", "0.5", ""), "clip:");
    assert_refused(PRIVATE("-1.0", "0.5", ""), "clip:");
    assert_refused(PRIVATE("1e300", "0.5", ""), "clip:");
    assert_refused(PRIVATE("0.5", "0.0", ""), "sample:");
    assert_refused(PRIVATE("0.5", "1.5", ""), "sample:");
    assert_refused(PRIVATE("0.5", "null", ""), "sample:");
    assert_refused(SOFTMAX(GOOD ",\"clip\":0.5"), "sample:");
    assert_refused(PRIVATE("0.5", "0.5", ",\"draws\":7"), "draws:");
    assert_refused(PRIVATE("0.5", "0.5", ",\"draws\":\"" KEY "0\""), "draws:");
    assert_refused(PRIVATE("0.5", "0.5", ",\"draws\":\"" KEY "0G\""), "draws:");
    assert_refused(SOFTMAX(GOOD ",\"draws\":\"" KEY "7f\""), "draws:");
    assert_refused(PRIVATE("0.5", "0.5", ",\"secure\":true"), "clip:");
    assert_refused(PRIVATE("0.5", "0.5", ",\"optimizer\":" STEPS("\"gd\"", "0.5", "0.9")), "clip:");
    assert_refused(
        PRIVATE("0.5", "0.5", ",\"local_steps\":5,\"inner\":" STEPS("\"gd\"", "0.5", "0.9")),
        "clip:");
}

TEST(any_bytes_may_come_in)
{
    random_stream stream = random_stream_make(test_seed("job-bytes", 2), RANDOM_TEST, 1, 0);
    const char good[] =
        JOB("2", "perceptron", "[3,4]", EVERYWHERE(STEPS("\"adam\"", "0.25", "0.9")));
    size_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        char bytes[sizeof(good)];
        memcpy(bytes, good, sizeof(good));
        bytes[random_below(&stream, sizeof(good) - 1)] = (char)random_u32(&stream);
        job_spec read, again;
        OWNED(char) text = NULL;
        if (job_decode(bytes, sizeof(good) - 1, &read, NULL) != TARRY_OK)
            continue;
        accepted++;
        assert_ok(job_encode(&read, &text));
        assert_ok(job_decode(text, strlen(text), &again, NULL));
        assert_same(&read, &again);
    }
    assert_true(accepted > 100);
}
