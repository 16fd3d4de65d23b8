/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "data_file.h"
#include "test.h"

static dataset_source source(int label_column)
{
    return (dataset_source){.path = "data.csv", .label_column = label_column};
}

TEST(rows_are_read_with_or_without_names)
{
    const char *texts[] = {
        "1,2,3\n4,5,6\n",
        "a,b,c\n1,2,3\n4,5,6\n",
        "\"a, or\",\"b \"\"x\"\"\",\r\n1,2,3\r\n\r\n4,5,6",
        "\357\273\2771,2,3\n4,5,6\n",
        "\n \"1\" , 2 ,\t3\t\n\"4\",\"5\",\"6\"\n \n",
        "+1,2e0,3.0\n4.,05,0.6e1\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        write_text("data.csv", texts[i]);
        OWNED(dataset) data = read_good(source(-1));
        check_dense(data, 2, 2, (float[]){1, 2, 4, 5}, (float[]){3, 6});
        assert_int_equal(data->column_names, i == 1 || i == 2);
    }
}

TEST(the_label_stands_in_the_column_asked_for)
{
    write_text("data.csv", "1,2,3\n");
    const struct {
        int column;
        float values[2], label;
    } cases[] = {{0, {2, 3}, 1},  {1, {1, 3}, 2},  {2, {1, 2}, 3},
                 {-1, {1, 2}, 3}, {-2, {1, 3}, 2}, {-3, {2, 3}, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        OWNED(dataset) data = read_good(source(cases[i].column));
        check_dense(data, 1, 2, cases[i].values, &cases[i].label);
    }
}

TEST(the_name_or_the_setting_tells_the_format)
{
    write_gzip("data.csv.gz", "1,0\n2,1\n", 8);
    OWNED(dataset)
    data = read_good(
        (dataset_source){.path = "data.csv.gz", .labels = LABEL_BINARY, .label_column = -1});
    check_dense(data, 2, 1, (float[]){1, 2}, (float[]){-1, 1});
    write_text("data", "1,0\n2,1\n");
    OWNED(dataset) unnamed = read_good((dataset_source){.path = "data", .format = DATASET_CSV});
    check_dense(unnamed, 2, 1, (float[]){0, 1}, (float[]){1, 2});
    write_text("data.csv", "1 1:5\n");
    OWNED(dataset)
    set = read_good((dataset_source){.path = "data.csv", .format = DATASET_LIBSVM});
    assert_true(set->sparse);
}

TEST(every_error_names_its_line)
{
    const struct {
        int column;
        const char *text, *message;
    } cases[] = {
        {-1, "", "data.csv: no samples"},
        {-1, "\n\n", "data.csv: no samples"},
        {-1, "a,b\n", "data.csv: no samples"},
        {-1, "1\n2\n", "data.csv: no features"},
        {-1, "1,2\n3\n", "data.csv:2: 1 fields where the first line has 2"},
        {-1, "a,b\n1,2\n1,2,3\n", "data.csv:3: 3 fields where the first line has 2"},
        {2, "1,2\n", "data.csv:1: no column 2 for the label among 2"},
        {-3, "1,2\n", "data.csv:1: no column -3 for the label among 2"},
        {INT32_MIN, "1,2\n", "data.csv:1: no column -2147483648 for the label among 2"},
        {-1, "1,2\n1,x\n", "data.csv:2: field 2: 'x' is not a number"},
        {-1, "a,b\nc,d\n", "data.csv:2: field 1: 'c' is not a number"},
        {-1, "a,2\n", "data.csv:1: field 1: 'a' is not a number"},
        {-1, "nan,inf\n", "data.csv:1: field 1: 'nan' is not finite"},
        {-1, "1e99,a\n", "data.csv:1: field 1: '1e99' does not fit a float"},
        {-1, "1,2\n,2\n", "data.csv:2: field 1 is empty"},
        {-1, "1,2\n1,\n", "data.csv:2: field 2 is empty"},
        {-1, "1,2\n1,\"\"\n", "data.csv:2: field 2 is empty"},
        {-1, "1,2\n\"1,2\n", "data.csv:2: a quote is not closed on its line"},
        {-1, "1,2\n\"1\"\"\n", "data.csv:2: a quote is not closed on its line"},
        {-1, "1,\"2\" 3\n", "data.csv:1: text after a closing quote"},
        {-1, "1;2\n", "data.csv:1: fields are separated by ';'; CSV here needs commas"},
        {-1, "a\tb\n1\t2\n", "data.csv:1: fields are separated by tabs; CSV here needs commas"},
        {-1,
         "\xFE\xFF"
         "1",
         "data.csv: the text is UTF-16; convert it to UTF-8 first, for example with "
         "iconv -f UTF-16 -t UTF-8"},
        {-1, "1,2\n1;3,2\n", "data.csv:2: field 1: '1;3' is not a number"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_text("data.csv", cases[i].text);
        expect_error(source(cases[i].column), TARRY_ERROR_FORMAT, cases[i].message);
    }
    write_file("data.csv", "1,2\n1\0,2\n", 9);
    expect_error(source(-1), TARRY_ERROR_FORMAT, "data.csv:2: NUL byte in a text file");
    write_text("data.csv", "1,2\n1,3\n");
    expect_error((dataset_source){.path = "data.csv", .labels = LABEL_BINARY, .label_column = -1},
                 TARRY_ERROR_FORMAT,
                 "data.csv:2: label 3 (two classes are -1 and 1, 0 and 1, or 1 and 2)");
}

TEST(failed_allocations_are_reported)
{
    FILE *file = fopen("data.csv", "w");
    assert_non_null(file);
    for (int row = 0; row < 300; row++)
        fprintf(file, "%d,2,1\n", row);
    assert_int_equal(fclose(file), 0);
    fail_allocations_of(source(-1));
}

TEST_GROUP(data_files_begin, data_files_end)
