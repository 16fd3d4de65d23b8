/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/error.h>

const char *tarry_error_text(int error)
{
    switch ((tarry_error)error) {
    case TARRY_OK:
        return "success";
    case TARRY_ERROR_NO_MEMORY:
        return "out of memory";
    case TARRY_ERROR_ARGUMENT:
        return "argument out of range";
    case TARRY_ERROR_FILE:
        return "file error";
    case TARRY_ERROR_FORMAT:
        return "malformed input";
    case TARRY_ERROR_NUMERICAL:
        return "least-squares solution did not converge";
    case TARRY_ERROR_COVERAGE:
        return "the stop rule can't be met by the workers that are left";
    case TARRY_ERROR_SYSTEM:
        return "the system refused a resource";
    case TARRY_ERROR_INTERRUPTED:
        return "interrupted";
    case TARRY_ERROR_STATE:
        return "call does not fit the present state";
    case TARRY_ERROR_DIFFER:
        return "workers have different sums or parameters, and none are those of most";
    case TARRY_ERROR_LINKS:
        return "no attempt to sum among workers was completed";
    case TARRY_ERROR_GONE:
        return "nobody who is there has the last sum or the parameters after it";
    case TARRY_ERROR_MASKS:
        return "masks do not cancel";
    }
    return "unknown error";
}
