/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key by which samples are drawn with differential privacy, on its way to the worker processes
 * of one machine and user: a file that is in no folder, sealed against changes, which they inherit.
 */
#ifndef CLI_DRAWS_KEY_H
#define CLI_DRAWS_KEY_H

#include <tarry/error.h>

#include "privacy/keystream.h"

/* A descriptor of such a file, above those of standard input and output, which no other program
 * gets (close-on-exec); the caller closes it. Errors: SYSTEM, with a diagnostic. */
int draws_key_share(const uint8_t key[KEYSTREAM_KEY_BYTES], int *descriptor,
                    tarry_diagnostic *diagnostic);

/* Reads a file that has a key, and nothing else. Errors: FILE (it can't be read), FORMAT (other
 * bytes than that), with a diagnostic; *key is untouched. */
int draws_key_read(const char *path, uint8_t key[KEYSTREAM_KEY_BYTES],
                   tarry_diagnostic *diagnostic);

#endif
