/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throw-away credentials of a server and its workers, for trying secure sums out on one machine:
 * in a folder that goes with the run. They protect nobody: whoever runs this has all keys.
 */
#ifndef CLI_CREW_KEYS_H
#define CLI_CREW_KEYS_H

#include <stdint.h>

#include <tarry/error.h>

enum { CREW_KEYS_PATH = 256 };

/* A new folder with those of keys init, and a roster. Errors: FILE, SYSTEM, NO_MEMORY, with a
 * diagnostic; then there is none. */
int crew_keys_make(uint32_t workers, char folder[CREW_KEYS_PATH], tarry_diagnostic *diagnostic);
void crew_keys_remove(const char *folder);

#endif
