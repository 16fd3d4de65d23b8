/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers in a flag, for sweeps. Errors: FORMAT, NO_MEMORY; the list is then untouched. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

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

/* Whole numbers least..most, separated by commas: "1,2,4". */
int list_whole(const char *text, uint32_t least, uint32_t most, whole_list *list,
               tarry_diagnostic *diagnostic);

/*
 * Ascending numbers above 0 and up to most: "0.5,1,2", or "FROM:TO:STEPS" for that many (2 or more)
 * at equal distances from FROM to TO.
 */
int list_ascending(const char *text, double most, real_list *list, tarry_diagnostic *diagnostic);

#endif
