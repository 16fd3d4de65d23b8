/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of secure sums lies to one of two workers. It changes one byte of WELCOME, ROUND,
 * PARAMETERS or SIGNAL as they are on the wire, each byte in turn. A field that is added to
 * these frames later is therefore tried without a change to this test. The test is the server, over
 * TLS. It has the other worker's key as well, and makes the masks that this honest worker would
 * make.
 *
 * The masks of whatever the lied-to worker sends may not cancel, unless it sends exactly what it
 * would have sent without the lie. The server may put words where it likes, so each word is tried
 * with the mask of every number and every count.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bitset.h"
#include "base/bytes.h"
#include "base/digest.h"
#include "coding/layout.h"
#include "coding/psi.h"
#include "key_folder.h"
#include "pki/authority.h"
#include "plan/plan.h"
#include "plan/plan_code.h"
#include "privacy/secure/secure_member.h"
#include "protocol/wire/wire.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/trust/roster_file.h"
#include "script.h"
#include "seed.h"
#include "test.h"

enum { WORKERS = 2, CHUNKS = 2, DIMENSION = 6, PARAMETERS = 3, STRIPE = 4, WORD = 8 };
enum { EPOCH = 1, ROUND = 7, ATTEMPT = 1, LARGE = 4096 };

static const char JOB[] = "a job";
static const float NUMBERS[PARAMETERS] = {1, 2, 3};
/* Above the bound, and so above all that the worker sends, if its masks cancel. A random word of 64
 * bits is as near to 0 once in 2^47 times. A run tries 2^18 sums, and there are hundreds of runs.
 */
static const uint64_t SMALL = UINT64_C(1) << 16;

/* What is the same in all runs. */
typedef struct stage {
    key_folder keys;
    credential *server, *other;
    agreement *pair; /* of the other worker */
    tarry_plan *plan;
    wire_welcome welcome;
    uint8_t terms[32]; /* of what the other one was told */
} stage;

/* Which byte is another one for the worker; kind 0: none. */
typedef struct lie {
    wire_kind kind;
    tarry_message_type type;
    size_t at;
    uint8_t flipped;
} lie;

typedef enum outcome { REFUSED, SILENT, DETECTED, THE_SAME, LEARNT, OUTCOMES } outcome;

/* One life of the worker. */
typedef struct run {
    const stage *on;
    lie lie;
    size_t told;  /* bytes of the body that the lie is about */
    int listener; /* of this run alone: a worker that was refused may come back */
    char connect[32];
    script line;
    tarry_tcp_worker *worker;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool noted;         /* it is about to send a part */
    bool held;          /* it may not begin the job yet */
    uint32_t connected; /* so many times */
    size_t dimension;
    tarry_diagnostic why;
    wire_welcome welcome; /* as it was told */
    uint32_t epoch;
    uint64_t round;
    uint8_t key[32];
    uint32_t reports, next; /* that came; what it computes */
    uint32_t slot;          /* of the first */
    uint32_t probes;
    uint32_t wanted, parts; /* stripes that it is asked for; that came: */
    uint8_t *words;         /* one behind the other */
    size_t word_count;
} run;

/* The gradient of a chunk. */
static float number_of(uint32_t chunk, size_t i, const float *parameters)
{
    return (float)(100 * chunk + 10 * i) + parameters[0];
}

static int compute(void *user, const tarry_task *task)
{
    const run *its = user;
    for (size_t i = 0; i < its->dimension; i++)
        task->gradient[i] = number_of(task->chunk, i, task->parameters);
    return 0;
}

static int take_job(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                    uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    run *its = user;
    memset(data, 5, TARRY_DIGEST_SIZE);
    its->dimension = job->dimension;
    pthread_mutex_lock(&its->lock);
    while (its->held)
        pthread_cond_wait(&its->changed, &its->lock);
    pthread_mutex_unlock(&its->lock);
    if (job->dimension <= LARGE && job->parameters <= LARGE)
        return TARRY_OK;
    strcpy(diagnostic->text, "no model is as large");
    return TARRY_ERROR_ARGUMENT;
}

static int take_note(void *user, const tarry_secure_attempt *attempt, tarry_diagnostic *diagnostic)
{
    run *its = user;
    pthread_mutex_lock(&its->lock);
    its->noted = true;
    pthread_mutex_unlock(&its->lock);
    return TARRY_OK;
}

