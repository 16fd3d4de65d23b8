/* SPDX-License-Identifier: Apache-2.0 */
#include "test_file.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}

void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

size_t read_file(const char *path, void *bytes, size_t room)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t size = fread(bytes, 1, room, stream);
    assert_int_equal(fgetc(stream), EOF);
    assert_int_equal(fclose(stream), 0);
    return size;
}

size_t size_of_file(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return (size_t)status.st_size;
}

void limit_files(size_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < SIZE_MAX ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}
