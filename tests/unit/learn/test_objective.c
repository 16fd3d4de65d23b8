/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/random.h"
#include "evaluate.h"
#include "failing_allocator.h"
#include "learn/network.h"
#include "seed.h"
#include "test.h"

OWNED_BY(objective, objective_free)
OWNED_BY(objective_workspace, objective_workspace_free)

enum { ROWS = 70, FEATURES = 6, CLASSES = 3, MOST = 200 };

/* The same samples, two thirds of the numbers zero, as sparse and as dense data. */
typedef struct samples {
    float matrix[ROWS * FEATURES];
    float value[ROWS * FEATURES];
    uint32_t column[ROWS * FEATURES];
    size_t row_start[ROWS + 1];
    float label[ROWS];
    dataset dense;
    dataset sparse;
} samples;

static void draw_samples(samples *s, label_kind kind, random_stream *stream)
{
    size_t end = 0;
    for (size_t row = 0; row < ROWS; row++) {
        s->row_start[row] = end;
        for (uint32_t i = 0; i < FEATURES; i++) {
            float value = random_below(stream, 3) == 0 ? (float)random_normal(stream) : 0;
            s->matrix[row * FEATURES + i] = value;
            if (value != 0) {
                s->column[end] = i;
                s->value[end++] = value;
            }
        }
        s->label[row] = kind == LABEL_REAL     ? (float)random_normal(stream)
                        : kind == LABEL_BINARY ? (random_below(stream, 2) != 0 ? 1.0F : -1.0F)
                                               : (float)random_below(stream, CLASSES);
    }
    s->row_start[ROWS] = end;
    uint32_t classes = kind == LABEL_CLASS ? CLASSES : kind == LABEL_BINARY ? 2 : 0;
    s->dense = (dataset){.rows = ROWS,
                         .features = FEATURES,
                         .classes = classes,
                         .value = s->matrix,
                         .label = s->label};
    s->sparse = s->dense;
    s->sparse.sparse = true;
    s->sparse.row_start = s->row_start;
    s->sparse.column = s->column;
    s->sparse.value = s->value;
}

/* The obvious way: one sample, one output, one input after the other, no care for overflow. */
static double oracle_loss(const objective_settings *settings, const float *sample, float label,
                          const double *parameters)
{
    double x[32], y[32];
    size_t inputs = settings->features, next = 0;
    for (size_t i = 0; i < inputs; i++)
        x[i] = sample[i];
    bool perceptron = settings->model == MODEL_PERCEPTRON;
    uint32_t layers = perceptron ? settings->hidden_layers + 1 : 1;
    for (uint32_t k = 0; k < layers; k++) {
        bool last = k + 1 == layers;
        size_t outputs = !last                                              ? settings->hidden[k]
                         : objective_labels(settings->model) == LABEL_CLASS ? settings->classes
                                                                            : 1;
        for (size_t o = 0; o < outputs; o++) {
            y[o] = 0;
            for (size_t i = 0; i < inputs; i++)
                y[o] += parameters[next++] * x[i];
        }
        if (perceptron || settings->intercept)
            for (size_t o = 0; o < outputs; o++)
                y[o] += parameters[next++];
        for (size_t o = 0; o < outputs; o++)
            x[o] = last || y[o] > 0 ? y[o] : 0;
        inputs = outputs;
    }
    if (settings->model == MODEL_LEAST_SQUARES)
        return (x[0] - label) * (x[0] - label) / 2;
    if (settings->model == MODEL_LOGISTIC)
        return log(1 + exp(-label * x[0]));
    double sum = 0;
    for (size_t o = 0; o < inputs; o++)
        sum += exp(x[o]);
    return -log(exp(x[(size_t)label]) / sum);
}

typedef struct fixture {
    objective_settings settings;
    samples data;
    objective *model;
    objective_workspace *work;
    size_t dimension;
    float parameters[MOST];
} fixture;

static const objective_settings models[] = {
    {.model = MODEL_LEAST_SQUARES, .features = FEATURES},
    {.model = MODEL_LEAST_SQUARES, .features = FEATURES, .intercept = true},
    {.model = MODEL_LOGISTIC, .features = FEATURES},
    {.model = MODEL_LOGISTIC, .features = FEATURES, .intercept = true, .l2 = 0.1},
    {.model = MODEL_SOFTMAX, .features = FEATURES, .classes = CLASSES},
    {.model = MODEL_SOFTMAX, .features = FEATURES, .classes = CLASSES, .intercept = true, .l2 = 2},
    {.model = MODEL_PERCEPTRON,
     .features = FEATURES,
     .classes = CLASSES,
     .hidden = {5},
     .hidden_layers = 1,
     .l2 = 0.01},
    {.model = MODEL_PERCEPTRON,
     .features = FEATURES,
     .classes = CLASSES,
     .hidden = {7, 1, 6},
     .hidden_layers = 3},
};
enum { MODELS = sizeof(models) / sizeof(*models) };

