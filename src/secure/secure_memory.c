/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/secure.h>

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/sized.h"
#include "privacy/secure/ring.h"
#include "secure/held.h"
#include "secure/pins.h"

static const char label[] = "tarry: samples of secure sums, 1";
enum {
    LEAST_SHARE = 8, /* of the samples: an eighth */
    TEXT = 128,      /* bytes of a line */
    BITS = 32,
    CHUNK_SAMPLES = 32,
    COARSER = 4,       /* digits of a grid: later plans may have 2^4 times as many chunks */
    LEAST_STEPS = 4096 /* of a grid, from 0 to the bound */
};

struct tarry_secure_memory {
    tarry_secure_memory_settings settings;
    pins *kept;
    pthread_mutex_t lock; /* of all that follows: plans and attempts come in different threads */
    held_cut cut;         /* of the job; origins 0: it was not told */
    uint64_t *begins;     /* the own copy, if the cut has any */
};

void tarry_secure_memory_settings_init_sized(tarry_secure_memory_settings *settings, size_t size)
{
    if (sized_begin(settings, size, sizeof(*settings)))
        settings->colluders = 1;
}

int tarry_secure_rules_choose(uint32_t bits, double bound, uint64_t chunks,
                              tarry_secure_rules *rules)
{
    ring grid;
    if ((bits != 32 && bits != 64) || !isfinite(bound) || !(bound > 0) || chunks == 0 ||
        !ring_choose(bits, bound, chunks, &grid))
        return TARRY_ERROR_ARGUMENT;
    rules->bits = grid.bits;
    rules->fraction = grid.fraction;
    rules->bound = grid.bound;
    return TARRY_OK;
}

int tarry_secure_memory_open(const tarry_secure_memory_settings *settings,
                             tarry_secure_memory **out, tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "secure sums", diagnostic);
    if (error != TARRY_OK)
        return error;
    if ((settings->bits != 0 && settings->bits != 32 && settings->bits != 64) ||
        !isfinite(settings->bound) || settings->bound < 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "secure sums: %" PRIu32 " bits and a bound of %g: bits are 32 or 64, and "
                        "a bound is positive and finite",
                        settings->bits, settings->bound);
    if (settings->credentials == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "secure sums need credentials");
    tarry_secure_memory *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "secure sums");
    error = pins_open(settings->credentials, NULL, &made->kept, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, made);
        return error;
    }
    pthread_mutex_init(&made->lock, NULL);
    made->settings = *settings;
    made->settings.credentials = NULL;
    if (made->settings.colluders_name == NULL)
        made->settings.colluders_name = "colluders";
    if (made->settings.least_name == NULL)
        made->settings.least_name = "least";
    if (made->settings.bits == 0)
        made->settings.bits = BITS;
    if (made->settings.bits_name == NULL)
        made->settings.bits_name = "bits";
    if (made->settings.bound_name == NULL)
        made->settings.bound_name = "bound";
    if (made->settings.chunk_samples == 0)
        made->settings.chunk_samples = CHUNK_SAMPLES;
    if (made->settings.chunk_samples_name == NULL)
        made->settings.chunk_samples_name = "chunk_samples";
    *out = made;
    return TARRY_OK;
}

void tarry_secure_memory_close(tarry_secure_memory *memory)
{
    if (memory == NULL)
        return;
    memory_release(NULL, memory->begins);
    pins_close(memory->kept);
    pthread_mutex_destroy(&memory->lock);
    memory_release(NULL, memory);
}

/* ---- the job's samples ---- */

static bool cuts(uint64_t samples, uint32_t origins, const uint64_t *begins)
{
    if (samples == 0 || origins == 0)
        return false;
    for (uint32_t i = 0; begins != NULL && i < origins; i++)
        if (begins[i] > begins[i + 1])
            return false;
    return begins == NULL || (begins[0] == 0 && begins[origins] == samples);
}

int tarry_secure_memory_samples(tarry_secure_memory *memory, uint64_t samples, uint32_t origins,
                                const uint64_t *begins)
{
    uint64_t *kept = NULL;
    if (!cuts(samples, origins, begins))
        return TARRY_ERROR_ARGUMENT;
    if (begins != NULL) {
        const size_t count = (size_t)origins + 1;
        kept = memory_allocate(NULL, count, sizeof(*kept));
        if (kept == NULL)
            return TARRY_ERROR_NO_MEMORY;
        memcpy(kept, begins, count * sizeof(*kept));
    }
    pthread_mutex_lock(&memory->lock);
    memory_release(NULL, memory->begins);
    memory->begins = kept;
    memory->cut = (held_cut){.samples = samples, .origins = origins, .begins = kept};
    pthread_mutex_unlock(&memory->lock);
    return TARRY_OK;
}

/* ---- what is offered ---- */

