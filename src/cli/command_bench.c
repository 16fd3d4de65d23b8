/* SPDX-License-Identifier: Apache-2.0 */
/* tarry bench: which measurement it is. */
#include "cli/bench.h"

#include <stdio.h>
#include <string.h>

#include "cli/bench_kernels.h"
#include "cli/bench_round.h"
#include "cli/bench_simulate.h"
#include "cli/complain.h"
#include "cli/suggest.h"

typedef struct bench_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} bench_command;

static const bench_command commands[] = {
    {"kernels", command_bench_kernels, "encoding and decoding beside read bandwidth and BLAS"},
    {"round", command_bench_round, "a round of the local runtime beside its memory traffic"},
    {"simulate", command_bench_simulate, "reports per second of the simulator"},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(void)
{
    printf("Usage: tarry bench WHAT [OPTION...]\n"
           "Measures Tarry against the machine's own limits.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  tarry bench %-8s %s\n", commands[i].name, commands[i].text);
    printf("\n'tarry bench WHAT --help' lists the options.\n");
}

int command_bench(int argc, char **argv)
{
    if (argc < 2)
        return complain(EXIT_USAGE, "bench: say what to measure (see tarry bench --help)");
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
        names[i] = commands[i].name;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_help();
        return EXIT_DONE;
    }
    const char *near = suggest(argv[1], names, COMMANDS);
    if (near != NULL)
        return complain(EXIT_USAGE, "bench: '%s' can't be measured (did you mean %s?)", argv[1],
                        near);
    return complain(EXIT_USAGE, "bench: '%s' can't be measured (see tarry bench --help)", argv[1]);
}
