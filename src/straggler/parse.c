/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SPEC's grammar: TERM { '+' TERM }, TERM = NAME [ ':' NUMBER { ',' NUMBER } [ SUFFIX ] ],
 * SUFFIX = '/chunk' | '/run'. The last NUMBER of 'slow' may be a range, NUMBER '-' NUMBER.
 */
#include "straggler/straggler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"

typedef struct term_number {
    const char *name;
    size_t offset; /* of the double in term; COUNT for `count` */
    double least;
    bool above;       /* must exceed `least` */
    double most;      /* 0: no limit */
    double otherwise; /* what it is where it is left out; 0: it must be given */
    bool infinite;    /* may be 'inf' */
    bool range;       /* the factor, which may be LOW-HIGH */
} term_number;

#define COUNT ((size_t)-1)
enum { MAX_NUMBERS = 3 };

typedef struct term_form {
    const char *name;
    term_kind kind;
    bool drawn; /* may end in '/chunk' or '/run' */
    size_t numbers;
    term_number number[MAX_NUMBERS];
} term_form;

static const term_form FORMS[] = {
    {"none", TERM_NONE, false, 0, {{0}}},
    {"exp", TERM_EXPONENTIAL, true, 1, {{.name = "MEAN", .offset = offsetof(term, scale)}}},
    {"shifted-exp",
     TERM_EXPONENTIAL,
     true,
     2,
     {{.name = "SHIFT", .offset = offsetof(term, shift)},
      {.name = "MEAN", .offset = offsetof(term, scale)}}},
    {"pareto",
     TERM_PARETO,
     true,
     2,
     {{.name = "SCALE", .offset = offsetof(term, scale)},
      {.name = "SHAPE", .offset = offsetof(term, shape), .above = true}}},
    {"slow",
     TERM_SLOW,
     false,
     2,
     {{.name = "K", .offset = COUNT},
      {.name = "FACTOR", .offset = offsetof(term, factor), .least = 1, .range = true}}},
    {"weibull",
     TERM_WEIBULL,
     true,
     2,
     {{.name = "SCALE", .offset = offsetof(term, scale)},
      {.name = "SHAPE", .offset = offsetof(term, shape), .above = true}}},
    {"dead", TERM_DEAD, false, 1, {{.name = "K", .offset = COUNT}}},
    {"jitter", TERM_JITTER, true, 1, {{.name = "SD", .offset = offsetof(term, deviation)}}},
    {"markov",
     TERM_MARKOV,
     false,
     3,
     {{.name = "P_SLOW", .offset = offsetof(term, probability), .most = 1},
      {.name = "P_RECOVER", .offset = offsetof(term, recovery), .most = 1},
      {.name = "FACTOR", .offset = offsetof(term, factor), .least = 1}}},
    {"rack",
     TERM_RACK,
     false,
     3,
     {{.name = "K", .offset = COUNT, .least = 1},
      {.name = "FACTOR", .offset = offsetof(term, factor), .least = 1, .infinite = true},
      {.name = "P", .offset = offsetof(term, probability), .most = 1, .otherwise = 0.05}}},
    {"fail",
     TERM_FAIL,
     false,
     1,
     {{.name = "RATE", .offset = offsetof(term, probability), .most = 1}}},
    {"rejoin", TERM_REJOIN, false, 1, {{.name = "SECONDS", .offset = offsetof(term, scale)}}},
    {"trace", TERM_TRACE, false, 0, {{0}}},
};

/* A stretch of the SPEC. */
typedef struct span {
    const char *text;
    size_t length;
} span;

static bool span_is(span part, const char *text)
{
    return part.length == strlen(text) && memcmp(part.text, text, part.length) == 0;
}

/* Cuts the text before the first `separator` off *rest; false if there was no separator. */
static bool span_cut(span *rest, char separator, span *head)
{
    const char *at = memchr(rest->text, separator, rest->length);
    if (at == NULL) {
        *head = *rest;
        *rest = (span){rest->text + rest->length, 0};
        return false;
    }
    *head = (span){rest->text, (size_t)(at - rest->text)};
    *rest = (span){at + 1, rest->length - head->length - 1};
    return true;
}

