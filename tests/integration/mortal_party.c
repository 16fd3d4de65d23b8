/* SPDX-License-Identifier: Apache-2.0 */
#include "mortal_party.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "edge_plan.h"
#include "runtime/clock.h"
#include "test.h"

#define PATIENCE_NS UINT64_C(60000000000)
#define LONG_SILENCE_NS UINT64_C(30000000000)

enum { PATIENT_ROUNDS = 3, HANGS_SECONDS = 120 };

/* ---- the server ---- */

/* The server's thread: what is wrong is found by the test's. Two who die at once may have been all
 * who had the last sum: the run goes back to the state before it, and says so. */
static int append(void *user, const tarry_sum_id *entry)
{
    party *its = user;
    bool back = entry->attempt == 0;
    its->log_jumped = its->log_jumped || entry->step + back != its->last.step + !back;
    its->returns += back;
    if (back)
        mortals_forget(&its->crowd, its->last.step);
    its->last = *entry;
    mortals_log(&its->crowd);
    return TARRY_OK;
}

static void make_plan(party *its)
{
    its->plan =
        plan_drawn(its->settings.workers, its->settings.chunks, its->settings.replication, 1);
}

static void make_server(party *its)
{
    const char *const listen[] = {"127.0.0.1:0"};
    const party_settings *wanted = &its->settings;
    tarry_tcp_server_settings settings;
    tarry_diagnostic why;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.parameters = settings.dimension = (size_t)wanted->dimension;
    settings.server.sum = TARRY_SUM_EVERYWHERE;
    settings.server.pick = TARRY_PICK_SHARE;
    settings.server.compress = wanted->compress;
    settings.server.compress_seed = wanted->seed;
    settings.server.silence_ns = wanted->silence_ns > 0 ? wanted->silence_ns : LONG_SILENCE_NS;
    settings.patience_ns = PATIENCE_NS;
    settings.log = (tarry_sum_log){.append = append, .user = its};
    settings.security.insecure = !wanted->tls;
    if (wanted->tls)
        settings.security.credentials = key_folder_member(&its->keys, 0, "server");
    assert_ok_or(why, tarry_tcp_server_create(its->plan, &settings, NULL, &its->server, &why));
}

void party_begin(party *its, const party_settings *settings)
{
    *its = (party){.settings = *settings};
    its->draws = random_stream_make(settings->seed, RANDOM_TEST, 5, 5);
    mortals_begin(&its->crowd, settings->workers, settings->chunks, settings->dimension);
    mortal_area *area = its->crowd.area;
    area->tls = settings->tls;
    area->shares = settings->shares;
    area->rounding = settings->compress == TARRY_COMPRESS_INT8   ? 1.0 / 127
                     : settings->compress == TARRY_COMPRESS_BF16 ? 1.0 / 256
                                                                 : 0;
    if (settings->tls) {
        key_folder_make(&its->keys, settings->workers, time(NULL));
        snprintf(area->folder, sizeof(area->folder), "%s", its->keys.home);
    }
    make_plan(its);
    make_server(its);
    snprintf(area->address, sizeof(area->address), "%s", tarry_runtime_address(its->server, 0));
    for (uint32_t worker = 0; worker < settings->workers; worker++)
        mortals_spawn(&its->crowd, worker);
    party_wait(its, settings->workers);
}

/* ---- rounds ---- */

void party_round(party *its)
{
    tarry_round_result result;
    tarry_diagnostic why;
    alarm(HANGS_SECONDS);
    uint64_t start = clock_now_ns();
    int error = tarry_runtime_round(its->server, NULL, NULL, &result, &why);
    uint64_t took = clock_now_ns() - start;
    alarm(0);
    its->longest_ns = took > its->longest_ns ? took : its->longest_ns;
    its->rounds++;
    mortals_check(&its->crowd);
    assert_false(its->log_jumped);
    if (error == TARRY_ERROR_COVERAGE) {
        its->failed++;
        return;
    }
    if (error != TARRY_OK)
        fail_msg("round %llu: %s", (unsigned long long)its->rounds, why.text);
    its->attempts += result.attempts;
    its->fetches += result.fetches;
    assert_true(result.exact && result.sum.step == its->last.step);
}

