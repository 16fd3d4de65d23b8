/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums over the network: the server's sum is that of integers, bit for bit, and what a
 * worker sends is not what it has summed. Coded parts are looked at where they have come in, in the
 * server's own function, which the linker wraps.
 */
#include <stdio.h>
#include <time.h>

#include "cluster.h"
#include "pki/authority.h"
#include "protocol/wire/wire.h"
#include "runtime/host/host.h"
#include "runtime/masked_words.h"
#include "test.h"

enum { WORKERS = 6, CHUNKS = 6, COPIES = 2, DIMENSION = 1000, ATTEMPTS_MOST = 8 };

/* ---- what comes in at the server ---- */

/* The numbers of one worker's part. */
typedef struct caught {
    uint32_t attempt; /* 0: nothing came */
    uint8_t bytes[8 * DIMENSION];
} caught;

static pthread_mutex_t catching = PTHREAD_MUTEX_INITIALIZER;
static caught parts[ATTEMPTS_MOST + 1][WORKERS];
static bool spoils; /* in each attempt, a bit of the first check word of a stripe is another one */
static uint32_t spoiled; /* the last attempt of which it is */
static bool calls_back;  /* whose part comes first is asked to come anew to its round */
static uint32_t called;  /* that was it */

const tarry_reject *__real_host_receive(host *self, uint32_t worker, tarry_message *message,
                                        stripe *numbers);
const tarry_reject *__wrap_host_receive(host *self, uint32_t worker, tarry_message *message,
                                        stripe *numbers);

const tarry_reject *__wrap_host_receive(host *self, uint32_t worker, tarry_message *message,
                                        stripe *numbers)
{
    const ring *grid = &self->settings.grid;
    bool calls = false;
    if (numbers != NULL && grid->bits != 0 && message->attempt <= ATTEMPTS_MOST) {
        pthread_mutex_lock(&catching);
        caught *into = &parts[message->attempt][worker];
        into->attempt = message->attempt;
        memcpy(into->bytes + ring_bytes(grid, layout_stripe_start(&self->cut, message->stripe)),
               numbers->bytes, ring_bytes(grid, layout_stripe_length(&self->cut, message->stripe)));
        if (spoils && message->stripe == 2 && message->attempt > spoiled) {
            uint8_t *behind = numbers->bytes +
                              ring_bytes(grid, layout_stripe_length(&self->cut, message->stripe));
            behind[ring_bytes(grid, MASKED_CHECK + 1)] ^= 4;
            spoiled = message->attempt;
        }
        calls = calls_back;
        calls_back = false;
        called = calls ? worker : called;
        pthread_mutex_unlock(&catching);
    }
    if (calls)
        host_join(self, worker);
    return __real_host_receive(self, worker, message, numbers);
}

/* ---- a cluster ---- */

/* What workers note before they send, per attempt of the round in progress. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool kills;                           /* the first that would send dies; */
    uint32_t victim;                      /* that was it */
    uint32_t offers;                      /* that workers were asked to agree to */
    uint32_t count[ATTEMPTS_MOST + 1];    /* how many noted the attempt, */
    uint8_t kappa[ATTEMPTS_MOST + 1][32]; /* and what the first of them did */
} notes;

static uint32_t witnesses[WORKERS]; /* who they are */

static int take_note(void *user, const tarry_secure_attempt *attempt, tarry_diagnostic *diagnostic)
{
    const uint32_t *worker = user;
    pthread_mutex_lock(&notes.lock);
    bool dies = notes.kills;
    if (dies)
        notes.victim = *worker;
    notes.kills = false;
    bool known = attempt->attempt <= ATTEMPTS_MOST;
    if (known && notes.count[attempt->attempt]++ == 0)
        memcpy(notes.kappa[attempt->attempt], attempt->kappa, sizeof(attempt->kappa));
    bool same =
        known && memcmp(notes.kappa[attempt->attempt], attempt->kappa, sizeof(attempt->kappa)) == 0;
    pthread_mutex_unlock(&notes.lock);
    if (!same)
        return TARRY_ERROR_ARGUMENT;
    if (!dies)
        return TARRY_OK;
    strcpy(diagnostic->text, "it dies here");
    return TARRY_ERROR_INTERRUPTED;
}

