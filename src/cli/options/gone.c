/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/gone.h"

#include <stddef.h>
#include <string.h>

/* In alphabetical order. */
static const struct {
    const char *name, *sentence;
} gone[] = {
    {"early", "no longer exists; use --sum everywhere to make sums faster where vectors take long"},
};

const char *gone_option(const char *name)
{
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        if (strcmp(gone[i].name, name) == 0)
            return gone[i].sentence;
    return NULL;
}
