/* SPDX-License-Identifier: Apache-2.0 */
#include "file/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"

/* All of it, or false with errno set; EIO for a file that became shorter meanwhile. */
static bool read_fully(int descriptor, uint8_t *bytes, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t count = read(descriptor, bytes + got, size - got);
        if (count == 0)
            errno = EIO;
        if (count == 0 || (count < 0 && errno != EINTR))
            return false;
        got += count > 0 ? (size_t)count : 0;
    }
    return true;
}

int whole_file_read(const char *path, uint8_t **bytes, size_t *size, tarry_diagnostic *diagnostic)
{
    struct stat status;
    int error = TARRY_OK;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be read: %s", path,
                        strerror(errno));
    uint8_t *read = NULL;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: this is no file", path);
    } else if ((read = memory_allocate(NULL, (size_t)status.st_size, 1)) == NULL) {
        error = diagnose_no_memory(diagnostic, path);
    } else if (!read_fully(descriptor, read, (size_t)status.st_size)) {
        error =
            diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    }
    close(descriptor);
    if (error != TARRY_OK) {
        memory_release(NULL, read);
        return error;
    }
    *bytes = read;
    *size = (size_t)status.st_size;
    return TARRY_OK;
}

bool whole_file_sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = memory_allocate(NULL, length + 1, 1);
    if (folder == NULL) {
        errno = ENOMEM;
        return false;
    }
    memcpy(folder, slash == NULL ? "." : path, length);
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memory_release(NULL, folder);
    if (descriptor < 0)
        return false;
    const bool synced = fsync(descriptor) == 0 || errno == EINVAL;
    const int reason = errno;
    close(descriptor);
    errno = reason;
    return synced;
}

bool whole_file_write_at(int descriptor, const uint8_t *bytes, size_t size, size_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t count = pwrite(descriptor, bytes + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno != EINTR)
            return false;
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}
