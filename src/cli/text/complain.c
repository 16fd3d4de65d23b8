/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/complain.h"

#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int complain(int status, const char *format, ...)
{
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    /* What stdout holds belongs before the error where both go to one place. */
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", program_name, line);
    return status;
}

/* ---- program ---- */

/*
 * A standard descriptor that the caller closed would be given to the next file that is opened, and
 * messages would go into it. In its place stands what gives an error in that direction.
 */
static void occupy_standard_descriptors(void)
{
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        if (fcntl(descriptor, F_GETFD) < 0)
            open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

/*
 * Threads of OpenBLAS ask for memory of their own again and again until they have it, and exit
 * waits for these threads. Where there is not enough for them (ulimit -v), it would wait forever.
 */
static bool has_room_to_exit(void)
{
    const size_t wanted = (size_t)192 << 20; /* OpenBLAS: 128 MiB; and what malloc adds */
    void *memory = mmap(NULL, wanted, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    munmap(memory, wanted);
    return true;
}

int program_main(int (*run)(int argc, char **argv), int argc, char **argv)
{
    occupy_standard_descriptors();
    /* Workers are threads already and share the cores. */
    openblas_set_num_threads(1);
    int status = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_DONE)
        status = complain(EXIT_FAILED, "standard output: %s", strerror(errno));
    if (!has_room_to_exit()) {
        fflush(NULL);
        _exit(status);
    }
    return status;
}
