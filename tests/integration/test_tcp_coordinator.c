/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everyone gets the sum, the server is a process that is killed: as it logs a sum, before and
 * after that, or in the middle of a round. Workers live on, and find the next server, which goes on
 * from the log; or they die as well, and others load the saved state from it. All that is stepped
 * on is right, and the same everywhere, and the end is what a run without deaths comes to, bit for
 * bit.
 */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "mortal.h"
#include "seed.h"
#include "tarry/tcp.h"
#include "test.h"

enum { WORKERS = 3, CHUNKS = 6, DIMENSION = 5000, STEPS = 12, SAVED_EVERY = 4, DEATHS = 4 };
enum { STATE_BYTES = sizeof(uint64_t) + 2 * DIMENSION * sizeof(float) };
#define PATIENCE_NS UINT64_C(60000000000)

extern char **environ;

/* What outlives a server: its files, as it were. */
typedef struct files {
    char address[128];
    uint32_t starts, term;       /* the highest of the log, or of a start */
    tarry_sum_id log[STEPS + 1]; /* by step */
    uint64_t logged;
    size_t checkpoint_size; /* 0: none was stored yet */
    uint8_t checkpoint[1 << 14];
    uint64_t state_size; /* the same */
    tarry_sum_id state_after;
    uint8_t state[STATE_BYTES];
    /* When it dies: at this passage, of those that begin and that end an entry. */
    uint32_t dies;
} files;

/* ---- the server's process ---- */

static void pass(files *kept)
{
    if (kept->dies > 0 && --kept->dies == 0)
        kill(getpid(), SIGKILL);
}

static int append(void *user, const tarry_sum_id *entry)
{
    files *kept = user;
    pass(kept);
    if (entry->attempt > 0)
        kept->log[entry->step] = *entry;
    kept->logged = entry->step;
    kept->term = entry->term > kept->term ? entry->term : kept->term;
    pass(kept);
    return TARRY_OK;
}

static void store_checkpoint(files *kept, tarry_runtime *server)
{
    uint8_t bytes[sizeof(kept->checkpoint)];
    if (tarry_runtime_checkpoint(server, bytes) != TARRY_OK)
        _exit(4);
    memcpy(kept->checkpoint, bytes, kept->checkpoint_size);
    tarry_runtime_stored(server, bytes);
}

static int size_of(void *user, const tarry_server *machine)
{
    *(size_t *)user = tarry_server_checkpoint_size(machine);
    return 0;
}

static void store_state(files *kept, tarry_runtime *server)
{
    void *bytes;
    uint64_t size;
    tarry_sum_id after;
    if (tarry_runtime_state(server, PATIENCE_NS, &after, &bytes, &size, NULL) != TARRY_OK ||
        size != STATE_BYTES)
        _exit(5);
    memcpy(kept->state, bytes, STATE_BYTES);
    kept->state_after = after;
    kept->state_size = size;
    tarry_runtime_release_state(server, bytes);
}

static tarry_runtime *start_server(files *kept, const tarry_plan *plan)
{
    const char *const listen[] = {kept->starts == 1 ? "127.0.0.1:0" : kept->address};
    tarry_tcp_server_settings settings;
    tarry_runtime *server;
    tarry_diagnostic why;
    tarry_tcp_server_settings_init(&settings);
    settings.listen = listen;
    settings.listen_count = 1;
    settings.parameters = settings.dimension = DIMENSION;
    memset(settings.job_id, 7, sizeof(settings.job_id));
    settings.security.insecure = true;
    settings.patience_ns = PATIENCE_NS;
    settings.server.sum = TARRY_SUM_EVERYWHERE;
    settings.server.reproducible = true;
    settings.server.pick = TARRY_PICK_PLAN;
    settings.server.silence_ns = UINT64_C(30000000000);
    settings.server.voters_grace_ns = UINT64_C(500000000);
    settings.log = (tarry_sum_log){.append = append, .user = kept};
    settings.log.term = ++kept->term;
    for (uint64_t i = 0; i < 2 && i < kept->logged; i++)
        settings.log.last[i] = kept->log[kept->logged - i];
    settings.checkpoint = kept->checkpoint_size > 0 ? kept->checkpoint : NULL;
    settings.checkpoint_size = kept->checkpoint_size;
    int error = tarry_tcp_server_create(plan, &settings, NULL, &server, &why);
    if (error == TARRY_OK && kept->state_size > 0)
        error = tarry_runtime_vectors(server, &kept->state_after, kept->state, STATE_BYTES, &why);
    if (error != TARRY_OK) {
        fprintf(stderr, "the server: %s\n", why.text);
        _exit(6);
    }
    tarry_runtime_visit(server, size_of, &kept->checkpoint_size);
    store_checkpoint(kept, server);
    snprintf(kept->address, sizeof(kept->address), "%s", tarry_runtime_address(server, 0));
    return server;
}

