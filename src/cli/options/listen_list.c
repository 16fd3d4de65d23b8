/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/listen_list.h"

#include <string.h>

#include "base/diagnostic.h"
#include "runtime/tcp/net/address.h"

int listen_list_add(listen_list *list, const char *text, tarry_diagnostic *diagnostic)
{
    for (const char *start = text;; start++) {
        size_t length = strcspn(start, ",");
        if (list->count == LISTEN_LIST_MOST)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d addresses",
                            LISTEN_LIST_MOST);
        if (length >= LISTEN_LIST_SIZE)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "an address is too long");
        char *own = list->text[list->count];
        memcpy(own, start, length);
        own[length] = '\0';
        tarry_diagnostic why;
        if (address_check(own, true, &why) != TARRY_OK)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s", why.text);
        list->address[list->count++] = own;
        start += length;
        if (*start == '\0')
            return TARRY_OK;
    }
}
