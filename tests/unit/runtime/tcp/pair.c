/* SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "runtime/tcp/net/address.h"
#include "test.h"

enum { PATIENCE_MS = 60000 };

void pair_connect(pair_sort sort, int fds[2])
{
    if (sort == PAIR_SOCKETPAIR) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        return;
    }
    char folder[] = "/tmp/tarry-pair-XXXXXX";
    char text[64] = "127.0.0.1:0";
    address found[ADDRESS_MOST];
    uint32_t count;
    int listening;
    if (sort == PAIR_UNIX) {
        assert_non_null(mkdtemp(folder));
        snprintf(text, sizeof(text), "unix:%s/s", folder);
    }
    assert_ok(address_resolve(text, true, found, &count, NULL));
    assert_ok(address_listen(&found[0], &listening, NULL));
    assert_ok(address_of(listening, &found[0], NULL));
    assert_ok(address_connect(&found[0], &fds[1], NULL));
    struct pollfd door = {.fd = listening, .events = POLLIN};
    assert_int_equal(poll(&door, 1, PATIENCE_MS), 1);
    fds[0] = accept(listening, NULL, NULL);
    assert_true(fds[0] >= 0);
    close(listening);
    if (sort == PAIR_UNIX) {
        assert_int_equal(unlink(text + 5), 0);
        assert_int_equal(rmdir(folder), 0);
    }
}

static X509 *make_certificate(SSL_CTX *context, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    assert_non_null(key);
    assert_non_null(certificate);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    EVP_PKEY_free(key);
    return certificate;
}

void pair_contexts_make(pair_contexts *contexts)
{
    contexts->server = SSL_CTX_new(TLS_server_method());
    contexts->client = SSL_CTX_new(TLS_client_method());
    contexts->stranger = SSL_CTX_new(TLS_client_method());
    X509 *server = make_certificate(contexts->server, "server");
    X509 *client = make_certificate(contexts->client, "client");
    X509 *stranger = make_certificate(contexts->stranger, "stranger");
    X509_STORE_add_cert(SSL_CTX_get_cert_store(contexts->server), client);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(contexts->client), server);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(contexts->stranger), server);
    SSL_CTX_set_num_tickets(contexts->server, 0);
    SSL_CTX_set_verify(contexts->server, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_verify(contexts->client, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_verify(contexts->stranger, SSL_VERIFY_PEER, NULL);
    X509_free(server);
    X509_free(client);
    X509_free(stranger);
}

void pair_contexts_free(pair_contexts *contexts)
{
    SSL_CTX_free(contexts->server);
    SSL_CTX_free(contexts->client);
    SSL_CTX_free(contexts->stranger);
}

SSL *pair_accepting(const pair_contexts *contexts)
{
    SSL *ssl = SSL_new(contexts->server);
    assert_non_null(ssl);
    SSL_set_accept_state(ssl);
    return ssl;
}

SSL *pair_connecting(SSL_CTX *client)
{
    SSL *ssl = SSL_new(client);
    assert_non_null(ssl);
    SSL_set_connect_state(ssl);
    return ssl;
}
