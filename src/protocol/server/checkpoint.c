/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint's bytes, little-endian:
 *   identity: name 8, version 4, workers 4, the plan's digest 32, and the settings
 *     stop 4, credit 4, fill 4, reproducible 1, secure 1, keep 2, workers_needed 4, deadline_ns 8,
 *     error_limit 8, conditioning_limit 8, silence_ns 8, dimension 8, stripe_length 8,
 *     sample_chunks 4, sample_seed 8 (0 if none are sampled)
 *   round 8, times of parts 24 (mean 8, deviation 8, samples 8)
 *   per worker: epoch 4, times of answers 68 (count 4, microseconds 16 x 4)
 *   TARRY_SUM_EVERYWHERE: the term 4, and the log's last two entries 48 (step 8, term 4, attempt 4,
 * digest 8) SHA-256 of all before it 32
 */
#include "protocol/server/server_state.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/digest.h"

enum {
    VERSION = 5,
    NAME_BYTES = 8,
    SETTINGS_OFFSET = NAME_BYTES + 4 + 4 + TARRY_DIGEST_SIZE,
    IDENTITY_BYTES = SETTINGS_OFFSET + 5 * 4 + 6 * 8 + 4 + 8,
    ESTIMATE_BYTES = 24,
    MEMBERS_OFFSET = IDENTITY_BYTES + 8 + ESTIMATE_BYTES,
    RECENT_BYTES = 4 + 4 * RECENT_TIMES,
    MEMBER_BYTES = 4 + RECENT_BYTES,
    SUM_BYTES = 24,
    VOTE_BYTES = 4 + 2 * SUM_BYTES,
    SEAL_BYTES = 32,
};

static const char NAME[NAME_BYTES + 1] = "tarrysrv";

/* Thirty years: sums of such times stay far below 2^64 nanoseconds. */
static const double LONGEST_NS = 1e18;

static size_t vote_offset(const tarry_server *server)
{
    return MEMBERS_OFFSET + (size_t)server->plan->workers * MEMBER_BYTES;
}

static size_t body_size(const tarry_server *server)
{
    return vote_offset(server) + (server->vote != NULL ? (size_t)VOTE_BYTES : 0);
}

size_t tarry_server_checkpoint_size(const tarry_server *server)
{
    return body_size(server) + SEAL_BYTES;
}

/* What both sides of a restart must have in common. */
static uint8_t *put_identity(const tarry_server *server, uint8_t *at)
{
    const tarry_server_settings *settings = &server->settings;
    memcpy(at, NAME, NAME_BYTES);
    at = bytes_put(at + NAME_BYTES, VERSION, 4);
    at = bytes_put(at, server->plan->workers, 4);
    tarry_plan_digest(server->plan, at);
    at = bytes_put(at + TARRY_DIGEST_SIZE, settings->stop, 4);
    at = bytes_put(at, settings->credit, 4);
    at = bytes_put(at, settings->fill, 4);
    at = bytes_put(at, settings->reproducible, 1);
    at = bytes_put(at, settings->secure, 1);
    at = bytes_put(at, settings->keep, 2);
    at = bytes_put(at, settings->workers_needed, 4);
    at = bytes_put(at, settings->deadline_ns, 8);
    at = bytes_put_f64(at, settings->error_limit);
    at = bytes_put_f64(at, settings->conditioning_limit);
    at = bytes_put(at, settings->silence_ns, 8);
    at = bytes_put(at, settings->dimension, 8);
    at = bytes_put(at, settings->stripe_length, 8);
    at = bytes_put(at, settings->sample_chunks, 4);
    return bytes_put(at, settings->sample_chunks > 0 ? settings->sample_seed : 0, 8);
}

static uint8_t *put_estimate(uint8_t *at, const estimate *times)
{
    at = bytes_put_f64(at, fmin(times->mean, LONGEST_NS));
    at = bytes_put_f64(at, fmin(times->deviation, LONGEST_NS));
    return bytes_put(at, times->samples, 8);
}

static bool get_estimate(const uint8_t *at, estimate *times)
{
    *times = (estimate){
        .mean = bytes_get_f64(at),
        .deviation = bytes_get_f64(at + 8),
        .samples = bytes_get(at + 16, 8),
    };
    return times->mean >= 0 && times->mean <= LONGEST_NS && times->deviation >= 0 &&
           times->deviation <= LONGEST_NS &&
           (times->samples > 0 || (times->mean == 0 && times->deviation == 0));
}

static uint8_t *put_recent(uint8_t *at, const recent *past)
{
    at = bytes_put(at, past->count, 4);
    for (uint32_t i = 0; i < RECENT_TIMES; i++)
        at = bytes_put(at, past->times_us[i], 4);
    return at;
}

static bool get_recent(const uint8_t *at, recent *past)
{
    past->count = (uint32_t)bytes_get(at, 4);
    bool good = past->count <= RECENT_TIMES;
    for (uint32_t i = 0; i < RECENT_TIMES; i++) {
        past->times_us[i] = (uint32_t)bytes_get(at + 4 + 4 * (size_t)i, 4);
        good = good && (i < past->count || past->times_us[i] == 0);
    }
    return good;
}

static uint8_t *put_vote(uint8_t *at, const vote *it)
{
    at = bytes_put(at, it->term, 4);
    for (size_t i = 0; i < 2; i++) {
        at = bytes_put(at, it->log[i].step, 8);
        at = bytes_put(at, it->log[i].term, 4);
        at = bytes_put(at, it->log[i].attempt, 4);
        at = bytes_put(at, it->log[i].digest, 8);
    }
    return at;
}

