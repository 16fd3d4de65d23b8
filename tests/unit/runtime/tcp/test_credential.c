/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>

#include "failing_allocator.h"
#include "key_folder.h"
#include "test.h"

enum { PATH = 300, YEAR_SECONDS = 366 * 86400 };

static void make_clusters(key_folder *its, int64_t now)
{
    key_folder_make(its, 2, now);
    key_folder_make_other(its, 1, now);
}

static void begin(key_folder *its)
{
    make_clusters(its, time(NULL));
}

#define KEYS(name) TEST_WITH(name, key_folder, its, begin, key_folder_remove)

static const char *path_in(const char *cluster, const char *name, char path[PATH])
{
    assert_in_range(snprintf(path, PATH, "%s/%s", cluster, name), 1, PATH - 1);
    return path;
}

static SSL *connection(const char *cluster, const char *name)
{
    credential *loaded = key_load(cluster, name);
    SSL *ssl = credential_open(loaded);
    assert_non_null(ssl);
    credential_free(loaded); /* the connection lives on */
    return ssl;
}

/* What a program that is not Tarry might open: any version, no checks, a member's key or none. */
static SSL *foreign(const SSL_METHOD *method, const char *cluster, const char *name)
{
    char path[PATH], file[PATH + 16];
    SSL_CTX *context = SSL_CTX_new(method);
    if (name != NULL) {
        path_in(cluster, name, path);
        snprintf(file, sizeof(file), "%s/cert.pem", path);
        assert_int_equal(SSL_CTX_use_certificate_file(context, file, SSL_FILETYPE_PEM), 1);
        snprintf(file, sizeof(file), "%s/key.pem", path);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(context, file, SSL_FILETYPE_PEM), 1);
    }
    SSL *ssl = SSL_new(context);
    SSL_CTX_free(context);
    return ssl;
}

typedef struct outcome {
    bool server_good, client_good;
    char server_says[CREDENTIAL_REFUSAL_SIZE], client_says[CREDENTIAL_REFUSAL_SIZE];
} outcome;

/* One step of one side: true once it is done, for good or bad. */
static bool step(SSL *ssl, bool *good, char says[CREDENTIAL_REFUSAL_SIZE])
{
    char byte;
    ERR_clear_error();
    int result = SSL_do_handshake(ssl);
    if (result == 1) /* the other side may still refuse: its alert comes with the first read */
        result = SSL_read(ssl, &byte, 1);
    int error = SSL_get_error(ssl, result);
    *good = SSL_is_init_finished(ssl) == 1;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return false;
    *good = false;
    credential_refusal(ssl, says);
    assert_int_equal(ERR_peek_error(), 0);
    return true;
}

/* Shakes hands through two buffers, and frees neither side. */
static outcome meet(SSL *server, SSL *client)
{
    outcome result = {.server_says = ""};
    BIO *server_end, *client_end;
    assert_int_equal(BIO_new_bio_pair(&server_end, 0, &client_end, 0), 1);
    SSL_set_bio(server, server_end, server_end);
    SSL_set_bio(client, client_end, client_end);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    bool server_done = false, client_done = false;
    for (int turn = 0; turn < 10; turn++) {
        client_done = client_done || step(client, &result.client_good, result.client_says);
        server_done = server_done || step(server, &result.server_good, result.server_says);
    }
    return result;
}

static outcome meet_and_part(SSL *server, SSL *client)
{
    outcome result = meet(server, client);
    SSL_free(server);
    SSL_free(client);
    return result;
}

static void assert_server_refuses(outcome result, const char *reason)
{
    assert_false(result.server_good);
    assert_false(result.client_good);
    assert_string_equal(result.server_says, reason);
    assert_memory_equal(result.client_says, "refused by the peer: ", 21);
}

static void assert_client_refuses(outcome result, const char *reason)
{
    assert_false(result.server_good);
    assert_false(result.client_good);
    assert_string_equal(result.client_says, reason);
    assert_memory_equal(result.server_says, "refused by the peer: ", 21);
}

