/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/subcommand.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli/complain.h"
#include "cli/suggest.h"

enum { MOST = 8 };

static void print_help(const subcommand_set *set)
{
    size_t widest = 0;
    for (size_t i = 0; i < set->count; i++)
        if (strlen(set->items[i].name) > widest)
            widest = strlen(set->items[i].name);
    printf("Usage: tarry %s %s\n%s\n\n", set->command, set->usage, set->text);
    for (size_t i = 0; i < set->count; i++)
        printf("  tarry %s %-*s %s\n", set->command, (int)widest, set->items[i].name,
               set->items[i].text);
    printf("\n'tarry %s %s --help' lists the options.\n", set->command, set->one);
}

int subcommand_run(const subcommand_set *set, int argc, char **argv)
{
    const char *names[MOST];
    assert(set->count <= MOST);
    if (argc < 2)
        return complain(EXIT_USAGE, "%s: %s (see tarry %s --help)", set->command, set->missing,
                        set->command);
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(argv[1], set->items[i].name) == 0)
            return set->items[i].run(argc - 1, argv + 1);
        names[i] = set->items[i].name;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_help(set);
        return EXIT_DONE;
    }
    const char *near = suggest(argv[1], names, set->count);
    if (near != NULL)
        return complain(EXIT_USAGE, "%s: '%s' %s (did you mean %s?)", set->command, argv[1],
                        set->unknown, near);
    return complain(EXIT_USAGE, "%s: '%s' %s (see tarry %s --help)", set->command, argv[1],
                    set->unknown, set->command);
}