static void note_connection(void *user, const tarry_tcp_notice *notice)
{
    run *its = user;
    pthread_mutex_lock(&its->lock);
    its->connected += notice->type == TARRY_TCP_CONNECTED;
    pthread_cond_broadcast(&its->changed);
    pthread_mutex_unlock(&its->lock);
}

/* ---- the stage ---- */

/* As docs/wire.md describes it: the body behind what is one worker's own, and a label. */
static void name_terms(stage *its)
{
    static const char label[] = "tarry run terms 1";
    enum { OWN = WIRE_HEAD_BYTES + 72 };
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES], bytes[sizeof(label) + sizeof(frame)];
    const size_t size = wire_welcome_encode(&its->welcome, frame);
    memcpy(bytes, label, sizeof(label));
    memcpy(bytes + sizeof(label), frame + OWN, size - OWN);
    assert_int_equal(digest_of_bytes(bytes, sizeof(label) + size - OWN, its->terms), 0);
}

static void make_keys(stage *its)
{
    authority_rostered listed;
    key_folder_make(&its->keys, WORKERS, time(NULL));
    assert_ok(authority_roster(its->keys.home, time(NULL), &listed, NULL));
    its->server = key_load(its->keys.home, "server");
    its->other = key_load(its->keys.home, "worker-1");
    roster_file *roster;
    assert_ok(credential_roster(its->server, NULL, &roster, NULL));
    memcpy(its->welcome.terms.secure.roster, roster->digest, WIRE_DIGEST_BYTES);
    roster_file_free(roster);
    its->pair = agreement_create();
    assert_non_null(its->pair);
}

static void listen_on_loopback(run *its)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    its->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(its->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(its->listener, 16), 0);
    assert_int_equal(getsockname(its->listener, (struct sockaddr *)&at, &size), 0);
    snprintf(its->connect, sizeof(its->connect), "127.0.0.1:%u", ntohs(at.sin_port));
}

static int set_up(void **state)
{
    static stage its;
    tarry_plan_settings settings;
    signal(SIGPIPE, SIG_IGN);
    its = (stage){0};
    tarry_plan_settings_init(&settings);
    settings.workers = WORKERS;
    settings.chunks = CHUNKS;
    settings.replication = 2;
    assert_ok(tarry_plan_create(&settings, NULL, &its.plan, NULL));
    its.welcome = (wire_welcome){
        .version = WIRE_VERSION,
        .worker = 0,
        .job = {9},
        .plan_bytes = plan_encoded_size(its.plan),
        .job_bytes = sizeof(JOB),
        .terms = {.workers = WORKERS,
                  .parameters = PARAMETERS,
                  .secure = {.bits = 64, .bound = 1e4, .colluders = 0, .least = 1}},
    };
    tarry_server_settings *server = &its.welcome.terms.server;
    tarry_server_settings_init(server);
    server->dimension = DIMENSION;
    server->stripe_length = STRIPE;
    server->keep = TARRY_KEEP_CREDITED;
    server->ahead = 1;
    server->conditioning_limit = 1e4;
    server->silence_ns = UINT64_C(60000000000);
    server->secure = 64;
    tarry_plan_digest(its.plan, its.welcome.plan);
    make_keys(&its);
    name_terms(&its);
    *state = &its;
    return 0;
}

static int clean_up(void **state)
{
    stage *its = *state;
    credential_free(its->server);
    credential_free(its->other);
    agreement_free(its->pair);
    tarry_plan_free(its->plan);
    key_folder_remove(&its->keys);
    return 0;
}

/* ---- what is said ---- */

/* The lie, if the frame is the one that it is about. */
static void bend(run *its, uint8_t *frame, size_t size)
{
    const lie *of = &its->lie;
    const uint8_t *body = frame + WIRE_HEAD_BYTES;
    if (frame[4] != of->kind || (of->kind == WIRE_MESSAGE && body[0] != of->type))
        return;
    its->told = size - WIRE_HEAD_BYTES;
    if (of->at < its->told)
        frame[WIRE_HEAD_BYTES + of->at] ^= of->flipped;
}

