/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/crew_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diagnostic.h"
#include "pki/authority.h"
#include "pki/authority_files.h"

int crew_keys_make(uint32_t workers, char folder[CREW_KEYS_PATH], tarry_diagnostic *diagnostic)
{
    static const authority_hosts none = {0};
    const char *place = getenv("TMPDIR");
    const int64_t now = (int64_t)time(NULL);
    authority_rostered made;
    int length = snprintf(folder, CREW_KEYS_PATH, "%s/tarry-keys-XXXXXX",
                          place != NULL && *place != '\0' ? place : "/tmp");
    if (length >= CREW_KEYS_PATH)
        errno = ENAMETOOLONG;
    if (length >= CREW_KEYS_PATH || mkdtemp(folder) == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FILE, "credentials of worker processes: %s",
                        strerror(errno));
    int error = authority_init(folder, workers, none, now, NULL, diagnostic);
    if (error == TARRY_OK)
        error = authority_roster(folder, now, &made, diagnostic);
    if (error != TARRY_OK)
        authority_remove(folder);
    return error;
}

void crew_keys_remove(const char *folder)
{
    authority_remove(folder);
}