static void forget(void)
{
    pthread_mutex_lock(&notes.lock);
    memset(notes.count, 0, sizeof(notes.count));
    pthread_mutex_unlock(&notes.lock);
    pthread_mutex_lock(&catching);
    memset(parts, 0, sizeof(parts));
    pthread_mutex_unlock(&catching);
}

static void prepare(cluster *its, uint32_t bits)
{
    ring grid;
    cluster_init(its);
    memset(&notes, 0, sizeof(notes));
    pthread_mutex_init(&notes.lock, NULL);
    pthread_cond_init(&notes.changed, NULL);
    its->tls = its->secure = true;
    its->dimension = DIMENSION;
    its->plan_settings.replication = COPIES;
    its->settings.server.keep = TARRY_KEEP_CREDITED;
    its->settings.server.stop = TARRY_STOP_EXACT;
    its->settings.server.secure = bits;
    assert_true(ring_choose(bits, 1e6, CHUNKS, &grid));
    its->settings.secure = (tarry_secure_rules){
        .bits = bits, .fraction = grid.fraction, .bound = grid.bound, .colluders = 1, .least = 1};
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        witnesses[worker] = worker;
        its->members[worker].member =
            (tarry_secure_member){.lock = take_note, .user = &witnesses[worker]};
    }
    forget();
}

static ring grid_of_cluster(const cluster *its)
{
    const tarry_secure_rules *rules = &its->settings.secure;
    return (ring){.bits = rules->bits, .fraction = rules->fraction, .bound = rules->bound};
}

/* The words of the sum of these chunks, serially. */
static void sum_serially(const cluster *its, uint64_t round, unsigned chunks, uint8_t *words)
{
    const ring grid = grid_of_cluster(its);
    float gradient[DIMENSION];
    memset(words, 0, ring_bytes(&grid, DIMENSION));
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        if ((chunks >> chunk & 1) == 0)
            continue;
        cluster_gradient(its, round, chunk, gradient);
        ring_add(&grid, gradient, DIMENSION, words);
    }
}

static void assert_sum_is_the_integers(const cluster *its, uint64_t round)
{
    const ring grid = grid_of_cluster(its);
    static uint8_t words[8 * DIMENSION];
    float wanted[DIMENSION];
    sum_serially(its, round, (1U << CHUNKS) - 1, words);
    ring_read(&grid, words, DIMENSION, wanted);
    assert_memory_equal(its->sum, wanted, sizeof(wanted));
}

/* How many of the numbers that came from the worker are those of these chunks. */
static uint32_t count_open(const cluster *its, uint64_t round, const caught *part, unsigned chunks)
{
    const ring grid = grid_of_cluster(its);
    static uint8_t words[8 * DIMENSION];
    uint32_t open = 0;
    sum_serially(its, round, chunks, words);
    for (size_t i = 0; i < DIMENSION; i++)
        open += ring_word(&grid, part->bytes, i) == ring_word(&grid, words, i);
    return open;
}

/* Whatever a worker had summed, hardly a number of it was sent: of 32 random bits one in 4e9 is
 * right by chance. */
static void assert_parts_are_masked(const cluster *its, uint64_t round, uint32_t attempt)
{
    uint32_t sent = 0;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        const caught *part = &parts[attempt][worker];
        unsigned held = 0;
        if (part->attempt == 0)
            continue;
        sent++;
        for (uint32_t slot = 0; slot < tarry_plan_load(its->plan, worker); slot++)
            held |= 1U << tarry_plan_chunk(its->plan, worker, slot);
        for (unsigned chunks = held; chunks > 0; chunks = (chunks - 1) & held)
            assert_in_range(count_open(its, round, part, chunks), 0, 2);
    }
    assert_true(sent >= 2);
}