/* Cuts `end` off the end of *text; whether it was there. */
static bool span_cut_end(span *text, const char *end)
{
    const size_t length = strlen(end);
    if (text->length < length || memcmp(text->text + text->length - length, end, length) != 0)
        return false;
    text->length -= length;
    return true;
}

static int length_of(span part)
{
    enum { SHOWN = 200 };
    return part.length < SHOWN ? (int)part.length : SHOWN;
}

#define TERM_ERROR(diagnostic, error, whole, format, ...)                                          \
    diagnose(diagnostic, error, "straggler term '%.*s': " format, length_of(whole), (whole).text,  \
             ##__VA_ARGS__)

static int parse_number(span whole, span text, const term_number *number, uint32_t workers,
                        term *out, tarry_diagnostic *diagnostic)
{
    double value;
    if (text.length == 0)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "%s is missing", number->name);
    bool infinite = number->infinite && span_is(text, "inf");
    if (infinite)
        value = INFINITY;
    else if (!number_read(text.text, text.length, &value))
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "%s '%.*s' is not a number",
                          number->name, length_of(text), text.text);
    if (value < number->least || (number->above && value == number->least))
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "%s must be %s %g", number->name,
                          number->above ? "above" : "at least", number->least);
    if (number->most > 0 && value > number->most)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "%s must be at most %g",
                          number->name, number->most);
    if (number->offset != COUNT) {
        memcpy((char *)out + number->offset, &value, sizeof(value));
        return TARRY_OK;
    }
    if (value != floor(value))
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "%s must be a whole number",
                          number->name);
    if (value > workers)
        return TERM_ERROR(diagnostic, TARRY_ERROR_ARGUMENT, whole,
                          "%s is more than the %u workers there are", number->name, workers);
    out->count = (uint32_t)value;
    return TARRY_OK;
}

/* The place of the '-' between two numbers, which is not the sign of one or of its exponent. */
static size_t find_dash(span text)
{
    size_t at = 1;
    while (at < text.length && (text.text[at] != '-' || strchr("eE", text.text[at - 1]) != NULL))
        at++;
    return at;
}

/* A factor, or the two ends of a range of factors. */
static int parse_range(span whole, span text, const term_number *number, uint32_t workers,
                       term *out, tarry_diagnostic *diagnostic)
{
    term_number low = *number, high = *number;
    size_t dash = find_dash(text);
    bool is_range = dash < text.length;
    if (is_range)
        low.name = "LOW";
    int error = parse_number(whole, (span){text.text, is_range ? dash : text.length}, &low, workers,
                             out, diagnostic);
    out->most_factor = out->factor;
    if (error != TARRY_OK || !is_range)
        return error;
    high.name = "HIGH";
    high.offset = offsetof(term, most_factor);
    error = parse_number(whole, (span){text.text + dash + 1, text.length - dash - 1}, &high,
                         workers, out, diagnostic);
    if (error == TARRY_OK && out->most_factor < out->factor)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "HIGH must be at least LOW");
    return error;
}

/* Cuts the suffix off *rest that says how often the term is drawn. */
static int parse_suffix(span whole, span *rest, const term_form *form, term *out,
                        tarry_diagnostic *diagnostic)
{
    static const char CHUNK[] = "/chunk", RUN[] = "/run";
    out->per_chunk = span_cut_end(rest, CHUNK);
    out->per_run = span_cut_end(rest, RUN);
    bool both = out->per_chunk ? out->per_run : out->per_run && span_cut_end(rest, CHUNK);
    if ((out->per_chunk || out->per_run) && !form->drawn)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "'%s' does not apply to '%s'",
                          out->per_chunk ? CHUNK : RUN, form->name);
    if (both)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole,
                          "'/chunk' and '/run' exclude each other");
    return TARRY_OK;
}