static void tell(run *its, uint8_t *frame, size_t size)
{
    bend(its, frame, size);
    script_send(&its->line, frame, size); /* it may be gone */
}

static void tell_blob(run *its, wire_blob_kind kind, const void *bytes, size_t size)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_blob blob = {.kind = kind, .total = size, .count = size};
    const size_t head = wire_encode(WIRE_BLOB, &blob, frame);
    memcpy(frame + head, bytes, size);
    tell(its, frame, head + size);
}

static void tell_welcome(run *its)
{
    const stage *on = its->on;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES], plan[256];
    wire_head head;
    size_t size = wire_welcome_encode(&on->welcome, frame);
    tell(its, frame, size);
    its->welcome = on->welcome; /* what follows goes by what the worker believes */
    assert_ok(wire_head_decode(frame, &head));
    (void)wire_welcome_decode(&head, frame + WIRE_HEAD_BYTES, &its->welcome, NULL);
    assert_true(on->welcome.plan_bytes <= sizeof(plan));
    assert_ok(plan_encode(on->plan, plan));
    tell_blob(its, WIRE_BLOB_PLAN, plan, on->welcome.plan_bytes);
    tell_blob(its, WIRE_BLOB_JOB, JOB, sizeof(JOB));
}

static void tell_key(run *its)
{
    const stage *on = its->on;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES], certificate[WIRE_CERTIFICATE_BYTES];
    uint8_t signature[KEY_PROOF_MOST];
    size_t certificate_size, signature_size;
    key_claim claim = {.worker = 1, .instance = {3}};
    memcpy(claim.job, its->welcome.job, sizeof(claim.job));
    memcpy(claim.key, agreement_public_key(on->pair), sizeof(claim.key));
    assert_ok(credential_own_der(on->other, certificate, sizeof(certificate), &certificate_size));
    assert_ok(key_proof_sign(on->other, &claim, signature, &signature_size));
    wire_key words = {
        .worker = 1,
        .epoch = EPOCH,
        .certificate = certificate,
        .certificate_size = (uint16_t)certificate_size,
        .signature = signature,
        .signature_size = (uint16_t)signature_size,
    };
    memcpy(words.instance, claim.instance, sizeof(words.instance));
    memcpy(words.key, claim.key, sizeof(words.key));
    tell(its, frame, wire_encode(WIRE_KEY, &words, frame));
}

static codec_shape shape_of(const run *its)
{
    const tarry_server_settings *told = &its->welcome.terms.server;
    const size_t dimension = told->dimension <= LARGE ? told->dimension : DIMENSION;
    const layout cut = layout_make(dimension, 1, told->stripe_length);
    codec_shape shape = codec_shape_of(its->on->plan, 0, cut.stripes);
    codec_shape_secure(&shape, its->on->plan);
    return shape;
}

static void tell_message(run *its, const tarry_message *message)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES + LARGE];
    const codec_shape shape = shape_of(its);
    const size_t size = codec_size(&shape, message);
    wire_message_head(size, 0, frame);
    codec_encode(&shape, message, frame + WIRE_HEAD_BYTES);
    tell(its, frame, WIRE_HEAD_BYTES + size);
    if (message->type == TARRY_MESSAGE_ROUND) { /* the same in what follows */
        its->epoch = (uint32_t)bytes_get(frame + WIRE_HEAD_BYTES + 4, 4);
        its->round = bytes_get(frame + WIRE_HEAD_BYTES + 8, 8);
    }
    if (message->type == TARRY_MESSAGE_SIGNAL)
        for (size_t i = 0; i < (shape.stripes + 7) / 8; i++)
            its->wanted += (uint32_t)__builtin_popcount(
                frame[WIRE_HEAD_BYTES + size - (shape.stripes + 7) / 8 + i]);
}

static void tell_round(run *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    tell_message(its,
                 &(tarry_message){.type = TARRY_MESSAGE_ROUND, .epoch = EPOCH, .round = ROUND});
    const wire_parameters words = {.round = its->round, .count = PARAMETERS};
    const size_t head = wire_encode(WIRE_PARAMETERS, &words, frame);
    for (size_t i = 0; i < PARAMETERS; i++)
        bytes_put_f32(frame + head + i * sizeof(float), NUMBERS[i]);
    tell(its, frame, head + sizeof(NUMBERS));
}

