/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "data_file.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

static dataset *make(label_kind labels, size_t rows, uint64_t seed)
{
    synthetic_settings settings = {
        .rows = rows, .features = 4, .labels = labels, .classes = 3, .seed = seed};
    dataset *data;
    assert_ok(dataset_synthetic(&settings, NULL, &data, NULL));
    assert_int_equal(data->rows, rows);
    assert_int_equal(data->features, 4);
    assert_false(data->sparse);
    return data;
}

TEST(features_are_standard_normal)
{
    OWNED(dataset) data = make(LABEL_REAL, 20000, test_seed("normal", 1));
    double sum = 0, square = 0;
    for (size_t i = 0; i < 80000; i++) {
        sum += data->value[i];
        square += (double)data->value[i] * data->value[i];
    }
    assert_true(fabs(sum / 80000) < 5 / sqrt(80000));
    assert_true(fabs(square / 80000 - 1) < 5 * sqrt(2.0 / 80000));
}

TEST(labels_are_of_the_kind_asked_for)
{
    uint64_t seed = test_seed("labels", 2);
    size_t seen[3] = {0};
    OWNED(dataset) data = make(LABEL_CLASS, 1000, seed);
    assert_int_equal(data->classes, 3);
    for (size_t i = 0; i < 1000; i++)
        seen[(size_t)data->label[i]]++;
    assert_int_equal(seen[0] + seen[1] + seen[2], 1000);
    assert_true(seen[0] < 1000 && seen[1] < 1000 && seen[2] < 1000);

    OWNED(dataset) binary = make(LABEL_BINARY, 1000, seed);
    assert_int_equal(binary->classes, 2);
    double sum = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_true(fabs(binary->label[i]) == 1);
        sum += binary->label[i];
    }
    assert_true(fabs(sum) < 5 * sqrt(1000));

    OWNED(dataset) real = make(LABEL_REAL, 10, seed);
    assert_int_equal(real->classes, 0);
}

/* A class that is the best of a linear model is told far more
 * often than by chance from the mean of its samples. */
TEST(labels_follow_from_the_features)
{
    enum { ROWS = 2000 };
    OWNED(dataset) data = make(LABEL_CLASS, ROWS, test_seed("linear", 3));
    double mean[3][4] = {{0}}, count[3] = {0};
    for (size_t i = 0; i < ROWS; i++) {
        size_t label = (size_t)data->label[i];
        count[label]++;
        for (size_t k = 0; k < 4; k++)
            mean[label][k] += data->value[4 * i + k];
    }
    size_t right = 0;
    for (size_t i = 0; i < ROWS; i++) {
        double score[3] = {0};
        for (size_t c = 0; c < 3; c++)
            for (size_t k = 0; k < 4; k++)
                score[c] += data->value[4 * i + k] * mean[c][k] / fmax(count[c], 1);
        size_t best = score[1] > score[0] ? 1 : 0;
        best = score[2] > score[best] ? 2 : best;
        right += best == (size_t)data->label[i];
    }
    assert_true(right > ROWS / 2);
}

TEST(data_follow_from_the_seed_and_longer_data_begin_alike)
{
    OWNED(dataset) one = make(LABEL_REAL, 10, 7), same = make(LABEL_REAL, 20, 7);
    OWNED(dataset) other = make(LABEL_REAL, 10, 8);
    assert_memory_equal(one->value, same->value, 40 * sizeof(float));
    assert_memory_equal(one->label, same->label, 10 * sizeof(float));
    assert_memory_not_equal(one->value, other->value, 40 * sizeof(float));
}

TEST(settings_out_of_range_are_refused)
{
    const struct {
        synthetic_settings settings;
        const char *text;
    } cases[] = {
        {{.rows = 0, .features = 1}, "synthetic data: no rows"},
        {{.rows = 1, .features = 0}, "synthetic data: 0 features are not 1..2147483647"},
        {{.rows = 1, .features = 1, .labels = LABEL_CLASS, .classes = 1},
         "synthetic data: 1 classes are not 2..16777216"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dataset *data = NULL;
        tarry_diagnostic diagnostic;
        assert_int_equal(dataset_synthetic(&cases[i].settings, NULL, &data, &diagnostic),
                         TARRY_ERROR_ARGUMENT);
        assert_string_equal(diagnostic.text, cases[i].text);
        assert_null(data);
    }
}

static int create(void *user, const tarry_allocator *allocator)
{
    (void)user;
    synthetic_settings settings = {.rows = 5, .features = 3, .labels = LABEL_CLASS, .classes = 2};
    OWNED(dataset) data = NULL;
    return dataset_synthetic(&settings, allocator, &data, NULL);
}

TEST(failed_allocations_are_reported)
{
    assert_int_equal(fail_each_allocation(create, NULL), 4);
}