static tarry_round_result secure_round(cluster *its)
{
    tarry_round_result result;
    tarry_diagnostic diagnostic;
    forget();
    int error = cluster_round(its, &result, &diagnostic);
    for (uint32_t worker = 0; error != TARRY_OK && worker < WORKERS; worker++)
        if (its->members[worker].diagnostic.text[0] != '\0')
            print_error("worker %u: %s\n", worker, its->members[worker].diagnostic.text);
    assert_ok_or(diagnostic, error);
    assert_true(result.exact);
    assert_sum_is_the_integers(its, result.round);
    return result;
}

static void end(cluster *its)
{
    cluster_end(its);
    pthread_cond_destroy(&notes.changed);
    pthread_mutex_destroy(&notes.lock);
}

#define SECURE(name) TEST_OF(name, cluster, its, end)

/* ---- stories ---- */

TEST(the_sum_is_that_of_integers)
{
    static const uint32_t bits[] = {32, 64};
    for (unsigned i = 0; i < 2; i++) {
        cluster its;
        prepare(&its, bits[i]);
        cluster_begin(&its);
        for (uint32_t round = 0; round < 5; round++) {
            tarry_round_result result = secure_round(&its);
            assert_parts_are_masked(&its, result.round, 1);
        }
        end(&its);
    }
}

SECURE(numbers_beyond_the_bound_are_clamped_and_counted)
{
    float gradient[DIMENSION];
    prepare(its, 32);
    its->settings.secure.bound = 5e4;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        its->members[worker].member.clamped_most = 0.5;
    cluster_begin(its);
    tarry_round_result result = secure_round(its);
    uint64_t beyond = 0;
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        cluster_gradient(its, result.round, chunk, gradient);
        for (size_t i = 0; i < DIMENSION; i++)
            beyond += gradient[i] > 5e4F || gradient[i] < -5e4F;
    }
    assert_in_range(beyond, 100, CHUNKS * DIMENSION / 2);
    assert_int_equal(result.clamped, beyond);
}

/* How many numbers of the worker's two parts are the same. */
static uint32_t count_same(const cluster *its, uint32_t worker, uint32_t one, uint32_t other)
{
    const ring grid = grid_of_cluster(its);
    const caught *first = &parts[one][worker], *second = &parts[other][worker];
    uint32_t same = 0;
    for (size_t i = 0; first->attempt != 0 && second->attempt != 0 && i < DIMENSION; i++)
        same += ring_word(&grid, first->bytes, i) == ring_word(&grid, second->bytes, i);
    return same;
}

/* Who computes nothing more takes part in the second attempt with what was masked in the first. */
TEST(a_worker_that_dies_after_the_signal_costs_a_new_attempt_with_new_masks)
{
    static const uint32_t bits[] = {32, 64};
    for (unsigned i = 0; i < 2; i++) {
        cluster its;
        prepare(&its, bits[i]);
        cluster_begin(&its);
        secure_round(&its);
        notes.kills = true;
        tarry_round_result result = secure_round(&its);
        const uint32_t victim = notes.victim;
        assert_in_range(result.attempts, 2, ATTEMPTS_MOST);
        assert_memory_not_equal(notes.kappa[1], notes.kappa[2], 32);
        assert_int_equal(parts[1][victim].attempt, 0);
        assert_parts_are_masked(&its, result.round, result.attempts);
        for (uint32_t worker = 0; worker < WORKERS; worker++)
            assert_in_range(count_same(&its, worker, 1, 2), 0, 2);
        cluster_join(&its, victim);
        assert_int_equal(its.members[victim].result, TARRY_ERROR_INTERRUPTED);
        assert_non_null(strstr(its.members[victim].diagnostic.text, "it dies here"));

        /* Another life of it, with another key. */
        cluster_start(&its, victim);
        cluster_wait(&its, WORKERS);
        for (uint32_t round = 0; round < 3; round++) {
            result = secure_round(&its);
            assert_parts_are_masked(&its, result.round, 1);
        }
        end(&its);
    }
}

