/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarry/version.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/options/gone.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"

/* ---- tarry run: what it does is written in Python, and this goes on as that ---- */

/* As 'python3 -m tarry' but for what it says without the package, and for files of the current
 * folder: they hide no module. */
static const char run_script[] =
    "import sys\n"
    "sys.path[:] = [place for place in sys.path if place]\n"
    "try:\n"
    "    from tarry.__main__ import main\n"
    "except ModuleNotFoundError as error:\n"
    "    if error.name != 'tarry':\n"
    "        raise\n"
    "    sys.exit(f'tarry: run: {sys.executable} does not have the Python "
    "package tarry: see tarry-run(1)')\n"
    "sys.exit(main(sys.argv[1:]))\n";

static int command_run(int argc, char **argv)
{
    char **words = memory_allocate(NULL, (size_t)argc + 4, sizeof(*words));
    if (words == NULL)
        return complain(EXIT_FAILED, "run: out of memory");
    words[0] = "python3";
    words[1] = "-c";
    words[2] = (char *)run_script;
    memcpy(words + 3, argv, (size_t)argc * sizeof(*words));
    words[3 + argc] = NULL;
    execvp(words[0], words);
    int error = errno;
    memory_release(NULL, words);
    return complain(EXIT_FAILED, "run: python3: %s: see tarry-run(1)", strerror(error));
}

/* ---- the commands ---- */

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} command;

static const command commands[] = {
    {"train", command_train, "train a model over workers that are slow, uneven or dead"},
    {"serve", command_serve, "the same over workers that connect from other machines"},
    {"work", command_work, "be such a worker"},
    {"run", command_run, "start processes of a Python script that trains with tarry.torch"},
    {"plan", command_plan, "print an assignment's figures before anything runs"},
    {"simulate", command_simulate, "compare schemes over modelled workers in virtual time"},
    {"privacy", command_privacy, "say what sums with noise cost in privacy"},
    {"keys", command_keys, "make and revoke the credentials of a cluster"},
    {"top", command_top, "watch a run on other machines"},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
    printf("Usage: tarry COMMAND [OPTION...]\n"
           "Gradient sums over workers that are slow, uneven or dead.\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  tarry %-8s %s\n", commands[i].name, commands[i].text);
    printf("\n      --help     Give this help list\n"
           "      --version  Print the version\n\n"
           "'tarry COMMAND --help' lists a command's options;\n"
           "'tarry train' alone trains on made-up data.\n");
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return complain(EXIT_USAGE, "no command given (see tarry --help)");
    const char *word = argv[1];
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(word, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
        names[i] = commands[i].name;
    }
    if (strcmp(word, "--help") == 0) {
        print_help();
        return EXIT_DONE;
    }
    if (strcmp(word, "--version") == 0) {
        printf("tarry %s\n", tarry_version());
        return EXIT_DONE;
    }
    const char *gone = gone_value("command", word);
    if (gone != NULL)
        return complain(EXIT_USAGE, "%s: %s", word, gone);
    const char *kind = word[0] == '-' ? "option" : "command";
    const char *near = suggest(word, names, COMMAND_COUNT);
    if (near != NULL)
        return complain(EXIT_USAGE, "%s: unknown %s (did you mean %s?)", word, kind, near);
    return complain(EXIT_USAGE, "%s: unknown %s (see tarry --help)", word, kind);
}

const char program_name[] = "tarry";

int main(int argc, char **argv)
{
    return program_main(run, argc, argv);
}
