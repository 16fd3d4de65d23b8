/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/checkpoint_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/file_lock.h"
#include "cli/output/link_target.h"
#include "file/whole_file.h"

struct checkpoint_file {
    char *path; /* what symbolic links lead to: a rename replaces the file, not a link to it */
    char *previous, *fresh, *history, *sums, *ledger, *lock;
    bool good; /* the one at `path` */
    bool locked;
    int lock_descriptor;
    uint8_t *bytes;
};

static char *join(const char *text, size_t length, const char *ending)
{
    char *joined = memory_allocate(NULL, length + strlen(ending) + 1, 1);
    if (joined != NULL) {
        memcpy(joined, text, length);
        strcpy(joined + length, ending);
    }
    return joined;
}

/* Two processes that went on with one run would write into one FILE.new. Without locks there is
 * nothing to notice it by; where the folder is to blame, writing tells of that. */
static int lock(checkpoint_file *file, const char *path, tarry_diagnostic *diagnostic)
{
    switch (file_lock_take(file->lock, &file->lock_descriptor)) {
    case FILE_LOCK_TAKEN:
        file->locked = true;
        break;
    case FILE_LOCK_HELD:
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: another process goes on with this run, or writes its checkpoints here",
                        path);
    case FILE_LOCK_FOREIGN:
        return diagnose(diagnostic, TARRY_ERROR_FILE,
                        "%s: this is in the way: it should be an empty file, or not be there",
                        file->lock);
    case FILE_LOCK_UNAVAILABLE:
        break;
    }
    return TARRY_OK;
}

int checkpoint_file_open(const char *path, checkpoint_file **out, tarry_diagnostic *diagnostic)
{
    struct stat status;
    size_t length = strlen(path);
    bool there = stat(path, &status) == 0;
    if (path[length - 1] == '/' || (there && !S_ISREG(status.st_mode)))
        return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: this is no file", path);
    checkpoint_file *file = memory_allocate(NULL, 1, sizeof(*file));
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    file->path = link_target(path);
    if (file->path != NULL) {
        length = strlen(file->path);
        file->previous = join(file->path, length, ".previous");
        file->fresh = join(file->path, length, ".new");
        file->history = join(file->path, length, ".history");
        file->sums = join(file->path, length, ".sums");
        file->ledger = join(file->path, length, ".privacy");
        file->lock = join(file->path, length, ".lock");
    }
    int error = file->previous == NULL || file->fresh == NULL || file->history == NULL ||
                        file->sums == NULL || file->ledger == NULL || file->lock == NULL
                    ? diagnose_no_memory(diagnostic, path)
                    : lock(file, path, diagnostic);
    if (error == TARRY_OK)
        *out = file;
    else
        checkpoint_file_close(file);
    return error;
}

void checkpoint_file_forget(checkpoint_file *file)
{
    memory_release(NULL, file->bytes);
    file->bytes = NULL;
}

void checkpoint_file_close(checkpoint_file *file)
{
    if (file == NULL)
        return;
    checkpoint_file_forget(file);
    if (file->locked)
        file_lock_drop(file->lock, file->lock_descriptor);
    memory_release(NULL, file->lock);
    memory_release(NULL, file->sums);
    memory_release(NULL, file->ledger);
    memory_release(NULL, file->history);
    memory_release(NULL, file->fresh);
    memory_release(NULL, file->previous);
    memory_release(NULL, file->path);
    memory_release(NULL, file);
}

const char *checkpoint_file_sums(const checkpoint_file *file)
{
    return file->sums;
}

const char *checkpoint_file_ledger(const checkpoint_file *file)
{
    return file->ledger;
}

const char *checkpoint_file_history(const checkpoint_file *file)
{
    return file->history;
}

bool checkpoint_file_exists(const checkpoint_file *file)
{
    return access(file->path, F_OK) == 0 || access(file->previous, F_OK) == 0;
}

static int read_one(checkpoint_file *file, const char *path, checkpoint *state,
                    const uint8_t *vectors[CHECKPOINT_VECTORS], const checkpoint_test *test,
                    tarry_diagnostic *diagnostic)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    tarry_diagnostic why;
    int error = whole_file_read(path, &bytes, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = checkpoint_decode(bytes, size, state, vectors, &why);
    if (error != TARRY_OK)
        diagnose(diagnostic, error, "%s: %s", path, why.text);
    else if (test != NULL)
        error = test->accept(test->user, state, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, bytes);
        return error;
    }
    checkpoint_file_forget(file);
    file->bytes = bytes;
    return TARRY_OK;
}

int checkpoint_file_read(checkpoint_file *file, checkpoint *state,
                         const uint8_t *vectors[CHECKPOINT_VECTORS], const checkpoint_test *test,
                         tarry_diagnostic *fault, tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why;
    int error = read_one(file, file->path, state, vectors, test, &why);
    file->good = error == TARRY_OK;
    fault->text[0] = '\0';
    if (error == TARRY_OK)
        return TARRY_OK;
    if (error == TARRY_ERROR_NO_MEMORY ||
        read_one(file, file->previous, state, vectors, test, NULL) != TARRY_OK)
        return diagnose(diagnostic, error, "%s", why.text);
    *fault = why;
    return TARRY_OK;
}

static int put_bytes(void *user, const uint8_t *bytes, size_t size)
{
    return fwrite(bytes, 1, size, user) == size ? TARRY_OK : TARRY_ERROR_FILE;
}

/* FILE.new, whole and on disk. */
static int write_fresh(const checkpoint_file *file, const checkpoint *state,
                       const float *const vectors[])
{
    int descriptor = open(file->fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return TARRY_ERROR_FILE;
    FILE *stream = fdopen(descriptor, "w");
    if (stream == NULL) {
        close(descriptor);
        return TARRY_ERROR_NO_MEMORY;
    }
    int error = checkpoint_encode(state, vectors, put_bytes, stream);
    if (error == TARRY_OK && (fflush(stream) != 0 || fsync(descriptor) != 0))
        error = TARRY_ERROR_FILE;
    int reason = errno;
    fclose(stream);
    errno = reason;
    return error;
}

/* Gives what is at `path` its second name. It keeps the first one until a rename takes that from
 * it, so that there always is a FILE, but where the file system knows no links. */
static bool keep_previous(const checkpoint_file *file)
{
    if (!file->good || access(file->path, F_OK) != 0)
        return true;
    unlink(file->previous);
    return link(file->path, file->previous) == 0 || rename(file->path, file->previous) == 0 ||
           errno == ENOENT;
}

int checkpoint_file_write(checkpoint_file *file, const checkpoint *state,
                          const float *const vectors[], tarry_diagnostic *diagnostic)
{
    int error = write_fresh(file, state, vectors);
    if (error == TARRY_OK) {
        if (!keep_previous(file) || rename(file->fresh, file->path) != 0)
            error = TARRY_ERROR_FILE;
        else
            file->good = true;
    }
    if (error == TARRY_OK && !whole_file_sync_folder(file->path))
        error = TARRY_ERROR_FILE;
    if (error == TARRY_OK)
        return TARRY_OK;
    const char *reason = error == TARRY_ERROR_FILE ? strerror(errno) : tarry_error_text(error);
    diagnose(diagnostic, error, "%s: cannot be written: %s", file->path, reason);
    unlink(file->fresh);
    return error;
}