void party_wait(party *its, uint32_t workers)
{
    tarry_diagnostic why;
    assert_ok_or(why, tarry_runtime_wait(its->server, workers, PATIENCE_NS, &why));
    mortals_check(&its->crowd);
}

/* ---- deaths ---- */

static uint32_t below(party *its, uint32_t bound)
{
    return random_below(&its->draws, bound);
}

/* It dies at one of these places. */
static void arm(party *its, uint32_t worker, mortal_place first, mortal_place last)
{
    enum { MOST_PASSES = 6 };
    mortal_place place = (mortal_place)(first + below(its, (uint32_t)(last - first) + 1));
    bool rare = place == MORTAL_HELD || place >= MORTAL_FETCHES;
    const mortal_plan plan = {
        .place = place,
        .passes = 1 + (place == MORTAL_PREPARES ? 0 : below(its, rare ? 2 : MOST_PASSES))};
    mortals_arm(&its->crowd, worker, &plan);
}

/* Who is cut off in the middle of a sum fetches it, or those fetch it who waited for its share. */
static void arm_fetch(party *its)
{
    uint32_t victim = below(its, its->settings.workers);
    for (uint32_t worker = 0; worker < its->settings.workers; worker++) {
        const mortal_plan lends = {.place = MORTAL_LENDS, .passes = 1};
        const mortal_plan cut = {
            .place = MORTAL_SUM,
            .passes = 1 + below(its, its->settings.workers),
            .fate = MORTAL_CUT,
            .next = MORTAL_FETCHES,
            .draw = below(its, UINT32_MAX),
        };
        mortals_arm(&its->crowd, worker, worker == victim ? &cut : &lends);
    }
}

static void arm_some(party *its)
{
    uint32_t workers = its->settings.workers, victim = below(its, workers);
    if (!its->settings.shares && below(its, 3) == 0) {
        arm_fetch(its);
        return;
    }
    for (int32_t i = 0; i < its->crowd.area->licences; i++)
        arm(its, (victim + (uint32_t)i) % workers, MORTAL_COMPUTES, MORTAL_STEPPED);
}

/* Others in the place of the dead; some of them die on their way, or the one whose state they load
 * does. */
static void replace(party *its)
{
    uint32_t drawn = below(its, 4);
    its->crowd.area->licences = drawn < 2;
    for (uint32_t worker = 0; worker < its->settings.workers; worker++) {
        bool comes = its->crowd.pids[worker] == 0;
        if (comes)
            mortals_spawn(&its->crowd, worker);
        if (comes && drawn == 0 && below(its, 4) == 0)
            arm(its, worker, MORTAL_PREPARES, MORTAL_PREPARES);
        else if (comes && drawn == 0)
            arm(its, worker, MORTAL_LOADS, MORTAL_LOADED);
        else if (!comes && drawn == 1)
            arm(its, worker, MORTAL_SAVES, MORTAL_SENDS);
    }
}

/* Counts it if it has died, and tells where. */
static void bury(party *its, uint32_t worker)
{
    const mortal_slot *slot = &its->crowd.area->slots[worker];
    if (its->crowd.pids[worker] == 0 || slot->struck == MORTAL_NOWHERE ||
        slot->fate == MORTAL_STOPS)
        return;
    mortals_kill(&its->crowd, worker); /* it is about to */
    its->deaths++;
    its->died_at[slot->struck]++;
    if (getenv("TARRY_TEST_DEATHS") != NULL)
        printf("death %u: worker %u, in round %llu, after step %llu: %s\n", its->deaths, worker,
               (unsigned long long)its->rounds, (unsigned long long)slot->step,
               mortal_place_names[slot->struck]);
}

/* Rounds until all who may die have, or it has become unlikely. */
static void await_deaths(party *its)
{
    for (uint32_t round = 0; round < PATIENT_ROUNDS && its->crowd.area->licences > 0; round++)
        party_round(its);
    its->spared += its->crowd.area->licences > 0;
    its->crowd.area->licences = 0;
    for (uint32_t worker = 0; worker < its->settings.workers; worker++) {
        mortals_disarm(&its->crowd, worker);
        bury(its, worker);
    }
}

void party_lose_some(party *its)
{
    uint32_t workers = its->settings.workers;
    its->crowd.area->licences = 1 + (int32_t)below(its, 2);
    arm_some(its);
    await_deaths(its);
    while (mortals_alive(&its->crowd) < workers) {
        if (below(its, 2) == 0)
            party_round(its); /* without them */
        replace(its);
        await_deaths(its);
    }
    party_wait(its, workers);
}

