/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_secure.h"

#include <inttypes.h>

#include "base/diagnostic.h"
#include "privacy/secure/ring.h"
#include "secure/held.h"

/* Plans that follow what was learned cut chunks, and may have so many times as many. */
enum { FOLLOWING_CHUNKS = 16 };

static held_cut cut_of(const train_job *job)
{
    return (held_cut){.samples = job->inputs.train->rows,
                      .origins = tarry_plan_chunks(job->inputs.plan)};
}

/* Checks what every worker will check. */
static int check_left(const train_job *job, const held_cut *cut, tarry_diagnostic *why)
{
    const secure_options *secure = &job->inputs.options->secure;
    held *samples = NULL;
    int error = held_create(&samples);
    if (error == TARRY_OK)
        error = held_add(samples, job->inputs.plan, cut, why);
    const uint64_t least = secure_options_least(secure, cut->samples);
    uint64_t left = least;
    if (error == TARRY_OK)
        error = held_left(samples, cut->samples, secure->colluders, &left);
    held_free(samples);
    if (error != TARRY_OK || left >= least)
        return error;
    return diagnose(why, TARRY_ERROR_ARGUMENT,
                    "--secure: %" PRIu32 " colluders may hold all but %" PRIu64 " of %" PRIu64
                    " samples, and %" PRIu64
                    " are to be left (--secure-least): fewer copies, or more workers, leave more",
                    secure->colluders, left, cut->samples, least);
}

static int check_chunks(const train_job *job, const held_cut *cut, tarry_diagnostic *why)
{
    const uint64_t wanted = job->inputs.options->secure.chunk_samples;
    uint32_t chunk = 0;
    const uint64_t fewest = held_smallest(job->inputs.plan, cut, &chunk);
    if (fewest >= wanted)
        return TARRY_OK;
    return diagnose(why, TARRY_ERROR_ARGUMENT,
                    "--secure: chunk %" PRIu32 " has %" PRIu64 " samples, and workers want %" PRIu64
                    " in each at least (--secure-chunk-samples, at the server and at all workers): "
                    "fewer chunks, or fewer --pieces, have more",
                    chunk, fewest, wanted);
}

int train_secure_choose_rules(train_job *job, tarry_diagnostic *why)
{
    const train_options *options = job->inputs.options;
    const secure_options *secure = &options->secure;
    const held_cut cut = cut_of(job);
    const uint64_t chunks = cut.origins,
                   most = options->run.settings.adapts ? FOLLOWING_CHUNKS * chunks : chunks;
    ring grid;
    if (job->server.secure == 0)
        return TARRY_OK;
    const double bound = secure_options_bound(secure, cut.samples, chunks);
    if (!ring_choose(job->server.secure, bound, most, &grid))
        return diagnose(why, TARRY_ERROR_ARGUMENT,
                        "--secure-bits: %" PRIu32 " are too few for %" PRIu64
                        " chunks of numbers up to %g (--secure-bound)",
                        job->server.secure, most, bound);
    int error = check_left(job, &cut, why);
    if (error == TARRY_OK)
        error = check_chunks(job, &cut, why);
    if (error != TARRY_OK)
        return error;
    job->rules = (tarry_secure_rules){
        .bits = grid.bits,
        .fraction = grid.fraction,
        .bound = grid.bound,
        .colluders = secure->colluders,
        .least = secure_options_least(secure, cut.samples),
    };
    return TARRY_OK;
}

bool train_secure_allows(const train_job *job, const tarry_plan *plan)
{
    const tarry_secure_rules *rules = &job->rules;
    const ring grid = {.bits = rules->bits, .fraction = rules->fraction, .bound = rules->bound};
    const held_cut cut = cut_of(job);
    uint32_t chunk = 0;
    return rules->bits == 0 ||
           (held_smallest(plan, &cut, &chunk) >= job->inputs.options->secure.chunk_samples &&
            ring_fits(&grid, tarry_plan_chunks(plan)));
}

int train_secure_check_round(const train_job *job, history_round *round, tarry_diagnostic *why)
{
    const tarry_round_result *result = &round->result;
    if (job->rules.bits == 0)
        return TARRY_OK;
    const double numbers =
        (double)job->dimension * (double)result->copies_needed / (double)result->parts;
    round->saturation = (double)result->clamped / numbers;
    if (round->saturation <= TARRY_SECURE_CLAMPED_MOST)
        return TARRY_OK;
    return diagnose(why, TARRY_ERROR_STATE,
                    "round %" PRIu64 ": %.3g %% of the numbers in chunks' gradients are beyond the "
                    "bound of %g or not finite, and at most %g %% may be: raise --secure-bound at "
                    "the server and at all workers",
                    result->round, 100 * round->saturation, job->rules.bound,
                    100 * TARRY_SECURE_CLAMPED_MOST);
}
