/* SPDX-License-Identifier: Apache-2.0 */
/* Straggler injection from within: the terms of a SPEC, and traces. */
#ifndef STRAGGLER_STRAGGLER_H
#define STRAGGLER_STRAGGLER_H

#include <stddef.h>

#include <tarry/straggler.h>

/* Measured seconds of every (step, worker, chunk) of a box that begins at (0, 0, 0). */
typedef struct trace {
    uint32_t steps, workers, chunks; /* each >= 1 */
    float *seconds;                  /* steps x workers x chunks, row-major; finite, >= 0 */
} trace;

/* Reads a trace file; the caller owns *out and frees it with trace_free and the same allocator.
 * Errors: FILE, FORMAT (with the line), NO_MEMORY. */
int trace_read(const char *path, const tarry_allocator *allocator, trace **out,
               tarry_diagnostic *diagnostic);
void trace_free(trace *data, const tarry_allocator *allocator); /* NULL is allowed */
/* Each index modulo the trace's size. */
double trace_seconds(const trace *data, uint64_t step, uint32_t worker, uint32_t chunk);
/* The step's (worker, chunk) pairs in order of worker, then chunk; both indices modulo the trace's
 * size. */
double trace_pair_seconds(const trace *data, uint64_t step, uint32_t pair);

typedef enum term_kind {
    TERM_NONE,
    TERM_EXPONENTIAL, /* adds shift + scale * Exp(1) seconds */
    TERM_PARETO,      /* adds scale * U^(-1 / shape) seconds */
    TERM_WEIBULL,     /* adds scale * Exp(1)^(1 / shape) seconds */
    TERM_SLOW,        /* `count` workers, `factor` to `most_factor` times slower */
    TERM_DEAD,        /* `count` workers */
    TERM_JITTER,      /* times max(0, 1 + deviation * N(0,1)) */
    TERM_MARKOV,      /* `factor` times slower in some stretches of rounds */
    TERM_RACK,        /* groups of `count`: `factor` times slower, or dead, with `probability` */
    TERM_FAIL,        /* dies with `probability` */
    TERM_REJOIN,      /* joins again after `scale` seconds */
    TERM_TRACE,
} term_kind;

typedef struct term {
    term_kind kind;
    bool per_chunk; /* drawn (trace: taken) per chunk, not per worker */
    bool per_run;   /* drawn per worker for all rounds, not anew in each; not with per_chunk */
    double shift, scale, shape, deviation;
    double factor;      /* rack: INFINITY where it dies; slow: the least one */
    double most_factor; /* slow: each worker's is drawn from `factor` up to this */
    double probability; /* per round; markov: to become slow */
    double recovery;    /* markov: the probability per round to become fast again */
    uint32_t count;
    trace *trace;
} term;

/* More terms than this are an error: it bounds how the random numbers of a round are laid out. */
enum { STRAGGLER_MAX_TERMS = 16 };

/*
 * Reads the terms of a SPEC for `workers` workers into terms[0..*count-1]; traces in them belong to
 * the caller. Errors: those of tarry_straggler_create; then nothing is left to free.
 */
int spec_parse(const char *spec, uint32_t workers, const tarry_allocator *allocator,
               term terms[STRAGGLER_MAX_TERMS], size_t *count, tarry_diagnostic *diagnostic);

/*
 * As tarry_straggler_create, and each worker also has seconds[worker] (>= 0) of its own for a
 * whole chunk, in every round, as a term that adds; it never answers where these are INFINITY.
 * seconds may be NULL: then there is only the SPEC. Errors: the same, and FORMAT where the SPEC
 * leaves no room for one more term.
 */
int straggler_create_measured(const char *spec, uint32_t workers, const double *seconds,
                              uint64_t seed, const tarry_allocator *allocator,
                              tarry_straggler **straggler, tarry_diagnostic *diagnostic);

/* Whether it changes nothing, as NULL. */
bool straggler_is_none(const tarry_straggler *straggler);
/* The name of a term by which workers die or come back within a run, which is for the simulator
 * alone; NULL if there is none. */
const char *straggler_mortal_term(const tarry_straggler *straggler);
/* Errors: ARGUMENT (there is one), with a diagnostic. */
int straggler_check_mortal(const tarry_straggler *straggler, tarry_diagnostic *diagnostic);

#endif
