/* SPDX-License-Identifier: Apache-2.0 */
/* Lists in a flag: of words, and of numbers for sweeps. Errors: FORMAT, NO_MEMORY; the list is then
 * untouched. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

#define LIST_MOST 1000

typedef struct whole_list {
    size_t count;
    uint32_t values[LIST_MOST];
} whole_list;

typedef struct real_list {
    size_t count;
    double values[LIST_MOST];
} real_list;

/* Puts the item up to `end` or the text's end into `item`, of `size` bytes; *text is then what
 * follows it, NULL after the last one. False: it is too long, and all is as before. */
bool list_next(const char **text, char end, char *item, size_t size);

/* Whole numbers least..most, separated by commas: "1,2,4". */
int list_whole(const char *text, uint32_t least, uint32_t most, whole_list *list,
               tarry_diagnostic *diagnostic);

/*
 * Ascending numbers above 0 and up to most: "0.5,1,2", or "FROM:TO:STEPS" for that many (2 or more)
 * at equal distances from FROM to TO.
 */
int list_ascending(const char *text, double most, real_list *list, tarry_diagnostic *diagnostic);

#endif
