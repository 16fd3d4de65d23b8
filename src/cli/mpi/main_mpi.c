/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tarry-mpi: what tarry train goes on as with --engine mpi, a program of its own so that the tool
 * needs no MPI where it isn't used. Each rank is given the same command line.
 *
 * Rank 0 is the coordinator, and a worker; the others wait for it before they read data, so that
 * what is wrong with a command line is complained of once.
 */
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarry/engine.h>
#include <tarry/mpi.h>
#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/data_options.h"
#include "cli/options/options.h"
#include "cli/output/interrupt.h"
#include "cli/runner/runner.h"
#include "cli/text/complain.h"
#include "cli/train/train_options.h"
#include "cli/train/train_run.h"
#include "cli/work/command_work.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/address.h"

#define PROBE_NS UINT64_C(3000000000)
#define NS_PER_MS UINT64_C(1000000)

enum { MOST_PLACES = 16 };

/*
 * How the ranks of a job find its coordinator, in rank 0's process: which of rank 0's addresses all
 * reach, and credentials for this job alone, which go over MPI.
 */
typedef struct meeting {
    int rank, ranks;
    bool near;                   /* all ranks are on one machine */
    char listen[ADDRESS_TEXT];   /* the coordinator's address to be, with port 0; rank 0's */
    char connect[ADDRESS_TEXT];  /* its address */
    char keys[CREW_KEYS_PATH];   /* the folder of all credentials, rank 0's; "": none */
    char member[CREW_KEYS_PATH]; /* the folder of this rank's worker; "": none */
} meeting;

typedef struct mpi_job {
    const train_options *options;
    bool mpi_only; /* sums over MPI on one machine, too */
    bool told;     /* rank 0: the others know whether they begin */
    bool whole;    /* MPI_Finalize may be called */
    meeting met;
    tarry_mpi *sums; /* NULL: not there */
    /* The worker of this rank: what tarry work is, in a process that trains by the same command
     * line as rank 0. NULL: not there. */
    work_options work;
    work_job *computing;
    tarry_tcp_worker *worker;
} mpi_job;

/* ---- how ranks meet ---- */

/* Addresses of rank 0 at which it listens for a moment. */
typedef struct places {
    uint32_t count;
    char text[MOST_PLACES][ADDRESS_TEXT];
} places;

/* Makes the lowest error of any rank the error of all. Collective. */
static int meeting_agree(int error)
{
    int worst = error;
    MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return worst;
}

static bool is_one_machine(int ranks)
{
    MPI_Comm near;
    int count = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &count);
    MPI_Comm_free(&near);
    return meeting_agree(count == ranks ? 1 : 0) == 1;
}

/* ---- rank 0's addresses ---- */

static void listen_at(const address *where, places *all, int sockets[MOST_PLACES])
{
    address bound;
    int fd;
    if (all->count == MOST_PLACES || address_listen(where, &fd, NULL) != TARRY_OK)
        return;
    if (address_of(fd, &bound, NULL) != TARRY_OK) {
        close(fd);
        return;
    }
    sockets[all->count] = fd;
    address_text(&bound, all->text[all->count++]);
}

/* Those that another machine can know this one by: no loopback, and none that needs a scope. */
static void listen_at_interfaces(int family, places *all, int sockets[MOST_PLACES])
{
    struct ifaddrs *first;
    if (getifaddrs(&first) != 0)
        return;
    for (const struct ifaddrs *each = first; each != NULL; each = each->ifa_next) {
        if (each->ifa_addr == NULL || each->ifa_addr->sa_family != family ||
            (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        address where = {.size = family == AF_INET ? sizeof(struct sockaddr_in)
                                                   : sizeof(struct sockaddr_in6)};
        memcpy(&where.socket, each->ifa_addr, where.size);
        if (family == AF_INET6 &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)&where.socket)->sin6_addr))
            continue;
        listen_at(&where, all, sockets);
    }
    freeifaddrs(first);
}

