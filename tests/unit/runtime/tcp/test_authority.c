/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/memory.h"
#include "failing_allocator.h"
#include "key_folder.h"
#include "pki/authority.h"
#include "runtime/tcp/trust/private_file.h"
#include "test.h"

enum { PATH = 300 };

static const int64_t NOW = 1800000000;
static const authority_hosts no_hosts = {0};

static void begin(key_folder *its)
{
    key_folder_make(its, 2, NOW);
}

#define KEYS(name) TEST_WITH(name, key_folder, its, begin, key_folder_remove)

static size_t entries_of(const char *path)
{
    size_t count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count - 2;
}

/* The lines of the list as "name state," in its order. */
static void assert_listed(const key_folder *its, const char *expected)
{
    authority_member *members;
    size_t count;
    char text[400] = "";
    assert_ok(authority_list(its->home, NULL, &members, &count, NULL));
    for (size_t i = 0; i < count; i++) {
        char name[CREDENTIAL_NAME_SIZE];
        identity_name(members[i].identity, name);
        assert_int_equal(strlen(members[i].serial), 32);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s,",
                 members[i].revoked ? "-" : "+", name);
    }
    memory_release(NULL, members);
    assert_string_equal(text, expected);
}

KEYS(members_are_listed_added_and_revoked)
{
    assert_listed(its, "+server,+worker-0,+worker-1,+worker,+viewer,");
    assert_ok(authority_add(its->home, key_identity("worker-12"), no_hosts, NOW, NULL));
    key_folder_revoke(its, "worker-0", NOW);
    key_folder_revoke(its, "viewer", NOW);
    assert_listed(its, "+server,-worker-0,+worker-1,+worker-12,+worker,-viewer,");
    tarry_diagnostic why;
    assert_int_equal(
        authority_revoke(its->home, key_identity("viewer"), NULL, NOW, &(authority_tally){0}, &why),
        TARRY_ERROR_STATE);
    assert_string_equal(why.text, "viewer: revoked already");
    assert_int_equal(authority_revoke(its->home, key_identity("worker-3"), NULL, NOW,
                                      &(authority_tally){0}, &why),
                     TARRY_ERROR_STATE);
    assert_non_null(strstr(why.text, "worker-3: no such member in "));
}

/* Another key for a name: after the first was revoked, or beside it if its folder is elsewhere. */
KEYS(a_name_can_have_several_certificates)
{
    tarry_diagnostic why;
    char path[PATH + 16], away[PATH + 16];
    assert_int_equal(authority_add(its->home, key_identity("worker-1"), no_hosts, NOW, &why),
                     TARRY_ERROR_STATE);
    assert_non_null(strstr(why.text, "worker-1: exists already"));
    key_folder_revoke(its, "worker-1", NOW);
    assert_ok(authority_add(its->home, key_identity("worker-1"), no_hosts, NOW + 5, NULL));
    assert_listed(its, "+server,+worker-0,-worker-1,+worker-1,+worker,+viewer,");
    snprintf(path, sizeof(path), "%s/worker-1", its->home);
    snprintf(away, sizeof(away), "%s/away", its->root);
    assert_int_equal(entries_of(path), 4);
    assert_int_equal(rename(path, away), 0);
    assert_ok(authority_add(its->home, key_identity("worker-1"), no_hosts, NOW + 9, NULL));
    key_folder_revoke(its, "worker-1", NOW + 10);
    assert_listed(its, "+server,+worker-0,-worker-1,-worker-1,-worker-1,+worker,+viewer,");
}

KEYS(what_is_there_is_never_overwritten)
{
    tarry_diagnostic why;
    char path[PATH + 16];
    struct stat before, after;
    snprintf(path, sizeof(path), "%s/ca.pem", its->home);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(authority_init(its->home, 2, no_hosts, NOW, NULL, &why), TARRY_ERROR_FILE);
    assert_non_null(strstr(why.text, "home: exists already"));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(authority_init(path, 2, no_hosts, NOW, NULL, &why), TARRY_ERROR_FILE);
    assert_int_equal(entries_of(its->root), 1); /* nothing half made is left */
    snprintf(path, sizeof(path), "%s/empty///", its->root);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_ok(authority_init(path, 1, no_hosts, NOW, NULL, &why));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_mode & 0777, 0700);
}

