/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/options/gone.h"
#include "cli/options/options.h"
#include "cli/output/interrupt.h"
#include "cli/text/complain.h"
#include "pki/authority.h"

enum { WORKERS_MOST = 100000 };

typedef struct keys_options {
    uint32_t workers; /* 0: not given */
    const char *name; /* the last --name */
    const char *serial;
    const char *hosts[ISSUE_HOSTS];
    size_t host_count;
} keys_options;

static int read_host(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    keys_options *options = values;
    if (issue_check_host(text, diagnostic) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    if (options->host_count == ISSUE_HOSTS)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d are given", ISSUE_HOSTS);
    options->hosts[options->host_count++] = text;
    return TARRY_OK;
}

static void forget_hosts(void *values)
{
    keys_options *options = values;
    options->host_count = 0;
}

/* The options of all actions: each has some that follow each other. */
enum { WORKERS_ENTRY, NAME_ENTRY, SERIAL_ENTRY, ENTRIES };

static const option_entry entries[ENTRIES] = {
    [WORKERS_ENTRY] = {.name = "workers",
                       .argument = "N",
                       .help = "Workers with an id of their own, 0 to N-1 (required)",
                       .kind = OPTION_U32,
                       .offset = offsetof(keys_options, workers),
                       .least = 1,
                       .most = WORKERS_MOST},
    [NAME_ENTRY] = {.name = "name",
                    .argument = "HOST",
                    .help = "Host name or IP address to state in the certificate of a server, for "
                            "other tools: workers know it without that; may be given several times",
                    .kind = OPTION_TEXT,
                    .offset = offsetof(keys_options, name),
                    .read = read_host,
                    .forget = forget_hosts},
    [SERIAL_ENTRY] = {.name = "serial",
                      .argument = "SERIAL",
                      .help = "Only the certificate with this serial number, as tarry keys list "
                              "shows it: the others of that name stay good",
                      .kind = OPTION_TEXT,
                      .offset = offsetof(keys_options, serial)},
};

/* What an action is asked for. */
typedef struct keys_request {
    const char *directory, *name; /* of a member, for some actions, and parsed: */
    credential_identity identity;
    keys_options options;
} keys_request;

static authority_hosts hosts_of(const keys_request *request)
{
    return (authority_hosts){.names = request->options.hosts, .count = request->options.host_count};
}

static int64_t now(void)
{
    return (int64_t)time(NULL);
}

/* A directory of another owner or a member that is not there is no wrong usage. */
static int complain_of(const char *action, const tarry_diagnostic *why)
{
    return complain(EXIT_FAILED, "keys: %s: %s", action, why->text);
}

static void stop(void *stopped)
{
    atomic_store((atomic_bool *)stopped, true);
}

/* Many members take a while, and the keys of half a cluster are not to be left anywhere. */
static int make_cluster(const keys_request *request)
{
    atomic_bool stopped = false;
    interrupt *signals = NULL;
    tarry_diagnostic why = {"no room to be interrupted"};
    int error = interrupt_begin(stop, &stopped, &signals);
    if (error == TARRY_OK)
        error = authority_init(request->directory, request->options.workers, hosts_of(request),
                               now(), &stopped, &why);
    interrupt_end(signals);
    return error == TARRY_OK ? EXIT_DONE : complain_of("init", &why);
}

static int keys_init(const keys_request *request)
{
    const uint32_t workers = request->options.workers;
    if (workers == 0)
        return complain(EXIT_USAGE, "keys: init: say how many workers there are (--workers N)");
    int status = make_cluster(request);
    if (status != EXIT_DONE)
        return status;
    printf("Made a cluster of a server and %u worker%s in %s.\n"
           "Copy each folder, with the key in it, to the machine of its member and nowhere else:\n"
           "  server                       the server\n",
           workers, workers == 1 ? "" : "s", request->directory);
    char last[32] = "";
    if (workers > 1)
        snprintf(last, sizeof(last), " .. worker-%u", workers - 1);
    printf("  worker-0%-20s %s\n", last,
           workers == 1 ? "the worker with id 0" : "each worker, by its id");
    printf("  worker                       workers that may take any id\n"
           "  viewer                       who may look on\n"
           "ca-key.pem stays here: whoever has it can make members.\n");
    return EXIT_DONE;
}

/* A member's name of the command line, or the exit status. */
static int read_member(const char *action, const char *name, credential_identity *identity)
{
    static const char *const words[] = {"server", "worker", "viewer"};
    if (identity_parse(name, identity) == TARRY_OK)
        return EXIT_DONE;
    char role[32];
    snprintf(role, sizeof(role), "%.*s", (int)strcspn(name, "-"), name);
    const char *gone = gone_value("member", role);
    if (gone != NULL)
        return complain(EXIT_USAGE, "keys: %s: %s: %s", action, name, gone);
    const char *near = suggest(name, words, sizeof(words) / sizeof(words[0]));
    if (near != NULL)
        return complain(EXIT_USAGE, "keys: %s: '%s' is no member's name (did you mean %s?)", action,
                        name, near);
    return complain(EXIT_USAGE,
                    "keys: %s: '%s' is no member's name: server, worker-ID, worker or viewer",
                    action, name);
}

static int keys_add(const keys_request *request)
{
    tarry_diagnostic why;
    if (request->options.host_count > 0 && request->identity.role != CREDENTIAL_SERVER)
        return complain(EXIT_USAGE, "keys: add: --name is for the server, not for %s",
                        request->name);
    if (authority_add(request->directory, request->identity, hosts_of(request), now(), &why) !=
        TARRY_OK)
        return complain_of("add", &why);
    printf("Made %s/%s: copy this folder to the machine of its member and nowhere else.\n",
           request->directory, request->name);
    return EXIT_DONE;
}

/* Who is on a roster stays on it until there is another one. */
static void tell_revoked(const keys_request *request, authority_tally tally)
{
    const char *directory = request->directory, *name = request->name;
    const char *serial = request->options.serial;
    const credential_identity identity = request->identity;
    tarry_diagnostic why;
    roster_file *roster = NULL;
    if (serial != NULL)
        printf("Revoked the certificate %s of %s; %zu of that name %s good.", serial, name,
               tally.good, tally.good == 1 ? "is still" : "are still");
    else if (tally.revoked > 1)
        printf("Revoked all %zu certificates of %s, the renewed ones included.", tally.revoked,
               name);
    else
        printf("Revoked %s.", name);
    printf(" Copy %s/revoked.pem over the revoked.pem of %s.\n", directory,
           identity.role == CREDENTIAL_SERVER ? "every member" : "the server's machine");
    if (tally.good == 0)
        printf("For another certificate of that name: tarry keys add %s %s\n", directory, name);
    if (identity.role == CREDENTIAL_WORKER &&
        authority_read_roster(directory, &roster, &why) == TARRY_OK && roster != NULL &&
        roster_file_find(roster, identity.worker) != NULL)
        printf("It is on the roster of secure sums: tarry keys roster %s makes another one.\n",
               directory);
    roster_file_free(roster);
}

static int keys_revoke(const keys_request *request)
{
    authority_tally tally;
    tarry_diagnostic why;
    if (authority_revoke(request->directory, request->identity, request->options.serial, now(),
                         &tally, &why) != TARRY_OK)
        return complain_of("revoke", &why);
    tell_revoked(request, tally);
    return EXIT_DONE;
}

static int keys_roster(const keys_request *request)
{
    tarry_diagnostic why;
    authority_rostered made;
    if (authority_roster(request->directory, now(), &made, &why) != TARRY_OK)
        return complain_of("roster", &why);
    printf("%s number %" PRIu64 ", of %zu worker%s.\n"
           "Copy %s/" ROSTER_FILE_NAME " into the folder of the server and of each of its workers, "
           "where these are elsewhere.\n",
           made.same ? "The roster is that of before:" : "Signed a roster:", made.number,
           made.workers, made.workers == 1 ? "" : "s", request->directory);
    return EXIT_DONE;
}

static bool is_on_roster(const authority_member *member, const roster_file *roster)
{
    const uint8_t *listed = roster != NULL && member->identity.role == CREDENTIAL_WORKER
                                ? roster_file_find(roster, member->identity.worker)
                                : NULL;
    return listed != NULL && memcmp(listed, member->fingerprint, sizeof(member->fingerprint)) == 0;
}

static void print_member(const authority_member *member, const roster_file *roster, int64_t moment)
{
    char name[CREDENTIAL_NAME_SIZE], day[16] = "?";
    time_t expiry = (time_t)member->expiry;
    struct tm date;
    identity_name(member->identity, name);
    if (gmtime_r(&expiry, &date) != NULL)
        strftime(day, sizeof(day), "%Y-%m-%d", &date);
    printf("%-14s  %-32s  %-10s  %s%s\n", name, member->serial, day,
           member->revoked            ? "revoked"
           : member->expiry <= moment ? "expired"
                                      : "good",
           is_on_roster(member, roster) ? ", on the roster" : "");
}

static int keys_list(const keys_request *request)
{
    tarry_diagnostic why;
    authority_member *members = NULL;
    roster_file *roster = NULL;
    size_t count = 0;
    int status = EXIT_DONE;
    if (authority_read_roster(request->directory, &roster, &why) != TARRY_OK ||
        authority_list(request->directory, NULL, &members, &count, &why) != TARRY_OK) {
        status = complain_of("list", &why);
        goto release;
    }
    printf("%-14s  %-32s  %-10s  %s\n", "name", "serial", "expires", "state");
    for (size_t i = 0; i < count; i++)
        print_member(&members[i], roster, now());
    if (roster != NULL)
        printf("roster: number %" PRIu64 ", of %zu worker%s\n", roster->number, roster->count,
               roster->count == 1 ? "" : "s");
release:
    memory_release(NULL, members);
    roster_file_free(roster);
    return status;
}

/* ---- the actions ---- */

typedef struct keys_action {
    const char *name, *text; /* for its own --help */
    const char *title;       /* of its options: */
    size_t first, count;     /* some of `entries` */
    bool of_member;
    int (*run)(const keys_request *request); /* gives back the exit status */
} keys_action;

static const keys_action actions[] = {
    {"keys init",
     "Makes a new cluster in the directory DIR: an authority, a server, N workers, a credential "
     "for workers of any id and one for viewers.",
     "The cluster", WORKERS_ENTRY, 2, false, keys_init},
    {"keys add",
     "Makes the member NAME of the cluster in DIR: worker-ID, worker (any id), viewer or server. "
     "One that is there gets a new key if all its certificates are revoked, or if its folder was "
     "moved away.",
     "The member", NAME_ENTRY, 1, true, keys_add},
    {"keys revoke",
     "Revokes every certificate of the member NAME of the cluster in DIR, also those that renewed "
     "another; or, with --serial, one of them.",
     "The member", SERIAL_ENTRY, 1, true, keys_revoke},
    {"keys roster",
     "Signs the list of all workers of the cluster in DIR that have an id of their own: those that "
     "may take part in secure sums (--secure).",
     NULL, 0, 0, false, keys_roster},
    {"keys list",
     "Lists the certificates of the cluster in DIR: name, serial number, the day they expire, and "
     "whether they are revoked, or on the roster of secure sums.",
     NULL, 0, 0, false, keys_list},
};

/* Any of them: argv[0] says which. */
static int run_action(int argc, char **argv)
{
    const keys_action *action = actions;
    while (strcmp(action->name + strlen("keys "), argv[0]) != 0)
        action++;
    keys_request request = {0};
    const option_operand operands[] = {{"DIR", &request.directory}, {"NAME", &request.name}};
    const option_group group = {.title = action->title,
                                .entries = &entries[action->first],
                                .count = action->count,
                                .values = &request.options};
    const option_command command = {action->name, action->text, &group, action->count > 0 ? 1 : 0};
    config_file *file;
    int status =
        options_parse_operands(&command, operands, action->of_member ? 2 : 1, argc, argv, &file);
    if (status != OPTIONS_PROCEED)
        goto release;
    status = EXIT_DONE;
    if (action->of_member)
        status = read_member(argv[0], request.name, &request.identity);
    if (status == EXIT_DONE)
        status = action->run(&request);
release:
    config_free(file);
    return status;
}

int command_keys(int argc, char **argv)
{
    static const subcommand items[] = {
        {"init", run_action, "make a new cluster: its authority and all members"},
        {"add", run_action, "make one more member, or another credential of one"},
        {"revoke", run_action, "shut a member out"},
        {"roster", run_action, "sign the list of workers that may take part in secure sums"},
        {"list", run_action, "every certificate: whose, until when, revoked or not"},
    };
    const subcommand_set set = {
        .command = "keys",
        .usage = "ACTION [OPTION...] DIR [NAME]",
        .text = "Makes the credentials by which the machines of a cluster know each other.",
        .one = "ACTION",
        .missing = "say what to do",
        .unknown = "is no action",
        .items = items,
        .count = sizeof(items) / sizeof(items[0]),
    };
    return subcommand_run(&set, argc, argv);
}
