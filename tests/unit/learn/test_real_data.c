/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "learn/dataset.h"

/* Real files where TARRY_TEST_DATA says they are; without them the test is skipped. */
static char adult[4096], digits[4096];

static void adult_is_sparse_with_two_labels(void **state)
{
    (void)state;
    dataset_source source = {.path = adult, .labels = LABEL_BINARY};
    dataset *data;
    assert_int_equal(dataset_read(&source, NULL, &data, NULL), TARRY_OK);
    assert_true(data->sparse);
    assert_int_equal(data->rows, 16281);
    assert_int_equal(data->features, 122);
    assert_int_equal(data->classes, 2);
    for (size_t row = 0; row < data->rows; row++)
        assert_true(fabsf(data->label[row]) == 1);
    for (size_t i = 0; i < data->row_start[data->rows]; i++)
        assert_true(data->column[i] < 122 && data->value[i] == 1);
    dataset_free(data);
}

static void digits_are_dense_with_ten_classes(void **state)
{
    (void)state;
    dataset_source source = {.path = digits, .labels = LABEL_CLASS};
    dataset *data;
    assert_int_equal(dataset_read(&source, NULL, &data, NULL), TARRY_OK);
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
    dataset_free(data);
}

int main(void)
{
    const char *folder = getenv("TARRY_TEST_DATA");
    if (folder == NULL)
        folder = ".";
    snprintf(adult, sizeof(adult), "%s/a9a.t", folder);
    snprintf(digits, sizeof(digits), "%s/t10k-images-idx3-ubyte.gz", folder);
    if (access(adult, R_OK) != 0 || access(digits, R_OK) != 0) {
        printf("skipped: %s or %s is missing\n", adult, digits);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adult_is_sparse_with_two_labels),
        cmocka_unit_test(digits_are_dense_with_ten_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