/* ---- what comes ---- */

static void note_report(run *its, const tarry_message *report)
{
    if (report->type != TARRY_MESSAGE_REPORT)
        return;
    if (its->reports++ == 0)
        its->slot = report->slot;
    tell_message(its, &(tarry_message){
                          .type = TARRY_MESSAGE_NEWS,
                          .epoch = its->epoch,
                          .round = its->round,
                          .slot = report->slot,
                          .fate = its->reports == 1 ? TARRY_FATE_CREDITED : TARRY_FATE_DROPPED,
                      });
}

static void note_part(run *its)
{
    const size_t size = its->line.head.length - CODEC_HEADER_BYTES;
    its->words = realloc(its->words, WORD * its->word_count + size);
    assert_non_null(its->words);
    memcpy(its->words + WORD * its->word_count, its->line.body + CODEC_HEADER_BYTES, size);
    its->word_count += size / WORD;
    its->parts++;
}

/* The next frame; false: the connection is gone. */
static bool hear(run *its, tarry_message *message)
{
    const codec_shape no_sets = {0};
    wire_batch batch;
    script *line = &its->line;
    *message = (tarry_message){.type = TARRY_MESSAGE_TYPES};
    if (!script_read(line))
        return false;
    if (line->head.kind == WIRE_KEY)
        memcpy(its->key, line->body + 24, sizeof(its->key));
    if (line->head.kind == WIRE_BATCH) {
        assert_ok(wire_batch_decode(&line->head, line->body, &batch));
        for (uint32_t i = 0; i < batch.count; i++) {
            wire_batch_get(&batch, i, message);
            note_report(its, message);
        }
    }
    if (line->head.kind != WIRE_MESSAGE)
        return true;
    const bool numbers = line->body[0] == TARRY_MESSAGE_PART;
    assert_ok(codec_decode(&no_sets, line->body, numbers ? CODEC_HEADER_BYTES : line->head.length,
                           NULL, message));
    note_report(its, message);
    if (numbers)
        note_part(its);
    return true;
}

static bool await(run *its, wire_kind kind)
{
    tarry_message message;
    bool there;
    do
        there = hear(its, &message);
    while (there && its->line.head.kind != kind);
    return there;
}

/* Whatever it was told before has been dealt with once it answers the second probe, which is of a
 * round of its own: it also says unasked that it is alive. The first one tells what it computes. */
static bool sync_up(run *its)
{
    tarry_message message;
    tarry_message probe = {.type = TARRY_MESSAGE_PROBE, .epoch = its->epoch, .round = its->round};
    tell_message(its, &probe);
    probe.round = (UINT64_C(1) << 40) + ++its->probes;
    tell_message(its, &probe);
    do {
        if (!hear(its, &message))
            return false;
        if (message.type == TARRY_MESSAGE_ALIVE && message.round == its->round)
            its->next = message.next;
    } while (message.type != TARRY_MESSAGE_ALIVE || message.round != probe.round);
    return true;
}

/* Until it computes nothing more. */
static bool await_reports(run *its)
{
    tarry_message message;
    for (;;) {
        const uint32_t before = its->reports;
        if (!sync_up(its))
            return false;
        if (its->next >= tarry_plan_load(its->on->plan, 0) && its->reports == before)
            return true;
        while (its->reports == before)
            if (!hear(its, &message))
                return false;
    }
}

static void signal_encode(run *its)
{
    const tarry_plan *plan = its->on->plan;
    const codec_shape shape = shape_of(its);
    uint64_t psi[4] = {0}, stripes[LARGE / 64 + 1] = {0};
    const uint32_t mine = tarry_plan_chunk(plan, 0, its->slot);
    const uint32_t holders[CHUNKS] = {mine == 0 ? 0 : 1, mine == 1 ? 0 : 1};
    const uint32_t lives[WORKERS] = {its->epoch, EPOCH};
    for (psi_walk at = psi_begin(plan, 0); psi_here(&at); psi_next(&at))
        for (uint32_t i = 0; i < at.holders; i++)
            if (plan->holder_worker[at.first + i] == holders[at.chunk])
                bitset_set(psi, at.bit + i);
    for (size_t i = 0; i < shape.stripes; i++)
        bitset_set(stripes, i);
    tell_message(its, &(tarry_message){
                          .type = TARRY_MESSAGE_SIGNAL,
                          .epoch = its->epoch,
                          .round = its->round,
                          .attempt = ATTEMPT,
                          .term = 9,
                          .psi = psi,
                          .stripes = stripes,
                          .holders = holders,
                          .lives = lives,
                      });
}

