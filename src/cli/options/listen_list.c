/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/listen_list.h"

#include "base/diagnostic.h"
#include "cli/options/list.h"
#include "runtime/tcp/net/address.h"

int listen_list_add(listen_list *list, const char *text, tarry_diagnostic *diagnostic)
{
    while (text != NULL) {
        if (list->count == LISTEN_LIST_MOST)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d addresses",
                            LISTEN_LIST_MOST);
        char *own = list->text[list->count];
        if (!list_next(&text, ',', own, LISTEN_LIST_SIZE))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "an address is too long");
        tarry_diagnostic why;
        if (address_check(own, true, &why) != TARRY_OK)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s", why.text);
        list->address[list->count++] = own;
    }
    return TARRY_OK;
}
