/* SPDX-License-Identifier: Apache-2.0 */
#include "key_folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pki/authority.h"

void key_folder_make(key_folder *its, uint32_t workers, int64_t now)
{
    tarry_diagnostic why;
    strcpy(its->root, "/tmp/tarry-test-XXXXXX");
    assert_non_null(mkdtemp(its->root));
    snprintf(its->home, sizeof(its->home), "%s/home", its->root);
    snprintf(its->other, sizeof(its->other), "%s/other", its->root);
    assert_ok_or(why, authority_init(its->home, workers, (authority_hosts){0}, now, NULL, &why));
}

void key_folder_make_other(key_folder *its, uint32_t workers, int64_t now)
{
    tarry_diagnostic why;
    assert_ok_or(why, authority_init(its->other, workers, (authority_hosts){0}, now, NULL, &why));
}

const char *key_folder_member(key_folder *its, uint32_t index, const char *name)
{
    snprintf(its->member[index], sizeof(its->member[index]), "%s/%s", its->home, name);
    return its->member[index];
}

void key_folder_revoke(const key_folder *its, const char *name, int64_t now)
{
    authority_tally tally;
    assert_ok(authority_revoke(its->home, key_identity(name), NULL, now, &tally, NULL));
}

void key_folder_remove(key_folder *its)
{
    authority_remove(its->root);
    assert_int_not_equal(access(its->root, F_OK), 0);
}

credential_identity key_identity(const char *name)
{
    credential_identity read;
    assert_ok(identity_parse(name, &read));
    return read;
}

credential *key_load(const char *cluster, const char *name)
{
    char path[160];
    credential *loaded;
    tarry_diagnostic why;
    assert_in_range(snprintf(path, sizeof(path), "%s/%s", cluster, name), 1, sizeof(path) - 1);
    assert_ok_or(why, credential_load(path, NULL, &loaded, &why));
    return loaded;
}