/* As a late worker does that is called back: it has another epoch over the same connection, for
 * which the others have to know its key. */
SECURE(a_worker_that_comes_anew_to_its_round_is_masked_for_again)
{
    prepare(its, 32);
    cluster_begin(its);
    secure_round(its);
    pthread_mutex_lock(&catching);
    calls_back = true;
    pthread_mutex_unlock(&catching);
    tarry_round_result result = secure_round(its);
    assert_in_range(result.attempts, 2, ATTEMPTS_MOST);
    assert_int_equal(parts[1][called].attempt, 1);
    for (uint32_t round = 0; round < 4; round++)
        secure_round(its);
}

/* Of the other stripes neither. */
TEST(nothing_is_handed_out_of_a_sum_whose_check_fails)
{
    static const uint32_t bits[] = {32, 64};
    for (unsigned i = 0; i < 2; i++) {
        cluster its;
        tarry_round_result result;
        tarry_diagnostic why;
        prepare(&its, bits[i]);
        cluster_begin(&its);
        secure_round(&its);
        forget();
        pthread_mutex_lock(&catching);
        spoils = true;
        spoiled = 0;
        pthread_mutex_unlock(&catching);
        int error = cluster_round(&its, &result, &why);
        pthread_mutex_lock(&catching);
        spoils = false;
        pthread_mutex_unlock(&catching);
        if (error != TARRY_ERROR_MASKS)
            fail_msg("%d: %s", error, error != TARRY_OK ? why.text : "the sum passed");
        assert_non_null(strstr(why.text, "masks do not cancel: the check of stripe 2 failed"));
        for (size_t k = 0; k < DIMENSION; k++)
            assert_true(its.sum[k] == 0);
        end(&its);
    }
}