/* ---- a run ---- */

static void *run_worker(void *argument)
{
    run *its = argument;
    (void)tarry_tcp_worker_run(its->worker, &its->why);
    return NULL;
}

static void start(run *its)
{
    char place[96];
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    snprintf(place, sizeof(place), "%s/worker-0", its->on->keys.home);
    settings.connect = its->connect;
    settings.security.credentials = place;
    settings.begin = take_job;
    settings.compute = compute;
    settings.observe = note_connection;
    settings.observe_user = its;
    settings.user = its;
    settings.secure = (tarry_secure_member){.required = true, .lock = take_note, .user = its};
    assert_ok(tarry_tcp_worker_create(&settings, NULL, &its->worker, NULL));
    assert_int_equal(pthread_create(&its->thread, NULL, run_worker, its), 0);
}

static void take_connection(run *its)
{
    script_take(&its->line, its->listener);
    assert_true(script_accept(&its->line, credential_open(its->on->server)));
}

static bool is_noted(run *its)
{
    pthread_mutex_lock(&its->lock);
    bool noted = its->noted;
    pthread_mutex_unlock(&its->lock);
    return noted;
}

/* False: it has hung up. */
static bool play(run *its)
{
    tarry_message message;
    if (!await(its, WIRE_HELLO))
        return false;
    tell_welcome(its);
    if (!await(its, WIRE_READY))
        return false;
    tell_key(its);
    tell_round(its);
    if (!await_reports(its))
        return false;
    signal_encode(its);
    if (!sync_up(its))
        return false;
    while (is_noted(its) && its->parts < its->wanted)
        if (!hear(its, &message))
            return false;
    return true;
}

static void end(run *its)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    script_send(&its->line, frame, wire_encode(WIRE_BYE, &(wire_bye){WIRE_BYE_DONE}, frame));
    tarry_tcp_worker_leave(its->worker, 0);
    script_close(&its->line);
    close(its->listener);
    assert_int_equal(pthread_join(its->thread, NULL), 0);
    tarry_tcp_worker_free(its->worker);
    pthread_cond_destroy(&its->changed);
    pthread_mutex_destroy(&its->lock);
    free(its->words);
}

/* ---- what the server can make of it ---- */

/* The masks of the other worker, which was told the truth: of all numbers, and of what is counted
 * behind each number. */
typedef struct truth {
    uint64_t numbers[LARGE], counts[LARGE][MASKED_COUNTS];
} truth;

static void begin_other(const run *its, secure_member *other)
{
    const stage *on = its->on;
    const uint32_t mine = tarry_plan_chunk(on->plan, 0, its->slot);
    const uint32_t holders[CHUNKS] = {mine == 0 ? 0 : 1, mine == 1 ? 0 : 1};
    const uint32_t lives[WORKERS] = {EPOCH, EPOCH};
    uint8_t text[WIRE_ID_BYTES + sizeof(JOB)], kappa[KAPPA_BYTES], numbers[sizeof(NUMBERS)];
    kappa_context context = {
        .round = ROUND,
        .attempt = ATTEMPT,
        .ring = {.bits = 64, .bound = on->welcome.terms.secure.bound},
        .workers = WORKERS,
        .lives = lives,
        .chunks = CHUNKS,
        .holders = holders,
    };
    memcpy(text, on->welcome.job, WIRE_ID_BYTES);
    memcpy(text + WIRE_ID_BYTES, JOB, sizeof(JOB));
    for (size_t i = 0; i < PARAMETERS; i++)
        bytes_put_f32(numbers + i * sizeof(float), NUMBERS[i]);
    memcpy(context.terms, on->terms, sizeof(context.terms));
    memset(context.target, 5, sizeof(context.target));
    memcpy(context.plan, on->plan->digest, sizeof(context.plan));
    assert_int_equal(digest_of_bytes(text, sizeof(text), context.job), 0);
    assert_int_equal(digest_of_bytes(numbers, sizeof(numbers), context.parameters), 0);
    assert_ok(secure_member_hear(other, 0, EPOCH, its->key));
    assert_ok(secure_member_hear(other, 1, EPOCH, agreement_public_key(on->pair)));
    assert_ok(secure_member_begin(other, &context, kappa));
}

