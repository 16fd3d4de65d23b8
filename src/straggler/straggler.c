/* SPDX-License-Identifier: Apache-2.0 */
#include "straggler/straggler.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include <tarry/straggler.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"

/* A markov term's probabilities add up to this or more: it bounds how far back a state is searched
 * for. */
#define STRAGGLER_LEAST_CHANGE 0.001

/* What is chosen once for the whole run. */
typedef struct fate {
    bool dead;
    double factor; /* of all `slow` terms that hit this worker */
} fate;

struct tarry_straggler {
    tarry_allocator allocator;
    uint64_t seed;
    uint32_t workers;
    fate *fates;
    size_t terms;
    term term[STRAGGLER_MAX_TERMS];
};

/* Of the term that hits this worker, which is one at most: the number is the worker's own. */
static double slow_factor(uint64_t seed, const term *slow, uint32_t worker)
{
    random_stream stream = random_stream_make(seed, RANDOM_STRAGGLER_CHOICE, 1, worker);
    return slow->factor + (slow->most_factor - slow->factor) * random_uniform(&stream);
}

/*
 * In one random order of the workers, the dead come first, and then the slow of one `slow` term
 * after the other, as far as the workers suffice: no worker is chosen twice.
 */
static int choose_fates(tarry_straggler *straggler)
{
    const tarry_allocator *allocator = &straggler->allocator;
    uint32_t workers = straggler->workers, next = 0;
    uint32_t *order = memory_allocate(allocator, workers, sizeof(*order));
    if (order == NULL)
        return TARRY_ERROR_NO_MEMORY;
    random_stream stream = random_stream_make(straggler->seed, RANDOM_STRAGGLER_CHOICE, 0, 0);
    for (uint32_t worker = 0; worker < workers; worker++) {
        order[worker] = worker;
        straggler->fates[worker].factor = 1;
    }
    random_shuffle(&stream, order, workers);
    for (size_t i = 0; i < straggler->terms; i++)
        if (straggler->term[i].kind == TERM_DEAD)
            for (uint32_t k = 0; k < straggler->term[i].count; k++)
                straggler->fates[order[next++]].dead = true;
    for (size_t i = 0; i < straggler->terms; i++)
        if (straggler->term[i].kind == TERM_SLOW)
            for (uint32_t k = 0; k < straggler->term[i].count && next < workers; k++, next++)
                straggler->fates[order[next]].factor =
                    slow_factor(straggler->seed, &straggler->term[i], order[next]);
    memory_release(allocator, order);
    return TARRY_OK;
}

int tarry_straggler_create(const char *spec, uint32_t workers, uint64_t seed,
                           const tarry_allocator *allocator, tarry_straggler **straggler,
                           tarry_diagnostic *diagnostic)
{
    if (spec == NULL || workers == 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "straggler: %s",
                        spec == NULL ? "no SPEC" : "no workers");
    tarry_straggler *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "straggler");
    made->allocator = memory_allocator(allocator);
    made->seed = seed;
    made->workers = workers;
    int error = spec_parse(spec, workers, &made->allocator, made->term, &made->terms, diagnostic);
    if (error != TARRY_OK)
        goto free_made;
    made->fates = memory_allocate(&made->allocator, workers, sizeof(*made->fates));
    error = made->fates == NULL ? TARRY_ERROR_NO_MEMORY : choose_fates(made);
    if (error != TARRY_OK) {
        diagnose_no_memory(diagnostic, "straggler");
        goto free_made;
    }
    *straggler = made;
    return TARRY_OK;

free_made:
    tarry_straggler_free(made);
    return error;
}

void tarry_straggler_free(tarry_straggler *straggler)
{
    if (straggler == NULL)
        return;
    tarry_allocator allocator = straggler->allocator;
    for (size_t i = 0; i < straggler->terms; i++)
        trace_free(straggler->term[i].trace, &allocator);
    memory_release(&allocator, straggler->fates);
    memory_release(&allocator, straggler);
}

/* A trace of one step, in which each worker has one chunk. */
static int add_seconds(tarry_straggler *straggler, const double *seconds,
                       tarry_diagnostic *diagnostic)
{
    const tarry_allocator *allocator = &straggler->allocator;
    uint32_t workers = straggler->workers;
    if (straggler->terms == STRAGGLER_MAX_TERMS)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "more than %d terms, besides what the workers' seconds add",
                        STRAGGLER_MAX_TERMS - 1);
    trace *data = memory_allocate(allocator, 1, sizeof(*data));
    float *values = memory_allocate(allocator, workers, sizeof(*values));
    if (data == NULL || values == NULL) {
        memory_release(allocator, values);
        memory_release(allocator, data);
        return diagnose_no_memory(diagnostic, "straggler");
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        straggler->fates[worker].dead |= isinf(seconds[worker]);
        values[worker] = straggler->fates[worker].dead ? 0 : (float)seconds[worker];
    }
    *data = (trace){.steps = 1, .workers = workers, .chunks = 1, .seconds = values};
    straggler->term[straggler->terms++] = (term){.kind = TERM_TRACE, .trace = data};
    return TARRY_OK;
}