static int count_offers(void *user, const tarry_secure_offer *offer,
                        uint8_t target[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic)
{
    pthread_mutex_lock(&notes.lock);
    notes.offers++;
    pthread_cond_signal(&notes.changed);
    pthread_mutex_unlock(&notes.lock);
    memset(target, 7, TARRY_DIGEST_SIZE);
    return tarry_plan_chunks(offer->plan) == CHUNKS ? TARRY_OK : TARRY_ERROR_ARGUMENT;
}

static void open_server(cluster *its)
{
    cluster_begin_server(its);
    assert_ok(tarry_runtime_open(its->server, NULL));
}

/* It comes, and ends for that reason. */
static void ends_with(cluster *its, uint32_t worker, int error, const char *words)
{
    cluster_start(its, worker);
    cluster_join(its, worker);
    assert_int_equal(its->members[worker].result, error);
    assert_non_null(strstr(its->members[worker].diagnostic.text, words));
}

static void await_offers(uint32_t count)
{
    pthread_mutex_lock(&notes.lock);
    while (notes.offers < count)
        pthread_cond_wait(&notes.changed, &notes.lock);
    assert_int_equal(notes.offers, count);
    pthread_mutex_unlock(&notes.lock);
}

SECURE(workers_agree_to_each_plan)
{
    prepare(its, 32);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        its->members[worker].member.agree = count_offers;
    cluster_begin(its);
    for (uint32_t plan = 0; plan < 3; plan++) {
        await_offers((plan + 1) * WORKERS);
        for (uint32_t round = 0; round < 2; round++)
            secure_round(its);
        const double paces[WORKERS] = {1, 2, 3, plan + 1, 5, 1};
        tarry_plan_evolution wanted;
        tarry_plan *next;
        tarry_plan_evolution_init(&wanted);
        wanted.pace = paces;
        wanted.most_moves = 4;
        assert_ok(tarry_plan_evolve(its->plan, &wanted, NULL, &next, NULL, NULL));
        cluster_replan(its, next);
        secure_round(its);
    }
}

/* The lists are made anew in between: the server goes by the old one. */
SECURE(a_worker_with_another_list_of_workers_ends)
{
    tarry_diagnostic diagnostic;
    prepare(its, 32);
    open_server(its);
    char other[16];
    snprintf(other, sizeof(other), "worker-%d", WORKERS);
    assert_ok(authority_add(its->keys.home, key_identity(other), (authority_hosts){0},
                            (int64_t)time(NULL), &diagnostic));
    authority_rostered listed;
    assert_ok(authority_roster(its->keys.home, (int64_t)time(NULL), &listed, &diagnostic));
    ends_with(its, 0, TARRY_ERROR_STATE, "another list of workers");
}

/* Both sides have to want it. */
TEST(a_worker_and_a_server_agree_that_sums_are_private)
{
    for (unsigned open = 0; open < 2; open++) {
        cluster its;
        prepare(&its, 32);
        if (open) {
            its.settings.server.secure = 0;
            its.settings.secure = (tarry_secure_rules){0};
        }
        open_server(&its);
        its.secure = open;
        ends_with(&its, 0, TARRY_ERROR_STATE,
                  open ? "its sums are not secure" : "its sums are secure");
        end(&its);
    }
}

SECURE(workers_that_compute_other_bits_are_not_together)
{
    prepare(its, 32);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        its->members[worker].numerics = worker == 5 ? 8 : 7;
    open_server(its);
    for (uint32_t worker = 0; worker < 5; worker++)
        cluster_start(its, worker);
    cluster_wait(its, 5);
    ends_with(its, 5, TARRY_ERROR_STATE, "other bits than worker");
    secure_round(its);
}

static int decline(void *user, const tarry_secure_offer *offer, uint8_t target[TARRY_DIGEST_SIZE],
                   tarry_diagnostic *diagnostic)
{
    const uint32_t *worker = user;
    assert_int_equal(offer->worker, *worker);
    assert_int_equal(offer->rules->bits, 32);
    assert_int_equal(offer->dimension, DIMENSION);
    assert_int_equal(tarry_plan_chunks(offer->plan), CHUNKS);
    strcpy(diagnostic->text, "too few samples are hidden");
    return TARRY_ERROR_ARGUMENT;
}

SECURE(a_worker_that_does_not_agree_ends)
{
    prepare(its, 32);
    its->members[3].member.agree = decline;
    open_server(its);
    ends_with(its, 3, TARRY_ERROR_ARGUMENT, "");
    assert_string_equal(its->members[3].diagnostic.text, "too few samples are hidden");
}

TEST(a_server_whose_settings_make_no_secure_sum_is_none)
{
    tarry_plan *plan;
    tarry_plan_settings wanted;
    tarry_plan_settings_init(&wanted);
    wanted.workers = WORKERS;
    wanted.chunks = CHUNKS;
    wanted.replication = COPIES;
    assert_ok(tarry_plan_create(&wanted, NULL, &plan, NULL));
    for (unsigned fault = 0; fault < 5; fault++) {
        const char *listen = "127.0.0.1:0";
        tarry_tcp_server_settings settings;
        tarry_runtime *server = NULL;
        tarry_diagnostic why;
        tarry_tcp_server_settings_init(&settings);
        settings.listen = &listen;
        settings.listen_count = 1;
        settings.parameters = settings.dimension = DIMENSION;
        settings.server.keep = TARRY_KEEP_CREDITED;
        settings.server.secure = fault == 0 ? 64 : fault == 1 ? 0 : 32;
        settings.secure =
            (tarry_secure_rules){.bits = 32, .fraction = fault == 2 ? 30 : 0, .bound = 1000};
        settings.security.insecure = fault == 3;
        settings.security.credentials = fault == 3 ? NULL : "/nowhere";
        if (fault == 4) {
            settings.server.secure = settings.secure.bits = 64;
            settings.server.stripe_length = WIRE_NUMBERS_MOST;
        }
        assert_int_equal(tarry_tcp_server_create(plan, &settings, NULL, &server, &why),
                         TARRY_ERROR_ARGUMENT);
        assert_non_null(strstr(why.text, "network server: "));
    }
    tarry_plan_free(plan);
}
