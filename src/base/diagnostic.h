/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DIAGNOSTIC_H
#define BASE_DIAGNOSTIC_H

#include <tarry/error.h>

/*
 * Writes the formatted line into diagnostic (cut to its size; NULL is allowed) and gives back
 * `error`, so that the first to detect an error can say: return diagnose(diagnostic,
 * TARRY_ERROR_FORMAT, "%s:%u: ...", file, line).
 */
__attribute__((format(printf, 3, 4))) int diagnose(tarry_diagnostic *diagnostic, int error,
                                                   const char *format, ...);

/* The same for an allocation that failed: "WHAT: out of memory". */
int diagnose_no_memory(tarry_diagnostic *diagnostic, const char *what);

/* TARRY_ERROR_FILE, for a system call that failed with `cause`, an errno: "PATH: CAUSE". */
int diagnose_file(tarry_diagnostic *diagnostic, const char *path, int cause);

#endif