KEYS(members_know_each_other)
{
    static const char *const names[] = {"worker-0", "worker-1", "worker", "viewer"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        SSL *server = connection(its->home, "server"), *client = connection(its->home, names[i]);
        credential_identity peer, expected;
        assert_int_equal(credential_peer(server, &peer), TARRY_ERROR_STATE);
        outcome result = meet(server, client);
        assert_true(result.server_good && result.client_good);
        assert_ok(identity_parse(names[i], &expected));
        assert_ok(credential_peer(server, &peer));
        assert_int_equal(peer.role, expected.role);
        assert_int_equal(peer.worker, expected.worker);
        assert_ok(credential_peer(client, &peer));
        assert_int_equal(peer.role, CREDENTIAL_SERVER);
        assert_int_equal(SSL_version(server), TLS1_3_VERSION);
        assert_int_equal(SSL_session_reused(client), 0);
        assert_false(SSL_SESSION_is_resumable(SSL_get_session(client)));
        SSL_free(server);
        SSL_free(client);
    }
    credential *viewer = key_load(its->home, "viewer");
    assert_int_equal(credential_own(viewer).role, CREDENTIAL_VIEWER);
    credential_free(viewer);
}

static void assert_passed_on(const credential *server, const char *cluster, const char *name,
                             const char *expected)
{
    char why[CREDENTIAL_REFUSAL_SIZE] = "";
    X509 *certificate = NULL;
    SSL *ssl = connection(cluster, name);
    uint8_t *der = NULL;
    int size = i2d_X509(SSL_get_certificate(ssl), &der);
    assert_true(size > 0);
    int error = credential_verify_passed_on(server, der, (size_t)size, &certificate, why);
    assert_string_equal(why, expected);
    assert_int_equal(error, expected[0] == '\0' ? TARRY_OK : TARRY_ERROR_FORMAT);
    X509_free(certificate);
    OPENSSL_free(der);
    SSL_free(ssl);
}

KEYS(what_is_passed_on_is_verified_as_a_handshake_is)
{
    static const uint8_t nonsense[] = {0x30, 0x03, 0x02, 0x01, 0x07, 0x00};
    char why[CREDENTIAL_REFUSAL_SIZE];
    X509 *certificate;
    bool changed;
    credential *server = key_load(its->home, "server");
    assert_passed_on(server, its->home, "worker-1", "");
    assert_passed_on(server, its->home, "viewer", "");
    assert_passed_on(server, its->other, "worker-0",
                     "certificate of worker-0: of another cluster than ca.pem");
    assert_passed_on(server, its->home, "server",
                     "certificate of server: not one for that side of a connection");
    for (size_t size = 0; size <= sizeof(nonsense); size++) {
        assert_int_equal(credential_verify_passed_on(server, nonsense, size, &certificate, why),
                         TARRY_ERROR_FORMAT);
        assert_string_equal(why, "what was passed on is no certificate");
    }
    SSL *before = connection(its->home, "worker-1");
    uint8_t *der = NULL;
    int size = i2d_X509(SSL_get_certificate(before), &der);
    key_folder_revoke(its, "worker-1", time(NULL));
    assert_ok(credential_refresh_revoked(server, &changed, NULL));
    assert_int_equal(credential_verify_passed_on(server, der, (size_t)size, &certificate, why),
                     TARRY_ERROR_FORMAT);
    assert_string_equal(why, "certificate of worker-1: certificate revoked");
    OPENSSL_free(der);
    SSL_free(before);
    credential_free(server);
}

KEYS(strangers_are_refused)
{
    const char *home = its->home;
    assert_client_refuses(
        meet_and_part(connection(home, "server"), connection(its->other, "worker-0")),
        "certificate of server: of another cluster than ca.pem");
    assert_server_refuses(meet_and_part(connection(home, "server"),
                                        foreign(TLS_client_method(), its->other, "worker-0")),
                          "certificate of worker-0: of another cluster than ca.pem");
    assert_server_refuses(
        meet_and_part(connection(home, "server"), foreign(TLS_client_method(), NULL, NULL)),
        "peer did not return a certificate");
    SSL *old = foreign(TLS_client_method(), home, "worker-0");
    SSL_set_max_proto_version(old, TLS1_2_VERSION);
    assert_server_refuses(meet_and_part(connection(home, "server"), old), "unsupported protocol");
    old = foreign(TLS_server_method(), home, "server");
    SSL_set_max_proto_version(old, TLS1_2_VERSION);
    outcome result = meet_and_part(old, connection(home, "worker-0"));
    assert_false(result.server_good || result.client_good);
}

