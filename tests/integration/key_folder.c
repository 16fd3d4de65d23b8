/* SPDX-License-Identifier: Apache-2.0 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "key_folder.h"
#include "test.h"

#include "pki/authority.h"
#include "server_bench.h"

const char *key_folder_member(key_folder *its, uint32_t index, const char *name)
{
    char path[sizeof(its->member[index])];
    snprintf(path, sizeof(path), "%s/%s", its->folder, name);
    return memcpy(its->member[index], path, sizeof(path));
}

void key_folder_make(key_folder *its)
{
    snprintf(its->folder, sizeof(its->folder), "/tmp/tarry-test-XXXXXX");
    assert_non_null(mkdtemp(its->folder));
    assert_ok(authority_init(its->folder, WORKERS, (authority_hosts){0}, (int64_t)time(NULL), NULL,
                             NULL));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

void key_folder_remove(key_folder *its)
{
    assert_int_equal(nftw(its->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}
