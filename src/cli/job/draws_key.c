/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/draws_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diagnostic.h"

enum { ABOVE = STDERR_FILENO + 1 };

static int fill(int file, const uint8_t key[KEYSTREAM_KEY_BYTES])
{
    if (file < 0 || write(file, key, KEYSTREAM_KEY_BYTES) != KEYSTREAM_KEY_BYTES ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return -1;
    return fcntl(file, F_DUPFD_CLOEXEC, ABOVE);
}

int draws_key_share(const uint8_t key[KEYSTREAM_KEY_BYTES], int *descriptor,
                    tarry_diagnostic *diagnostic)
{
    int file = memfd_create("tarry-draws", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int shared = fill(file, key), failed = errno;
    if (file >= 0)
        close(file);
    if (shared < 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "the key of draws: %s", strerror(failed));
    *descriptor = shared;
    return TARRY_OK;
}

int draws_key_read(const char *path, uint8_t key[KEYSTREAM_KEY_BYTES], tarry_diagnostic *diagnostic)
{
    uint8_t bytes[KEYSTREAM_KEY_BYTES + 1];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, bytes, sizeof(bytes)) : -1;
    int failed = errno;
    if (file >= 0)
        close(file);
    if (size < 0)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(failed));
    if (size != KEYSTREAM_KEY_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: a key has %d bytes", path,
                        KEYSTREAM_KEY_BYTES);
    memcpy(key, bytes, KEYSTREAM_KEY_BYTES);
    explicit_bzero(bytes, sizeof(bytes));
    return TARRY_OK;
}
