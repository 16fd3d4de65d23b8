/* SPDX-License-Identifier: Apache-2.0 */
/* A command of several, such as tarry keys: which one is meant by the first argument. */
#ifndef CLI_SUBCOMMAND_H
#define CLI_SUBCOMMAND_H

#include <stddef.h>

typedef struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is its name */
    const char *text;                  /* for --help */
} subcommand;

typedef struct subcommand_set {
    const char *command; /* "keys"; NULL: the program itself, which then knows --version, too */
    const char *usage;   /* "WHAT [OPTION...]" */
    const char *text;    /* what the command does, a sentence */
    const char *one;     /* what a subcommand is called in the usage: "WHAT" */
    const char *missing; /* said when none is given: "say what to measure" */
    const char *unknown; /* of a name that is none: "can't be measured" */
    const subcommand *items;
    size_t count;
} subcommand_set;

/* Runs the one that argv[1] names; or prints help, or complains and suggests. Gives back the exit
 * status. */
int subcommand_run(const subcommand_set *set, int argc, char **argv);

#endif
