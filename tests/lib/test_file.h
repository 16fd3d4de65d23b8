/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the test's own. */
#ifndef TEST_TEST_FILE_H
#define TEST_TEST_FILE_H

#include <stddef.h>

/* Its path, while there is one. */
extern char test_file[];

/* Makes it, empty, and removes it; functions of TEST_GROUP or TEST_SET_UP (test.h), whose `state`
 * they don't use. 0: all is well. */
int test_file_make(void **state);
int test_file_remove(void **state);
/* These bytes are all that is in it. */
void test_file_write(const void *bytes, size_t size);

#endif
