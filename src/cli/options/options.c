/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/options.h"

#include <argp.h>
#include <errno.h>
#include <ini.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tarry/error.h>
#include <tarry/version.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/options/gone.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"

/* inih reads through next_line, which keeps the line number that inih does not give its handler. */
typedef struct reading {
    FILE *stream;
    config_file *file;
    const char *path;
    tarry_diagnostic *diagnostic;
    unsigned line;
    int error; /* the first one */
} reading;

static char *next_line(char *line, int size, void *user)
{
    reading *state = user;
    if (state->error != TARRY_OK || fgets(line, size, state->stream) == NULL)
        return NULL;
    state->line++;
    size_t length = strlen(line);
    bool whole = length > 0 && (line[length - 1] == '\n' || feof(state->stream));
    if (!whole && length + 1 < (size_t)size) {
        state->error = diagnose(state->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: a NUL byte",
                                state->path, state->line);
        return NULL;
    }
    if (!whole) {
        state->error =
            diagnose(state->diagnostic, TARRY_ERROR_FORMAT, "%s:%u: longer than %d characters",
                     state->path, state->line, size - 2);
        return NULL;
    }
    /* An indented line would be the continuation of the one before. */
    size_t blanks = strspn(line, " \t");
    memmove(line, line + blanks, length + 1 - blanks);
    return line;
}

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

/* inih's handler: nonzero to go on. */
static int take_entry(void *user, const char *section, const char *key, const char *value)
{
    reading *state = user;
    if (state->error != TARRY_OK)
        return 0;
    if (*section != '\0') {
        state->error = diagnose(state->diagnostic, TARRY_ERROR_FORMAT,
                                "%s:%u: '%s' stands in section [%s]; sections have no meaning here",
                                state->path, state->line, key, section);
        return 0;
    }
    config_entry entry = {memory_text(NULL, key, strlen(key), ""),
                          memory_text(NULL, value, strlen(value), ""), state->line};
    if (entry.key == NULL || entry.value == NULL || grow(state->file) != TARRY_OK) {
        memory_release(NULL, entry.key);
        memory_release(NULL, entry.value);
        state->error = diagnose_no_memory(state->diagnostic, state->path);
        return 0;
    }
    state->file->entries[state->file->count++] = entry;
    return 1;
}