static void set_up(fixture *f, const objective_settings *settings, uint64_t seed)
{
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    f->settings = *settings;
    draw_samples(&f->data, objective_labels(settings->model), &stream);
    assert_ok(objective_create(settings, NULL, &f->model, NULL));
    assert_ok(objective_workspace_create(f->model, OBJECTIVE_DOUBLE, NULL, &f->work));
    f->dimension = objective_dimension(f->model);
    assert_true(f->dimension <= MOST);
    for (size_t i = 0; i < f->dimension; i++)
        f->parameters[i] = (float)random_normal(&stream);
}

static void tear_down(fixture *f)
{
    objective_workspace_free(f->work);
    objective_free(f->model);
}
OWNED_STRUCT_BY(fixture, tear_down)

static double oracle_sum(const fixture *f, const double *parameters)
{
    double sum = 0;
    for (size_t row = 0; row < ROWS; row++)
        sum += oracle_loss(&f->settings, f->data.matrix + row * FEATURES, f->data.label[row],
                           parameters);
    return sum;
}

TEST(dimensions_are_those_of_the_layers)
{
    const size_t expected[MODELS] = {6, 7, 6, 7, 18, 21, 35 + 18, 49 + 8 + 12 + 21};
    for (size_t m = 0; m < MODELS; m++) {
        OWNED(objective) model;
        assert_ok(objective_create(&models[m], NULL, &model, NULL));
        assert_int_equal(objective_dimension(model), expected[m]);
    }
}

TEST(the_loss_is_the_oracles)
{
    uint64_t seed = test_seed("loss", 1);
    for (size_t m = 0; m < MODELS; m++) {
        OWNED(fixture) f;
        set_up(&f, &models[m], seed + m);
        double parameters[MOST], square = 0;
        for (size_t i = 0; i < f.dimension; i++) {
            parameters[i] = f.parameters[i];
            square += parameters[i] * parameters[i];
        }
        double expected = oracle_sum(&f, parameters) / ROWS + models[m].l2 / 2 * square;
        const dataset *forms[] = {&f.data.dense, &f.data.sparse};
        for (int form = 0; form < 2; form++) {
            objective_score score = evaluate(f.model, f.work, forms[form], f.parameters);
            assert_true(fabs(score.loss - expected) <= 1e-12 * fabs(expected));
        }
    }
}

/* Central differences in double; a ReLU's corner within 1e-6 of a sample is next to impossible. */
TEST(the_gradient_is_the_losss_differences)
{
    uint64_t seed = test_seed("gradient", 2);
    for (size_t m = 0; m < MODELS; m++) {
        OWNED(fixture) f;
        set_up(&f, &models[m], seed + m);
        double dense[MOST] = {0}, sparse[MOST] = {0}, parameters[MOST];
        objective_add_gradient_double(f.model, f.work, &f.data.dense, f.parameters, NULL, 0, ROWS,
                                      dense);
        objective_add_gradient_double(f.model, f.work, &f.data.sparse, f.parameters, NULL, 0, ROWS,
                                      sparse);
        for (size_t i = 0; i < f.dimension; i++)
            parameters[i] = f.parameters[i];
        for (size_t i = 0; i < f.dimension; i++) {
            const double step = 1e-6;
            parameters[i] = f.parameters[i] + step;
            double above = oracle_sum(&f, parameters);
            parameters[i] = f.parameters[i] - step;
            double below = oracle_sum(&f, parameters);
            parameters[i] = f.parameters[i];
            assert_true(fabs(dense[i] - (above - below) / (2 * step)) < 1e-6 * (1 + fabs(above)));
            assert_true(fabs(dense[i] - sparse[i]) < 1e-11);
        }
    }
}

