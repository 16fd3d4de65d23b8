/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "data_file.h"
#include "evaluate.h"
#include "learn/network.h"
#include "learn/optimizer.h"
#include "test.h"

OWNED_BY(objective, objective_free)
OWNED_BY(objective_workspace, objective_workspace_free)
OWNED_BY(optimizer, optimizer_free)
OWNED_BY(size_t, free)

/* Real files where TARRY_TEST_DATA says they are; without them the test is skipped. */
static char adult[4096], digits[4096];

static const dataset_source source = {.path = digits, .labels = LABEL_CLASS};

TEST(adult_is_sparse_with_two_labels)
{
    OWNED(dataset) data = read_good((dataset_source){.path = adult, .labels = LABEL_BINARY});
    assert_true(data->sparse);
    assert_int_equal(data->rows, 16281);
    assert_int_equal(data->features, 122);
    assert_int_equal(data->classes, 2);
    for (size_t row = 0; row < data->rows; row++)
        assert_true(fabsf(data->label[row]) == 1);
    for (size_t i = 0; i < data->row_start[data->rows]; i++)
        assert_true(data->column[i] < 122 && data->value[i] == 1);
}

TEST(digits_are_dense_with_ten_classes)
{
    OWNED(dataset) data = read_good(source);
    assert_false(data->sparse);
    assert_int_equal(data->rows, 10000);
    assert_int_equal(data->features, 784);
    assert_int_equal(data->classes, 10);
    for (size_t i = 0; i < 7840000; i++)
        assert_true(data->value[i] >= 0 && data->value[i] <= 1);
    size_t count[10] = {0};
    for (size_t row = 0; row < data->rows; row++)
        count[(size_t)data->label[row]]++;
    assert_int_equal(count[0], 980);
    assert_int_equal(count[9], 1009);
}

enum { LOOK = 10 }; /* rounds between looks at the loss */

typedef struct course {
    objective_settings objective;
    objective_precision precision; /* of the passes; parameters are float32 in both */
    optimizer_settings optimizer;
    size_t batch; /* 0: every sample */
    uint64_t rounds;
} course;

/* The sum of gradients over the rows, or over all `count` where rows is NULL. */
static void add_gradient(const course *plan, const objective *model, objective_workspace *work,
                         const dataset *data, const float *parameters, const size_t *rows,
                         size_t count, double *exact, float *gradient)
{
    size_t dimension = objective_dimension(model);
    memset(gradient, 0, dimension * sizeof(*gradient));
    memset(exact, 0, dimension * sizeof(*exact));
    if (plan->precision == OBJECTIVE_SINGLE) {
        objective_add_gradient(model, work, data, parameters, rows, 0, count, gradient, NULL);
        return;
    }
    objective_add_gradient_double(model, work, data, parameters, rows, 0, count, exact);
    for (size_t i = 0; i < dimension; i++)
        gradient[i] = (float)exact[i];
}

/* Trains and gives back the accuracy on `test`, and in `losses`, unless that is NULL, the training
 * loss after each LOOK rounds. */
static double train(const course *plan, const dataset *data, const dataset *test, double *losses)
{
    OWNED(objective) model;
    OWNED(objective_workspace) work;
    OWNED(optimizer) descent;
    assert_ok(objective_create(&plan->objective, NULL, &model, NULL));
    assert_ok(objective_workspace_create(model, plan->precision, NULL, &work));
    size_t dimension = objective_dimension(model);
    assert_ok(optimizer_create(&plan->optimizer, dimension, NULL, &descent));
    OWNED(float) parameters = checked_calloc(dimension, sizeof(float));
    OWNED(float) gradient = checked_calloc(dimension, sizeof(float));
    OWNED(double) sum = checked_calloc(dimension, sizeof(double));
    OWNED(size_t) rows = checked_calloc(data->rows, sizeof(size_t));
    batch_settings batch = {.rows = data->rows, .chunks = 1, .batch = plan->batch, .seed = 1};
    objective_initial(model, 1, parameters);
    for (uint64_t round = 0; round < plan->rounds; round++) {
        size_t count = batch_count(&batch, 0);
        if (plan->batch > 0)
            batch_draw(&batch, round, 0, rows);
        add_gradient(plan, model, work, data, parameters, plan->batch > 0 ? rows : NULL, count, sum,
                     gradient);
        objective_regularise(model, parameters, gradient, (double)count, gradient);
        optimizer_step(descent, gradient, parameters);
        if (losses != NULL && (round + 1) % LOOK == 0)
            losses[round / LOOK] = evaluate(model, work, data, parameters).loss;
    }
    return evaluate(model, work, test, parameters).accuracy;
}

