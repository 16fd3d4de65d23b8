/* SPDX-License-Identifier: Apache-2.0 */
/* The credentials of a cluster, in a folder made for a test. */
#ifndef TEST_KEY_FOLDER_H
#define TEST_KEY_FOLDER_H

#include "test.h"
#include <stdint.h>

typedef struct key_folder {
    char folder[32];
    char member[4][64];
} key_folder;

/* An authority with a server, a viewer, and WORKERS workers. */
void key_folder_make(key_folder *its);
/* Where those of a member are ("worker-2"), until another takes the place of the same index,
 * below 4. */
const char *key_folder_member(key_folder *its, uint32_t index, const char *name);
/* Removes all of it. */
void key_folder_remove(key_folder *its);
OWNED_STRUCT_BY(key_folder, key_folder_remove)

#endif