/* In one call, in two that follow each other, and by rows, one of them twice. */
TEST(sums_are_over_the_rows_asked_for)
{
    uint64_t seed = test_seed("rows", 3);
    for (size_t m = 0; m < MODELS; m++) {
        OWNED(fixture) f;
        set_up(&f, &models[m], seed + m);
        const dataset *forms[] = {&f.data.dense, &f.data.sparse};
        for (int form = 0; form < 2; form++) {
            const dataset *data = forms[form];
            double range[MOST] = {0}, parts[MOST] = {0}, listed[MOST] = {0};
            objective_add_gradient_double(f.model, f.work, data, f.parameters, NULL, 2, 68, range);
            objective_add_gradient_double(f.model, f.work, data, f.parameters, NULL, 2, 0, range);
            objective_add_gradient_double(f.model, f.work, data, f.parameters, NULL, 5, 1, range);
            objective_add_gradient_double(f.model, f.work, data, f.parameters, NULL, 5, 65, parts);
            objective_add_gradient_double(f.model, f.work, data, f.parameters, NULL, 2, 3, parts);
            objective_add_gradient_double(f.model, f.work, data, f.parameters, NULL, 5, 1, parts);
            size_t rows[69];
            for (size_t i = 0; i < 68; i++)
                rows[i] = 69 - i;
            rows[68] = 5;
            objective_add_gradient_double(f.model, f.work, data, f.parameters, rows, 0, 69, listed);
            for (size_t i = 0; i < f.dimension; i++) {
                assert_true(fabs(range[i] - parts[i]) < 1e-11);
                assert_true(fabs(range[i] - listed[i]) < 1e-11);
            }
        }
    }
}

/* To float32's accuracy, in ranges longer than a pass and by rows; and twice the same bits. */
TEST(float32_agrees_with_double)
{
    uint64_t seed = test_seed("float32", 7);
    size_t rows[3 * ROWS];
    for (size_t i = 0; i < 3 * ROWS; i++)
        rows[i] = i * 7 % ROWS;
    for (size_t m = 0; m < MODELS; m++) {
        OWNED(fixture) f;
        set_up(&f, &models[m], seed + m);
        OWNED(objective_workspace) single;
        assert_ok(objective_workspace_create(f.model, OBJECTIVE_SINGLE, NULL, &single));
        const dataset *forms[] = {&f.data.dense, &f.data.sparse};
        for (int way = 0; way < 4; way++) {
            const dataset *data = forms[way % 2];
            const size_t *by = way < 2 ? NULL : rows;
            size_t count = way < 2 ? ROWS : 3 * ROWS;
            double exact[MOST] = {0}, largest = 0;
            float once[MOST] = {0}, again[MOST] = {0};
            objective_add_gradient_double(f.model, f.work, data, f.parameters, by, 0, count, exact);
            objective_tally tally = {0};
            objective_add_gradient(f.model, single, data, f.parameters, by, 0, count, once, &tally);
            objective_add_gradient(f.model, single, data, f.parameters, by, 0, count, again, NULL);
            assert_memory_equal(once, again, sizeof(once));
            for (size_t i = 0; i < f.dimension; i++)
                largest = fmax(largest, fabs(exact[i]));
            for (size_t i = 0; i < f.dimension; i++)
                assert_true(fabs(once[i] - exact[i]) <= 1e-5 * largest);
            double loss = evaluate(f.model, f.work, data, f.parameters).loss;
            double got = evaluate(f.model, single, data, f.parameters).loss;
            assert_true(fabs(got - loss) <= 1e-5 * fabs(loss));
            /* All of the data, once or three times. */
            if (way < 2) {
                objective_tally forward = {0};
                objective_add_tally(f.model, single, data, f.parameters, 0, count, NULL, &forward);
                assert_memory_equal(&forward, &tally, sizeof(tally));
                double told = objective_score_of(f.model, f.parameters, &tally, count).loss;
                assert_true(fabs(told - loss) <= 1e-5 * fabs(loss));
            }
        }
    }
}

/* One sample after the other, each with a gradient and a norm of its own. */
static void clipped_oracle(const fixture *f, const size_t *rows, size_t count, double most,
                           double *sum, size_t *longer)
{
    for (size_t i = 0; i < count; i++) {
        double own[MOST] = {0}, square = 0;
        objective_add_gradient_double(f->model, f->work, &f->data.dense, f->parameters, &rows[i], 0,
                                      1, own);
        for (size_t k = 0; k < f->dimension; k++)
            square += own[k] * own[k];
        double scale = square > most * most ? most / sqrt(square) : 1;
        *longer += scale < 1;
        for (size_t k = 0; k < f->dimension; k++)
            sum[k] += scale * own[k];
    }
}

