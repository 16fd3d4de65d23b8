/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command's options as tables. Each option is a flag of the command line, a key of the
 * job file (--config) and a key of the report's "config", all of the same name.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

/* A job file: lines 'key = value' without sections; '#' and ';' begin a comment. */

typedef struct config_entry {
    char *key;
    char *value;
    unsigned line; /* counts from 1 */
} config_entry;

typedef struct config_file {
    config_entry *entries; /* in the file's order */
    size_t count;
    size_t capacity;
} config_file;

/*
 * Reads `path`. The caller owns *out and frees it with config_free. Errors, with file and line:
 * FILE (missing, unreadable), FORMAT (a section, or a line that is not 'key = value'),
 * NO_MEMORY.
 */
void config_free(config_file *file); /* NULL is allowed */

typedef enum option_kind {
    OPTION_FLAG,   /* bool; no value on the command line, true or false in a job file */
    OPTION_U32,    /* uint32_t, least..most */
    OPTION_U64,    /* uint64_t, least..most */
    OPTION_REAL,   /* double, low..high */
    OPTION_CHOICE, /* int-sized enumeration: the value of one of `choices` */
    OPTION_TEXT,   /* const char *, borrowed; never empty; NULL if not given */
} option_kind;

typedef struct option_choice {
    const char *name;
    int value;
} option_choice;

typedef struct option_entry {
    const char *name;     /* without dashes */
    const char *argument; /* what --help calls the value */
    const char *help;
    option_kind kind;
    size_t offset; /* of the field in the group's values */
    uint64_t least, most;
    double low, high;
    bool open;                    /* low itself is out of range */
    const option_choice *choices; /* ends with a NULL name; the first of several names is shown */
    /* OPTION_TEXT, may be NULL: takes a text apart into other fields of `values`.
     * Errors: FORMAT, with a diagnostic. */
    int (*read)(const char *text, void *values, tarry_diagnostic *diagnostic);
    /* OPTION_TEXT, where `read` adds to what was read before: forgets all of that. */
    void (*forget)(void *values);
} option_entry;

/* What a command says of an option that is another command's too. */
typedef struct option_words {
    const char *name, *help;
} option_words;

typedef struct option_group {
    const char *title; /* NULL: goes on with the group before */
    const option_entry *entries;
    size_t count;
    void *values; /* the structure of the entries' fields, filled with the defaults */
    /* Hears of each option that was set; may be NULL. */
    void (*note)(void *values, const char *name);
    /* In place of some entries' help, up to one without a name; may be NULL. */
    const option_words *words;
} option_group;

/* The group of a whole table, with `of` as the place of its values. */
#define OPTION_GROUP(heading, table, of)                                                           \
    ((option_group){.title = (heading),                                                            \
                    .entries = (table),                                                            \
                    .count = sizeof(table) / sizeof((table)[0]),                                   \
                    .values = (of)})

typedef struct option_command {
    const char *name; /* "train" */
    const char *text; /* what the command does, for --help */
    const option_group *groups;
    size_t count;
} option_command;

#define OPTIONS_PROCEED (-1)

/*
 * Reads argv[1..argc-1], and the job file that --config names before the flags: flags win. Gives
 * back OPTIONS_PROCEED with all values set, or the exit status with which to end, after --help,
 * --version or a complaint. *file, which may be NULL, owns the texts of the job file; free
 * it with config_free in any case.
 */
int options_parse(const option_command *command, int argc, char **argv, config_file **file);

/* An argument that is not a flag. */
typedef struct option_operand {
    const char *name;   /* what --help calls it */
    const char **value; /* NULL before; borrowed from the command line; never empty */
} option_operand;

/* The same for a command that wants operands[0..count-1], all of them, in this order. */
int options_parse_operands(const option_command *command, const option_operand *operands,
                           size_t count, int argc, char **argv, config_file **file);

/*
 * Sets the value `name` of the groups, as its flag does, without a command line. Errors: FORMAT (an
 * unknown name too) and NO_MEMORY, with a diagnostic.
 */
int option_set(const option_group *groups, size_t count, const char *name, const char *text,
               tarry_diagnostic *diagnostic);

/* The value of the option `name` as its flag has it; empty for a flag without a value, and for one
 * that is none of the groups'. */
void option_value_text(const option_group *groups, size_t count, const char *name, char *text,
                       size_t size);

/* All values as a JSON object by name; NaN and texts not given are null.
 * NULL if there is no memory. */
json_t *options_json(const option_command *command);

/* The name of `value` among choices; it must be one of them. */
const char *option_choice_name(const option_choice *choices, int value);

/* Lists in a flag: of words, and of numbers for sweeps. Errors: FORMAT, NO_MEMORY; the list is then
 * untouched. */

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

/* A command of several, such as tarry keys: which one is meant by the first argument. */

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

/*
 * The one of names[0..count-1] that `word` was most likely meant to be: the least edit distance
 * (insertions, deletions, substitutions and swaps of neighbours cost 1), at most a third of the
 * word's length, or at least 1; NULL if none is that near.
 */
const char *suggest(const char *word, const char *const *names, size_t count);

#endif
