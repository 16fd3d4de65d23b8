/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/subcommand.h"

#include <stdio.h>
#include <string.h>

#include <tarry/version.h>

#include "base/memory.h"
#include "cli/options/suggest.h"
#include "cli/text/complain.h"
#include "cli/text/program.h"

enum { NAME_SIZE = 64 };

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

/* The one that was most likely meant; NULL: none is near, or there is no memory to look. */
static const char *find_near(const subcommand_set *set, const char *word)
{
    const char **names = memory_allocate(NULL, set->count, sizeof(*names));
    if (names == NULL)
        return NULL;
    for (size_t i = 0; i < set->count; i++)
        names[i] = set->items[i].name;
    const char *near = suggest(word, names, set->count);
    memory_release(NULL, names);
    return near;
}

int subcommand_run(const subcommand_set *set, int argc, char **argv)
{
    char name[NAME_SIZE];
    const char *before = set->command != NULL ? set->command : "";
    const char *colon = set->command != NULL ? ": " : "";
    write_name(set, name);
    if (argc < 2)
        return complain(EXIT_USAGE, "%s%s%s (see %s --help)", before, colon, set->missing, name);
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(argv[1], set->items[i].name) == 0)
            return set->items[i].run(argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") == 0) {
        print_help(set, name);
        return EXIT_DONE;
    }
    if (set->command == NULL && strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", program_name, tarry_version());
        return EXIT_DONE;
    }
    const char *near = find_near(set, argv[1]);
    if (near != NULL)
        return complain(EXIT_USAGE, "%s%s'%s' %s (did you mean %s?)", before, colon, argv[1],
                        set->unknown, near);
    return complain(EXIT_USAGE, "%s%s'%s' %s (see %s --help)", before, colon, argv[1], set->unknown,
                    name);
}
