/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>

enum { MOST_CASES = 256 };

static test_case *all; /* the one that was added last comes first */

void test_case_add(test_case *added)
{
    added->next = all;
    all = added;
}

/* Writes NAME of a path that ends with test_NAME.c. */
static const char *name_of_file(const char *path, char name[64])
{
    const char *last = strrchr(path, '/');
    last = last != NULL ? last + 1 : path;
    snprintf(name, 64, "%s", last + strlen("test_"));
    name[strcspn(name, ".")] = '\0';
    return name;
}

static bool is_only_file(void)
{
    for (const test_case *it = all; it != NULL; it = it->next)
        if (strcmp(it->file, all->file) != 0)
            return false;
    return all != NULL;
}

static int compare_lines(const void *a, const void *b)
{
    return (*(test_case *const *)a)->line - (*(test_case *const *)b)->line;
}

/* Runs the cases of the file that the pattern names; -1: there is none. */
static int file_run(const char *name, const char *pattern)
{
    const test_case *sorted[MOST_CASES];
    struct CMUnitTest cases[MOST_CASES], group = {0};
    size_t count = 0;
    char own[64];
    for (const test_case *it = all; it != NULL; it = it->next) {
        if (strcmp(name_of_file(it->file, own), name) != 0)
            continue;
        if (it->test.name == NULL)
            group = it->test;
        else if (count == MOST_CASES)
            abort();
        else if (fnmatch(pattern, it->test.name, 0) == 0)
            sorted[count++] = it;
    }
    qsort(sorted, count, sizeof(*sorted), compare_lines);
    for (size_t i = 0; i < count; i++)
        cases[i] = sorted[i]->test;
    return count == 0
               ? -1
               : _cmocka_run_group_tests(name, cases, count, group.setup_func, group.teardown_func);
}

int test_main(int argc, char **argv)
{
    char only[64];
    const bool single = is_only_file();
    const char *name = single ? name_of_file(all->file, only) : argc > 1 ? argv[1] : "";
    const int at = single && (argc < 2 || strcmp(argv[1], name) != 0) ? 1 : 2;
    const int failed = file_run(name, argc > at ? argv[at] : "*");
    if (failed >= 0)
        return failed;
    fprintf(stderr, "usage: %s FILE [CASE]\nCASE may contain * and ?. FILE is one of:\n", argv[0]);
    for (const test_case *it = all; it != NULL; it = it->next)
        if (it->next == NULL || strcmp(it->file, it->next->file) != 0)
            fprintf(stderr, "  %s\n", name_of_file(it->file, only));
    return 1;
}

void within_or_fail(double found, double wanted, double apart, const char *file, int line)
{
    if (found - wanted <= apart && wanted - found <= apart)
        return;
    print_error("%.17g, and %.17g is wanted\n", found, wanted);
    _fail(file, line);
}

void *checked_malloc(size_t size)
{
    void *made = malloc(size);
    assert_non_null(made);
    return made;
}

void *checked_calloc(size_t count, size_t size)
{
    void *made = calloc(count, size);
    assert_non_null(made);
    return made;
}
