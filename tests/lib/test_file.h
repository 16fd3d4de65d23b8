/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tests, and one that is the test's own. */
#ifndef TEST_TEST_FILE_H
#define TEST_TEST_FILE_H

#include <stddef.h>

/* Its path, while there is one. */
extern char test_file[];

/* Makes it, empty, and removes it; functions of TEST_GROUP or TEST_SET_UP (test.h), whose `state`
 * they don't use. 0: all is well. */
int test_file_make(void **state);
int test_file_remove(void **state);

/* These bytes are all that is in the file. */
void write_file(const char *path, const void *bytes, size_t size);
void write_text(const char *path, const char *text);
/* Gives back how many bytes there are, of which there is room for all. */
size_t read_file(const char *path, void *bytes, size_t room);
size_t size_of_file(const char *path);

/* From here on no file may grow beyond so many bytes, as if a disk were full: what does not go in
 * is an error, and no signal. SIZE_MAX: no limit. */
void limit_files(size_t bytes);

#endif