KEYS(an_interrupted_cluster_leaves_nothing)
{
    tarry_diagnostic why;
    char path[PATH + 16];
    const atomic_bool stop = true;
    snprintf(path, sizeof(path), "%s/other", its->root);
    assert_int_equal(authority_init(path, 2, no_hosts, NOW, &stop, &why), TARRY_ERROR_INTERRUPTED);
    assert_int_equal(entries_of(its->root), 1);
}

/* The list that was written, but not told to the server, is told by the next try. */
KEYS(an_interrupted_revocation_is_finished)
{
    char path[PATH + 32];
    X509_CRL *list, *first;
    snprintf(path, sizeof(path), "%s/server/revoked.pem", its->home);
    assert_ok(pem_read_list(path, &first, NULL, NULL));
    key_folder_revoke(its, "worker-0", NOW);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509_CRL(file, first), 1);
    fclose(file);
    assert_int_equal(authority_revoke(its->home, key_identity("worker-0"), NULL, NOW,
                                      &(authority_tally){0}, NULL),
                     TARRY_ERROR_STATE);
    assert_ok(pem_read_list(path, &list, NULL, NULL));
    assert_int_not_equal(X509_CRL_cmp(list, first), 1);
    assert_int_equal(sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list)), 1);
    X509_CRL_free(first);
    X509_CRL_free(list);
}

TEST_OF(only_the_owner_can_read_the_files, key_folder, its, key_folder_remove)
{
    static const char *const files[] = {
        "ca.pem",          "ca-key.pem",     "revoked.pem",        "server/ca.pem",
        "server/cert.pem", "server/key.pem", "server/revoked.pem", "worker-1/key.pem"};
    char path[PATH + 32];
    struct stat found;
    mode_t mask = umask(0);
    begin(its);
    key_folder_revoke(its, "worker-0", NOW);
    umask(mask);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", its->home, files[i]);
        assert_int_equal(stat(path, &found), 0);
        assert_int_equal(found.st_mode & 0777, 0600);
    }
    snprintf(path, sizeof(path), "%s/ca-key.pem", its->home);
    assert_int_equal(chmod(path, 0644), 0);
    tarry_diagnostic why;
    assert_int_equal(authority_add(its->home, key_identity("worker-5"), no_hosts, NOW, &why),
                     TARRY_ERROR_FILE);
    assert_non_null(strstr(why.text, "ca-key.pem: others may read or write this key"));
}

KEYS(hosts_are_checked)
{
    static const char *const good[] = {"node1", "a-b.example.org", "192.0.2.7", "::1",
                                       "2001:db8::5"};
    static const char *const bad[] = {"", "a,b", "DNS:a", "*.org", "-a", ".", "a b", "1:2", "a\nb"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_ok(issue_check_host(good[i], NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(issue_check_host(bad[i], NULL), TARRY_ERROR_ARGUMENT);
    char longest[ISSUE_HOST_SIZE + 1];
    memset(longest, 'a', ISSUE_HOST_SIZE);
    longest[ISSUE_HOST_SIZE] = '\0';
    assert_int_equal(issue_check_host(longest, NULL), TARRY_ERROR_ARGUMENT);
    longest[ISSUE_HOST_SIZE - 1] = '\0';
    /* As many of the longest as may be still fit. */
    const char *all[ISSUE_HOSTS];
    for (size_t i = 0; i < ISSUE_HOSTS; i++)
        all[i] = longest;
    key_folder_revoke(its, "server", NOW);
    assert_ok(authority_add(its->home, key_identity("server"),
                            (authority_hosts){.names = all, .count = ISSUE_HOSTS}, NOW, NULL));
}

static int list_and_free(void *user, const tarry_allocator *allocator)
{
    authority_member *members;
    size_t count;
    int error = authority_list(user, allocator, &members, &count, NULL);
    if (error == TARRY_OK)
        memory_release(allocator, members);
    return error;
}

KEYS(each_allocation_may_fail)
{
    assert_int_equal(fail_each_allocation(list_and_free, its->home), 1);
}
