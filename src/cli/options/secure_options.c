/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/secure_options.h"

#include <string.h>

#include <tarry/secure.h>

#include "base/diagnostic.h"
#include "base/number.h"
#include "cli/text/complain.h"

#define MOST_BOUND 1e30
enum {
    WORD_SIZE = 40,
    MOST_COLLUDERS = 1000000,
    MOST_FEATURES = 10000000,
    MOST_CLASSES = 1000000,
    CHUNK_SAMPLES = 32
};

static const uint64_t most_rows = UINT64_C(1) << 32;

static const option_choice widths[] = {{"32", 32}, {"64", 64}, {NULL, 0}};

/* ---- the shape of data that are elsewhere ---- */

typedef enum term { ROWS, FEATURES, CLASSES, TERMS } term;

static const char *const terms[TERMS] = {"rows:", "features:", "classes:"};

static int say_form(const char *text, tarry_diagnostic *diagnostic)
{
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "'%s' is not rows:N,features:F[,classes:C][,sparse]", text);
}

static int read_word(const char *word, bool given[TERMS + 1], uint64_t numbers[TERMS],
                     tarry_diagnostic *diagnostic)
{
    static const uint64_t least[TERMS] = {1, 1, 2};
    const uint64_t most[TERMS] = {most_rows, MOST_FEATURES, MOST_CLASSES};
    for (int i = 0; i < TERMS; i++) {
        if (strncmp(word, terms[i], strlen(terms[i])) != 0)
            continue;
        if (given[i])
            return TARRY_ERROR_FORMAT;
        given[i] = true;
        return parse_whole(word + strlen(terms[i]), least[i], most[i], &numbers[i], diagnostic);
    }
    if (strcmp(word, "sparse") != 0 || given[TERMS])
        return TARRY_ERROR_FORMAT;
    given[TERMS] = true;
    return TARRY_OK;
}

static int read_data(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    uint64_t numbers[TERMS] = {0};
    bool given[TERMS + 1] = {false};
    for (const char *from = text; *from != '\0';) {
        char word[WORD_SIZE];
        tarry_diagnostic why = {""};
        size_t length = strcspn(from, ",");
        if (length >= sizeof(word))
            return say_form(text, diagnostic);
        memcpy(word, from, length);
        word[length] = '\0';
        from += length + (from[length] == ',');
        if (read_word(word, given, numbers, &why) != TARRY_OK)
            return why.text[0] == '\0' ? say_form(text, diagnostic)
                                       : diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s", why.text);
    }
    if (!given[ROWS] || !given[FEATURES])
        return say_form(text, diagnostic);
    ((secure_options *)values)->data = (secure_data){
        .rows = numbers[ROWS],
        .features = (uint32_t)numbers[FEATURES],
        .classes = (uint32_t)numbers[CLASSES],
        .sparse = given[TERMS],
    };
    return TARRY_OK;
}

/* ---- options ---- */

#define FIELD(name) .offset = offsetof(secure_options, name)

static const option_entry secure_entries[] = {
    {.name = "secure",
     .help = "Secure sums: the server learns the sum over all samples and nothing of any single "
             "worker's, by masks that cancel; with one part, --stop exact and full batches",
     .kind = OPTION_FLAG,
     FIELD(secure)},
    {.name = "secure-colluders",
     .argument = "T",
     .help = "So many workers may tell the server all that they know, and what others have stays "
             "hidden in their sum (default 1)",
     .kind = OPTION_U32,
     .most = MOST_COLLUDERS,
     FIELD(colluders)},
    {.name = "secure-least",
     .argument = "SAMPLES",
     .help = "Samples that such workers may not hold under any plan of the job, at least: these "
             "are seen as one sum (default: an eighth of all)",
     .kind = OPTION_U64,
     .least = 1,
     .most = UINT64_C(1) << 32,
     FIELD(least)},
    {.name = "secure-bits",
     .argument = "32|64",
     .help = "Bits of a masked number on its way; the server and all workers have to say the same "
             "(default 32)",
     .kind = OPTION_CHOICE,
     .choices = widths,
     FIELD(bits)},
    {.name = "secure-bound",
     .argument = "B",
     .help = "What the numbers of a chunk's gradient are held to, from -B to B; the server and all "
             "workers have to say the same. A worker with more than 0.1 % of its numbers beyond it "
             "sends nothing (default: four times the samples of a chunk)",
     .kind = OPTION_REAL,
     .high = MOST_BOUND,
     .open = true,
     FIELD(bound)},
    {.name = "secure-chunk-samples",
     .argument = "N",
     .help = "Samples that each chunk has at least: a worker refuses a plan with a smaller one "
             "(default 32)",
     .kind = OPTION_U64,
     .least = 1,
     .most = UINT64_C(1) << 32,
     FIELD(chunk_samples)},
    /* Last, since not all have it. */
    {.name = "secure-data",
     .argument = "rows:N,features:F[,classes:C][,sparse]",
     .help = "What samples the workers have, in place of --data: the server has none",
     .kind = OPTION_TEXT,
     .read = read_data,
     FIELD(data_text)},
};

void secure_options_init(secure_options *options)
{
    *options = (secure_options){.colluders = 1, .bits = 32, .chunk_samples = CHUNK_SAMPLES};
}

static void note(void *values, const char *name)
{
    secure_options *options = values;
    if (strcmp(name, "secure") != 0 && options->first == NULL)
        options->first = name;
}

option_group secure_options_group(secure_options *options, bool elsewhere)
{
    option_group group = OPTION_GROUP("Secure sums", secure_entries, options);
    group.note = note;
    group.count -= elsewhere ? 0 : 1;
    return group;
}

int secure_options_check(const secure_options *options)
{
    if (!options->secure && options->first != NULL)
        return complain(EXIT_USAGE, "--%s: has no meaning without --secure", options->first);
    return OPTIONS_PROCEED;
}