static int config_read(const char *path, config_file **out, tarry_diagnostic *diagnostic)
{
    config_file *file = memory_allocate(NULL, 1, sizeof(*file));
    if (file == NULL)
        return diagnose_no_memory(diagnostic, path);
    reading state = {.file = file, .path = path, .diagnostic = diagnostic};
    state.stream = fopen(path, "re");
    if (state.stream == NULL) {
        state.error = diagnose_file(diagnostic, path, errno);
        goto release;
    }
    int line = ini_parse_stream(next_line, &state, take_entry, &state);
    if (state.error == TARRY_OK && ferror(state.stream))
        state.error = diagnose(diagnostic, TARRY_ERROR_FILE, "%s: cannot be read", path);
    else if (state.error == TARRY_OK && line != 0)
        state.error = line < 0 ? diagnose_no_memory(diagnostic, path)
                               : diagnose(diagnostic, TARRY_ERROR_FORMAT,
                                          "%s:%d: not of the form 'key = value'", path, line);
    fclose(state.stream);
    if (state.error == TARRY_OK) {
        *out = file;
        return TARRY_OK;
    }
release:
    config_free(file);
    return state.error;
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

enum {
    KEY_HELP = 1000,
    KEY_USAGE,
    KEY_VERSION,
    KEY_CONFIG,
    KEY_FIRST, /* + the option's index over all groups */
};

#define COMMON_OPTIONS 4
#define OPTIONS_MOST 128 /* options of one command */

/* A flag as it stood on the command line; values are set once the job file has been read. */
typedef struct given_flag {
    size_t index;
    const char *text;
} given_flag;

typedef struct parse_state {
    const option_command *command;
    const option_operand *operands;
    size_t operand_count;
    const struct argp *argp;
    size_t total;
    given_flag *given;
    size_t given_count;
    const char *config_path;
    int status;
} parse_state;

static size_t count_options(const option_command *command)
{
    size_t total = 0;
    for (size_t i = 0; i < command->count; i++)
        total += command->groups[i].count;
    return total;
}

/* Its group goes into *of. */
static const option_entry *option_at(const option_command *command, size_t index,
                                     const option_group **of)
{
    const option_group *group = command->groups;
    while (index >= group->count) {
        index -= group->count;
        group++;
    }
    *of = group;
    return &group->entries[index];
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
    case OPTION_INT:
        return parse_integer(text, -999999, 999999, field, diagnostic);
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
    const char *names[OPTIONS_MOST];
    size_t known = 0;
    for (const option_group *group = groups; group < groups + count; group++) {
        for (size_t i = 0; i < group->count; i++) {
            const option_entry *option = &group->entries[i];
            names[known++] = option->name;
            if (strcmp(option->name, name) != 0)
                continue;
            tarry_diagnostic why;
            int error = set_in_group(group, option, text, &why);
            return error == TARRY_OK ? TARRY_OK
                                     : diagnose(diagnostic, error, "%s: %s", name, why.text);
        }
    }
    const char *gone = gone_option(name), *near = suggest(name, names, known);
    if (gone != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: %s", name, gone);
    if (near != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: unknown key (did you mean %s?)", name,
                        near);
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: unknown key", name);
}

/* The name nearest to `word` (without dashes) among the command's options, or NULL; `common` ones
 * stand on the command line alone. */
static const char *nearest_option(const option_command *command, const char *word, bool common)
{
    const char *names[OPTIONS_MOST] = {"help", "usage", "version", "config"};
    size_t count = COMMON_OPTIONS;
    for (size_t group = 0; group < command->count; group++) {
        for (size_t i = 0; i < command->groups[group].count; i++) {
            if (count < sizeof(names) / sizeof(names[0]))
                names[count++] = command->groups[group].entries[i].name;
        }
    }
    size_t first = common ? 0 : COMMON_OPTIONS;
    return suggest(word, names + first, count - first);
}

/* Says what getopt found wrong with the argument `word`, which it keeps to itself. */
static void complain_flag(parse_state *state, const char *word)
{
    state->status = EXIT_USAGE;
    if (strncmp(word, "--", 2) != 0) {
        complain(EXIT_USAGE, "%s: unknown option", word);
        return;
    }
    char name[64];
    size_t length = strcspn(word + 2, "=");
    snprintf(name, sizeof(name), "%.*s", (int)(length < 63 ? length : 63), word + 2);
    size_t prefixed = 0;
    const struct argp_option *found = NULL;
    for (const struct argp_option *option = state->argp->options;
         option->name != NULL || option->doc != NULL; option++) {
        if (option->name == NULL || strncmp(option->name, name, length) != 0)
            continue;
        found = option;
        prefixed++;
        if (option->name[length] == '\0') {
            prefixed = 1;
            break;
        }
    }
    if (prefixed > 1) {
        complain(EXIT_USAGE, "--%s: more than one option begins like this", name);
    } else if (prefixed == 1 && found->arg != NULL) {
        complain(EXIT_USAGE, "--%s: needs a value (%s)", found->name, found->arg);
    } else if (prefixed == 1) {
        complain(EXIT_USAGE, "--%s: takes no value", found->name);
    } else {
        const char *gone = gone_option(name), *near = nearest_option(state->command, name, true);
        if (gone != NULL)
            complain(EXIT_USAGE, "--%s: %s", name, gone);
        else if (near != NULL)
            complain(EXIT_USAGE, "--%s: unknown option (did you mean --%s?)", name, near);
        else
            complain(EXIT_USAGE, "--%s: unknown option (see %s %s --help)", name, program_name,
                     state->command->name);
    }
}

static error_t take_operand(parse_state *state, size_t index, const char *argument)
{
    const char *command = state->command->name;
    if (index >= state->operand_count)
        state->status = complain(EXIT_USAGE, "%s: unexpected argument '%s'", command, argument);
    else if (*argument == '\0')
        state->status =
            complain(EXIT_USAGE, "%s: %s is empty", command, state->operands[index].name);
    else
        *state->operands[index].value = argument;
    return state->status == OPTIONS_PROCEED ? 0 : ECANCELED;
}

static int require_operands(const parse_state *state)
{
    for (size_t i = 0; i < state->operand_count; i++) {
        if (*state->operands[i].value == NULL)
            return complain(EXIT_USAGE, "%s: %s is missing (see %s %s --help)",
                            state->command->name, state->operands[i].name, program_name,
                            state->command->name);
    }
    return OPTIONS_PROCEED;
}

/* "DIR NAME", for argp. */
static void name_operands(const parse_state *state, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < state->operand_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "",
                                 state->operands[i].name);
}

/* argp's parser: ends the parsing with ECANCELED once state->status says how the command ends. */
static error_t take_argument(int key, char *argument, struct argp_state *argp_state)
{
    parse_state *state = argp_state->input;
    char name[64];
    snprintf(name, sizeof(name), "%s %s", program_name, state->command->name);
    switch (key) {
    case KEY_HELP:
        argp_help(state->argp, stdout, ARGP_HELP_STD_HELP, name);
        state->status = EXIT_DONE;
        return ECANCELED;
    case KEY_USAGE:
        argp_help(state->argp, stdout, ARGP_HELP_USAGE, name);
        state->status = EXIT_DONE;
        return ECANCELED;
    case KEY_VERSION:
        printf("%s %s\n", program_name, tarry_version());
        state->status = EXIT_DONE;
        return ECANCELED;
    case KEY_CONFIG:
        state->config_path = argument;
        return 0;
    case ARGP_KEY_ARG:
        return take_operand(state, argp_state->arg_num, argument);
    case ARGP_KEY_ERROR:
        if (state->status == OPTIONS_PROCEED)
            complain_flag(state, argp_state->argv[argp_state->next - 1]);
        return 0;
    default:
        break;
    }
    if (key < KEY_FIRST || key >= KEY_FIRST + (int)state->total)
        return ARGP_ERR_UNKNOWN;
    given_flag flag = {(size_t)(key - KEY_FIRST), argument != NULL ? argument : "true"};
    state->given[state->given_count++] = flag;
    return 0;
}

static const char *help_of(const option_group *group, const option_entry *option)
{
    for (const option_words *words = group->words; words != NULL && words->name != NULL; words++)
        if (strcmp(words->name, option->name) == 0)
            return words->help;
    return option->help;
}

/* The table that argp wants: a header per group, then its options. */
static void fill_argp_options(const option_command *command, struct argp_option *out)
{
    int key = KEY_FIRST, number = 0;
    for (size_t group = 0; group < command->count; group++) {
        if (command->groups[group].title != NULL)
            *out++ = (struct argp_option){.doc = command->groups[group].title, .group = ++number};
        for (size_t i = 0; i < command->groups[group].count; i++) {
            const option_entry *option = &command->groups[group].entries[i];
            *out++ =
                (struct argp_option){.name = option->name,
                                     .key = key++,
                                     .arg = option->kind == OPTION_FLAG ? NULL : option->argument,
                                     .doc = help_of(&command->groups[group], option),
                                     .group = number};
        }
    }
    int last = number + 1;
    *out++ = (struct argp_option){.doc = "General", .group = last};
    *out++ = (struct argp_option){.name = "config",
                                  .key = KEY_CONFIG,
                                  .arg = "FILE",
                                  .doc = "Job file of lines 'key = value'; the keys are the flags' "
                                         "names, and flags win",
                                  .group = last};
    *out++ = (struct argp_option){
        .name = "help", .key = KEY_HELP, .doc = "Give this help list", .group = -1};
    *out++ = (struct argp_option){
        .name = "usage", .key = KEY_USAGE, .doc = "Give a short usage message", .group = -1};
    *out++ = (struct argp_option){
        .name = "version", .key = KEY_VERSION, .doc = "Print the version", .group = -1};
}

static bool is_given(const parse_state *state, size_t index)
{
    for (size_t i = 0; i < state->given_count; i++) {
        if (state->given[i].index == index)
            return true;
    }
    return false;
}

static int apply_config(const parse_state *state, config_file **file)
{
    tarry_diagnostic why;
    int error = config_read(state->config_path, file, &why);
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "--config: %s",
                        why.text);
    for (size_t i = 0; i < (*file)->count; i++) {
        const config_entry *entry = &(*file)->entries[i];
        const option_group *group = NULL;
        const option_entry *option = NULL;
        size_t index = 0;
        for (; index < state->total; index++) {
            option = option_at(state->command, index, &group);
            if (strcmp(option->name, entry->key) == 0)
                break;
            option = NULL;
        }
        const char *gone = option == NULL ? gone_option(entry->key) : NULL;
        if (gone != NULL)
            return complain(EXIT_USAGE, "%s:%u: %s: %s", state->config_path, entry->line,
                            entry->key, gone);
        if (option == NULL) {
            const char *near = nearest_option(state->command, entry->key, false);
            return complain(EXIT_USAGE, "%s:%u: %s: unknown key%s%s%s", state->config_path,
                            entry->line, entry->key, near != NULL ? " (did you mean " : "",
                            near != NULL ? near : "", near != NULL ? "?)" : "");
        }
        if (set_in_group(group, option, entry->value, &why) != TARRY_OK)
            return complain(EXIT_USAGE, "%s:%u: %s: %s", state->config_path, entry->line,
                            entry->key, why.text);
        /* Most flags take the place of what was set; what adds up has to go for that. */
        if (option->forget != NULL && is_given(state, index))
            option->forget(group->values);
    }
    return OPTIONS_PROCEED;
}

