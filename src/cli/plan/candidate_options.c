/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/candidate_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/diagnostic.h"
#include "cli/options/compress_form.h"
#include "cli/options/list.h"
#include "cli/text/complain.h"

#define MOST_SEEDS 100

/* What a word has to be. Errors: FORMAT, with a diagnostic. */
typedef int check_word(const char *word, tarry_diagnostic *diagnostic);

static int read_list(const char *text, check_word *check, candidate_list *list,
                     tarry_diagnostic *diagnostic)
{
    candidate_list read = {0};
    for (; text != NULL; read.count++) {
        if (read.count == CANDIDATE_WORDS)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d", CANDIDATE_WORDS);
        char *word = read.words[read.count];
        if (!list_next(&text, ',', word, CANDIDATE_WORD_SIZE))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%.*s' is too long",
                            (int)strcspn(text, ","), text);
        int error = check(word, diagnostic);
        if (error != TARRY_OK)
            return error;
        for (size_t i = 0; i < read.count; i++)
            if (strcmp(read.words[i], word) == 0)
                return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is there twice", word);
    }
    *list = read;
    return TARRY_OK;
}

static int check_form(const char *word, tarry_diagnostic *diagnostic)
{
    tarry_server_settings server;
    uint64_t last;
    return compress_form_read(word, &server, &last, diagnostic);
}

static int check_down(const char *word, tarry_diagnostic *diagnostic)
{
    if (strcmp(word, "none") == 0 || strcmp(word, "bf16") == 0 || strcmp(word, "int8") == 0)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not one of none, bf16, int8", word);
}

/* The rest is for the pilot, which reads it as tarry train does. */
static int check_steps(const char *word, tarry_diagnostic *diagnostic)
{
    if (strcmp(word, "none") == 0 || candidate_steps(word) > 0)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is neither none nor H[:RATE]", word);
}

uint32_t candidate_steps(const char *word)
{
    if (strcmp(word, "none") == 0)
        return 1;
    char *end;
    unsigned long steps = strtoul(word, &end, 10);
    bool whole = word[0] >= '1' && word[0] <= '9' && (*end == '\0' || *end == ':');
    return whole && steps <= 1000000 ? (uint32_t)steps : 0;
}

static int read_forms(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return read_list(text, check_form, &((candidate_options *)values)->forms, diagnostic);
}

static int read_downs(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return read_list(text, check_down, &((candidate_options *)values)->downs, diagnostic);
}

static int read_steps(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return read_list(text, check_steps, &((candidate_options *)values)->steps, diagnostic);
}

#define FIELD(name) .offset = offsetof(candidate_options, name)

static const option_entry entries[] = {
    {.name = "pilot",
     .argument = "JOB",
     .help = "Weigh parts, forms of numbers and local steps against each other, by the time that "
             "each takes to the loss of float32 in short trainings: a job file of tarry train, or "
             "synthetic for a small one of made-up data",
     .kind = OPTION_TEXT,
     FIELD(pilot)},
    {.name = "compress",
     .argument = "FORM,FORM...",
     .help = "Forms of coded parts, as for tarry train (default none,int8,int4,topk:0.1)",
     .kind = OPTION_TEXT,
     .read = read_forms,
     FIELD(compress)},
    {.name = "compress-down",
     .argument = "FORM,FORM...",
     .help = "Forms of parameters on their way down (default none,int8)",
     .kind = OPTION_TEXT,
     .read = read_downs,
     FIELD(down)},
    {.name = "local-steps",
     .argument = "H[:RATE],...",
     .help = "Local steps between sums, none for a sum per step (default none)",
     .kind = OPTION_TEXT,
     .read = read_steps,
     FIELD(local_steps)},
    {.name = "pilot-seeds",
     .argument = "N",
     .help = "Trainings of each candidate, with the job's seed and those after it; what is worst "
             "of them counts (default 3)",
     .kind = OPTION_U32,
     .least = 1,
     .most = MOST_SEEDS,
     FIELD(seeds)},
};

static void note(void *values, const char *name)
{
    candidate_options *options = values;
    options->given |= strcmp(name, "pilot") != 0;
}

void candidate_options_init(candidate_options *options)
{
    *options = (candidate_options){
        .compress = "none,int8,int4,topk:0.1",
        .down = "none,int8",
        .local_steps = "none",
        .forms = {4, {"none", "int8", "int4", "topk:0.01"}},
        .downs = {2, {"none", "int8"}},
        .steps = {1, {"none"}},
        .seeds = 3,
    };
}

option_group candidate_options_group(candidate_options *options)
{
    option_group group = OPTION_GROUP("Forms and local steps", entries, options);
    group.note = note;
    return group;
}

int candidate_options_check(const candidate_options *options)
{
    if (options->pilot == NULL && options->given)
        return complain(EXIT_USAGE, "--compress, --compress-down, --local-steps and --pilot-seeds "
                                    "have no meaning in advice without --pilot");
    return OPTIONS_PROCEED;
}
