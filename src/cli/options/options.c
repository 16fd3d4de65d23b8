/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/options.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/error.h>
#include <tarry/version.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/options/gone.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"

static int grow(config_file *file)
{
    if (file->count < file->capacity)
        return TARRY_OK;
    size_t capacity = memory_room(file->capacity, file->count + 1, 16);
    config_entry *entries =
        memory_grow(NULL, file->entries, file->count, capacity, sizeof(*entries));
    if (entries == NULL)
        return TARRY_ERROR_NO_MEMORY;
    file->entries = entries;
    file->capacity = capacity;
    return TARRY_OK;
}

/* Without blanks around it; cuts them off in place. */
static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    return text;
}

/* A line of `length` bytes, which is cut up in place: 'key = value', or nothing but a comment. */
static int config_line(config_file *file, const char *path, unsigned number, char *line,
                       size_t length, tarry_diagnostic *diagnostic)
{
    if (strlen(line) != length)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s:%u: a NUL byte", path, number);
    for (char *comment = line; (comment = strchr(comment, ';')) != NULL; comment++)
        if (comment > line && (comment[-1] == ' ' || comment[-1] == '\t')) {
            *comment = '\0';
            break;
        }
    char *key = trimmed(line), *equals = strchr(key, '=');
    if (*key == '\0' || *key == '#' || *key == ';')
        return TARRY_OK;
    if (*key == '[')
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s:%u: %s: sections have no meaning here",
                        path, number, key);
    if (equals == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s:%u: not of the form 'key = value'",
                        path, number);
    *equals = '\0';
    key = trimmed(key);
    const char *value = trimmed(equals + 1);
    config_entry entry = {memory_text(NULL, key, strlen(key), ""),
                          memory_text(NULL, value, strlen(value), ""), number};
    if (entry.key == NULL || entry.value == NULL || grow(file) != TARRY_OK) {
        memory_release(NULL, entry.key);
        memory_release(NULL, entry.value);
        return diagnose_no_memory(diagnostic, path);
    }
    file->entries[file->count++] = entry;
    return TARRY_OK;
}

static int config_read(const char *path, config_file **out, tarry_diagnostic *diagnostic)
{
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return diagnose_file(diagnostic, path, errno);
    config_file *file = memory_allocate(NULL, 1, sizeof(*file));
    int error = file == NULL ? diagnose_no_memory(diagnostic, path) : TARRY_OK;
    char *line = NULL;
    size_t room = 0;
    ssize_t length = 0;
    for (unsigned number = 1; error == TARRY_OK && (length = getline(&line, &room, stream)) > 0;
         number++)
        error = config_line(file, path, number, line, (size_t)length, diagnostic);
    if (error == TARRY_OK && !feof(stream))
        error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be read", path);
    free(line);
    fclose(stream);
    if (error == TARRY_OK)
        *out = file;
    else
        config_free(file);
    return error;
}

void config_free(config_file *file)
{
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->count; i++) {
        memory_release(NULL, file->entries[i].key);
        memory_release(NULL, file->entries[i].value);
    }
    memory_release(NULL, file->entries);
    memory_release(NULL, file);
}

/* ---- options ---- */

#define OPTIONS_MOST 128 /* options of one command */

/* Of every command; they stand on the command line alone. */
typedef struct common_options {
    const char *config;
    bool help, version;
} common_options;

static const option_entry common_entries[] = {
    {.name = "config",
     .argument = "FILE",
     .help = "Job file of lines 'key = value'; the keys are the flags' names, and flags win",
     .kind = OPTION_TEXT,
     .offset = offsetof(common_options, config)},
    {.name = "help",
     .help = "Give this help list",
     .kind = OPTION_FLAG,
     .offset = offsetof(common_options, help)},
    {.name = "version",
     .help = "Print the version",
     .kind = OPTION_FLAG,
     .offset = offsetof(common_options, version)},
};

/* NULL if there is none; its group goes into *of. */
static const option_entry *find_option(const option_group *groups, size_t count, const char *name,
                                       const option_group **of)
{
    for (*of = groups; *of < groups + count; (*of)++)
        for (size_t i = 0; i < (*of)->count; i++)
            if (strcmp((*of)->entries[i].name, name) == 0)
                return &(*of)->entries[i];
    return NULL;
}

/* The name nearest to `word`, or NULL. */
static const char *nearest_option(const option_group *groups, size_t count, const char *word)
{
    const char *names[OPTIONS_MOST];
    size_t known = 0;
    for (const option_group *group = groups; group < groups + count; group++)
        for (size_t i = 0; i < group->count && known < OPTIONS_MOST; i++)
            names[known++] = group->entries[i].name;
    return suggest(word, names, known);
}

