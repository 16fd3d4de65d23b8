/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"

static bool ends_in(const char *text, const char *ending)
{
    size_t length = strlen(text), ending_length = strlen(ending);
    return length > ending_length && strcmp(text + length - ending_length, ending) == 0;
}

bool gnuplot_is_png(const char *path)
{
    return ends_in(path, ".png");
}

bool gnuplot_draws(const char *path)
{
    return ends_in(path, ".svg") || gnuplot_is_png(path);
}

/* Single quotes keep gnuplot from interpreting anything but a quote; a line's end needs double
 * ones. */
void gnuplot_quote(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            fputs("'.\"\\n\".'", script);
            continue;
        }
        if (*text == '\'')
            fputc('\'', script);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, script);
    }
    fputc('\'', script);
}

void gnuplot_number(FILE *script, double number)
{
    if (isfinite(number))
        fprintf(script, " %.9g", number);
    else
        fputs(" NaN", script);
}

/* Runs `gnuplot argument` with these descriptors; gives back its exit status, or -1 with errno. */
static int spawn_gnuplot(char *argument, int in, int out, int complaints)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0)
        return -1;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return -1;
    }
    /* A group of its own: Ctrl-C, which asks us to finish the plot, must not reach gnuplot. */
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    char *arguments[] = {"gnuplot", argument, NULL};
    pid_t child;
    int status = -1;
    int error = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, complaints, STDERR_FILENO);
    if (error == 0)
        error = posix_spawnp(&child, "gnuplot", &files, &attributes, arguments, environ);
    if (error == 0) {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    errno = error;
    return status;
}

/* Whether gnuplot can be started. Errors: SYSTEM, with a diagnostic. */
static int gnuplot_find(tarry_diagnostic *diagnostic)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int status = null < 0 ? -1 : spawn_gnuplot("--version", null, null, null);
    int error = errno;
    if (null >= 0)
        close(null);
    if (status == 0)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "gnuplot cannot be started: %s",
                    status < 0 ? strerror(error) : "it exits with an error");
}

/* What gnuplot complained about: its last line that is neither empty nor a pointer to a column. */
static int explain(FILE *complaints, tarry_diagnostic *diagnostic)
{
    char line[256], text[256] = "it exits with an error";
    rewind(complaints);
    while (fgets(line, sizeof(line), complaints) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strspn(line, " \t^") != strlen(line))
            strcpy(text, line);
    }
    return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "gnuplot: %s", text);
}

/* A stream in memory, so that neither side of a pipe can block or break it. */
static FILE *memory_stream(const char *name)
{
    int descriptor = memfd_create(name, MFD_CLOEXEC);
    if (descriptor < 0)
        return NULL;
    FILE *stream = fdopen(descriptor, "w+");
    if (stream == NULL)
        close(descriptor);
    return stream;
}

/* Copies a picture. False, with errno: `out` does not take all of it. */
static bool copy_picture(FILE *picture, FILE *out)
{
    char block[1 << 14];
    size_t got;
    rewind(picture);
    while ((got = fread(block, 1, sizeof(block), picture)) > 0)
        if (fwrite(block, 1, got, out) != got)
            return false;
    return !ferror(picture) && fflush(out) == 0;
}

/*
 * Runs gnuplot over the script, and copies the picture to `out`, which is flushed. gnuplot does not
 * notice that a disk is full, so it draws into memory. Errors: those of the script; SYSTEM, with
 * gnuplot's own words; FILE, without the file's name: `out` cannot be written.
 */
static int gnuplot_run(plot_script *write, void *user, FILE *out, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    FILE *complaints = memory_stream("gnuplot-complaints");
    FILE *picture = memory_stream("gnuplot-picture");
    FILE *script = memory_stream("gnuplot-script");
    if (complaints == NULL || picture == NULL || script == NULL)
        goto system_error;
    error = write(user, script, diagnostic);
    if (error != TARRY_OK)
        goto release;
    if (fflush(script) != 0 || fseek(script, 0, SEEK_SET) != 0)
        goto system_error;
    int status = spawn_gnuplot("-", fileno(script), fileno(picture), fileno(complaints));
    if (status < 0)
        goto system_error;
    if (status != 0)
        error = explain(complaints, diagnostic);
    else if (!copy_picture(picture, out))
        error = diagnose(diagnostic, TARRY_ERROR_FILE, "the plot cannot be written: %s",
                         strerror(errno));
    goto release;
system_error:
    error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "gnuplot: %s", strerror(errno));
release:
    if (complaints != NULL)
        fclose(complaints);
    if (picture != NULL)
        fclose(picture);
    if (script != NULL)
        fclose(script);
    return error;
}

int plot_begin(const char *path, output_file **file)
{
    tarry_diagnostic why;
    int status = output_begin(path, file);
    if (status == OPTIONS_PROCEED && *file != NULL && gnuplot_find(&why) != TARRY_OK)
        status = complain(EXIT_FAILED, "--plot: %s", why.text);
    return status;
}

int plot_end(plot_script *write, void *user, output_file **file)
{
    tarry_diagnostic why;
    if (gnuplot_run(write, user, output_file_stream(*file), &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--plot: %s", why.text);
    return output_end(file);
}
