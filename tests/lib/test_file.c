/* SPDX-License-Identifier: Apache-2.0 */
#include "test_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

char test_file[] = "/tmp/tarry-test-XXXXXX";

int test_file_make(void **state)
{
    (void)state;
    strcpy(test_file + strlen(test_file) - 6, "XXXXXX");
    int descriptor = mkstemp(test_file);
    return descriptor < 0 ? -1 : close(descriptor);
}

int test_file_remove(void **state)
{
    (void)state;
    return unlink(test_file);
}

void test_file_write(const void *bytes, size_t size)
{
    FILE *stream = fopen(test_file, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}