static int read_flag(const char *text, bool *value, tarry_diagnostic *diagnostic)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "1") == 0)
        *value = true;
    else if (strcmp(text, "false") == 0 || strcmp(text, "no") == 0 || strcmp(text, "0") == 0)
        *value = false;
    else
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is neither true nor false", text);
    return TARRY_OK;
}

static int read_choice(const option_entry *option, const char *text, int *value,
                       tarry_diagnostic *diagnostic)
{
    char known[256] = "";
    int shown = INT32_MIN;
    for (const option_choice *choice = option->choices; choice->name != NULL; choice++) {
        if (strcmp(choice->name, text) == 0) {
            *value = choice->value;
            return TARRY_OK;
        }
        if (choice->value != shown) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof(known) - used, "%s%s", used > 0 ? ", " : "",
                     choice->name);
        }
        shown = choice->value;
    }
    const char *gone = gone_value(option->name, text);
    if (gone != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' %s", text, gone);
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not one of %s", text, known);
}

static int read_text(const option_entry *option, const char *text, void *values, const char **value,
                     tarry_diagnostic *diagnostic)
{
    if (*text == '\0')
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the value is empty");
    if (option->read != NULL) {
        int error = option->read(text, values, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    *value = text;
    return TARRY_OK;
}

static int set_option(const option_entry *option, void *values, const char *text,
                      tarry_diagnostic *diagnostic)
{
    void *field = (char *)values + option->offset;
    uint64_t number = 0;
    int error;
    switch (option->kind) {
    case OPTION_FLAG:
        return read_flag(text, field, diagnostic);
    case OPTION_U32:
        error = parse_whole(text, option->least, option->most, &number, diagnostic);
        if (error == TARRY_OK)
            *(uint32_t *)field = (uint32_t)number;
        return error;
    case OPTION_U64:
        return parse_whole(text, option->least, option->most, field, diagnostic);
    case OPTION_REAL:
        return parse_real(text, option->low, option->high, option->open, field, diagnostic);
    case OPTION_CHOICE:
        return read_choice(option, text, field, diagnostic);
    case OPTION_TEXT:
        return read_text(option, text, values, field, diagnostic);
    }
    return TARRY_ERROR_ARGUMENT;
}

static int set_in_group(const option_group *group, const option_entry *option, const char *text,
                        tarry_diagnostic *diagnostic)
{
    int error = set_option(option, group->values, text, diagnostic);
    if (error == TARRY_OK && group->note != NULL)
        group->note(group->values, option->name);
    return error;
}

int option_set(const option_group *groups, size_t count, const char *name, const char *text,
               tarry_diagnostic *diagnostic)
{
    const option_group *group;
    const option_entry *option = find_option(groups, count, name, &group);
    if (option != NULL) {
        tarry_diagnostic why;
        int error = set_in_group(group, option, text, &why);
        return error == TARRY_OK ? TARRY_OK : diagnose(diagnostic, error, "%s: %s", name, why.text);
    }
    const char *gone = gone_option(name), *near = nearest_option(groups, count, name);
    if (gone != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: %s", name, gone);
    if (near != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: unknown key (did you mean %s?)", name,
                        near);
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: unknown key", name);
}

/* ---- help ---- */

enum { HELP_WIDTH = 79, HELP_COLUMN = 29 };

/* The line stands at `column`; other lines are indented by `indent`. */
static void print_wrapped(const char *text, size_t column, size_t indent)
{
    bool first = true;
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (!first && column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        fwrite(text, 1, length, stdout);
        column += length;
        text += length;
        text += strspn(text, " ");
        first = false;
    }
    putchar('\n');
}

static const char *help_of(const option_group *group, const option_entry *option)
{
    for (const option_words *words = group->words; words != NULL && words->name != NULL; words++)
        if (strcmp(words->name, option->name) == 0)
            return words->help;
    return option->help;
}

static void print_option(const option_group *group, const option_entry *option)
{
    const char *argument = option->kind == OPTION_FLAG ? NULL : option->argument;
    size_t column = (size_t)printf("      --%s%s%s", option->name, argument != NULL ? "=" : "",
                                   argument != NULL ? argument : "");
    if (column + 1 < HELP_COLUMN)
        printf("%*s", (int)(HELP_COLUMN - column), "");
    else
        printf("\n%*s", HELP_COLUMN, "");
    print_wrapped(help_of(group, option), HELP_COLUMN, HELP_COLUMN);
}

/* A command line as it is parsed; values are set once the job file has been read. */

typedef struct given_flag {
    const option_group *group;
    const option_entry *option;
    const char *text;
} given_flag;

typedef struct parse_state {
    const option_command *command;
    const option_operand *operands;
    size_t operand_count, operands_given;
    option_group *groups; /* the command's, and the common ones */
    size_t group_count;
    common_options common;
    given_flag *given;
    size_t given_count;
} parse_state;

static void print_help_of(const parse_state *state)
{
    printf("Usage: %s %s [OPTION...]", program_name, state->command->name);
    for (size_t i = 0; i < state->operand_count; i++)
        printf(" %s", state->operands[i].name);
    putchar('\n');
    print_wrapped(state->command->text, 0, 0);
    for (size_t i = 0; i < state->group_count; i++) {
        const option_group *group = &state->groups[i];
        if (group->title != NULL)
            printf("\n %s\n", group->title);
        for (size_t k = 0; k < group->count; k++)
            print_option(group, &group->entries[k]);
    }
}

/* ---- the command line ---- */

/* The option that begins with the first `length` characters of the name, and its group, in *found.
 * Gives back how many there are; one that is named in full is the only one. */
static size_t find_flag(const parse_state *state, const char *name, size_t length,
                        given_flag *found)
{
    size_t prefixed = 0;
    for (const option_group *group = state->groups; group < state->groups + state->group_count;
         group++) {
        for (size_t i = 0; i < group->count; i++) {
            const option_entry *option = &group->entries[i];
            if (strncmp(option->name, name, length) != 0)
                continue;
            *found = (given_flag){group, option, NULL};
            prefixed++;
            if (option->name[length] == '\0')
                return 1;
        }
    }
    return prefixed;
}

static int complain_unknown(const parse_state *state, const char *name)
{
    const char *gone = gone_option(name);
    const char *near = nearest_option(state->groups, state->group_count, name);
    if (gone != NULL)
        return complain(EXIT_USAGE, "--%s: %s", name, gone);
    if (near != NULL)
        return complain(EXIT_USAGE, "--%s: unknown option (did you mean --%s?)", name, near);
    return complain(EXIT_USAGE, "--%s: unknown option (see %s %s --help)", name, program_name,
                    state->command->name);
}

/* `word` begins with two dashes; `next`, which may be NULL, is what follows it. Sets *used if that
 * is its value. */
static int take_flag(parse_state *state, const char *word, const char *next, bool *used)
{
    char name[64];
    const size_t length = strcspn(word + 2, "=");
    const char *value = word[2 + length] == '=' ? word + 2 + length + 1 : NULL;
    given_flag flag;
    snprintf(name, sizeof(name), "%.*s", (int)(length < 63 ? length : 63), word + 2);
    const size_t prefixed = find_flag(state, word + 2, length, &flag);
    if (prefixed == 0)
        return complain_unknown(state, name);
    if (prefixed > 1)
        return complain(EXIT_USAGE, "--%s: more than one option begins like this", name);
    const bool bare = flag.option->kind == OPTION_FLAG;
    if (bare && value != NULL)
        return complain(EXIT_USAGE, "--%s: takes no value", flag.option->name);
    *used = !bare && value == NULL;
    flag.text = bare ? "true" : *used ? next : value;
    if (flag.text == NULL)
        return complain(EXIT_USAGE, "--%s: needs a value (%s)", flag.option->name,
                        flag.option->argument);
    state->given[state->given_count++] = flag;
    if (strcmp(flag.option->name, "help") == 0) {
        print_help_of(state);
        return EXIT_DONE;
    }
    if (strcmp(flag.option->name, "version") == 0) {
        printf("%s %s\n", program_name, tarry_version());
        return EXIT_DONE;
    }
    return OPTIONS_PROCEED;
}

static int take_operand(parse_state *state, const char *argument)
{
    const char *command = state->command->name;
    const size_t index = state->operands_given++;
    if (index >= state->operand_count)
        return complain(EXIT_USAGE, "%s: unexpected argument '%s'", command, argument);
    if (*argument == '\0')
        return complain(EXIT_USAGE, "%s: %s is empty", command, state->operands[index].name);
    *state->operands[index].value = argument;
    return OPTIONS_PROCEED;
}

static int take_words(parse_state *state, int argc, char **argv)
{
    int status = OPTIONS_PROCEED;
    bool flags = true;
    for (int i = 1; i < argc && status == OPTIONS_PROCEED; i++) {
        const char *word = argv[i];
        bool used = false;
        if (!flags || word[0] != '-' || word[1] == '\0')
            status = take_operand(state, word);
        else if (strcmp(word, "--") == 0)
            flags = false;
        else if (word[1] != '-')
            status = complain(EXIT_USAGE, "%s: unknown option", word);
        else
            status = take_flag(state, word, argv[i + 1], &used);
        i += used;
    }
    if (status == OPTIONS_PROCEED && state->operands_given < state->operand_count)
        status = complain(EXIT_USAGE, "%s: %s is missing (see %s %s --help)", state->command->name,
                          state->operands[state->operands_given].name, program_name,
                          state->command->name);
    return status;
}

static bool is_given(const parse_state *state, const option_entry *option)
{
    for (size_t i = 0; i < state->given_count; i++)
        if (state->given[i].option == option)
            return true;
    return false;
}

static int apply_config(const parse_state *state, config_file **file)
{
    const option_command *command = state->command;
    const char *path = NULL;
    for (size_t i = 0; i < state->given_count; i++)
        if (strcmp(state->given[i].option->name, "config") == 0)
            path = state->given[i].text;
    if (path == NULL)
        return OPTIONS_PROCEED;
    tarry_diagnostic why;
    int error = config_read(path, file, &why);
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "--config: %s",
                        why.text);
    for (size_t i = 0; i < (*file)->count; i++) {
        const config_entry *entry = &(*file)->entries[i];
        const option_group *group;
        if (option_set(command->groups, command->count, entry->key, entry->value, &why) != TARRY_OK)
            return complain(EXIT_USAGE, "%s:%u: %s", path, entry->line, why.text);
        /* Most flags take the place of what was set; what adds up has to go for that. */
        const option_entry *option =
            find_option(command->groups, command->count, entry->key, &group);
        if (option->forget != NULL && is_given(state, option))
            option->forget(group->values);
    }
    return OPTIONS_PROCEED;
}

static int apply_flags(const parse_state *state)
{
    for (size_t i = 0; i < state->given_count; i++) {
        const given_flag *flag = &state->given[i];
        tarry_diagnostic why;
        if (set_in_group(flag->group, flag->option, flag->text, &why) != TARRY_OK)
            return complain(EXIT_USAGE, "--%s: %s", flag->option->name, why.text);
    }
    return OPTIONS_PROCEED;
}

int options_parse_operands(const option_command *command, const option_operand *operands,
                           size_t count, int argc, char **argv, config_file **file)
{
    *file = NULL;
    parse_state state = {.command = command,
                         .operands = operands,
                         .operand_count = count,
                         .group_count = command->count + 1};
    state.groups = memory_allocate(NULL, state.group_count, sizeof(*state.groups));
    state.given = memory_allocate(NULL, (size_t)argc, sizeof(*state.given));
    int status = OPTIONS_PROCEED;
    if (state.groups == NULL || state.given == NULL) {
        status = complain(EXIT_FAILED, "%s: out of memory", command->name);
    } else {
        memcpy(state.groups, command->groups, command->count * sizeof(*state.groups));
        state.groups[command->count] = OPTION_GROUP("General", common_entries, &state.common);
        status = take_words(&state, argc, argv);
    }
    if (status == OPTIONS_PROCEED)
        status = apply_config(&state, file);
    if (status == OPTIONS_PROCEED)
        status = apply_flags(&state);
    memory_release(NULL, state.given);
    memory_release(NULL, state.groups);
    return status;
}

int options_parse(const option_command *command, int argc, char **argv, config_file **file)
{
    return options_parse_operands(command, NULL, 0, argc, argv, file);
}

static json_t *option_json(const option_entry *option, const void *values)
{
    const void *field = (const char *)values + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
        return json_boolean(*(const bool *)field);
    case OPTION_U32:
        return json_integer((json_int_t) * (const uint32_t *)field);
    case OPTION_U64:
        return json_integer((json_int_t) * (const uint64_t *)field);
    case OPTION_REAL:
        return isfinite(*(const double *)field) ? json_real(*(const double *)field) : json_null();
    case OPTION_CHOICE:
        return json_string(option_choice_name(option->choices, *(const int *)field));
    case OPTION_TEXT:
        return json_text(*(const char *const *)field);
    }
    return NULL;
}

json_t *options_json(const option_command *command)
{
    json_t *object = json_object();
    for (size_t k = 0; k < command->count; k++) {
        const option_group *group = &command->groups[k];
        for (size_t i = 0; object != NULL && i < group->count; i++) {
            const option_entry *option = &group->entries[i];
            if (json_object_set_new(object, option->name, option_json(option, group->values))) {
                json_decref(object);
                object = NULL;
            }
        }
    }
    return object;
}

void option_value_text(const option_group *groups, size_t count, const char *name, char *text,
                       size_t size)
{
    const option_group *group;
    const option_entry *option = find_option(groups, count, name, &group);
    json_t *value = option != NULL ? option_json(option, group->values) : NULL;
    if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(text, size, "%s", json_is_string(value) ? json_string_value(value) : "");
    json_decref(value);
}

const char *option_choice_name(const option_choice *choices, int value)
{
    while (choices->value != value)
        choices++;
    return choices->name;
}

/* ---- list ---- */

#define ITEM_SIZE 48

bool list_next(const char **text, char end, char *item, size_t size)
{
    const char *stop = strchr(*text, end);
    size_t length = stop != NULL ? (size_t)(stop - *text) : strlen(*text);
    if (length >= size)
        return false;
    memcpy(item, *text, length);
    item[length] = '\0';
    *text = stop != NULL ? stop + 1 : NULL;
    return true;
}

static int next_item(const char **text, char end, char item[ITEM_SIZE],
                     tarry_diagnostic *diagnostic)
{
    if (!list_next(text, end, item, ITEM_SIZE))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not a list of numbers", *text);
    return TARRY_OK;
}

static int too_long(tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d values", LIST_MOST);
}

int list_whole(const char *text, uint32_t least, uint32_t most, whole_list *list,
               tarry_diagnostic *diagnostic)
{
    whole_list read = {.count = 0};
    while (text != NULL) {
        char item[ITEM_SIZE];
        uint64_t value;
        int error = next_item(&text, ',', item, diagnostic);
        if (error == TARRY_OK)
            error = parse_whole(item, least, most, &value, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (read.count == LIST_MOST)
            return too_long(diagnostic);
        read.values[read.count++] = (uint32_t)value;
    }
    *list = read;
    return TARRY_OK;
}

static int read_range(const char *text, double most, real_list *list, tarry_diagnostic *diagnostic)
{
    char item[ITEM_SIZE];
    double from = 0, to = 0;
    uint64_t steps = 0;
    int error = next_item(&text, ':', item, diagnostic);
    if (error == TARRY_OK)
        error = parse_real(item, 0, most, true, &from, diagnostic);
    if (error == TARRY_OK)
        error = next_item(&text, ':', item, diagnostic);
    if (error == TARRY_OK)
        error = parse_real(item, from, most, true, &to, diagnostic);
    if (error == TARRY_OK && text == NULL)
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT, "a range is FROM:TO:STEPS");
    if (error == TARRY_OK)
        error = parse_whole(text, 2, LIST_MOST, &steps, diagnostic);
    if (error != TARRY_OK)
        return error;
    list->count = (size_t)steps;
    for (size_t i = 0; i < list->count; i++)
        list->values[i] = from + (to - from) * (double)i / (double)(steps - 1);
    return TARRY_OK;
}

int list_ascending(const char *text, double most, real_list *list, tarry_diagnostic *diagnostic)
{
    if (strchr(text, ':') != NULL)
        return read_range(text, most, list, diagnostic);
    real_list read = {.count = 0};
    double last = 0;
    while (text != NULL) {
        char item[ITEM_SIZE];
        double value;
        int error = next_item(&text, ',', item, diagnostic);
        if (error == TARRY_OK)
            error = parse_real(item, 0, most, true, &value, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (value <= last)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s is not above %g, before it", item,
                            last);
        if (read.count == LIST_MOST)
            return too_long(diagnostic);
        last = read.values[read.count++] = value;
    }
    *list = read;
    return TARRY_OK;
}

/* ---- subcommand ---- */

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

/* ---- suggest ---- */

#define LONGEST 63

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance, by rows; words of at most LONGEST characters. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        before[j] = last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = least(least(row[j - 1], last[j]) + 1, last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b_length];
}

const char *suggest(const char *word, const char *const *names, size_t count)
{
    size_t length = strlen(word);
    if (length > LONGEST)
        return NULL;
    size_t nearest = length < 3 ? 1 : length / 3;
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t name_length = strlen(names[i]);
        if (name_length > LONGEST)
            continue;
        size_t apart = distance(word, length, names[i], name_length);
        if (apart < nearest || (apart == nearest && found == NULL)) {
            nearest = apart;
            found = names[i];
        }
    }
    return found;
}
