/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run terms: everything that the members of a run have to agree on. One record holds it, and one
 * table (terms.c) has a row for each of its fields: name, type, range, when the field counts, and
 * who needs it. CONTRIBUTING.md, "How to add a setting", lists the other places.
 *
 * One canonical encoding serves the wire (WELCOME), the key of masks in secure sums, and the
 * coordinator's checkpoint. Fields stand in the order of the table, each as
 *   length of the name 1, name, length of the value 2, value
 * with little-endian numbers, and choices by their names. A field is left out if it has its default
 * or does not count, as the seed of rounding if nothing is rounded. Peers of different versions
 * therefore understand each other, and checkpoints stay valid, until somebody uses a setting that
 * the other side lacks. That setting is then refused by name.
 */
#ifndef PROTOCOL_TERMS_H
#define PROTOCOL_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/compress.h>
#include <tarry/error.h>
#include <tarry/secure.h>
#include <tarry/server.h>

/* Most numbers of a vector, so that sizes computed from it do not overflow. */
#define TERMS_VECTOR_MOST (UINT64_C(1) << 40)

enum {
    /* Longest encoding: matrices, and all other fields. */
    TERMS_BYTES = 8 * TARRY_COMPRESS_MATRICES_MOST + 1536,
    TERMS_TEXT_BYTES = 192, /* longest name and values of a difference */
};

/* Who needs a field; a row of the table has one or more of these, or none. */
enum {
    TERMS_TOLD = 1 << 0, /* workers: it stands in WELCOME, and masks depend on it */
    TERMS_PREPARED =
        1 << 1,            /* workers prepare for it: with another value they begin the job anew */
    TERMS_AGREED = 1 << 2, /* rules of secure sums, which a worker lets nobody change in a job */
    TERMS_KEPT = 1 << 3,   /* a resumed coordinator: it stands in the checkpoint */
    TERMS_SETTINGS = 1 << 4, /* the coordinator's machine: all of tarry_server_settings */
};

typedef struct run_matrices {
    uint32_t count;
    tarry_matrix shapes[TARRY_COMPRESS_MATRICES_MOST];
} run_matrices;

/* A copy of this record is complete: it points to nothing. */
typedef struct run_terms {
    uint32_t workers;
    uint64_t parameters; /* numbers of a round's parameters, with those of a factor behind them */
    bool ships;          /* workers can fetch the samples of chunks */
    /* compress_matrices and their count are unset, as `matrices` has them: use run_terms_settings
     * where forms are derived. */
    tarry_server_settings server;
    run_matrices matrices;
    tarry_secure_rules secure; /* with the bits of server.secure */
} run_terms;

/* All defaults, and the settings' values in their place. Matrices are copied. */
void run_terms_set(run_terms *terms, const tarry_server_settings *settings);

/* The settings with their matrices, which are borrowed from the terms. */
static inline tarry_server_settings run_terms_settings(const run_terms *terms)
{
    tarry_server_settings settings = terms->server;
    settings.compress_matrix_count = terms->matrices.count;
    settings.compress_matrices = terms->matrices.count > 0 ? terms->matrices.shapes : NULL;
    return settings;
}

/* Writes the fields that somebody in `needs` needs; choices are in their range. Gives back how many
 * bytes, at most TERMS_BYTES.
 */
size_t terms_encode(const run_terms *terms, unsigned needs, uint8_t *bytes);
/*
 * Reads what terms_encode wrote with the same `needs`; fields that are not there have their
 * default. Any bytes may come in. What is accepted is encoded to the same bytes. Errors: FORMAT;
 * the diagnostic names the setting that is unknown, missing, or out of its range. *terms is
 * untouched then.
 */
int terms_decode(const uint8_t *bytes, size_t size, unsigned needs, run_terms *terms,
                 tarry_diagnostic *why);

/* True if a field that somebody in `needs` needs differs. `text` then has the first such field with
 * both values, as "stripe_length is 64, not 32". NULL: nobody reads it. */
bool terms_differ(const run_terms *one, const run_terms *other, unsigned needs,
                  char text[TERMS_TEXT_BYTES]);

/* SHA-256 of all that workers are told; the label keeps it apart from other digests. Errors:
 * NO_MEMORY. */
int terms_digest(const run_terms *terms, uint8_t out[TARRY_DIGEST_SIZE]);

/* Checks the range of each field that counts and that somebody in `needs` needs. Errors: ARGUMENT;
 * the diagnostic is `of`, and then "NAME must be .., not ..". */
int terms_check(const run_terms *terms, unsigned needs, const char *of, tarry_diagnostic *why);

#endif