static void make_truth(const run *its, truth *made)
{
    secure_member *other;
    memset(made, 0, sizeof(*made));
    assert_ok(secure_member_create(1, WORKERS, its->on->pair, NULL, &other));
    begin_other(its, other);
    assert_ok(secure_member_mask_numbers(other, 0, made->numbers, made->numbers, LARGE));
    for (size_t i = 0; i < LARGE; i++)
        assert_ok(secure_member_mask_counts(other, i, made->counts[i]));
    secure_member_free(other);
}

static bool is_small(uint64_t word)
{
    return word < SMALL || 0 - word < SMALL;
}

/* What comes of a word with all masks, each: whether one cancels, and shows other than it should.
 */
static outcome try_word(const run *its, const truth *all, uint64_t word)
{
    static const uint64_t counted[MASKED_COUNTS] = {[MASKED_CHUNKS] = 1};
    const uint32_t mine = tarry_plan_chunk(its->on->plan, 0, its->slot);
    outcome found = DETECTED;
    for (size_t i = 0; i < LARGE; i++) {
        const uint64_t number = (uint64_t)number_of(mine, i, NUMBERS);
        uint64_t sum = word + bytes_get((const uint8_t *)&all->numbers[i], WORD);
        if (is_small(sum))
            found = i < DIMENSION && sum == number && found != LEARNT ? THE_SAME : LEARNT;
        for (size_t k = 0; k < MASKED_COUNTS; k++) {
            sum = word + bytes_get((const uint8_t *)&all->counts[i][k], WORD);
            if (is_small(sum))
                found = i % STRIPE == 0 && sum == counted[k] && found != LEARNT ? THE_SAME : LEARNT;
        }
    }
    return found;
}

/* Of all words: one that is learnt counts most, then one that shows what it should. */
static outcome try_parts(const run *its)
{
    static truth all;
    outcome worst = DETECTED;
    make_truth(its, &all);
    for (size_t i = 0; i < its->word_count; i++) {
        outcome found = try_word(its, &all, bytes_get(its->words + i * WORD, WORD));
        worst = found > worst ? found : worst;
    }
    return worst;
}

static outcome run_with(const stage *on, const lie *of, size_t *told)
{
    run its = {.on = on, .line.fd = -1, .lie = *of, .round = ROUND, .epoch = EPOCH};
    pthread_mutex_init(&its.lock, NULL);
    pthread_cond_init(&its.changed, NULL);
    listen_on_loopback(&its);
    start(&its);
    take_connection(&its);
    bool there = play(&its);
    outcome made = its.parts > 0 ? try_parts(&its) : there ? SILENT : REFUSED;
    if (of->kind == 0)
        assert_true(there && its.reports == 2 && its.parts == 2);
    *told = its.told;
    end(&its);
    return made;
}

/* ---- stories ---- */

TEST(a_worker_that_is_told_the_truth_is_summed)
{
    size_t told;
    assert_int_equal(run_with(*state, &(lie){0}, &told), THE_SAME);
}

static void await_connections(run *its, uint32_t count)
{
    pthread_mutex_lock(&its->lock);
    while (its->connected < count)
        pthread_cond_wait(&its->changed, &its->lock);
    pthread_mutex_unlock(&its->lock);
}

/* The worker does not know yet what it agrees to when it hears of the other rules. */
TEST(rules_that_change_while_a_worker_prepares_are_refused)
{
    stage *on = *state;
    run its = {.on = on, .line.fd = -1, .round = ROUND, .epoch = EPOCH, .held = true};
    pthread_mutex_init(&its.lock, NULL);
    pthread_cond_init(&its.changed, NULL);
    listen_on_loopback(&its);
    start(&its);
    for (uint32_t colluders = 0; colluders < 2; colluders++) {
        on->welcome.terms.secure.colluders = colluders;
        take_connection(&its);
        assert_true(await(&its, WIRE_HELLO));
        tell_welcome(&its);
        await_connections(&its, colluders + 1);
    }
    on->welcome.terms.secure.colluders = 0;
    pthread_mutex_lock(&its.lock);
    its.held = false;
    pthread_cond_broadcast(&its.changed);
    pthread_mutex_unlock(&its.lock);
    const bool ready = await(&its, WIRE_READY);
    end(&its);
    assert_false(ready);
    assert_non_null(strstr(its.why.text, "it has changed the rules of secure sums within a job: "
                                         "secure_colluders is 1, not 0"));
}

