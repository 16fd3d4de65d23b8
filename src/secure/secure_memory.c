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
enum { LEAST_SHARE = 8, TEXT = 128 }; /* of the samples, an eighth; bytes of a line */

struct tarry_secure_memory {
    tarry_secure_memory_settings settings;
    pins *kept;
    pthread_mutex_t lock; /* of all that follows: plans and attempts come in different threads */
    held_cut cut;         /* of the job; origins 0: it was not told */
    uint64_t *begins;     /* the own copy, if the cut has any */
    held *samples;        /* under the plans of the job so far; NULL: none came yet */
    uint8_t job_id[TARRY_JOB_ID_SIZE];
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
    *out = made;
    return TARRY_OK;
}

void tarry_secure_memory_close(tarry_secure_memory *memory)
{
    if (memory == NULL)
        return;
    held_free(memory->samples);
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

/* ---- what colluders hold ---- */

/* What was noted in an earlier life of this worker, if that was in the same job. */
static int recall(tarry_secure_memory *own, const tarry_secure_offer *offer,
                  tarry_diagnostic *diagnostic)
{
    char *text;
    size_t size;
    if (own->samples != NULL && memcmp(own->job_id, offer->job_id, sizeof(own->job_id)) == 0)
        return TARRY_OK;
    held_free(own->samples);
    own->samples = NULL;
    memcpy(own->job_id, offer->job_id, sizeof(own->job_id));
    int error = pins_recall_held(own->kept, offer->job_id, &text, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = text == NULL ? held_create(&own->samples)
                         : held_read(text, size, own->cut.samples, &own->samples);
    memory_release(NULL, text);
    if (error == TARRY_OK)
        return TARRY_OK;
    own->samples = NULL;
    return error == TARRY_ERROR_NO_MEMORY
               ? diagnose_no_memory(diagnostic, "samples held")
               : diagnose(diagnostic, error,
                          "%s: damaged: what workers held under earlier plans is not known",
                          pins_held_path(own->kept));
}

static int note_plan(tarry_secure_memory *own, const tarry_secure_offer *offer,
                     tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = offer->rules;
    char *text;
    size_t size;
    int error = recall(own, offer, diagnostic);
    if (error == TARRY_OK)
        error = held_add(own->samples, offer->plan, &own->cut, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (held_write(own->samples, &text, &size) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "samples held");
    error = pins_note_held(own->kept, offer->job_id, text, size, diagnostic);
    memory_release(NULL, text);
    if (error != TARRY_OK)
        return error;
    uint64_t left;
    if (held_left(own->samples, own->cut.samples, rules->colluders, &left) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "samples held");
    if (left < rules->least)
        return diagnose(
            diagnostic, TARRY_ERROR_STATE,
            "secure sums: under the job's plans %" PRIu32 " colluders may hold all but %" PRIu64
            " of %" PRIu64 " samples, and %" PRIu64
            " are to be left (%s): fewer copies, or more workers, leave more",
            rules->colluders, left, own->cut.samples, rules->least, own->settings.least_name);
    return TARRY_OK;
}

/* ---- what is pinned ---- */

static int make_target(const pins_target *of, uint8_t target[TARRY_DIGEST_SIZE],
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

static void tell(const tarry_secure_memory *own, const char *what)
{
    char line[PATH_MAX + TEXT];
    if (own->settings.tell == NULL)
        return;
    snprintf(line, sizeof(line), "secure sums: %s; %s has it from now on", what,
             pins_folder(own->kept));
    own->settings.tell(own->settings.user, line);
}

static int hold(tarry_secure_memory *own, const tarry_secure_offer *offer,
                const pins_target *wanted, tarry_diagnostic *diagnostic)
{
    const tarry_secure_rules *rules = offer->rules;
    const pins_grid grid = {rules->bits, rules->fraction, rules->bound};
    char text[TEXT];
    bool first;
    int error = pins_hold_target(own->kept, wanted, &first, diagnostic);
    if (error == TARRY_OK && first) {
        snprintf(text, sizeof(text), "sums are over these %" PRIu64 " samples", wanted->samples);
        tell(own, text);
    }
    if (error == TARRY_OK)
        error = pins_hold_grid(own->kept, &grid, &first, diagnostic);
    if (error == TARRY_OK && first) {
        snprintf(text, sizeof(text),
                 "numbers are multiples of 2^%" PRId32 " up to %g in %" PRIu32 " bits",
                 -grid.fraction, grid.bound, grid.bits);
        tell(own, text);
    }
    return error;
}

int tarry_secure_memory_agree(void *memory, const tarry_secure_offer *offer,
                              uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    tarry_secure_memory *own = memory;
    pthread_mutex_lock(&own->lock);
    pins_target wanted = {.samples = own->cut.samples};
    memcpy(wanted.data, offer->data, sizeof(wanted.data));
    int error = check_offer(own, offer, diagnostic);
    if (error == TARRY_OK)
        error = note_plan(own, offer, diagnostic);
    if (error == TARRY_OK)
        error = hold(own, offer, &wanted, diagnostic);
    pthread_mutex_unlock(&own->lock);
    return error == TARRY_OK ? make_target(&wanted, target, diagnostic) : error;
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
