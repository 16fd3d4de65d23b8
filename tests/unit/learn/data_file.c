/* SPDX-License-Identifier: Apache-2.0 */
#include "data_file.h"

#include <dirent.h>
#include <unistd.h>

#include <zlib.h>

#include "failing_allocator.h"
#include "test.h"

int data_files_begin(void **state)
{
    char *directory = strdup("/tmp/tarry-test-XXXXXX");
    *state = directory;
    return directory == NULL || mkdtemp(directory) == NULL || chdir(directory) != 0;
}

int data_files_end(void **state)
{
    OWNED(char) directory = *state;
    DIR *listing = opendir(".");
    if (listing == NULL)
        return 1;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        unlink(entry->d_name);
    closedir(listing);
    return chdir("/") != 0 || rmdir(directory) != 0;
}

void write_gzip(const char *name, const void *bytes, size_t size)
{
    gzFile file = gzopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

dataset *read_good(dataset_source source)
{
    dataset *data = NULL;
    tarry_diagnostic diagnostic = {""};
    int error = dataset_read(&source, NULL, &data, &diagnostic);
    assert_string_equal(diagnostic.text, "");
    assert_ok(error);
    return data;
}

void expect_error(dataset_source source, int error, const char *text)
{
    failing_allocator counting;
    failing_allocator_init(&counting, SIZE_MAX);
    dataset *data = NULL;
    tarry_diagnostic diagnostic = {""};
    int got = dataset_read(&source, &counting.allocator, &data, &diagnostic);
    assert_string_equal(diagnostic.text, text);
    assert_int_equal(got, error);
    assert_null(data);
    assert_int_equal(counting.live, 0);
}

void check_dense(const dataset *data, size_t rows, uint32_t features, const float *values,
                 const float *labels)
{
    assert_false(data->sparse);
    assert_int_equal(data->rows, rows);
    assert_int_equal(data->features, features);
    for (size_t i = 0; i < rows * features; i++)
        assert_true(data->value[i] == values[i]);
    for (size_t i = 0; i < rows; i++)
        assert_true(data->label[i] == labels[i]);
}

void check_sparse(const dataset *data, size_t rows, uint32_t features, const size_t *row_start,
                  const uint32_t *columns, const float *values, const float *labels)
{
    assert_true(data->sparse);
    assert_int_equal(data->rows, rows);
    assert_int_equal(data->features, features);
    for (size_t i = 0; i <= rows; i++)
        assert_int_equal(data->row_start[i], row_start[i]);
    for (size_t i = 0; i < row_start[rows]; i++) {
        assert_int_equal(data->column[i], columns[i]);
        assert_true(data->value[i] == values[i]);
    }
    for (size_t i = 0; i < rows; i++)
        assert_true(data->label[i] == labels[i]);
}

static int read_once(void *user, const tarry_allocator *allocator)
{
    const dataset_source *source = user;
    OWNED(dataset) data = NULL;
    tarry_diagnostic diagnostic = {""};
    int error = dataset_read(source, allocator, &data, &diagnostic);
    if (error == TARRY_ERROR_NO_MEMORY) {
        size_t length = strlen(source->path);
        assert_memory_equal(diagnostic.text, source->path, length);
        assert_string_equal(diagnostic.text + length, ": out of memory");
    }
    return error;
}

void fail_allocations_of(dataset_source source)
{
    assert_true(fail_each_allocation(read_once, &source) >= 5);
}