/* Bytes begin .. end - 1 of a body, which are the worker's own: what it sends may be the same. */
typedef struct own {
    wire_kind kind;
    tarry_message_type type;
    size_t begin, end;
} own;

static const own owned[] = {
    {WIRE_WELCOME, 0, 4, 8},                       /* its id */
    {WIRE_WELCOME, 0, 24, 56},                     /* the plan that was in force when it came */
    {WIRE_WELCOME, 0, 56, 72},                     /* bytes of blobs that it does not have */
    {WIRE_MESSAGE, TARRY_MESSAGE_ROUND, 2, 4},     /* the sequence of its orders */
    {WIRE_MESSAGE, TARRY_MESSAGE_ROUND, 16, 24},   /* nothing, in a ROUND */
    {WIRE_MESSAGE, TARRY_MESSAGE_SIGNAL, 24, 28},  /* the term: counts what it was told */
    {WIRE_MESSAGE, TARRY_MESSAGE_SIGNAL, 45, 128}, /* the stripes that are wanted of it */
};

static bool is_owned(const lie *of)
{
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        if (of->kind == owned[i].kind && of->type == owned[i].type && of->at >= owned[i].begin &&
            of->at < owned[i].end)
            return true;
    return false;
}

/* Which bits of a byte are another one: all of them in a test that may take long; else the lowest
 * or the highest in turn, and both in messages, of which some bytes are fields of their own. */
static uint8_t flips_of(wire_kind kind, size_t at)
{
    return test_is_long() ? 0xff : kind == WIRE_MESSAGE ? 0x81 : at % 2 == 0 ? 0x01 : 0x80;
}

/* Gives back how many runs ended in each way. */
static void walk(const stage *on, wire_kind kind, tarry_message_type type, uint32_t *counts)
{
    size_t told = 1;
    for (size_t at = 0; at < told; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            const lie of = {kind, type, at, (uint8_t)(1U << bit)};
            if ((flips_of(kind, at) & of.flipped) == 0)
                continue;
            const outcome made = run_with(on, &of, &told);
            counts[made]++;
            if (made == LEARNT || (made == THE_SAME && !is_owned(&of)))
                fail_msg("kind %d, message %d, byte %zu ^ %#x: %s", kind, type, at, of.flipped,
                         made == LEARNT ? "the worker's numbers can be read"
                                        : "its masks cancel, as if nothing had been changed");
        }
    printf("kind %d, message %d: %zu bytes: %u refused, %u silent, %u detected, %u the same\n",
           kind, type, told, counts[REFUSED], counts[SILENT], counts[DETECTED], counts[THE_SAME]);
}

TEST(another_byte_of_welcome)
{
    uint32_t counts[OUTCOMES] = {0};
    walk(*state, WIRE_WELCOME, 0, counts);
    assert_true(counts[DETECTED] > 0 && counts[REFUSED] > 0);
}

TEST(another_byte_of_the_parameters)
{
    uint32_t counts[OUTCOMES] = {0};
    walk(*state, WIRE_PARAMETERS, 0, counts);
    assert_true(counts[DETECTED] > 0 && counts[THE_SAME] == 0);
}

TEST(another_byte_of_a_round)
{
    uint32_t counts[OUTCOMES] = {0};
    walk(*state, WIRE_MESSAGE, TARRY_MESSAGE_ROUND, counts);
    assert_true(counts[DETECTED] > 0 && counts[REFUSED] > 0);
}

TEST(another_byte_of_a_signal)
{
    uint32_t counts[OUTCOMES] = {0};
    walk(*state, WIRE_MESSAGE, TARRY_MESSAGE_SIGNAL, counts);
    assert_true(counts[DETECTED] > 0 && counts[REFUSED] > 0);
}

TEST_GROUP(set_up, clean_up)
