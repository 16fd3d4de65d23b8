/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarry/error.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"

struct output_file {
    char *path;      /* as the user gave it, for messages */
    char *target;    /* what symbolic links lead to; NULL if the stream writes to path itself */
    char *temporary; /* room for the name beside the target */
    bool named;      /* the temporary name exists */
    FILE *stream;
};

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
    char *folder = memory_text(NULL, file->target, strlen(file->target), "");
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

/*
 * Makes sure that `path` can be written, without touching what it holds. A device or a pipe is
 * written directly. The caller owns *out and ends it with output_file_commit or
 * output_file_discard. Errors: FILE, NO_MEMORY, with a diagnostic that begins with the path.
 */
static int output_file_open(const char *path, output_file **out, tarry_diagnostic *diagnostic)
{
    output_file *file = memory_allocate(NULL, 1, sizeof(*file));
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    int error = TARRY_ERROR_NO_MEMORY;
    file->path = memory_text(NULL, path, strlen(path), "");
    file->target = link_target(path);
    if (file->path == NULL || file->target == NULL)
        goto out_of_memory;
    file->temporary = memory_text(NULL, file->target, strlen(file->target), ".XXXXXX");
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

/* Writes what is buffered and gives the file its name.
 * The file is freed, and nothing is left on failure. Errors: FILE. */
static int output_file_commit(output_file *file, tarry_diagnostic *diagnostic)
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

/* ---- output ---- */

int output_begin(const char *path, output_file **file)
{
    tarry_diagnostic why;
    if (path == NULL || output_file_open(path, file, &why) == TARRY_OK)
        return OPTIONS_PROCEED;
    return complain(EXIT_FAILED, "%s", why.text);
}

int output_end(output_file **file)
{
    tarry_diagnostic why;
    output_file *closing = *file;
    *file = NULL;
    if (output_file_commit(closing, &why) == TARRY_OK)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "%s", why.text);
}

/* ---- link target ---- */

enum { LINKS_MOST = 40 }; /* as many as the kernel follows */

/* Where a link points to; a relative one begins in the folder that the link is in. */
static char *follow(const char *link, const char *to)
{
    const char *slash = strrchr(link, '/');
    bool stays = to[0] != '/' && slash != NULL;
    return memory_text(NULL, link, stays ? (size_t)(slash - link) + 1 : 0, to);
}

/* Whether `path` is a link to what is not there; `to` is what it says then. */
static bool dangles(const char *path, char to[PATH_MAX])
{
    struct stat status;
    if (stat(path, &status) == 0 || errno != ENOENT)
        return false;
    ssize_t length = readlink(path, to, PATH_MAX - 1);
    if (length <= 0)
        return false;
    to[length] = '\0';
    return true;
}

char *link_target(const char *path)
{
    struct stat status;
    char *real = stat(path, &status) == 0 ? realpath(path, NULL) : NULL;
    const char *begin = real != NULL ? real : path;
    char *target = memory_text(NULL, begin, strlen(begin), ""), to[PATH_MAX];
    free(real);
    for (int links = 0; target != NULL && links < LINKS_MOST && dangles(target, to); links++) {
        char *next = follow(target, to);
        memory_release(NULL, target);
        target = next;
    }
    return target;
}