static int check_offer(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                       tarry_diagnostic *diagnostic)
{
    static const uint8_t none[TARRY_DIGEST_SIZE];
    const tarry_secure_rules *rules = offer->rules;
    const tarry_secure_memory_settings *wanted = &own->settings;
    const uint64_t all = own->cut.samples;
    const uint64_t least =
        wanted->least != 0 ? wanted->least : all / LEAST_SHARE + (all % LEAST_SHARE != 0);
    if (own->cut.origins == 0 || memcmp(offer->data, none, sizeof(none)) == 0)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: this worker has no samples of its own");
    if (rules->colluders < wanted->colluders)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server reckons with %" PRIu32
                        " colluders, and this worker with %" PRIu32 " (%s)",
                        rules->colluders, wanted->colluders, wanted->colluders_name);
    if (rules->least < least)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server would leave %" PRIu64
                        " samples to one sum, and this worker wants %" PRIu64 " (%s)",
                        rules->least, least, wanted->least_name);
    return TARRY_OK;
}

/* ---- the grid ---- */

/* What the owner allows. A server with a bound of its choice makes chunks saturate, all but few:
 * the sum then shows those. With a coarse grid all but the largest chunks vanish. */
static int check_grid(const tarry_secure_memory *own, const tarry_secure_rules *rules,
                      tarry_diagnostic *diagnostic)
{
    const tarry_secure_memory_settings *wanted = &own->settings;
    const double samples = (double)held_largest_origin(&own->cut),
                 bound =
                     wanted->bound > 0 ? wanted->bound : TARRY_SECURE_BOUND_PER_SAMPLE * samples;
    ring finest;
    if (rules->bits != wanted->bits)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server has numbers of %" PRIu32
                        " bits, and this worker's owner allows %" PRIu32
                        " (%s): give the server and all workers the same",
                        rules->bits, wanted->bits, wanted->bits_name);
    if (rules->bound != bound)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server's bound is %.9g, and this worker's owner allows "
                        "%.9g (%s; by default %g for each sample of the largest chunk): give the "
                        "server and all workers the same",
                        rules->bound, bound, wanted->bound_name, TARRY_SECURE_BOUND_PER_SAMPLE);
    if (!ring_choose(rules->bits, rules->bound, own->cut.origins, &finest) ||
        rules->fraction < finest.fraction - COARSER)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: the server rounds numbers to multiples of 2^%" PRId32
                        ", which is more than 2^%d times as coarse as %" PRIu32
                        " bits allow for %" PRIu32 " chunks up to %g",
                        -rules->fraction, COARSER, rules->bits, own->cut.origins, rules->bound);
    if (ldexp(rules->bound, rules->fraction) < LEAST_STEPS)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "secure sums: with %" PRIu32 " bits (%s) and %" PRIu32
                        " chunks there are only %.0f steps up to the bound, and %d are wanted: use "
                        "64 bits or fewer chunks",
                        rules->bits, wanted->bits_name, own->cut.origins,
                        ldexp(rules->bound, rules->fraction), LEAST_STEPS);
    return TARRY_OK;
}

/* ---- what was agreed on ---- */

/* All that an offer makes the worker write down, once it has passed all checks. */
typedef struct agreement {
    pins_target target;
    pins_grid grid;
    uint8_t key[TARRY_DIGEST_SIZE]; /* of the target */
    bool target_pinned, grid_pinned;
    char *before, *after; /* what workers held, without the plan and with it; before: may be NULL */
    size_t before_size, after_size;
} agreement;

static int make_key(const pins_target *of, uint8_t target[TARRY_DIGEST_SIZE],
                    tarry_diagnostic *diagnostic)
{
    uint8_t bytes[sizeof(label) + PINS_DIGEST_BYTES + sizeof(uint64_t)];
    memcpy(bytes, label, sizeof(label));
    memcpy(bytes + sizeof(label), of->data, PINS_DIGEST_BYTES);
    bytes_put(bytes + sizeof(label) + PINS_DIGEST_BYTES, of->samples, sizeof(uint64_t));
    return digest_of_bytes(bytes, sizeof(bytes), target) == 0
               ? TARRY_OK
               : diagnose_no_memory(diagnostic, "secure sums");
}

static int check_pins(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                      agreement *out, tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = offer->rules;
    out->target.samples = own->cut.samples;
    memcpy(out->target.data, offer->data, sizeof(out->target.data));
    out->grid = (pins_grid){rules->bits, rules->fraction, rules->bound};
    int error = make_key(&out->target, out->key, diagnostic);
    if (error == TARRY_OK)
        error = pins_check_target(own->kept, &out->target, &out->target_pinned, diagnostic);
    if (error == TARRY_OK)
        error = pins_check_grid(own->kept, &out->grid, &out->grid_pinned, diagnostic);
    return error;
}

/* What workers held under all plans over this target so far, in all jobs. */
static int recall_held(const tarry_secure_memory *own, agreement *its, held **out,
                       tarry_diagnostic *diagnostic)
{
    int error = pins_recall_held(own->kept, its->key, &its->before, &its->before_size, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (its->before == NULL && its->target_pinned)
        return pins_held_damaged(own->kept, its->key, diagnostic);
    error = its->before == NULL ? held_create(out)
                                : held_read(its->before, its->before_size, own->cut.samples, out);
    if (error == TARRY_ERROR_NO_MEMORY)
        return diagnose_no_memory(diagnostic, "samples held");
    return error == TARRY_OK ? TARRY_OK : pins_held_damaged(own->kept, its->key, diagnostic);
}

static int check_chunks(const tarry_secure_memory *own, const tarry_plan *plan,
                        tarry_diagnostic *diagnostic)
{
    uint32_t chunk = 0;
    const uint64_t fewest = held_smallest(plan, &own->cut, &chunk),
                   wanted = own->settings.chunk_samples;
    if (fewest >= wanted)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_STATE,
                    "secure sums: chunk %" PRIu32 " of the server's plan has %" PRIu64
                    " samples, and this worker's owner wants %" PRIu64
                    " in each at least (%s): make fewer chunks, or allow smaller ones",
                    chunk, fewest, wanted, own->settings.chunk_samples_name);
}

