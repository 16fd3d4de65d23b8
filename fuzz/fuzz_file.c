/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

fuzz_file file_make(const uint8_t *bytes, size_t size)
{
    fuzz_file file = {.descriptor = memfd_create("fuzz", MFD_CLOEXEC)};
    if (file.descriptor < 0 || write(file.descriptor, bytes, size) != (ssize_t)size)
        abort();
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.descriptor);
    return file;
}

void file_remove(fuzz_file *file)
{
    close(file->descriptor);
}