static int listen_everywhere(places *all, int sockets[MOST_PLACES], tarry_diagnostic *diagnostic)
{
    const char *named = getenv("TARRY_HUB_HOST");
    char text[ADDRESS_TEXT];
    address found[ADDRESS_MOST];
    uint32_t count;
    if (named == NULL || *named == '\0') {
        listen_at_interfaces(AF_INET, all, sockets);
        listen_at_interfaces(AF_INET6, all, sockets);
        return TARRY_OK;
    }
    snprintf(text, sizeof(text), strchr(named, ':') != NULL ? "[%s]:0" : "%s:0", named);
    int error = address_resolve(text, true, found, &count, diagnostic);
    for (uint32_t i = 0; error == TARRY_OK && i < count; i++)
        listen_at(&found[i], all, sockets);
    return error;
}

/* ---- which of them are reached ---- */

/* Ends the attempt that has come to an end. Gives back whether it is connected. */
static bool settle(struct pollfd *attempt)
{
    int failure = 0;
    socklen_t size = sizeof(failure);
    bool connected =
        getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure == 0;
    close(attempt->fd);
    attempt->fd = -1;
    return connected;
}

/* A bit for each place to which this rank can connect. */
static uint32_t probe(const places *all)
{
    struct pollfd attempts[MOST_PLACES];
    uint32_t reached = 0, open = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        address found[ADDRESS_MOST];
        uint32_t count;
        attempts[i] = (struct pollfd){.fd = -1, .events = POLLOUT};
        if (address_resolve(all->text[i], false, found, &count, NULL) == TARRY_OK &&
            address_connect(&found[0], &attempts[i].fd, NULL) == TARRY_OK)
            open++;
        else
            attempts[i].fd = -1;
    }
    const uint64_t until = clock_now_ns() + PROBE_NS;
    for (uint64_t now = clock_now_ns(); open > 0 && now < until; now = clock_now_ns()) {
        if (poll(attempts, all->count, (int)((until - now) / NS_PER_MS) + 1) <= 0)
            continue;
        for (uint32_t i = 0; i < all->count; i++) {
            if (attempts[i].fd < 0 || attempts[i].revents == 0)
                continue;
            open--;
            if (settle(&attempts[i]))
                reached |= UINT32_C(1) << i;
        }
    }
    for (uint32_t i = 0; i < all->count; i++)
        if (attempts[i].fd >= 0)
            close(attempts[i].fd);
    return reached;
}

static int complain_of(const places *all, tarry_diagnostic *diagnostic)
{
    char list[160] = "none";
    size_t used = 0;
    for (uint32_t i = 0; i < all->count && used + ADDRESS_TEXT < sizeof(list); i++)
        used +=
            (size_t)snprintf(list + used, sizeof(list) - used, i > 0 ? ", %s" : "%s", all->text[i]);
    return diagnose(
        diagnostic, TARRY_ERROR_SYSTEM,
        "ranks do not all reach rank 0 over TCP (it tried %s), which control needs: set "
        "TARRY_HUB_HOST to a name or address of its machine that they reach",
        list);
}

/*
 * Collective: chooses `listen`. That is loopback if all ranks are on one machine, else the first
 * address of rank 0 to which all others can connect, or what TARRY_HUB_HOST says at rank 0. Errors,
 * the same at all ranks: SYSTEM (there is none), with a diagnostic.
 */
