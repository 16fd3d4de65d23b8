/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARRY_ERROR_H
#define TARRY_ERROR_H

#include <tarry/api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_DIAGNOSTIC_SIZE 512

/*
 * What a function that can fail returns: TARRY_OK or one of these. Outputs are set on TARRY_OK
 * only, unless the function's comment says otherwise.
 */
typedef enum tarry_error {
    TARRY_OK = 0,
    TARRY_ERROR_NO_MEMORY = -1,   /* an allocation failed */
    TARRY_ERROR_ARGUMENT = -2,    /* a setting or an argument is outside its documented range */
    TARRY_ERROR_FILE = -3,        /* a file cannot be opened, read or written */
    TARRY_ERROR_FORMAT = -4,      /* what a file or a text says is malformed */
    TARRY_ERROR_NUMERICAL = -5,   /* a least-squares solution did not converge */
    TARRY_ERROR_COVERAGE = -6,    /* the stop rule can't be met by the workers that are left */
    TARRY_ERROR_SYSTEM = -7,      /* the system refused a thread or another resource */
    TARRY_ERROR_INTERRUPTED = -8, /* the caller asked to stop */
    TARRY_ERROR_STATE = -9,       /* the call does not fit the object's present state */
    /* With TARRY_SUM_EVERYWHERE: */
    TARRY_ERROR_DIFFER = -10, /* workers got different bits for the same sum, three times in a row,
                                 or have different parameters, and none are those of most */
    TARRY_ERROR_LINKS = -11,  /* a round's attempts to sum among workers all failed */
    TARRY_ERROR_GONE = -12, /* nobody who is there has the last committed sum or state, and there is
                               no checkpoint */
    TARRY_ERROR_MASKS = -13, /* secure sums: the masks of workers' parts do not cancel */
} tarry_error;

/* One sentence on `error`, without a full stop; static, never NULL,
 * also for a value that is none of the above. */
TARRY_API const char *tarry_error_text(int error);

/*
 * Room for one line that says what went wrong, why and where. The first function that detects an
 * error fills it. Functions take it as their last argument; NULL when the caller does not care. It
 * is untouched on success.
 */
typedef struct tarry_diagnostic {
    char text[TARRY_DIAGNOSTIC_SIZE];
} tarry_diagnostic;

#ifdef __cplusplus
}
#endif

#endif