KEYS(nobody_plays_another_role)
{
    static const char *const names[] = {"worker-0", "worker", "viewer"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char reason[CREDENTIAL_REFUSAL_SIZE];
        snprintf(reason, sizeof(reason), "certificate of %s: hostname mismatch", names[i]);
        SSL *impostor = foreign(TLS_server_method(), its->home, names[i]);
        outcome result = meet_and_part(impostor, connection(its->home, "worker-1"));
        /* OpenSSL looks at the usage first; either is right. */
        if (strcmp(result.client_says, reason) != 0)
            snprintf(reason, sizeof(reason), "certificate of %s: unsuitable certificate purpose",
                     names[i]);
        assert_client_refuses(result, reason);
    }
    assert_server_refuses(meet_and_part(connection(its->home, "server"),
                                        foreign(TLS_client_method(), its->home, "server")),
                          "certificate of server: not one for that side of a connection");
}

/* Three years later members' certificates are over, and the authority and its list are not. */
KEYS(an_expired_certificate_is_refused)
{
    SSL *server = connection(its->home, "server"), *client = connection(its->home, "worker-1");
    X509_VERIFY_PARAM_set_time(SSL_get0_param(server), time(NULL) + 3 * YEAR_SECONDS);
    assert_server_refuses(meet_and_part(server, client),
                          "certificate of worker-1: certificate has expired");
    server = connection(its->home, "server");
    client = connection(its->home, "worker-1");
    X509_VERIFY_PARAM_set_time(SSL_get0_param(client), time(NULL) + 3 * YEAR_SECONDS);
    assert_client_refuses(meet_and_part(server, client),
                          "certificate of server: certificate has expired");
}

KEYS(a_revoked_member_is_refused_from_the_next_look_on)
{
    credential *server = key_load(its->home, "server"), *client = key_load(its->home, "worker-1");
    SSL *here = credential_open(server), *there = credential_open(client);
    assert_true(meet(here, there).server_good);
    X509 *peer = SSL_get0_peer_certificate(here);
    bool changed = true;
    assert_ok(credential_refresh_revoked(server, &changed, NULL));
    assert_false(changed);
    assert_false(credential_is_revoked(server, peer));

    key_folder_revoke(its, "worker-1", time(NULL));
    assert_ok(credential_refresh_revoked(server, &changed, NULL));
    assert_true(changed);
    assert_true(credential_is_revoked(server, peer));
    assert_ok(credential_refresh_revoked(server, &changed, NULL));
    assert_false(changed);
    SSL_free(here);
    SSL_free(there);

    assert_server_refuses(meet_and_part(credential_open(server), credential_open(client)),
                          "certificate of worker-1: certificate revoked");
    assert_true(
        meet_and_part(credential_open(server), connection(its->home, "worker-0")).server_good);
    assert_server_refuses(meet_and_part(connection(its->home, "server"), credential_open(client)),
                          "certificate of worker-1: certificate revoked");
    credential_free(server);
    credential_free(client);
}

