/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/suggest.h"

#include <string.h>

#define LONGEST 63

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance, by rows; words of at most LONGEST characters. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        before[j] = last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = least(least(row[j - 1], last[j]) + 1, last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b_length];
}

const char *suggest(const char *word, const char *const *names, size_t count)
{
    size_t length = strlen(word);
    if (length > LONGEST)
        return NULL;
    size_t nearest = length < 3 ? 1 : length / 3;
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t name_length = strlen(names[i]);
        if (name_length > LONGEST)
            continue;
        size_t apart = distance(word, length, names[i], name_length);
        if (apart < nearest || (apart == nearest && found == NULL)) {
            nearest = apart;
            found = names[i];
        }
    }
    return found;
}
