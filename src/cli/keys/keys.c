/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys/keys.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/gone.h"
#include "cli/options/options.h"
#include "cli/options/suggest.h"
#include "cli/output/interrupt.h"
#include "cli/text/complain.h"
#include "pki/authority.h"
#include "pki/issue.h"

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

static const option_entry workers_entry = {
    .name = "workers",
    .argument = "N",
    .help = "Workers with an id of their own, 0 to N-1 (required)",
    .kind = OPTION_U32,
    .offset = offsetof(keys_options, workers),
    .least = 1,
    .most = WORKERS_MOST,
};

static const option_entry name_entry = {
    .name = "name",
    .argument = "HOST",
    .help = "Host name or IP address to state in the certificate of a server, for other tools: "
            "workers know it without that; may be given several times",
    .kind = OPTION_TEXT,
    .offset = offsetof(keys_options, name),
    .read = read_host,
    .forget = forget_hosts,
};

static const option_entry serial_entry = {
    .name = "serial",
    .argument = "SERIAL",
    .help = "Only the certificate with this serial number, as tarry keys list shows it: the others "
            "of that name stay good",
    .kind = OPTION_TEXT,
    .offset = offsetof(keys_options, serial),
};

static authority_hosts hosts_of(const keys_options *options)
{
    return (authority_hosts){.names = options->hosts, .count = options->host_count};
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
static int make_cluster(const char *directory, const keys_options *options)
{
    atomic_bool stopped = false;
    interrupt *signals = NULL;
    tarry_diagnostic why = {"no room to be interrupted"};
    int error = interrupt_begin(stop, &stopped, &signals);
    if (error == TARRY_OK)
        error =
            authority_init(directory, options->workers, hosts_of(options), now(), &stopped, &why);
    interrupt_end(signals);
    return error == TARRY_OK ? EXIT_DONE : complain_of("init", &why);
}

int keys_init(int argc, char **argv)
{
    keys_options options = {0};
    const char *directory = NULL;
    const option_entry entries[] = {workers_entry, name_entry};
    const option_group group = OPTION_GROUP("The cluster", entries, &options);
    const option_operand operands[] = {{"DIR", &directory}};
    const option_command command = {
        "keys init",
        "Makes a new cluster in the directory DIR: an authority, a server, N workers, a credential "
        "for workers of any id and one for viewers.",
        &group,
        1,
    };
    config_file *file;
    int status = options_parse_operands(&command, operands, 1, argc, argv, &file);
    if (status != OPTIONS_PROCEED)
        goto release;
    status = EXIT_DONE;
    if (options.workers == 0)
        status = complain(EXIT_USAGE, "keys: init: say how many workers there are (--workers N)");
    else
        status = make_cluster(directory, &options);
    if (status != EXIT_DONE)
        goto release;
    printf("Made a cluster of a server and %u worker%s in %s.\n"
           "Copy each folder, with the key in it, to the machine of its member and nowhere else:\n"
           "  server                       the server\n",
           options.workers, options.workers == 1 ? "" : "s", directory);
    char last[32] = "";
    if (options.workers > 1)
        snprintf(last, sizeof(last), " .. worker-%u", options.workers - 1);
    printf("  worker-0%-20s %s\n", last,
           options.workers == 1 ? "the worker with id 0" : "each worker, by its id");
    printf("  worker                       workers that may take any id\n"
           "  viewer                       who may look on\n"
           "ca-key.pem stays here: whoever has it can make members.\n");
release:
    config_free(file);
    return status;
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

int keys_add(int argc, char **argv)
{
    keys_options options = {0};
    const char *directory = NULL, *name = NULL;
    const option_entry entries[] = {name_entry};
    const option_group group = OPTION_GROUP("The member", entries, &options);
    const option_operand operands[] = {{"DIR", &directory}, {"NAME", &name}};
    const option_command command = {
        "keys add",
        "Makes the member NAME of the cluster in DIR: worker-ID, worker (any id), viewer or "
        "server. One that is there gets a new key if all its certificates are revoked, "
        "or if its "
        "folder was moved away.",
        &group,
        1,
    };
    config_file *file;
    tarry_diagnostic why;
    credential_identity identity;
    int status = options_parse_operands(&command, operands, 2, argc, argv, &file);
    if (status != OPTIONS_PROCEED)
        goto release;
    status = read_member("add", name, &identity);
    if (status != EXIT_DONE)
        goto release;
    if (options.host_count > 0 && identity.role != CREDENTIAL_SERVER)
        status = complain(EXIT_USAGE, "keys: add: --name is for the server, not for %s", name);
    else if (authority_add(directory, identity, hosts_of(&options), now(), &why) != TARRY_OK)
        status = complain_of("add", &why);
    else
        printf("Made %s/%s: copy this folder to the machine of its member and nowhere else.\n",
               directory, name);
release:
    config_free(file);
    return status;
}

/* Who is on a roster stays on it until there is another one. */
static void tell_revoked(const char *directory, const char *name, credential_identity identity,
                         const char *serial, authority_tally tally)
{
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

int keys_revoke(int argc, char **argv)
{
    keys_options options = {0};
    const char *directory = NULL, *name = NULL;
    const option_entry entries[] = {serial_entry};
    const option_group group = OPTION_GROUP("The member", entries, &options);
    const option_operand operands[] = {{"DIR", &directory}, {"NAME", &name}};
    const option_command command = {
        "keys revoke",
        "Revokes every certificate of the member NAME of the cluster in DIR, also those that "
        "renewed another; or, with --serial, one of them.",
        &group,
        1,
    };
    authority_tally tally;
    config_file *file;
    tarry_diagnostic why;
    credential_identity identity;
    int status = options_parse_operands(&command, operands, 2, argc, argv, &file);
    if (status != OPTIONS_PROCEED)
        goto release;
    status = read_member("revoke", name, &identity);
    if (status != EXIT_DONE)
        goto release;
    if (authority_revoke(directory, identity, options.serial, now(), &tally, &why) != TARRY_OK)
        status = complain_of("revoke", &why);
    else
        tell_revoked(directory, name, identity, options.serial, tally);
release:
    config_free(file);
    return status;
}

int keys_renew(int argc, char **argv)
{
    const char *directory = NULL;
    const option_operand operands[] = {{"DIR", &directory}};
    const option_command command = {
        "keys renew",
        "Makes another certificate for every worker and server of the cluster in DIR whose own was "
        "made before workers talked to each other, as they do with --sum everywhere. Keys stay as "
        "they are.",
        NULL,
        0,
    };
    config_file *file;
    tarry_diagnostic why;
    authority_renewed *made;
    size_t count;
    int status = options_parse_operands(&command, operands, 1, argc, argv, &file);
    if (status != OPTIONS_PROCEED)
        goto release;
    status = EXIT_DONE;
    if (authority_renew(directory, now(), NULL, &made, &count, &why) != TARRY_OK) {
        status = complain_of("renew", &why);
        goto release;
    }
    if (count == 0)
        printf("All certificates are for sums among workers, too.\n");
    else
        printf("Made %zu certificate%s. Copy each over the cert.pem of its member, whose key stays "
               "as it is:\n",
               count, count == 1 ? "" : "s");
    for (size_t i = 0; i < count; i++) {
        char name[CREDENTIAL_NAME_SIZE];
        identity_name(made[i].identity, name);
        printf("  %-14s %s\n", name, made[i].path);
    }
    memory_release(NULL, made);
release:
    config_free(file);
    return status;
}

int keys_roster(int argc, char **argv)
{
    const char *directory = NULL;
    const option_operand operands[] = {{"DIR", &directory}};
    const option_command command = {
        "keys roster",
        "Signs the list of all workers of the cluster in DIR that have an id of their own: those "
        "that may take part in secure sums (--secure).",
        NULL,
        0,
    };
    config_file *file;
    tarry_diagnostic why;
    authority_rostered made;
    int status = options_parse_operands(&command, operands, 1, argc, argv, &file);
    if (status != OPTIONS_PROCEED)
        goto release;
    status = EXIT_DONE;
    if (authority_roster(directory, now(), &made, &why) != TARRY_OK) {
        status = complain_of("roster", &why);
        goto release;
    }
    printf("%s number %" PRIu64 ", of %zu worker%s.\n"
           "Copy %s/" ROSTER_FILE_NAME " into the folder of the server and of each of its workers, "
           "where these are elsewhere.\n",
           made.same ? "The roster is that of before:" : "Signed a roster:", made.number,
           made.workers, made.workers == 1 ? "" : "s", directory);
release:
    config_free(file);
    return status;
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
           : member->one_sided        ? "good, not for sums among workers"
                                      : "good",
           is_on_roster(member, roster) ? ", on the roster" : "");
}

int keys_list(int argc, char **argv)
{
    const char *directory = NULL;
    const option_operand operands[] = {{"DIR", &directory}};
    const option_command command = {
        "keys list",
        "Lists the certificates of the cluster in DIR: name, serial number, the day they expire, "
        "and whether they are revoked, or on the roster of secure sums.",
        NULL,
        0,
    };
    config_file *file;
    tarry_diagnostic why;
    authority_member *members;
    roster_file *roster = NULL;
    size_t count;
    int status = options_parse_operands(&command, operands, 1, argc, argv, &file);
    if (status != OPTIONS_PROCEED)
        goto release;
    status = EXIT_DONE;
    if (authority_read_roster(directory, &roster, &why) != TARRY_OK ||
        authority_list(directory, NULL, &members, &count, &why) != TARRY_OK) {
        status = complain_of("list", &why);
        goto release;
    }
    printf("%-14s  %-32s  %-10s  %s\n", "name", "serial", "expires", "state");
    for (size_t i = 0; i < count; i++)
        print_member(&members[i], roster, now());
    if (roster != NULL)
        printf("roster: number %" PRIu64 ", of %zu worker%s\n", roster->number, roster->count,
               roster->count == 1 ? "" : "s");
    memory_release(NULL, members);
release:
    roster_file_free(roster);
    config_free(file);
    return status;
}
