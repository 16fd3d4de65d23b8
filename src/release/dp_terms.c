/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <tarry/dp.h>

#include "base/diagnostic.h"
#include "base/parse.h"
#include "base/sized.h"

/* Far from where squares of float32 would be infinite. */
#define MOST_CLIP 1e12
#define MOST_NOISE 1e6
#define MOST_EPSILON 1e6
#define USUAL_DELTA 1e-5

enum { WORD_SIZE = 40 };

typedef enum term { CLIP, NOISE, SAMPLE, DELTA, BUDGET, SEED, TERMS } term;

static const struct {
    const char *name;
    double most;
    bool needed, whole;
} known[TERMS] = {
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
        size_t length = strlen(known[i].name);
        if (strncmp(word, known[i].name, length) == 0 && word[length] == ':')
            return (term)i;
    }
    return TERMS;
}

static int read_term(const char *text, term which, double reals[TERMS], uint64_t *seed,
                     tarry_diagnostic *diagnostic)
{
    tarry_diagnostic why;
    int error = known[which].whole
                    ? parse_whole(text, 0, INT64_MAX, seed, &why)
                    : parse_real(text, 0, known[which].most, true, &reals[which], &why);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s: %s", known[which].name, why.text);
    return TARRY_OK;
}

void tarry_dp_terms_init_sized(tarry_dp_terms *terms, size_t size)
{
    if (!sized_begin(terms, size, sizeof(*terms)))
        return;
    terms->clip = terms->noise = terms->sample = 1;
    terms->delta = USUAL_DELTA;
    terms->budget = INFINITY;
}

int tarry_dp_terms_read(const char *text, tarry_dp_terms *terms, tarry_diagnostic *diagnostic)
{
    int error = sized_check(terms->size, sizeof(*terms), "dp", diagnostic);
    if (error != TARRY_OK)
        return error;
    double reals[TERMS] = {[DELTA] = USUAL_DELTA, [BUDGET] = INFINITY};
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
        error = read_term(word + strlen(known[which].name) + 1, which, reals, &seed, diagnostic);
        if (error != TARRY_OK)
            return error;
        given[which] = true;
    }
    for (int i = 0; i < TERMS; i++)
        if (known[i].needed && !given[i])
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' has no %s", text, known[i].name);
    *terms = (tarry_dp_terms){
        .size = sizeof(*terms),
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
