/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a file in memory that has a name, for readers that open files. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_file {
    int descriptor;
    char path[32];
} fuzz_file;

fuzz_file file_make(const uint8_t *bytes, size_t size);
void file_remove(fuzz_file *file);

#endif