static int apply_flags(const parse_state *state)
{
    for (size_t i = 0; i < state->given_count; i++) {
        const option_group *group;
        tarry_diagnostic why;
        const option_entry *option = option_at(state->command, state->given[i].index, &group);
        if (set_in_group(group, option, state->given[i].text, &why) != TARRY_OK)
            return complain(EXIT_USAGE, "--%s: %s", option->name, why.text);
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
                         .total = count_options(command),
                         .status = OPTIONS_PROCEED};
    struct argp_option *table =
        memory_allocate(NULL, command->count + state.total + COMMON_OPTIONS + 2, sizeof(*table));
    state.given = memory_allocate(NULL, (size_t)argc, sizeof(*state.given));
    if (table == NULL || state.given == NULL) {
        state.status = complain(EXIT_FAILED, "%s: out of memory", command->name);
        goto release;
    }
    fill_argp_options(command, table);
    char names[64];
    name_operands(&state, names, sizeof(names));
    const struct argp parser = {.options = table,
                                .parser = take_argument,
                                .args_doc = count > 0 ? names : NULL,
                                .doc = command->text};
    state.argp = &parser;
    /* argp's own messages take two lines: it is kept silent, and complain_flag says the same. */
    error_t error =
        argp_parse(&parser, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT, NULL, &state);
    if (error != 0 && state.status == OPTIONS_PROCEED)
        state.status = complain(EXIT_FAILED, "%s: %s", command->name, strerror(error));
    if (state.status == OPTIONS_PROCEED)
        state.status = require_operands(&state);
    if (state.status == OPTIONS_PROCEED && state.config_path != NULL)
        state.status = apply_config(&state, file);
    if (state.status == OPTIONS_PROCEED)
        state.status = apply_flags(&state);
release:
    memory_release(NULL, state.given);
    memory_release(NULL, table);
    return state.status;
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
    case OPTION_INT:
        return json_integer(*(const int *)field);
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
    for (size_t index = 0; object != NULL && index < count_options(command); index++) {
        const option_group *group;
        const option_entry *option = option_at(command, index, &group);
        if (json_object_set_new(object, option->name, option_json(option, group->values)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

void option_value_text(const option_group *groups, size_t count, const char *name, char *text,
                       size_t size)
{
    const option_command command = {.groups = groups, .count = count};
    json_t *value = NULL;
    for (size_t i = 0; value == NULL && i < count_options(&command); i++) {
        const option_group *group;
        const option_entry *option = option_at(&command, i, &group);
        if (strcmp(option->name, name) == 0)
            value = option_json(option, group->values);
    }
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
