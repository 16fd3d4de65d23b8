/* SPDX-License-Identifier: Apache-2.0 */
/* The credentials of a cluster, or of two, in a folder made for a test. Nothing here gives back an
 * error: what fails fails the case. */
#ifndef TEST_KEY_FOLDER_H
#define TEST_KEY_FOLDER_H

#include "runtime/tcp/trust/credential.h"
#include "test.h"

typedef struct key_folder {
    char root[32];
    char home[64], other[64]; /* an authority's directory each, in the root */
    char member[4][96];
} key_folder;

/* An authority with a server, a viewer, and so many workers, made at that time. */
void key_folder_make(key_folder *its, uint32_t workers, int64_t now);
/* Another cluster beside it. */
void key_folder_make_other(key_folder *its, uint32_t workers, int64_t now);
/* Where those of a member are ("worker-2"), until another takes the place of the same index,
 * below 4. */
const char *key_folder_member(key_folder *its, uint32_t index, const char *name);
/* Puts all certificates of that name on the list. */
void key_folder_revoke(const key_folder *its, const char *name, int64_t now);
/* Removes all of it. */
void key_folder_remove(key_folder *its);
OWNED_STRUCT_BY(key_folder, key_folder_remove)
OWNED_BY(credential, credential_free)

credential_identity key_identity(const char *name);
/* Of a member of `home` or `other`. */
credential *key_load(const char *cluster, const char *name);

#endif
