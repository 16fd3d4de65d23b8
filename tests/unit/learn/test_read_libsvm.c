/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/random.h"
#include "data_file.h"
#include "seed.h"
#include "test.h"

static dataset_source source(label_kind labels)
{
    return (dataset_source){.path = "data.svm", .labels = labels};
}

TEST(samples_comments_and_blank_lines_are_read)
{
    write_text("data.svm", "# a comment\n"
                           "+1 1:0.5 3:-2 # a tail 9:9\n"
                           "\n"
                           "  \t\r\n"
                           "-1\r\n"
                           "-1\t2:1e2  4:.25\t\n"
                           "1 0000001:7#\n"
                           "1 2:+3");
    OWNED(dataset) data = read_good(source(LABEL_BINARY));
    check_sparse(data, 5, 4, (size_t[]){0, 2, 2, 4, 5, 6}, (uint32_t[]){0, 2, 1, 3, 0, 1},
                 (float[]){0.5F, -2, 100, 0.25F, 7, 3}, (float[]){1, -1, -1, 1, 1});
    assert_int_equal(data->classes, 2);
}

TEST(gzip_reads_like_plain)
{
    write_gzip("data.svm", "3 1:2\n4 1:5\n", 12);
    OWNED(dataset) data = read_good(source(LABEL_REAL));
    check_sparse(data, 2, 1, (size_t[]){0, 1, 2}, (uint32_t[]){0, 0}, (float[]){2, 5},
                 (float[]){3, 4});
    assert_int_equal(data->classes, 0);
}