int straggler_create_measured(const char *spec, uint32_t workers, const double *seconds,
                              uint64_t seed, const tarry_allocator *allocator,
                              tarry_straggler **straggler, tarry_diagnostic *diagnostic)
{
    tarry_straggler *made;
    int error = tarry_straggler_create(spec, workers, seed, allocator, &made, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (seconds != NULL)
        error = add_seconds(made, seconds, diagnostic);
    if (error != TARRY_OK)
        tarry_straggler_free(made);
    else
        *straggler = made;
    return error;
}

bool tarry_straggler_dead(const tarry_straggler *straggler, uint32_t worker)
{
    return straggler != NULL && straggler->fates[worker].dead;
}

/*
 * The random numbers of one term: a stream per (round, worker), in which every draw has a block of
 * its own. A draw takes one block (four words) at most, so that no two draws share a number, and
 * none depends on which others were made. A term that is drawn once for the run has its draws of
 * round 0 in every round.
 */
static random_stream draw_stream(const tarry_straggler *straggler, size_t index, uint64_t round,
                                 uint32_t worker, uint32_t position)
{
    const term *at = &straggler->term[index];
    random_stream stream = random_stream_make(straggler->seed, RANDOM_STRAGGLER,
                                              at->per_run ? 0 : (uint32_t)round, worker);
    uint32_t row = at->per_chunk ? position + 1 : 0;
    stream.counter[0] = row * STRAGGLER_MAX_TERMS + (uint32_t)index;
    return stream;
}

/* How many nanoseconds `seconds` are, at most UINT64_MAX. */
static uint64_t nanoseconds(double seconds)
{
    double ns = rint(seconds * 1e9);
    return ns < 0x1p64 ? (uint64_t)ns : UINT64_MAX;
}

/*
 * The state of a chain that has run for ever: each round has one uniform number, which makes a
 * worker fast below P_RECOVER, slow from 1 - P_SLOW on, and leaves it as it is in between. So the
 * last round that did not leave it says what it is, and nothing is kept (coupling from the past; J.
 * Propp, D. Wilson, 1996). Before round 0 the state is drawn from the stationary distribution. The
 * search meets its bound with a probability below e^-65.
 */
static bool is_slow(const tarry_straggler *straggler, size_t index, uint64_t round, uint32_t worker)
{
    enum { MAX_ROUNDS_BACK = 1 << 16 };
    const term *at = &straggler->term[index];
    for (uint64_t back = 0; back <= round && back < MAX_ROUNDS_BACK; back++) {
        random_stream stream = draw_stream(straggler, index, round - back, worker, 0);
        double uniform = random_uniform(&stream);
        if (uniform < at->recovery)
            return false;
        if (uniform >= 1 - at->probability)
            return true;
    }
    random_stream stream = random_stream_make(straggler->seed, RANDOM_STRAGGLER, 0, worker);
    stream.counter[0] = STRAGGLER_MAX_TERMS + (uint32_t)index; /* of no round: a row of its own */
    return random_uniform(&stream) * (at->probability + at->recovery) < at->probability;
}

/* Whether the worker's rack is hit in `round`; *stream goes on with the rack's numbers. */
static bool is_rack_hit(const tarry_straggler *straggler, size_t index, uint64_t round,
                        uint32_t worker, random_stream *stream)
{
    const term *at = &straggler->term[index];
    *stream = draw_stream(straggler, index, round, worker / at->count, 0);
    return random_uniform(stream) < at->probability;
}

/* What one term does to a chunk's time. */
static void apply_term(const tarry_straggler *straggler, size_t index, uint64_t round,
                       uint32_t worker, uint32_t position, uint32_t chunk, uint32_t pieces,
                       double *added, double *factor)
{
    const term *at = &straggler->term[index];
    random_stream stream = draw_stream(straggler, index, round, worker, position);
    switch (at->kind) {
    case TERM_EXPONENTIAL:
        *added += at->shift + at->scale * random_exponential(&stream);
        break;
    case TERM_PARETO:
        /* exp(-log(U) / shape); 0 * inf is 0: a scale of nothing adds nothing */
        if (at->scale > 0)
            *added += at->scale * exp(random_exponential(&stream) / at->shape);
        break;
    case TERM_WEIBULL:
        if (at->scale > 0)
            *added += at->scale * pow(random_exponential(&stream), 1 / at->shape);
        break;
    case TERM_JITTER:
        *factor *= fmax(0, 1 + at->deviation * random_normal(&stream));
        break;
    case TERM_MARKOV:
        if (is_slow(straggler, index, round, worker))
            *factor *= at->factor;
        break;
    case TERM_RACK:
        if (!isinf(at->factor) && is_rack_hit(straggler, index, round, worker, &stream))
            *factor *= at->factor;
        break;
    case TERM_TRACE:
        *added += at->per_chunk ? trace_pair_seconds(at->trace, round, chunk / pieces)
                                : trace_seconds(at->trace, round, worker, position / pieces);
        break;
    case TERM_NONE:
    case TERM_SLOW:
    case TERM_DEAD:
    case TERM_FAIL:
    case TERM_REJOIN:
        break;
    }
}

uint64_t tarry_straggler_time_ns(const tarry_straggler *straggler, uint64_t round, uint32_t worker,
                                 uint32_t position, uint32_t chunk, uint32_t pieces,
                                 uint64_t base_ns)
{
    /* Bounds that keep every intermediate value finite,
     * far beyond what 64 bits of nanoseconds hold. */
    const double most_seconds = 1e12, most_factor = 1e100;
    if (straggler == NULL)
        return base_ns;
    if (straggler->fates[worker].dead)
        return UINT64_MAX;
    double added = 0, factor = fmin(straggler->fates[worker].factor, most_factor);
    for (size_t i = 0; i < straggler->terms; i++) {
        apply_term(straggler, i, round, worker, position, chunk, pieces, &added, &factor);
        added = fmin(added, most_seconds);
        factor = fmin(factor, most_factor);
    }
    if (added == 0 && factor == 1) /* exact, also where a double is not */
        return base_ns;
    double time = rint(((double)base_ns + added * 1e9 / pieces) * factor);
    return time < 0x1p64 ? (uint64_t)time : UINT64_MAX;
}

bool tarry_straggler_adds(const tarry_straggler *straggler)
{
    for (size_t i = 0; straggler != NULL && i < straggler->terms; i++)
        switch (straggler->term[i].kind) {
        case TERM_EXPONENTIAL:
        case TERM_PARETO:
        case TERM_WEIBULL:
        case TERM_TRACE:
            return true;
        default:
            break;
        }
    return false;
}

bool tarry_straggler_fails(const tarry_straggler *straggler, uint64_t round, uint32_t worker,
                           uint32_t load, uint32_t *position)
{
    if (straggler == NULL || straggler->fates[worker].dead)
        return false;
    double share = 1; /* of the work that is done before the first death */
    for (size_t i = 0; i < straggler->terms; i++) {
        const term *at = &straggler->term[i];
        random_stream stream = draw_stream(straggler, i, round, worker, 0);
        bool hit = false;
        if (at->kind == TERM_FAIL)
            hit = random_uniform(&stream) < at->probability;
        else if (at->kind == TERM_RACK && isinf(at->factor))
            hit = is_rack_hit(straggler, i, round, worker, &stream);
        if (hit)
            share = fmin(share, random_uniform(&stream));
    }
    if (share == 1) /* no draw is */
        return false;
    *position = (uint32_t)(share * ((double)load + 1));
    return true;
}

uint64_t tarry_straggler_rejoin_ns(const tarry_straggler *straggler)
{
    for (size_t i = 0; straggler != NULL && i < straggler->terms; i++)
        if (straggler->term[i].kind == TERM_REJOIN)
            return nanoseconds(straggler->term[i].scale);
    return UINT64_MAX;
}

bool straggler_is_none(const tarry_straggler *straggler)
{
    bool none = true;
    for (size_t i = 0; straggler != NULL && i < straggler->terms; i++)
        none = none && straggler->term[i].kind == TERM_NONE;
    return none;
}

const char *straggler_mortal_term(const tarry_straggler *straggler)
{
    for (size_t i = 0; straggler != NULL && i < straggler->terms; i++)
        switch (straggler->term[i].kind) {
        case TERM_FAIL:
            return "fail";
        case TERM_REJOIN:
            return "rejoin";
        case TERM_RACK:
            if (isinf(straggler->term[i].factor))
                return "rack:K,inf";
            break;
        default:
            break;
        }
    return NULL;
}

int straggler_check_mortal(const tarry_straggler *straggler, tarry_diagnostic *diagnostic)
{
    const char *mortal = straggler_mortal_term(straggler);
    return mortal == NULL ? TARRY_OK
                          : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                                     "straggler term '%s' is for tarry simulate", mortal);
}

/*
 * The SPEC's grammar: TERM { '+' TERM }, TERM = NAME [ ':' NUMBER { ',' NUMBER } [ SUFFIX ] ],
 * SUFFIX = '/chunk' | '/run'. The last NUMBER of 'slow' may be a range, NUMBER '-' NUMBER.
 */

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
    char *path = memory_text(allocator, file.text, file.length, "");
    if (path == NULL)
        return diagnose_no_memory(diagnostic, "straggler");
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