TEST(each_sample_is_clipped)
{
    uint64_t seed = test_seed("clipped", 8);
    size_t rows[3 * ROWS], longer = 0, of = 0;
    for (size_t i = 0; i < 3 * ROWS; i++)
        rows[i] = i * 11 % ROWS;
    for (size_t m = 0; m < MODELS; m++) {
        OWNED(fixture) f;
        set_up(&f, &models[m], seed + m);
        const dataset *forms[] = {&f.data.dense, &f.data.sparse};
        for (int form = 0; form < 2; form++) {
            for (double most = 0.01; most < 200; most *= 10) {
                double expected[MOST] = {0}, found[MOST] = {0};
                clipped_oracle(&f, rows, 3 * ROWS, most, expected, &longer);
                objective_add_clipped(f.model, f.work, forms[form], f.parameters, rows, 3 * ROWS,
                                      most, found);
                for (size_t i = 0; i < f.dimension; i++)
                    assert_true(fabs(found[i] - expected[i]) <= 1e-11 * 3 * ROWS * most);
                of += 3 * ROWS;
            }
        }
    }
    assert_in_range(longer, of / 10, of - of / 10); /* both happened */
}

/* Layers of the largest weights, no biases: the first sample, all zeros, is the only one with a
 * gradient whose length can be told. */