TEST(labels_are_kept_as_their_kind_asks)
{
    const struct {
        label_kind kind;
        const char *text;
        float labels[3];
        uint32_t classes;
    } cases[] = {
        {LABEL_BINARY, "-1 1:1\n+1 1:1\n-1 1:1\n", {-1, 1, -1}, 2},
        {LABEL_BINARY, "0 1:1\n1 1:1\n0 1:1\n", {-1, 1, -1}, 2},
        {LABEL_BINARY, "1 1:1\n2 1:1\n1.0 1:1\n", {-1, 1, -1}, 2},
        {LABEL_BINARY, "1 1:1\n1 1:1\n1 1:1\n", {1, 1, 1}, 2},
        {LABEL_BINARY, "0 1:1\n0 1:1\n0 1:1\n", {-1, -1, -1}, 2},
        {LABEL_CLASS, "0 1:1\n9 1:1\n3e0 1:1\n", {0, 9, 3}, 10},
        {LABEL_REAL, "-2.5 1:1\n1e3 1:1\n0 1:1\n", {-2.5F, 1000, 0}, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_text("data.svm", cases[i].text);
        OWNED(dataset) data = read_good(source(cases[i].kind));
        check_sparse(data, 3, 1, (size_t[]){0, 1, 2, 3}, (uint32_t[]){0, 0, 0}, (float[]){1, 1, 1},
                     cases[i].labels);
        assert_int_equal(data->classes, cases[i].classes);
    }
}

TEST(every_error_names_its_line)
{
    const struct {
        label_kind kind;
        const char *text, *message;
    } cases[] = {
        {LABEL_REAL, "", "data.svm: no samples"},
        {LABEL_REAL, "# nothing\n\n", "data.svm: no samples"},
        {LABEL_REAL, "1\n2\n", "data.svm: no features"},
        {LABEL_REAL, "1 1:1\n\n1 0:1\n",
         "data.svm:3: index 0 (indices start at 1, or at 0 with --zero-based)"},
        {LABEL_REAL, "1 3:1 2:1\n", "data.svm:1: index 2 after index 3 (indices ascend)"},
        {LABEL_REAL, "1 3:1 3:1\n", "data.svm:1: index 3 after index 3 (indices ascend)"},
        {LABEL_REAL, "1 2147483648:1\n", "data.svm:1: index 2147483648 is above 2147483647"},
        {LABEL_REAL, "1 99999999999999999999999:1\n",
         "data.svm:1: index 99999999999999999999999 is above 2147483647"},
        {LABEL_REAL, "1 -1:1\n", "data.svm:1: index '-1' is not a whole number"},
        {LABEL_REAL, "1 :1\n", "data.svm:1: index '' is not a whole number"},
        {LABEL_REAL, "1 qid:1\n",
         "data.svm:1: qid: marks ranking data, which no model here learns from; remove it"},
        {LABEL_REAL, "1 5\n", "data.svm:1: '5' is not INDEX:VALUE"},
        {LABEL_REAL, "1 1:\n", "data.svm:1: value '' of index 1 is not a number"},
        {LABEL_REAL, "1 1: 5\n", "data.svm:1: value '' of index 1 is not a number"},
        {LABEL_REAL, "1 4:x\x01y\n", "data.svm:1: value 'x?y' of index 4 is not a number"},
        {LABEL_REAL, "1 1:0123456789012345678901234567890123456789z\n",
         "data.svm:1: value '0123456789012345678901234567...' of index 1 is not a number"},
        {LABEL_REAL, "1 1:nan\n", "data.svm:1: value 'nan' of index 1 is not finite"},
        {LABEL_REAL, "1 1:-Inf\n", "data.svm:1: value '-Inf' of index 1 is not finite"},
        {LABEL_REAL, "1 1:1e39\n", "data.svm:1: value '1e39' of index 1 does not fit a float"},
        {LABEL_REAL, "1 1:1\nyes 1:1\n", "data.svm:2: label 'yes' is not a number"},
        {LABEL_REAL, "1,2 1:1\n",
         "data.svm:1: label '1,2' is not a number; docs/data-formats.md has a line that makes "
         "LIBSVM of CSV"},
        {LABEL_REAL, "1, 2, 3\n",
         "data.svm:1: label '1,' is not a number; docs/data-formats.md has a line that makes "
         "LIBSVM of CSV"},
        {LABEL_REAL, "1;2\n",
         "data.svm:1: label '1;2' is not a number; docs/data-formats.md has a line that makes "
         "LIBSVM of CSV"},
        {LABEL_REAL, "1\t2\t3\n",
         "data.svm:1: '2' is not INDEX:VALUE; docs/data-formats.md has a line that makes LIBSVM of "
         "CSV"},
        {LABEL_REAL, "1 1:1\n1,2 1:1\n", "data.svm:2: label '1,2' is not a number"},
        {LABEL_REAL, "nan 1:1\n", "data.svm:1: label 'nan' is not finite"},
        {LABEL_BINARY, "1 1:1\n3 1:1\n",
         "data.svm:2: label 3 (two classes are -1 and 1, 0 and 1, or 1 and 2)"},
        {LABEL_BINARY, "0.5 1:1\n",
         "data.svm:1: label 0.5 (two classes are -1 and 1, 0 and 1, or 1 and 2)"},
        {LABEL_BINARY, "0 1:1\n1 1:1\n-1 1:1\n",
         "data.svm:3: label -1 beside label 0 (two classes are -1 and 1, 0 and 1, or 1 and 2)"},
        {LABEL_CLASS, "1 1:1\n-1 1:1\n",
         "data.svm:2: label -1 (classes are 0, 1, 2, ..., at most 16777215)"},
        {LABEL_CLASS, "1.5 1:1\n",
         "data.svm:1: label 1.5 (classes are 0, 1, 2, ..., at most 16777215)"},
        {LABEL_CLASS, "16777216 1:1\n",
         "data.svm:1: label 16777216 (classes are 0, 1, 2, ..., at most 16777215)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_text("data.svm", cases[i].text);
        expect_error(source(cases[i].kind), TARRY_ERROR_FORMAT, cases[i].message);
    }
    write_file("data.svm", "1 1:1\n1 \0 2:1\n", 14);
    expect_error(source(LABEL_REAL), TARRY_ERROR_FORMAT, "data.svm:2: NUL byte in a text file");
}

TEST(a_byte_order_mark_is_skipped)
{
    write_text("data.svm", "\xEF\xBB\xBF"
                           "3 1:2\n4 1:5\n");
    OWNED(dataset) data = read_good(source(LABEL_REAL));
    check_sparse(data, 2, 1, (size_t[]){0, 1, 2}, (uint32_t[]){0, 0}, (float[]){2, 5},
                 (float[]){3, 4});
}

TEST(indices_may_start_at_0)
{
    dataset_source from_0 = source(LABEL_REAL);
    from_0.zero_based = true;
    write_text("data.svm", "3 0:2 3:1\n4 2:5\n");
    OWNED(dataset) data = read_good(from_0);
    check_sparse(data, 2, 4, (size_t[]){0, 2, 3}, (uint32_t[]){0, 3, 2}, (float[]){2, 1, 5},
                 (float[]){3, 4});
    write_text("data.svm", "3 0:2 0:1\n");
    expect_error(from_0, TARRY_ERROR_FORMAT, "data.svm:1: index 0 after index 0 (indices ascend)");
    write_text("data.svm", "3 2147483647:2\n");
    expect_error(from_0, TARRY_ERROR_FORMAT, "data.svm:1: index 2147483647 is above 2147483646");
}

/* Random samples, written and read back, many enough for every array to grow. */
TEST(what_is_written_is_read)
{
    enum { ROWS = 2000, MOST = 20 };
    random_stream stream = random_stream_make(test_seed("libsvm", 1), RANDOM_TEST, 0, 0);
    OWNED(float)
    values = checked_calloc(ROWS * MOST, sizeof(float)),
    labels = checked_calloc(ROWS, sizeof(float));
    OWNED(uint32_t) columns = checked_calloc(ROWS * MOST, sizeof(uint32_t));
    size_t row_start[ROWS + 1] = {0}, entries = 0;
    uint32_t features = 0;
    FILE *file = fopen("data.svm", "w");
    assert_non_null(file);
    for (size_t row = 0; row < ROWS; row++) {
        labels[row] = (float)random_normal(&stream);
        fprintf(file, "%.9g", (double)labels[row]);
        uint32_t column = random_below(&stream, 5);
        for (uint32_t k = random_below(&stream, MOST + 1); k > 0; k--) {
            values[entries] = (float)random_normal(&stream);
            columns[entries] = column;
            features = column >= features ? column + 1 : features;
            fprintf(file, " %u:%.9g", column + 1, (double)values[entries++]);
            column += 1 + random_below(&stream, 100000);
        }
        fputc('\n', file);
        row_start[row + 1] = entries;
    }
    assert_int_equal(fclose(file), 0);
    OWNED(dataset) data = read_good(source(LABEL_REAL));
    check_sparse(data, ROWS, features, row_start, columns, values, labels);
}

TEST(failed_allocations_are_reported)
{
    FILE *file = fopen("data.svm", "w");
    assert_non_null(file);
    for (int row = 0; row < 300; row++)
        fprintf(file, "1 1:%d 5:2\n", row);
    assert_int_equal(fclose(file), 0);
    fail_allocations_of(source(LABEL_BINARY));
}

TEST_GROUP(data_files_begin, data_files_end)
