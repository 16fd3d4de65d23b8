/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/complain.h"

#include <stdarg.h>
#include <stdio.h>

#include "cli/text/program.h"

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
