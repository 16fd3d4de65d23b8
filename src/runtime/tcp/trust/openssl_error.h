/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL's errors as Tarry's. */
#ifndef TCP_OPENSSL_ERROR_H
#define TCP_OPENSSL_ERROR_H

#include <tarry/error.h>

/*
 * Says "WHAT: REASON" with the reason of the first error in this thread's queue, and empties the
 * queue. Gives back `error`, or NO_MEMORY if that is the reason. The texts are OpenSSL's own and
 * hold nothing of the data.
 */
int diagnose_openssl(tarry_diagnostic *diagnostic, int error, const char *what);

#endif