/* False: no server has stood so. */
static bool get_vote(const uint8_t *at, tarry_sum_id log[2], uint32_t *term)
{
    *term = (uint32_t)bytes_get(at, 4);
    for (size_t i = 0; i < 2; i++)
        log[i] = (tarry_sum_id){
            .step = bytes_get(at + 4 + i * SUM_BYTES, 8),
            .term = (uint32_t)bytes_get(at + 12 + i * SUM_BYTES, 4),
            .attempt = (uint32_t)bytes_get(at + 16 + i * SUM_BYTES, 4),
            .digest = bytes_get(at + 20 + i * SUM_BYTES, 8),
        };
    return *term > 0 && *term < UINT32_MAX && log[0].term <= *term;
}

static uint32_t after_reserve(uint32_t epoch)
{
    uint32_t left = UINT32_MAX - epoch;
    return left < TARRY_CHECKPOINT_ARRIVALS ? UINT32_MAX : epoch + TARRY_CHECKPOINT_ARRIVALS;
}

int tarry_server_checkpoint(const tarry_server *server, uint8_t *bytes)
{
    uint8_t *at = put_identity(server, bytes);
    at = bytes_put(at, server->round, 8);
    at = put_estimate(at, &server->part_time);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        at = bytes_put(at, server->members[worker].epoch, 4);
        at = put_recent(at, &server->answers[worker]);
    }
    if (server->vote != NULL)
        at = put_vote(at, server->vote);
    return digest_of_bytes(bytes, body_size(server), at) == 0 ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void tarry_server_stored(tarry_server *server, const uint8_t *bytes)
{
    const uint8_t *at = bytes + MEMBERS_OFFSET;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++, at += MEMBER_BYTES)
        server->members[worker].epoch_end = after_reserve((uint32_t)bytes_get(at, 4));
    server->restored = false;
}

uint32_t tarry_server_epoch(const tarry_server *server, uint32_t worker)
{
    return server->members[worker].epoch;
}

uint32_t tarry_server_arrivals_left(const tarry_server *server)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const server_member *member = &server->members[worker];
        uint32_t left = member->epoch < member->epoch_end ? member->epoch_end - member->epoch : 0;
        if (left < least)
            least = left;
    }
    return least;
}

static int check_identity(const tarry_server *server, const uint8_t *bytes, size_t size,
                          tarry_diagnostic *diagnostic)
{
    uint8_t own[IDENTITY_BYTES];
    const uint8_t *end = put_identity(server, own);
    assert(end == own + IDENTITY_BYTES);
    (void)end;
    const char *fault = NULL;
    if (size < IDENTITY_BYTES || memcmp(bytes, own, NAME_BYTES) != 0)
        fault = "this is none";
    else if (memcmp(bytes + NAME_BYTES, own + NAME_BYTES, 4) != 0)
        fault = "it is of another version";
    else if (memcmp(bytes, own, SETTINGS_OFFSET) != 0)
        fault = "it is of another plan";
    else if (memcmp(bytes, own, IDENTITY_BYTES) != 0)
        fault = "it is of a server with other settings";
    else if (size != tarry_server_checkpoint_size(server))
        fault = "its size is wrong";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_FORMAT, "checkpoint: %s", fault);
}

/* Reads what follows the identity into the server, or, without one, checks it only, of so many
 * workers. */
static bool get_state(tarry_server *server, const uint8_t *at, uint32_t workers)
{
    estimate times;
    uint64_t round = bytes_get(at, 8);
    bool good = round < UINT64_MAX;
    at += 8;
    good = get_estimate(at, &times) && good;
    at += ESTIMATE_BYTES;
    if (server != NULL) {
        server->round = round;
        server->part_time = times;
    }
    for (uint32_t worker = 0; worker < workers; worker++, at += MEMBER_BYTES) {
        recent answers;
        good = get_recent(at + 4, &answers) && good;
        if (server == NULL)
            continue;
        server_member *member = &server->members[worker];
        member->epoch = after_reserve((uint32_t)bytes_get(at, 4));
        member->epoch_end = member->epoch; /* until one that is stored reserves more */
        server->answers[worker] = answers;
    }
    return good;
}

int tarry_server_restore(tarry_server *server, const uint8_t *bytes, size_t size,
                         tarry_diagnostic *diagnostic)
{
    uint32_t workers = server->plan->workers;
    if (!server_is_fresh(server))
        return diagnose(diagnostic, TARRY_ERROR_STATE, "checkpoint: the server is in use");
    int error = check_identity(server, bytes, size, diagnostic);
    if (error != TARRY_OK)
        return error;
    uint8_t seal[SEAL_BYTES];
    if (digest_of_bytes(bytes, body_size(server), seal) != 0)
        return diagnose_no_memory(diagnostic, "checkpoint");
    tarry_sum_id log[2];
    uint32_t term;
    if (memcmp(seal, bytes + body_size(server), SEAL_BYTES) != 0 ||
        !get_state(NULL, bytes + IDENTITY_BYTES, workers) ||
        (server->vote != NULL && !get_vote(bytes + vote_offset(server), log, &term)))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "checkpoint: it is damaged");
    if (server->vote != NULL)
        vote_restart(server->vote, log, term + 1); /* in the next term */
    get_state(server, bytes + IDENTITY_BYTES, workers);
    server_stood_begin_life(server, NULL);
    server->restored = true;
    return TARRY_OK;
}