static int parse_numbers(span whole, span rest, const term_form *form, uint32_t workers, term *out,
                         tarry_diagnostic *diagnostic)
{
    int error = parse_suffix(whole, &rest, form, out, diagnostic);
    bool more = true;
    if (error != TARRY_OK)
        return error;
    for (size_t i = 0; i < form->numbers; i++) {
        const term_number *number = &form->number[i];
        span text = {rest.text, 0};
        if (!more && number->otherwise > 0) {
            memcpy((char *)out + number->offset, &number->otherwise, sizeof(number->otherwise));
            continue;
        }
        if (more)
            more = span_cut(&rest, ',', &text);
        error = number->range ? parse_range(whole, text, number, workers, out, diagnostic)
                              : parse_number(whole, text, number, workers, out, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    if (more)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "'%s' takes %zu number%s",
                          form->name, form->numbers, form->numbers == 1 ? "" : "s");
    return TARRY_OK;
}

static int parse_trace(span whole, span file, const tarry_allocator *allocator, term *out,
                       tarry_diagnostic *diagnostic)
{
    out->per_chunk = span_cut_end(&file, "/chunk");
    if (file.length == 0)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "FILE is missing");
    char *path = memory_allocate(allocator, file.length + 1, 1);
    if (path == NULL)
        return diagnose_no_memory(diagnostic, "straggler");
    memcpy(path, file.text, file.length);
    int error = trace_read(path, allocator, &out->trace, diagnostic);
    memory_release(allocator, path);
    return error;
}

static int parse_term(span whole, uint32_t workers, const tarry_allocator *allocator, term *out,
                      tarry_diagnostic *diagnostic)
{
    span name, rest = whole;
    bool colon = span_cut(&rest, ':', &name);
    if (whole.length == 0)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "a term is empty");
    const term_form *form = NULL;
    for (size_t i = 0; i < sizeof(FORMS) / sizeof(*FORMS); i++)
        if (span_is(name, FORMS[i].name))
            form = &FORMS[i];
    if (form == NULL)
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole,
                          "unknown; known are none, exp, shifted-exp, pareto, weibull, slow, "
                          "markov, rack, dead, fail, rejoin, jitter, trace");
    out->kind = form->kind;
    if (form->kind == TERM_NONE)
        return colon ? TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "'none' takes 0 numbers")
                     : TARRY_OK;
    if (form->kind == TERM_TRACE)
        return parse_trace(whole, rest, allocator, out, diagnostic);
    int error = parse_numbers(whole, rest, form, workers, out, diagnostic);
    if (error != TARRY_OK || form->kind != TERM_MARKOV)
        return error;
    double change = out->probability + out->recovery;
    if (change < STRAGGLER_LEAST_CHANGE ||
        change > 1 + 1e-9) /* decimals may add up to a little more */
        return TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole,
                          "P_SLOW + P_RECOVER must be from %g to 1", STRAGGLER_LEAST_CHANGE);
    return TARRY_OK;
}

int spec_parse(const char *spec, uint32_t workers, const tarry_allocator *allocator,
               term terms[STRAGGLER_MAX_TERMS], size_t *count, tarry_diagnostic *diagnostic)
{
    int error;
    size_t used = 0;
    uint64_t dead = 0;
    bool rejoins = false;
    span rest = {spec, strlen(spec)};
    if (rest.length == 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "straggler SPEC is empty; 'none' is none");
    for (bool more = true; more; used++) {
        span whole;
        more = span_cut(&rest, '+', &whole);
        if (used == STRAGGLER_MAX_TERMS) {
            error = TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "more than %d terms",
                               STRAGGLER_MAX_TERMS);
            goto free_traces;
        }
        terms[used] = (term){0};
        error = parse_term(whole, workers, allocator, &terms[used], diagnostic);
        if (error != TARRY_OK)
            goto free_traces;
        if (terms[used].kind == TERM_DEAD)
            dead += terms[used].count;
        if (dead > workers) {
            error = TERM_ERROR(diagnostic, TARRY_ERROR_ARGUMENT, whole,
                               "more dead workers than the %u there are", workers);
            goto free_traces;
        }
        if (terms[used].kind == TERM_REJOIN && rejoins) {
            error = TERM_ERROR(diagnostic, TARRY_ERROR_FORMAT, whole, "'rejoin' stands twice");
            goto free_traces;
        }
        rejoins |= terms[used].kind == TERM_REJOIN;
    }
    *count = used;
    return TARRY_OK;

free_traces:
    for (size_t i = 0; i < used; i++)
        trace_free(terms[i].trace, allocator);
    return error;
}