static int meeting_choose(meeting *self, tarry_diagnostic *diagnostic)
{
    places all = {0};
    int sockets[MOST_PLACES];
    self->near = is_one_machine(self->ranks);
    if (self->near) {
        snprintf(self->listen, sizeof(self->listen), "127.0.0.1:0");
        return TARRY_OK;
    }
    int error = self->rank == 0 ? listen_everywhere(&all, sockets, diagnostic) : TARRY_OK;
    MPI_Bcast(&error, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (error != TARRY_OK)
        return error;
    MPI_Bcast(&all, sizeof(all), MPI_BYTE, 0, MPI_COMM_WORLD);
    uint32_t own = self->rank == 0 ? UINT32_MAX >> (32 - MOST_PLACES) : probe(&all), common = 0;
    MPI_Allreduce(&own, &common, 1, MPI_UINT32_T, MPI_BAND, MPI_COMM_WORLD);
    uint32_t chosen = 0;
    while (chosen < all.count && (common >> chosen & 1) == 0)
        chosen++;
    for (uint32_t i = 0; self->rank == 0 && i < all.count; i++) {
        address bound;
        if (i == chosen && address_of(sockets[i], &bound, NULL) == TARRY_OK)
            address_text_without_port(&bound, self->listen);
        close(sockets[i]);
    }
    return chosen < all.count ? TARRY_OK : complain_of(&all, diagnostic);
}

/* ---- credentials ---- */

/* Rank 0: makes the credentials. Errors: as crew_keys_make. */
static int meeting_make_keys(meeting *self, tarry_diagnostic *diagnostic)
{
    char path[CREW_KEYS_PATH + 16];
    int error = crew_keys_make((uint32_t)self->ranks, self->keys, diagnostic);
    if (error != TARRY_OK) {
        self->keys[0] = '\0';
        return error;
    }
    /* This job needs no more members. */
    snprintf(path, sizeof(path), "%s/ca-key.pem", self->keys);
    unlink(path);
    return TARRY_OK;
}

/* Collective, after rank 0 has set `connect`: hands out the address, and its credentials to each
 * rank's worker. Errors, the same at all ranks: FILE, NO_MEMORY; the diagnostic of a rank at which
 * nothing went wrong is not set. */
static int meeting_share(meeting *self, tarry_diagnostic *diagnostic)
{
    crew_member *all = NULL, own;
    int error = TARRY_OK;
    if (self->rank == 0) {
        all = memory_allocate(NULL, (size_t)self->ranks, sizeof(*all));
        error = all != NULL ? TARRY_OK : diagnose_no_memory(diagnostic, "credentials");
        for (int rank = 0; rank < self->ranks && error == TARRY_OK; rank++)
            error = crew_keys_take(self->keys, (uint32_t)rank, &all[rank], diagnostic);
    }
    MPI_Bcast(&error, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (error == TARRY_OK) {
        MPI_Bcast(self->connect, sizeof(self->connect), MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Scatter(all, sizeof(own), MPI_BYTE, &own, sizeof(own), MPI_BYTE, 0, MPI_COMM_WORLD);
        error = crew_keys_put(&own, self->member, diagnostic);
        if (error != TARRY_OK)
            self->member[0] = '\0';
        explicit_bzero(&own, sizeof(own));
        error = meeting_agree(error);
    }
    if (all != NULL)
        explicit_bzero(all, (size_t)self->ranks * sizeof(*all));
    memory_release(NULL, all);
    return error;
}

/* Removes the folders of this rank. */
static void meeting_end(meeting *self)
{
    if (self->keys[0] != '\0')
        crew_keys_remove(self->keys);
    if (self->member[0] != '\0')
        crew_keys_remove(self->member);
    self->keys[0] = self->member[0] = '\0';
}

/* ---- rank worker ---- */

/* For a rank whose rank 0 is dead, if the launcher does not see to that. */
#define WORKER_PATIENCE_NS UINT64_C(120000000000)

/* Reads the samples if they are in a file. Errors: as dataset_read. */
static int worker_begin(mpi_job *self, tarry_diagnostic *diagnostic)
{
    const train_options *options = self->options;
    dataset_source source = options->source;
    dataset *samples;
    work_options_init(&self->work);
    self->work.source = source;
    self->work.straggler = options->straggler;
    self->work.straggler_seed = options->run.settings.plan.seed;
    self->work.straggler_seeded = true;
    self->work.quiet = true;
    if (work_job_create(&self->work, &self->computing) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "worker");
    if (source.path == NULL)
        return TARRY_OK;
    source.labels = objective_labels(options->model);
    int error = dataset_read(&source, NULL, &samples, diagnostic);
    if (error == TARRY_OK)
        work_job_bring(self->computing, samples);
    return error;
}

/* Nothing is connected yet. engine: borrowed; NULL: Tarry's own. Errors: as
 * tarry_tcp_worker_create. */
static int worker_prepare(mpi_job *self, tarry_engine *engine, tarry_diagnostic *diagnostic)
{
    tarry_tcp_worker_settings settings;
    tarry_tcp_worker_settings_init(&settings);
    settings.connect = self->met.connect;
    settings.security.credentials = self->met.member;
    settings.worker = (uint32_t)self->met.rank;
    settings.begin = work_job_begin;
    settings.compute = work_job_compute;
    settings.user = self->computing;
    settings.patience_ns = WORKER_PATIENCE_NS;
    settings.seed = (uint64_t)self->met.rank;
    settings.engine = engine;
    return tarry_tcp_worker_create(&settings, NULL, &self->worker, diagnostic);
}

/* Works until the run is over. Errors: as tarry_tcp_worker_run. */
static int worker_run(const mpi_job *self, tarry_diagnostic *diagnostic)
{
    int error = tarry_tcp_worker_run(self->worker, diagnostic);
    const char *mismatch = work_job_mismatch(self->computing);
    return error == TARRY_ERROR_STATE && mismatch[0] != '\0'
               ? diagnose(diagnostic, error, "refused: %s", mismatch)
               : error;
}

/* ---- mpi ---- */

#define WAIT_NS UINT64_C(60000000000)
/* For which rank 0 waits for workers that come back when too few are left for a sum. */
#define PATIENCE_NS UINT64_C(10000000000)

/* Tells the others, once, that they begin (OPTIONS_PROCEED), or the exit status with which rank 0
 * ends. At the others: gives that back. */
static int mpi_job_tell(mpi_job *self, int status)
{
    if (!self->told)
        MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    self->told = true;
    return status;
}

/* All of this rank that the job needs. */
static void job_end(mpi_job *job, bool finished)
{
    tarry_tcp_worker_free(job->worker);
    work_job_free(job->computing);
    job->worker = NULL;
    job->computing = NULL;
    if (job->sums != NULL)
        job->whole = tarry_mpi_free(job->sums, finished);
    job->sums = NULL;
    meeting_end(&job->met);
}

/* Collective, once rank 0 listens: all that a rank needs to work. */
static int join_job(mpi_job *job, tarry_diagnostic *diagnostic)
{
    int error = meeting_share(&job->met, diagnostic);
    if (error == TARRY_OK)
        error = tarry_mpi_create(MPI_COMM_WORLD, &job->sums, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_engine *engine = job->mpi_only || !job->met.near ? tarry_mpi_engine(job->sums) : NULL;
    return meeting_agree(worker_prepare(job, engine, diagnostic));
}

/* ---- rank 0 ---- */

typedef struct leader {
    mpi_job *job;
    runner_tcp_settings settings;
    runner_crew crew;
    char keys[CREW_KEYS_PATH + 16]; /* of the server */
    const char *listen[1];
    pthread_t thread; /* of the worker here */
    bool has_thread;
} leader;

static void *work(void *user)
{
    mpi_job *job = ((leader *)user)->job;
    tarry_diagnostic why = {""};
    int error = worker_run(job, &why);
    if (error != TARRY_OK)
        complain(EXIT_FAILED, "train: worker 0: %s",
                 why.text[0] != '\0' ? why.text : tarry_error_text(error));
    return NULL;
}

static uint32_t expected(void *user)
{
    return (uint32_t)((const leader *)user)->job->met.ranks;
}

static void retire(void *user)
{
    (void)user; /* ranks hear that the run is over from the server */
}

static void end(void *user)
{
    leader *own = user;
    if (own->has_thread) {
        tarry_tcp_worker_leave(own->job->worker, 0); /* if it has not heard of the end */
        pthread_join(own->thread, NULL);
    }
    job_end(own->job, true);
    memory_release(NULL, own);
}

/* Collective, as far as ranks have not failed: see follow. */
static int create_server(leader *own, const runner_request *request, runner **out,
                         tarry_diagnostic *diagnostic)
{
    mpi_job *job = own->job;
    int error = meeting_choose(&job->met, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_diagnostic why = {""};
    error = worker_begin(job, &why);
    if (error == TARRY_OK)
        error = meeting_make_keys(&job->met, &why);
    if (error == TARRY_OK) {
        snprintf(own->keys, sizeof(own->keys), "%s/server", job->met.keys);
        own->listen[0] = job->met.listen;
        own->settings = (runner_tcp_settings){
            .listen = own->listen,
            .listen_count = 1,
            .security = {.credentials = own->keys},
            .wait_ns = WAIT_NS,
            .patience_ns = PATIENCE_NS,
            .crew = &own->crew,
        };
        own->crew = (runner_crew){.user = own, .expected = expected, .retire = retire, .end = end};
        error = runner_tcp_create(&own->settings, request, out, &why);
    }
    int worst = meeting_agree(error);
    if (worst == TARRY_OK) {
        snprintf(job->met.connect, sizeof(job->met.connect), "%s",
                 tarry_runtime_address((*out)->runtime, 0));
        worst = join_job(job, &why);
    }
    if (worst == TARRY_OK)
        return TARRY_OK;
    return why.text[0] != '\0' ? diagnose(diagnostic, worst, "%s", why.text)
                               : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                                          "another rank cannot begin, and says why");
}

/* Rank 0: a runner_create, whose user is the mpi_job. Errors: also ARGUMENT if another rank cannot
 * begin. */
static int runner_mpi_create(void *user, const runner_request *request, runner **out,
                             tarry_diagnostic *diagnostic)
{
    mpi_job *job = user;
    leader *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL) {
        mpi_job_tell(job, EXIT_FAILED);
        return diagnose_no_memory(diagnostic, "ranks");
    }
    own->job = job;
    mpi_job_tell(job, OPTIONS_PROCEED);
    runner *made = NULL;
    int error = create_server(own, request, &made, diagnostic);
    if (error == TARRY_OK) {
        own->has_thread = pthread_create(&own->thread, NULL, work, own) == 0;
        if (!own->has_thread)
            error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "ranks: no thread can be started");
    }
    if (error == TARRY_OK)
        *out = made;
    else if (made != NULL)
        runner_free(made, true); /* and its crew */
    else
        end(own);
    return error;
}

/* ---- the other ranks ---- */

/* Collective with create_server: what both do, in the same order. */
static int prepare(mpi_job *job, int status, tarry_diagnostic *diagnostic)
{
    int error = meeting_choose(&job->met, diagnostic);
    if (error != TARRY_OK) {
        diagnostic->text[0] = '\0'; /* rank 0 says it */
        return error;
    }
    int own = status == OPTIONS_PROCEED ? worker_begin(job, diagnostic) : TARRY_ERROR_ARGUMENT;
    error = meeting_agree(own);
    return error == TARRY_OK ? join_job(job, diagnostic) : error;
}

/* The other ranks, with OPTIONS_PROCEED from mpi_job_tell: works until the run is over. `status`
 * is OPTIONS_PROCEED, or the status of a rank that cannot begin, and has complained. Gives back the
 * exit status. */
static int runner_mpi_follow(mpi_job *job, int status)
{
    tarry_diagnostic why = {""};
    /* A launcher hands signals on to all ranks; what follows from them rank 0 says. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    int error = prepare(job, status, &why);
    bool begins = error == TARRY_OK;
    if (begins)
        error = worker_run(job, &why);
    /* Before it waits for the others. */
    if (error != TARRY_OK && (begins || why.text[0] != '\0'))
        complain(EXIT_FAILED, "train: rank %d: %s", job->met.rank,
                 why.text[0] != '\0' ? why.text : tarry_error_text(error));
    job_end(job, !begins || error == TARRY_OK || error == TARRY_ERROR_SYSTEM);
    return error == TARRY_OK ? EXIT_DONE : EXIT_FAILED;
}

/* ---- the program ---- */

static bool sets(const run_options *options, tarry_setting setting)
{
    return run_options_given(options, setting);
}

/* What goes with ranks: as many workers, which sum among themselves, of a plan that stays. */
static int check(const mpi_job *job, const option_command *command, const train_options *options,
                 const train_where *where)
{
    const run_options *run = &options->run;
    const tarry_settings *settings = &run->settings;
    tarry_diagnostic why;
    char ranks[16];
    if (where->engine == TRAIN_DIRECT)
        return complain(EXIT_USAGE, "--engine: tarry-mpi is for mpi and mpi-only");
    if (where->processes)
        return complain(EXIT_USAGE, "--processes: cannot be combined with --engine mpi");
    if (sets(run, TARRY_SETTING_SUM) && settings->server.sum != TARRY_SUM_EVERYWHERE)
        return complain(EXIT_USAGE, "--sum: with --engine mpi the sum is made everywhere");
    if (run->adapt_rule.every != 0)
        return complain(EXIT_USAGE, "--adapt: has no meaning with --engine mpi, whose plans stay");
    if (sets(run, TARRY_SETTING_WORKERS) && settings->plan.workers != (uint32_t)job->met.ranks)
        return complain(EXIT_USAGE, "--workers: %u, but there are %d ranks of MPI",
                        settings->plan.workers, job->met.ranks);
    snprintf(ranks, sizeof(ranks), "%d", job->met.ranks);
    if (option_set(command->groups, command->count, "sum", "everywhere", &why) != TARRY_OK ||
        option_set(command->groups, command->count, "workers", ranks, &why) != TARRY_OK)
        return complain(EXIT_USAGE, "--workers: %s", why.text);
    return OPTIONS_PROCEED;
}

static int lead(mpi_job *job, const option_command *command, train_options *options,
                const train_where *where)
{
    int status = check(job, command, options, where);
    if (status == OPTIONS_PROCEED)
        status = train_run(command, options, runner_mpi_create, job);
    return mpi_job_tell(job, status);
}

/* What is wrong with the command line rank 0 has said. */
static int follow(mpi_job *job, const option_command *command, train_options *options,
                  const train_where *where)
{
    int status = mpi_job_tell(job, EXIT_FAILED);
    if (status != OPTIONS_PROCEED)
        return status;
    write_signals_ignore(NULL);
    status = check(job, command, options, where);
    if (status == OPTIONS_PROCEED)
        status = train_options_check(options);
    return runner_mpi_follow(job, status);
}

static int train(mpi_job *job, int argc, char **argv)
{
    train_options options;
    train_where where = {false, TRAIN_DIRECT};
    train_options_init(&options);
    option_group groups[TRAIN_GROUPS + 1];
    train_options_groups(&options, groups);
    groups[TRAIN_GROUPS] = train_where_group(&where);
    const option_command command = {
        "train", "Trains a model over ranks of MPI, which tarry train --engine mpi begins.", groups,
        TRAIN_GROUPS + 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    job->options = &options;
    job->mpi_only = where.engine == TRAIN_MPI_ONLY;
    if (status == OPTIONS_PROCEED)
        status = job->met.rank == 0 ? lead(job, &command, &options, &where)
                                    : follow(job, &command, &options, &where);
    config_free(file);
    return status;
}

static int run(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE;
    mpi_job job = {.whole = true};
    if (argc < 2 || strcmp(argv[1], "train") != 0)
        return complain(EXIT_USAGE, "tarry-mpi is what tarry train --engine mpi goes on as");
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.met.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.met.ranks);
    int status = train(&job, argc - 1, argv + 1);
    if (!job.whole)
        tarry_mpi_exit(status);
    MPI_Finalize();
    return status;
}

const char program_name[] = "tarry";

int main(int argc, char **argv)
{
    return program_main(run, argc, argv);
}
