/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/list.h"

#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"

#define ITEM_SIZE 48

bool list_next(const char **text, char end, char *item, size_t size)
{
    const char *stop = strchr(*text, end);
    size_t length = stop != NULL ? (size_t)(stop - *text) : strlen(*text);
    if (length >= size)
        return false;
    memcpy(item, *text, length);
    item[length] = '\0';
    *text = stop != NULL ? stop + 1 : NULL;
    return true;
}

static int next_item(const char **text, char end, char item[ITEM_SIZE],
                     tarry_diagnostic *diagnostic)
{
    if (!list_next(text, end, item, ITEM_SIZE))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not a list of numbers", *text);
    return TARRY_OK;
}

static int too_long(tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d values", LIST_MOST);
}

int list_whole(const char *text, uint32_t least, uint32_t most, whole_list *list,
               tarry_diagnostic *diagnostic)
{
    whole_list read = {.count = 0};
    while (text != NULL) {
        char item[ITEM_SIZE];
        uint64_t value;
        int error = next_item(&text, ',', item, diagnostic);
        if (error == TARRY_OK)
            error = parse_whole(item, least, most, &value, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (read.count == LIST_MOST)
            return too_long(diagnostic);
        read.values[read.count++] = (uint32_t)value;
    }
    *list = read;
    return TARRY_OK;
}

static int read_range(const char *text, double most, real_list *list, tarry_diagnostic *diagnostic)
{
    char item[ITEM_SIZE];
    double from = 0, to = 0;
    uint64_t steps = 0;
    int error = next_item(&text, ':', item, diagnostic);
    if (error == TARRY_OK)
        error = parse_real(item, 0, most, true, &from, diagnostic);
    if (error == TARRY_OK)
        error = next_item(&text, ':', item, diagnostic);
    if (error == TARRY_OK)
        error = parse_real(item, from, most, true, &to, diagnostic);
    if (error == TARRY_OK && text == NULL)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "a range is FROM:TO:STEPS");
    if (error == TARRY_OK)
        error = parse_whole(text, 2, LIST_MOST, &steps, diagnostic);
    if (error != TARRY_OK)
        return error;
    list->count = (size_t)steps;
    for (size_t i = 0; i < list->count; i++)
        list->values[i] = from + (to - from) * (double)i / (double)(steps - 1);
    return TARRY_OK;
}

int list_ascending(const char *text, double most, real_list *list, tarry_diagnostic *diagnostic)
{
    if (strchr(text, ':') != NULL)
        return read_range(text, most, list, diagnostic);
    real_list read = {.count = 0};
    double last = 0;
    while (text != NULL) {
        char item[ITEM_SIZE];
        double value;
        int error = next_item(&text, ',', item, diagnostic);
        if (error == TARRY_OK)
            error = parse_real(item, 0, most, true, &value, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (value <= last)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s is not above %g, before it", item,
                            last);
        if (read.count == LIST_MOST)
            return too_long(diagnostic);
        last = read.values[read.count++] = value;
    }
    *list = read;
    return TARRY_OK;
}