TEST(samples_that_are_not_finite_add_nothing)
{
    const size_t biases[] = {42, 7, 56, 1, 63, 6, 87, 3}; /* where they are, and how many */
    OWNED(fixture) f;
    set_up(&f, &models[MODELS - 1], test_seed("not finite", 9));
    for (size_t i = 0; i < f.dimension; i++)
        f.parameters[i] = 3e38F;
    for (size_t layer = 0; layer < 8; layer += 2)
        memset(f.parameters + biases[layer], 0, biases[layer + 1] * sizeof(float));
    for (size_t i = 0; i < (size_t)ROWS * FEATURES; i++)
        f.data.matrix[i] = i < FEATURES ? 0 : 3e38F;
    double alone[MOST] = {0}, all[MOST] = {0};
    size_t rows[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = i;
    objective_add_clipped(f.model, f.work, &f.data.dense, f.parameters, rows, 1, 1, alone);
    objective_add_clipped(f.model, f.work, &f.data.dense, f.parameters, rows, ROWS, 1, all);
    assert_memory_equal(all, alone, sizeof(all));
    assert_true(alone[biases[6]] != 0);
}

/* Parameters that classify by hand: the class is the feature that is set. */
TEST(accuracy_counts_right_answers)
{
    float matrix[] = {1, 0, 0, 1, 1, 0, 0, 1}, classes[] = {0, 1, 1, 1}, signs[] = {1, 1, 1, -1};
    float direction[] = {1, -1}, identity[] = {1, 0, 0, 1};
    objective_settings logistic = {.model = MODEL_LOGISTIC, .features = 2};
    objective_settings softmax = {.model = MODEL_SOFTMAX, .features = 2, .classes = 2};
    objective_settings squares = {.model = MODEL_LEAST_SQUARES, .features = 2};
    const struct {
        const objective_settings *settings;
        float *labels, *parameters;
        double accuracy;
    } cases[] = {{&logistic, signs, direction, 0.75},
                 {&softmax, classes, identity, 0.75},
                 {&squares, signs, direction, NAN}};
    for (size_t c = 0; c < 3; c++) {
        dataset data = {
            .rows = 4, .features = 2, .classes = 2, .value = matrix, .label = cases[c].labels};
        OWNED(objective) model;
        OWNED(objective_workspace) work;
        assert_ok(objective_create(cases[c].settings, NULL, &model, NULL));
        assert_ok(objective_workspace_create(model, OBJECTIVE_DOUBLE, NULL, &work));
        objective_score score = evaluate(model, work, &data, cases[c].parameters);
        if (isnan(cases[c].accuracy))
            assert_true(isnan(score.accuracy));
        else
            assert_true(score.accuracy == cases[c].accuracy);
    }
}

/* Where exp would overflow, the loss is the margin and the derivatives are 0 and 1. */
TEST(large_scores_stay_finite)
{
    for (size_t m = 2; m < MODELS; m++) {
        OWNED(fixture) f;
        set_up(&f, &models[m], 4 + m);
        for (size_t i = 0; i < f.dimension; i++)
            f.parameters[i] *= 1e10F;
        objective_score score = evaluate(f.model, f.work, &f.data.dense, f.parameters);
        double gradient[MOST] = {0};
        objective_add_gradient_double(f.model, f.work, &f.data.sparse, f.parameters, NULL, 0, ROWS,
                                      gradient);
        assert_true(isfinite(score.loss) && score.loss > 1e6);
        for (size_t i = 0; i < f.dimension; i++)
            assert_true(isfinite(gradient[i]));
    }
}

TEST(regularising_divides_and_adds_l2)
{
    OWNED(fixture) f;
    set_up(&f, &models[3], 5);
    float sum[MOST], gradient[MOST];
    for (size_t i = 0; i < f.dimension; i++)
        sum[i] = (float)i;
    objective_regularise(f.model, f.parameters, sum, 8, gradient);
    for (size_t i = 0; i < f.dimension; i++)
        assert_true(gradient[i] == (float)((double)i / 8 + 0.1 * f.parameters[i]));
}

TEST(initial_weights_are_he_normal_for_the_perceptron_only)
{
    OWNED(objective) model, zero;
    OWNED(float)
    first = checked_calloc(110000, sizeof(float)), second = checked_calloc(110000, sizeof(float));
    objective_settings settings = {.model = MODEL_PERCEPTRON,
                                   .features = 500,
                                   .classes = 20,
                                   .hidden = {200},
                                   .hidden_layers = 1};
    assert_ok(objective_create(&settings, NULL, &model, NULL));
    objective_initial(model, test_seed("initial", 6), first);
    double square = 0;
    for (size_t i = 0; i < 100000; i++)
        square += (double)first[i] * first[i];
    assert_true(fabs(square / 100000 - 2.0 / 500) < 5 * 2.0 / 500 * sqrt(2.0 / 100000));
    for (size_t i = 100000; i < 100200; i++)
        assert_true(first[i] == 0);
    assert_true(first[100200] != 0);
    assert_true(first[104200] == 0);
    objective_initial(model, test_seed("initial", 6) + 1, second);
    assert_memory_not_equal(first, second, 100 * sizeof(float));
    assert_ok(objective_create(&models[5], NULL, &zero, NULL));
    objective_initial(zero, 1, first);
    for (size_t i = 0; i < 21; i++)
        assert_true(first[i] == 0);
}

TEST(settings_out_of_range_are_refused)
{
    const struct {
        objective_settings settings;
        const char *text;
    } cases[] = {
        {{.model = MODEL_LOGISTIC}, "features: 0 is not in 1..2147483647"},
        {{.model = MODEL_LOGISTIC, .features = 1, .l2 = -1}, "l2: -1 is not 0 or more"},
        {{.model = MODEL_LOGISTIC, .features = 1, .l2 = INFINITY}, "l2: inf is not 0 or more"},
        {{.model = MODEL_SOFTMAX, .features = 1, .classes = 1},
         "classes: 1, but at least 2 are needed"},
        {{.model = MODEL_SOFTMAX, .features = 1, .classes = UINT32_MAX},
         "classes: 4294967295 is not in 1..2147483647"},
        {{.model = MODEL_PERCEPTRON, .features = 1, .classes = 2},
         "hidden layers: 0 is not in 1..8"},
        {{.model = MODEL_PERCEPTRON, .features = 1, .classes = 2, .hidden_layers = 9},
         "hidden layers: 9 is not in 1..8"},
        {{.model = MODEL_PERCEPTRON, .features = 1, .classes = 2, .hidden_layers = 1},
         "width of a hidden layer: 0 is not in 1..2147483647"},
        {{.model = MODEL_PERCEPTRON,
          .features = INT32_MAX,
          .classes = 2,
          .hidden = {INT32_MAX},
          .hidden_layers = 1},
         "the model has more parameters than can be addressed"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        objective *model = NULL;
        tarry_diagnostic diagnostic;
        assert_int_equal(objective_create(&cases[i].settings, NULL, &model, &diagnostic),
                         TARRY_ERROR_ARGUMENT);
        assert_string_equal(diagnostic.text, cases[i].text);
        assert_null(model);
    }
}

typedef struct creation {
    objective_settings settings;
    objective_precision precision;
} creation;

static int create(void *user, const tarry_allocator *allocator)
{
    const creation *of = user;
    OWNED(objective) model = NULL;
    OWNED(objective_workspace) work = NULL;
    int error = objective_create(&of->settings, allocator, &model, NULL);
    if (error == TARRY_OK)
        error = objective_workspace_create(model, of->precision, allocator, &work);
    return error;
}

TEST(failed_allocations_are_reported)
{
    creation single = {models[MODELS - 1], OBJECTIVE_SINGLE};
    creation twice = {models[MODELS - 1], OBJECTIVE_DOUBLE};
    assert_int_equal(fail_each_allocation(create, &single), 1 + 3 + 2 * 4);
    assert_int_equal(fail_each_allocation(create, &twice), 1 + 4 + 2 * 4);
}
