/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diagnostic.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int diagnose(tarry_diagnostic *diagnostic, int error, const char *format, ...)
{
    if (diagnostic != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(diagnostic->text, sizeof(diagnostic->text), format, arguments);
        va_end(arguments);
    }
    return error;
}

int diagnose_no_memory(tarry_diagnostic *diagnostic, const char *what)
{
    return diagnose(diagnostic, TARRY_ERROR_NO_MEMORY, "%s: out of memory", what);
}

int diagnose_file(tarry_diagnostic *diagnostic, const char *path, int cause)
{
    return diagnose(diagnostic, TARRY_ERROR_FILE, "%s: %s", path, strerror(cause));
}