/* ---- stops, and all of it ---- */

void party_stop(party *its, uint32_t worker, mortal_place place)
{
    const mortal_plan plan = {.place = place, .passes = 1, .fate = MORTAL_STOPS};
    its->crowd.area->licences = 1;
    mortals_arm(&its->crowd, worker, &plan);
    while (!mortals_is_stopped(&its->crowd, worker))
        party_round(its);
    its->stops++;
}

/* Those who run, were up to date not long ago, and to whom nothing is to happen. */
static uint32_t count_there(const party *its)
{
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < its->settings.workers; worker++)
        count += its->crowd.pids[worker] != 0 && !its->crowd.stopped[worker] &&
                 its->crowd.area->slots[worker].place == MORTAL_NOWHERE &&
                 its->crowd.area->slots[worker].step + 2 >= its->last.step;
    return count;
}

/* Something happens to one of them: who is away comes back, who is there goes, or is cut off; no
 * more than two are away at a time. */
static void befall(party *its)
{
    mortals *crowd = &its->crowd;
    uint32_t worker = below(its, its->settings.workers);
    if (crowd->pids[worker] == 0) {
        mortals_spawn(crowd, worker);
        its->joins++;
    } else if (crowd->stopped[worker]) {
        mortals_continue(crowd, worker);
    } else if (count_there(its) + 1 >= its->settings.workers) {
        const mortal_plan plan = {
            .place = (mortal_place)(MORTAL_COMPUTES + below(its, MORTAL_STEPPED - MORTAL_COMPUTES)),
            .passes = 1 + below(its, 4),
            .fate = (mortal_fate)below(its, MORTAL_FATES),
            .draw = below(its, UINT32_MAX),
        };
        crowd->area->licences = 1;
        mortals_arm(crowd, worker, &plan);
    }
}

void party_endure(party *its, uint32_t rounds, uint32_t apart)
{
    uint32_t workers = its->settings.workers;
    for (uint32_t round = 0; round < rounds; round++) {
        if (below(its, apart) == 0)
            befall(its);
        party_round(its);
        for (uint32_t worker = 0; worker < workers; worker++) {
            bool was = its->crowd.stopped[worker];
            its->stops += mortals_is_stopped(&its->crowd, worker) && !was;
            bury(its, worker);
        }
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        mortals_disarm(&its->crowd, worker);
        if (its->crowd.pids[worker] == 0)
            mortals_spawn(&its->crowd, worker);
        else if (mortals_is_stopped(&its->crowd, worker))
            mortals_continue(&its->crowd, worker);
    }
}

/* ---- the end ---- */

static void tell(const party *its, const char *name)
{
    printf("%s: %llu rounds, %llu of them without a sum, %llu attempts, %llu fetches\n", name,
           (unsigned long long)its->rounds, (unsigned long long)its->failed,
           (unsigned long long)its->attempts, (unsigned long long)its->fetches);
    printf("%s: %u deaths, %u spared, %u steps taken back\n", name, its->deaths, its->spared,
           its->returns);
    uint64_t cuts = 0;
    for (uint32_t worker = 0; worker < its->settings.workers; worker++)
        cuts += its->cuts[worker];
    printf("%s: %u stops, %llu cuts, %u came later; the longest round took %.2f s\n", name,
           its->stops, (unsigned long long)cuts, its->joins, (double)its->longest_ns / 1e9);
    for (int place = 0; place < MORTAL_PLACES; place++)
        if (its->died_at[place] > 0)
            printf("%5u %s\n", its->died_at[place], mortal_place_names[place]);
}

void party_end(party *its, const char *name)
{
    party_wait(its, its->settings.workers);
    for (uint32_t worker = 0; worker < its->settings.workers; worker++)
        assert_true(its->crowd.area->slots[worker].step == its->last.step);
    for (uint32_t worker = 0; worker < its->settings.workers; worker++)
        its->cuts[worker] = its->crowd.area->slots[worker].cuts;
    tarry_runtime_free(its->server, true);
    mortals_end(&its->crowd);
    tarry_plan_free(its->plan);
    if (its->settings.tls)
        key_folder_remove(&its->keys);
    tell(its, name);
}
