/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/link_target.h"

struct output_file {
    char *path;      /* as the user gave it, for messages */
    char *target;    /* what symbolic links lead to; NULL if the stream writes to path itself */
    char *temporary; /* room for the name beside the target */
    bool named;      /* the temporary name exists */
    FILE *stream;
};

static char *copy_text(const char *text, const char *ending)
{
    size_t length = strlen(text);
    char *copy = memory_allocate(NULL, length + strlen(ending) + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        strcpy(copy + length, ending);
    }
    return copy;
}

static int open_named(output_file *file)
{
    int descriptor = mkostemp(file->temporary, O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    file->named = true;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
    return descriptor;
}

/* A file without a name in the target's folder, which vanishes however this process ends. */
static int open_nameless(const output_file *file)
{
    char *folder = copy_text(file->target, "");
    if (folder == NULL)
        return -1;
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        strcpy(folder, "."); /* the target's name has room: it is not empty */
    else
        slash[slash == folder ? 1 : 0] = '\0';
    int descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    int error = errno;
    memory_release(NULL, folder);
    errno = error;
    return descriptor;
}

/* A descriptor, or -1 with errno set. */
static int open_target(output_file *file)
{
    struct stat status;
    if (stat(file->path, &status) != 0) {
        if (errno != ENOENT)
            return -1;
        if (file->path[strlen(file->path) - 1] == '/') {
            errno = EISDIR;
            return -1;
        }
    } else if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return -1;
    } else if (!S_ISREG(status.st_mode)) {
        memory_release(NULL, file->target);
        file->target = NULL;
        return open(file->path, O_WRONLY | O_CLOEXEC);
    } else if (access(file->path, W_OK) != 0) {
        return -1;
    }
    int descriptor = open_nameless(file);
    if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        descriptor = open_named(file);
    return descriptor;
}

int output_file_open(const char *path, output_file **out, tarry_diagnostic *diagnostic)
{
    output_file *file = memory_allocate(NULL, 1, sizeof(*file));
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    int error = TARRY_ERROR_NO_MEMORY;
    file->path = copy_text(path, "");
    file->target = link_target(path);
    if (file->path == NULL || file->target == NULL)
        goto out_of_memory;
    file->temporary = copy_text(file->target, ".XXXXXX");
    if (file->temporary == NULL)
        goto out_of_memory;
    int descriptor = open_target(file);
    if (descriptor >= 0 && (file->stream = fdopen(descriptor, "w")) == NULL)
        close(descriptor);
    if (file->stream == NULL) {
        error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be written: %s", path,
                         strerror(errno));
        goto release;
    }
    *out = file;
    return TARRY_OK;
out_of_memory:
    diagnose_no_memory(diagnostic, path);
release:
    output_file_discard(file);
    return error;
}

FILE *output_file_stream(output_file *file)
{
    return file->stream;
}

/* Gives a nameless file the temporary name, of which there may be an old one. */
static int give_name(output_file *file)
{
    char source[64];
    snprintf(source, sizeof(source), "/proc/self/fd/%d", fileno(file->stream));
    char *digits = file->temporary + strlen(file->temporary) - 6;
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        snprintf(digits, 7, "%06x", ((unsigned)getpid() + attempt * 7919) & 0xffffff);
        if (linkat(AT_FDCWD, source, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) == 0) {
            file->named = true;
            return 0;
        }
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

int output_file_commit(output_file *file, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    bool written = fflush(file->stream) == 0 && !ferror(file->stream);
    if (written && file->target != NULL) {
        written =
            (file->named || give_name(file) == 0) && rename(file->temporary, file->target) == 0;
        if (written)
            file->named = false;
    }
    if (!written)
        error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be written: %s", file->path,
                         strerror(errno));
    output_file_discard(file);
    return error;
}

void output_file_discard(output_file *file)
{
    if (file == NULL)
        return;
    if (file->named)
        unlink(file->temporary);
    if (file->stream != NULL)
        fclose(file->stream);
    memory_release(NULL, file->temporary);
    memory_release(NULL, file->target);
    memory_release(NULL, file->path);
    memory_release(NULL, file);
}