static int check_held(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                      const held *samples, tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = offer->rules;
    uint64_t left;
    if (held_left(samples, own->cut.samples, rules->colluders, &left) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "samples held");
    if (left < rules->least)
        return diagnose(
            diagnostic, TARRY_ERROR_STATE,
            "secure sums: under this plan and all earlier ones over these samples %" PRIu32
            " colluders may hold all but %" PRIu64 " of %" PRIu64 " samples, and %" PRIu64
            " are to be left (%s): fewer copies, or more workers, leave more, and so does a job "
            "with the seed and the sizes of an earlier one",
            rules->colluders, left, own->cut.samples, rules->least, own->settings.least_name);
    return TARRY_OK;
}

static int check_plan(const tarry_secure_memory *own, const tarry_secure_offer *offer,
                      agreement *its, tarry_diagnostic *diagnostic)
{
    held *samples = NULL;
    int error = recall_held(own, its, &samples, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = held_add(samples, offer->plan, &own->cut, diagnostic);
    if (error == TARRY_OK)
        error = check_chunks(own, offer->plan, diagnostic);
    if (error == TARRY_OK)
        error = check_held(own, offer, samples, diagnostic);
    if (error == TARRY_OK && held_write(samples, &its->after, &its->after_size) != TARRY_OK)
        error = diagnose_no_memory(diagnostic, "samples held");
    held_free(samples);
    return error;
}

static void tell(const tarry_secure_memory *own, const char *what)
{
    char line[PATH_MAX + TEXT];
    if (own->settings.tell == NULL)
        return;
    snprintf(line, sizeof(line), "secure sums: %s; %s has it from now on", what,
             pins_folder(own->kept));
    own->settings.tell(own->settings.user, line);
}

/* Writes the target last. So if the target is there and the record of its plans is missing, the
 * record was lost. */
static int keep(tarry_secure_memory *own, const agreement *its, tarry_diagnostic *diagnostic)
{
    char text[TEXT];
    int error = TARRY_OK;
    if (its->before == NULL || its->before_size != its->after_size ||
        memcmp(its->before, its->after, its->after_size) != 0)
        error = pins_write_held(own->kept, its->key, its->after, its->after_size, diagnostic);
    if (error == TARRY_OK && !its->grid_pinned)
        error = pins_write_grid(own->kept, &its->grid, diagnostic);
    if (error == TARRY_OK && !its->target_pinned)
        error = pins_write_target(own->kept, &its->target, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!its->target_pinned) {
        snprintf(text, sizeof(text), "sums are over these %" PRIu64 " samples",
                 its->target.samples);
        tell(own, text);
    }
    if (!its->grid_pinned) {
        snprintf(text, sizeof(text),
                 "numbers are multiples of 2^%" PRId32 " up to %g in %" PRIu32 " bits",
                 -its->grid.fraction, its->grid.bound, its->grid.bits);
        tell(own, text);
    }
    return TARRY_OK;
}

int tarry_secure_memory_agree(void *memory, const tarry_secure_offer *offer,
                              uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    tarry_secure_memory *own = memory;
    agreement its = {.before = NULL};
    pthread_mutex_lock(&own->lock);
    int error = check_offer(own, offer, diagnostic);
    if (error == TARRY_OK)
        error = check_grid(own, offer->rules, diagnostic);
    if (error == TARRY_OK)
        error = check_pins(own, offer, &its, diagnostic);
    if (error == TARRY_OK)
        error = check_plan(own, offer, &its, diagnostic);
    if (error == TARRY_OK)
        error = keep(own, &its, diagnostic);
    pthread_mutex_unlock(&own->lock);
    memory_release(NULL, its.before);
    memory_release(NULL, its.after);
    if (error == TARRY_OK)
        memcpy(target, its.key, sizeof(its.key));
    return error;
}

int tarry_secure_memory_lock(void *memory, const tarry_secure_attempt *attempt,
                             tarry_diagnostic *diagnostic)
{
    tarry_secure_memory *own = memory;
    pins_lock next = {
        .epoch = attempt->epoch,
        .round = attempt->round,
        .attempt = attempt->attempt,
    };
    memcpy(next.job, attempt->job_id, sizeof(next.job));
    memcpy(next.kappa, attempt->kappa, sizeof(next.kappa));
    pthread_mutex_lock(&own->lock);
    int error = pins_advance(own->kept, &next, diagnostic);
    pthread_mutex_unlock(&own->lock);
    return error;
}
