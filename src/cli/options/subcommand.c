/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/subcommand.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tarry/version.h>

#include "cli/options/suggest.h"
#include "cli/text/complain.h"
#include "cli/text/program.h"

enum { MOST = 16, NAME_SIZE = 64 };

/* "tarry keys", or "tarry-bench" where the whole program is the set. */
static void write_name(const subcommand_set *set, char *name)
{
    snprintf(name, NAME_SIZE, "%s%s%s", program_name, set->command != NULL ? " " : "",
             set->command != NULL ? set->command : "");
}

static void print_help(const subcommand_set *set, const char *name)
{
    size_t widest = 0;
    for (size_t i = 0; i < set->count; i++)
        if (strlen(set->items[i].name) > widest)
            widest = strlen(set->items[i].name);
    printf("Usage: %s %s\n%s\n\n", name, set->usage, set->text);
    for (size_t i = 0; i < set->count; i++)
        printf("  %s %-*s %s\n", name, (int)widest, set->items[i].name, set->items[i].text);
    printf("\n'%s %s --help' lists the options.\n", name, set->one);
}

int subcommand_run(const subcommand_set *set, int argc, char **argv)
{
    const char *names[MOST];
    char name[NAME_SIZE];
    const char *before = set->command != NULL ? set->command : "";
    const char *colon = set->command != NULL ? ": " : "";
    write_name(set, name);
    assert(set->count <= MOST);
    if (argc < 2)
        return complain(EXIT_USAGE, "%s%s%s (see %s --help)", before, colon, set->missing, name);
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(argv[1], set->items[i].name) == 0)
            return set->items[i].run(argc - 1, argv + 1);
        names[i] = set->items[i].name;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_help(set, name);
        return EXIT_DONE;
    }
    if (set->command == NULL && strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", program_name, tarry_version());
        return EXIT_DONE;
    }
    const char *near = suggest(argv[1], names, set->count);
    if (near != NULL)
        return complain(EXIT_USAGE, "%s%s'%s' %s (did you mean %s?)", before, colon, argv[1],
                        set->unknown, near);
    return complain(EXIT_USAGE, "%s%s'%s' %s (see %s --help)", before, colon, argv[1], set->unknown,
                    name);
}