static int serve(files *kept)
{
    tarry_plan_settings settings;
    OWNED(tarry_plan) plan = NULL;
    tarry_plan_settings_init(&settings);
    settings.workers = WORKERS;
    settings.chunks = CHUNKS;
    settings.replication = 2;
    if (tarry_plan_create(&settings, NULL, &plan, NULL) != TARRY_OK)
        return 7;
    tarry_runtime *server = start_server(kept, plan);
    tarry_runtime_wait(server, WORKERS, PATIENCE_NS, NULL);
    while (kept->logged < STEPS) {
        tarry_round_result result;
        tarry_diagnostic why;
        if (tarry_runtime_round(server, NULL, NULL, &result, &why) != TARRY_OK || !result.exact) {
            fprintf(stderr, "the server: %s\n", why.text);
            return 8;
        }
        if (result.sum.step % SAVED_EVERY == 0)
            store_state(kept, server);
    }
    tarry_runtime_wait(server, WORKERS, PATIENCE_NS, NULL);
    tarry_runtime_free(server, true);
    return 0;
}

static void server_main(int count, char **arguments)
{
    if (count != 2 || strcmp(arguments[0], "coordinator") != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    files *kept =
        mmap(NULL, sizeof(files), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[1]), 0);
    exit(kept == MAP_FAILED ? 3 : serve(kept));
}

/* ---- the test's ---- */

typedef struct bench {
    mortals crowd;
    files *kept;
    int file;
    pid_t server;
} bench;

static void start(bench *its, uint32_t dies)
{
    char file[16];
    char *const arguments[] = {(char *)"coordinator", file, NULL};
    snprintf(file, sizeof(file), "%d", its->file);
    its->kept->starts++;
    its->kept->dies = dies;
    assert_int_equal(posix_spawn(&its->server, "/proc/self/exe", NULL, NULL, arguments, environ),
                     0);
}

static void begin(bench *its)
{
    *its = (bench){.file = memfd_create("files", 0)};
    assert_int_equal(ftruncate(its->file, sizeof(files)), 0);
    its->kept = mmap(NULL, sizeof(files), PROT_READ | PROT_WRITE, MAP_SHARED, its->file, 0);
    assert_ptr_not_equal(its->kept, MAP_FAILED);
    mortals_begin(&its->crowd, WORKERS, CHUNKS, DIMENSION);
}

/* Workers try to connect until the server has an address. */
static void let_come(bench *its)
{
    while (((volatile char *)its->kept->address)[0] == '\0')
        usleep(1000);
    memcpy(its->crowd.area->address, its->kept->address, sizeof(its->kept->address));
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        if (its->crowd.pids[worker] == 0)
            mortals_spawn(&its->crowd, worker);
}

/* Waits for the end of the server; whether it was killed. */
static bool is_killed(bench *its)
{
    int status;
    assert_int_equal(waitpid(its->server, &status, 0), its->server);
    mortals_check(&its->crowd);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the server ended with status %#x", (unsigned)status);
    return false;
}

/* The digest of the last state of all. */
static uint64_t end(bench *its)
{
    uint64_t state = its->crowd.area->steps[STEPS].state;
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        assert_true(its->crowd.area->slots[worker].step == STEPS);
    mortals_end(&its->crowd);
    munmap(its->kept, sizeof(files));
    close(its->file);
    return state;
}

static uint64_t run(uint32_t deaths, bool workers_die, random_stream *draws)
{
    bench its;
    begin(&its);
    /* Where all die, once there is a state. */
    uint32_t first = workers_die ? 2 * SAVED_EVERY + 1 : 1;
    start(&its, deaths > 0 ? first + random_below(draws, STEPS) : 0);
    let_come(&its);
    while (is_killed(&its)) {
        for (uint32_t worker = 0; workers_die && worker < WORKERS; worker++)
            mortals_kill(&its.crowd, worker);
        deaths--;
        start(&its, deaths > 0 ? 1 + random_below(draws, STEPS / 2) : 0);
        let_come(&its);
    }
    return end(&its);
}

static uint64_t whole(void)
{
    return run(0, false, NULL);
}

TEST(another_server_goes_on_with_those_who_live)
{
    random_stream draws = random_stream_make(test_seed("coordinator", 1), RANDOM_TEST, 6, 1);
    assert_true(run(DEATHS, false, &draws) == whole());
}

TEST(another_server_goes_on_from_the_saved_state)
{
    random_stream draws = random_stream_make(test_seed("coordinator", 1), RANDOM_TEST, 6, 2);
    assert_true(run(DEATHS, true, &draws) == whole());
}

int main(int count, char **arguments)
{
    mortal_main(count, arguments);
    server_main(count, arguments);
    return test_main(count, arguments);
}