TEST(softmax_learns_the_digits_and_the_perceptron_beats_it)
{
    OWNED(dataset) data = read_good(source), test = NULL;
    assert_ok(dataset_hold_out(&data, 0.2, 1, &test, NULL));
    assert_int_equal(test->rows, 2000);
    const course softmax = {
        .precision = OBJECTIVE_DOUBLE,
        .objective = {.model = MODEL_SOFTMAX, .features = 784, .classes = 10, .intercept = true},
        .optimizer = {OPTIMIZER_GD, 0.5, OPTIMIZER_USUAL_DECAY},
        .rounds = 60};
    const course perceptron = {.precision = OBJECTIVE_DOUBLE,
                               .objective = {.model = MODEL_PERCEPTRON,
                                             .features = 784,
                                             .classes = 10,
                                             .hidden = {64},
                                             .hidden_layers = 1},
                               .optimizer = {OPTIMIZER_ADAM, 0.003, OPTIMIZER_USUAL_DECAY},
                               .batch = 512,
                               .rounds = 200};
    double linear = train(&softmax, data, test, NULL);
    double layered = train(&perceptron, data, test, NULL);
    printf("accuracy on held-out digits: softmax %.4f, perceptron %.4f\n", linear, layered);
    assert_true(linear >= 0.88);
    assert_true(layered > linear && layered >= 0.92);
}

TEST(a_hundred_rounds_in_float32_lose_as_in_double)
{
    enum { ROUNDS = 100 };
    OWNED(dataset) data = read_good(source), some = NULL;
    assert_ok(dataset_hold_out(&data, 0.2, 1, &some, NULL));
    course plan = {.objective = {.model = MODEL_PERCEPTRON,
                                 .features = 784,
                                 .classes = 10,
                                 .hidden = {64},
                                 .hidden_layers = 1},
                   .precision = OBJECTIVE_SINGLE,
                   .optimizer = {OPTIMIZER_GD, 0.1, OPTIMIZER_USUAL_DECAY},
                   .rounds = ROUNDS};
    double single[ROUNDS / LOOK], exact[ROUNDS / LOOK], worst = 0;
    train(&plan, some, some, single);
    plan.precision = OBJECTIVE_DOUBLE;
    train(&plan, some, some, exact);
    for (size_t i = 0; i < ROUNDS / LOOK; i++)
        worst = fmax(worst, fabs(single[i] - exact[i]));
    printf("losses in float32 and in double differ by %.2g at most, of %.3f to %.3f\n", worst,
           exact[0], exact[ROUNDS / LOOK - 1]);
    assert_true(exact[ROUNDS / LOOK - 1] < exact[0] - 0.1);
    assert_true(worst <= 1e-4);
}

static int find_files(void **state)
{
    const char *folder = getenv("TARRY_TEST_DATA");
    if (folder == NULL)
        folder = ".";
    snprintf(adult, sizeof(adult), "%s/a9a.t", folder);
    snprintf(digits, sizeof(digits), "%s/t10k-images-idx3-ubyte.gz", folder);
    if (access(adult, R_OK) != 0 || access(digits, R_OK) != 0) {
        printf("skipped: %s or %s is missing\n", adult, digits);
        exit(77);
    }
    return 0;
}

TEST_GROUP(find_files, NULL)
