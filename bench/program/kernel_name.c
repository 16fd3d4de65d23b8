/* SPDX-License-Identifier: Apache-2.0 */
#include "program/kernel_name.h"

#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"

int kernel_name_find(const char *text, const char *(*name_at)(size_t index), size_t *index,
                     tarry_diagnostic *diagnostic)
{
    char known[128] = "";
    const char *name;
    for (size_t i = 0; (name = name_at(i)) != NULL; i++) {
        if (strcmp(name, text) == 0) {
            *index = i;
            return TARRY_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, " %s", name);
    }
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is none that this processor runs:%s",
                    text, known);
}
