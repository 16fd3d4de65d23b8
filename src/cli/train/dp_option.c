/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/dp_option.h"

#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "cli/options/parse.h"

/* Far from where squares of float32 would be infinite. */
#define MOST_CLIP 1e12
#define MOST_NOISE 1e6
#define MOST_EPSILON 1e6

enum { WORD_SIZE = 40 };

typedef enum term { CLIP, NOISE, SAMPLE, DELTA, BUDGET, SEED, TERMS } term;

static const struct {
    const char *name;
    double most;
    bool needed, whole;
} terms[TERMS] = {
    [CLIP] = {"clip", MOST_CLIP, true, false},
    [NOISE] = {"noise", MOST_NOISE, true, false},
    [SAMPLE] = {"sample", 1, true, false},
    [DELTA] = {"delta", 0.999999, false, false},
    [BUDGET] = {"budget", MOST_EPSILON, false, false},
    [SEED] = {"seed", 0, false, true},
};

/* The next of the words between commas; false if it is too long. */
static bool take_word(const char **from, char word[WORD_SIZE])
{
    size_t length = strcspn(*from, ",");
    if (length >= WORD_SIZE)
        return false;
    memcpy(word, *from, length);
    word[length] = '\0';
    *from += length + ((*from)[length] == ',');
    return true;
}

/* "name:", or TERMS for none of them. */
static term term_of(const char *word)
{
    for (int i = 0; i < TERMS; i++) {
        size_t length = strlen(terms[i].name);
        if (strncmp(word, terms[i].name, length) == 0 && word[length] == ':')
            return (term)i;
    }
    return TERMS;
}

static int read_term(const char *text, term which, double reals[TERMS], uint64_t *seed,
                     tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why;
    int error = terms[which].whole
                    ? parse_whole(text, 0, INT64_MAX, seed, &why)
                    : parse_real(text, 0, terms[which].most, true, &reals[which], &why);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", terms[which].name, why.text);
    return TARRY_OK;
}

int dp_option_read(const char *text, dp_option *out, tarry_diagnostic *diagnostic)
{
    double reals[TERMS] = {[DELTA] = 1e-5, [BUDGET] = INFINITY};
    bool given[TERMS] = {false};
    uint64_t seed = 0;
    char word[WORD_SIZE];
    for (const char *from = text; *from != '\0';) {
        const bool taken = take_word(&from, word);
        const term which = taken ? term_of(word) : TERMS;
        if (which == TERMS || given[which])
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "'%s' is not clip:C,noise:SIGMA,sample:Q[,delta:D][,budget:EPS]"
                            "[,seed:N]",
                            text);
        int error =
            read_term(word + strlen(terms[which].name) + 1, which, reals, &seed, diagnostic);
        if (error != TARRY_OK)
            return error;
        given[which] = true;
    }
    for (int i = 0; i < TERMS; i++)
        if (terms[i].needed && !given[i])
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' has no %s", text, terms[i].name);
    *out = (dp_option){
        .clip = reals[CLIP],
        .noise = reals[NOISE],
        .sample = reals[SAMPLE],
        .delta = reals[DELTA],
        .budget = reals[BUDGET],
        .seeded = given[SEED],
        .seed = seed,
    };
    return TARRY_OK;
}