KEYS(a_bad_list_never_takes_the_place_of_a_good_one)
{
    char path[PATH], from[PATH];
    tarry_diagnostic why;
    key_folder_revoke(its, "worker-1", time(NULL));
    credential *server = key_load(its->home, "server"), *client = key_load(its->home, "worker-1");
    bool changed = true;
    path_in(its->home, "server/revoked.pem", path);
    assert_int_equal(rename(path_in(its->other, "revoked.pem", from), path), 0);
    assert_int_equal(credential_refresh_revoked(server, &changed, &why), TARRY_ERROR_FORMAT);
    assert_non_null(strstr(why.text, "server/revoked.pem: not signed by the authority"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(credential_refresh_revoked(server, &changed, &why), TARRY_ERROR_FILE);
    assert_true(changed);
    assert_server_refuses(meet_and_part(credential_open(server), credential_open(client)),
                          "certificate of worker-1: certificate revoked");
    credential_free(server);
    credential_free(client);
}

static void assert_load_fails(const key_folder *its, const char *name, int error, const char *part)
{
    char path[PATH];
    credential *loaded = NULL;
    tarry_diagnostic why = {""};
    assert_int_equal(credential_load(path_in(its->home, name, path), NULL, &loaded, &why), error);
    assert_null(loaded);
    if (strstr(why.text, part) == NULL)
        fail_msg("'%s' does not say '%s'", why.text, part);
    assert_int_equal(ERR_peek_error(), 0);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

KEYS(what_is_wrong_with_a_directory_is_said)
{
    char path[PATH], other[PATH];
    assert_load_fails(its, "worker-7", TARRY_ERROR_FILE, "ca.pem: No such file or directory");
    path_in(its->home, "worker-0/key.pem", path);
    assert_int_equal(chmod(path, 0640), 0);
    assert_load_fails(its, "worker-0", TARRY_ERROR_FILE, "worker-0/key.pem: others may read");
    assert_load_fails(its, "worker-0", TARRY_ERROR_FILE, "chmod 600");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(rename(path_in(its->home, "worker-1/key.pem", other), path), 0);
    assert_load_fails(its, "worker-0", TARRY_ERROR_FORMAT, "key.pem: not the key of cert.pem");
    write_text(path, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n");
    assert_load_fails(its, "worker-0", TARRY_ERROR_FORMAT, "worker-0/key.pem: ");
    path_in(its->home, "server/revoked.pem", path);
    write_text(path, "");
    assert_load_fails(its, "server", TARRY_ERROR_FORMAT,
                      "server/revoked.pem: no revocation list in PEM");
    assert_int_equal(rename(path_in(its->other, "revoked.pem", other), path), 0);
    assert_load_fails(its, "server", TARRY_ERROR_FORMAT, "not signed by the authority");
    path_in(its->home, "viewer/ca.pem", path);
    assert_int_equal(rename(path_in(its->other, "ca.pem", other), path), 0);
    assert_load_fails(its, "viewer", TARRY_ERROR_FORMAT, "viewer/revoked.pem: not signed");
    assert_int_equal(unlink(path_in(its->home, "viewer/revoked.pem", other)), 0);
    assert_load_fails(its, "viewer", TARRY_ERROR_FORMAT,
                      "viewer/cert.pem: of another cluster than ca.pem");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_load_fails(its, "viewer", TARRY_ERROR_FILE, "viewer/ca.pem: not a regular file");
}

TEST_OF(what_is_over_is_told_at_loading, key_folder, its, key_folder_remove)
{
    int64_t now = time(NULL);
    make_clusters(its, now - 3 * (int64_t)YEAR_SECONDS);
    assert_load_fails(its, "worker-0", TARRY_ERROR_FORMAT, "cert.pem: certificate has expired");
    key_folder_remove(its);
    make_clusters(its, now - 11 * (int64_t)YEAR_SECONDS);
    assert_load_fails(its, "server", TARRY_ERROR_FORMAT, "revoked.pem: the list has expired");
    key_folder_remove(its);
    make_clusters(its, now + YEAR_SECONDS);
    assert_load_fails(its, "server", TARRY_ERROR_FORMAT, "revoked.pem: the list is of the future");
    key_folder_remove(its);
    begin(its);
    key_folder_revoke(its, "server", now);
    assert_load_fails(its, "server", TARRY_ERROR_FORMAT, "cert.pem: certificate revoked");
}

static int load_and_free(void *user, const tarry_allocator *allocator)
{
    credential *loaded;
    int error = credential_load(user, allocator, &loaded, NULL);
    if (error == TARRY_OK)
        credential_free(loaded);
    return error;
}

KEYS(each_allocation_may_fail)
{
    char path[PATH];
    path_in(its->home, "worker-0", path);
    assert_int_equal(fail_each_allocation(load_and_free, path), 2);
}
