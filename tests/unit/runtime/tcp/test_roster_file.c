/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "failing_allocator.h"
#include "key_folder.h"
#include "pki/authority.h"
#include "runtime/tcp/trust/private_file.h"
#include "runtime/tcp/trust/roster_file.h"
#include "test.h"

OWNED_BY(roster_file, roster_file_free)

enum { PATH = 300, TEXT = 4096 };

static const int64_t NOW = 1800000000;
static const authority_hosts no_hosts = {0};

/* A cluster of three workers, and another one. */
static void begin(key_folder *its)
{
    key_folder_make(its, 3, NOW);
    key_folder_make_other(its, 1, NOW);
}

#define KEYS(name) TEST_WITH(name, key_folder, its, begin, key_folder_remove)

static authority_rostered sign(const char *home, int64_t now)
{
    authority_rostered made;
    tarry_diagnostic why;
    assert_ok_or(why, authority_roster(home, now, &made, &why));
    return made;
}

static X509 *read_certificate(const char *home, const char *name)
{
    char path[PATH + 40];
    X509 *read;
    snprintf(path, sizeof(path), "%s/%s", home, name);
    assert_ok(pem_read_certificate(path, &read, NULL));
    return read;
}

static size_t read_text(const char *home, const char *name, char text[TEXT])
{
    char path[PATH + 40];
    snprintf(path, sizeof(path), "%s/%s", home, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, TEXT, file);
    fclose(file);
    assert_in_range(size, 1, TEXT - 1);
    text[size] = '\0';
    return size;
}

static roster_file *read_roster(const char *home)
{
    roster_file *read;
    tarry_diagnostic why;
    assert_ok(authority_read_roster(home, &read, &why));
    assert_non_null(read);
    return read;
}

KEYS(a_roster_has_each_worker_s_certificate)
{
    roster_file *none;
    assert_ok(authority_read_roster(its->home, &none, NULL));
    assert_null(none);
    authority_rostered made = sign(its->home, NOW);
    assert_int_equal(made.number, 1);
    assert_int_equal(made.workers, 3);
    assert_false(made.same);
    for (uint32_t worker = 0; worker < 3; worker++) {
        uint8_t expected[CREDENTIAL_FINGERPRINT_BYTES];
        char name[40];
        snprintf(name, sizeof(name), "worker-%u/cert.pem", worker);
        X509 *certificate = read_certificate(its->home, name);
        credential_fingerprint(certificate, expected);
        X509_free(certificate);
        OWNED(roster_file) roster = read_roster(its->home);
        assert_int_equal(roster->count, 3);
        assert_memory_equal(roster_file_find(roster, worker), expected, sizeof(expected));
        assert_null(roster_file_find(roster, 3));
        assert_null(roster_file_find(roster, CREDENTIAL_ANY_ID));
    }
}

KEYS(a_list_that_differs_has_the_next_number)
{
    sign(its->home, NOW);
    OWNED(roster_file) before = read_roster(its->home);
    authority_rostered made = sign(its->home, NOW + 5);
    assert_true(made.same);
    assert_int_equal(made.number, 1);
    OWNED(roster_file) again = read_roster(its->home);
    assert_memory_equal(again->digest, before->digest, sizeof(before->digest));
    key_folder_revoke(its, "worker-1", NOW);
    made = sign(its->home, NOW);
    assert_int_equal(made.number, 2);
    assert_int_equal(made.workers, 2);
    OWNED(roster_file) after = read_roster(its->home);
    assert_null(roster_file_find(after, 1));
    assert_memory_not_equal(after->digest, before->digest, sizeof(before->digest));
    /* Back to who was there before, and yet no list of before. */
    assert_ok(authority_add(its->home, key_identity("worker-1"), no_hosts, NOW, NULL));
    made = sign(its->home, NOW);
    assert_int_equal(made.number, 3);
    OWNED(roster_file) last = read_roster(its->home);
    assert_memory_not_equal(roster_file_find(last, 1), roster_file_find(before, 1),
                            CREDENTIAL_FINGERPRINT_BYTES);
}

/* A folder that was moved away leaves two good certificates: one id is one worker all the same. */
KEYS(of_two_certificates_the_last_one_counts)
{
    char from[PATH + 20], to[PATH + 20];
    uint8_t expected[CREDENTIAL_FINGERPRINT_BYTES];
    snprintf(from, sizeof(from), "%s/worker-2", its->home);
    snprintf(to, sizeof(to), "%s/away", its->root);
    assert_int_equal(rename(from, to), 0);
    assert_ok(authority_add(its->home, key_identity("worker-2"), no_hosts, NOW + 9, NULL));
    assert_int_equal(sign(its->home, NOW + 10).workers, 3);
    X509 *certificate = read_certificate(its->home, "worker-2/cert.pem");
    credential_fingerprint(certificate, expected);
    X509_free(certificate);
    roster_file *roster = read_roster(its->home);
    assert_memory_equal(roster_file_find(roster, 2), expected, sizeof(expected));
    roster_file_free(roster);
    /* Who has expired is on none. */
    authority_rostered made;
    tarry_diagnostic why;
    assert_int_equal(authority_roster(its->home, NOW + INT64_C(86400) * 3000, &made, &why),
                     TARRY_ERROR_STATE);
    assert_non_null(strstr(why.text, "has no worker with an id of its own"));
}

KEYS(all_folders_that_are_there_get_it)
{
    char text[TEXT], copy[TEXT], path[PATH + 20];
    snprintf(path, sizeof(path), "%s/worker-1", its->home);
    authority_remove(path);
    sign(its->home, NOW);
    size_t size = read_text(its->home, ROSTER_FILE_NAME, text);
    static const char *const there[] = {"server/roster.txt", "worker-0/roster.txt",
                                        "worker-2/roster.txt"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(read_text(its->home, there[i], copy), size);
        assert_memory_equal(text, copy, size);
    }
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof(path), "%s/worker/roster.txt", its->home);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void refuse(const void *text, size_t size, X509 *authority, const char *expected)
{
    roster_file *read;
    tarry_diagnostic why;
    assert_int_equal(roster_file_decode(text, size, authority, NULL, &read, &why),
                     TARRY_ERROR_FORMAT);
    if (expected != NULL)
        assert_string_equal(why.text, expected);
}

/* Every bit that is not as it was signed, every end that is missing, and all that is behind it. */
KEYS(no_other_bytes_are_a_roster)
{
    char text[TEXT];
    sign(its->home, NOW);
    X509 *authority = read_certificate(its->home, "ca.pem");
    size_t size = read_text(its->home, ROSTER_FILE_NAME, text);
    roster_file *read;
    assert_ok(roster_file_decode(text, size, authority, NULL, &read, NULL));
    roster_file_free(read);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        refuse(text, size, authority, NULL);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t less = 0; less < size; less++)
        refuse(text, less, authority, NULL);
    text[size] = '\n';
    refuse(text, size + 1, authority, "has no end");
    X509_free(authority);
}

static size_t replace(char text[TEXT], const char *from, const char *to)
{
    char copy[TEXT];
    char *at = strstr(text, from);
    assert_non_null(at);
    strcpy(copy, at + strlen(from));
    assert_true(strlen(text) + strlen(to) < TEXT);
    strcpy(at, to);
    strcat(text, copy);
    return strlen(text);
}

KEYS(it_says_what_is_wrong)
{
    static const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"tarry roster 1", "tarry roster 2", "this is no roster"},
        {"authority ", "authority  ", "does not say whose it is"},
        {"number 1", "number 01", "has no number"},
        {"number 1", "number 0", "has no number"},
        {"number 1", "number 18446744073709551616", "has no number"},
        {"number 1", "number 2", "not signed by the authority in ca.pem"},
        {"worker-0", "worker-1", "a worker's line is none, or not in its place"},
        {"worker-2", "worker-1000000", "a worker's line is none, or not in its place"},
        {"worker-2", "worker-3", "not signed by the authority in ca.pem"},
        {"worker-0", "worker", "a worker's line is none, or not in its place"},
        {"signature ", "sign ", "has no signature"},
    };
    char text[TEXT];
    sign(its->home, NOW);
    sign(its->other, NOW);
    X509 *authority = read_certificate(its->home, "ca.pem");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        read_text(its->home, ROSTER_FILE_NAME, text);
        refuse(text, replace(text, cases[i].from, cases[i].to), authority, cases[i].expected);
    }
    size_t size = read_text(its->other, ROSTER_FILE_NAME, text);
    refuse(text, size, authority, "of another cluster than ca.pem");
    X509_free(authority);
}

/* The authority signs certificates and revocation lists with the same key. */
KEYS(what_a_member_signs_is_no_roster)
{
    char path[PATH + 40], *bytes;
    size_t size;
    EVP_PKEY *key;
    X509 *authority = read_certificate(its->home, "ca.pem");
    snprintf(path, sizeof(path), "%s/server/key.pem", its->home);
    assert_ok(pem_read_key(path, &key, NULL));
    const roster_entry entry = {.worker = 4};
    assert_ok(roster_file_encode(&entry, 1, 9, authority, key, &bytes, &size, NULL));
    refuse(bytes, size, authority, "not signed by the authority in ca.pem");
    memory_release(NULL, bytes);
    EVP_PKEY_free(key);
    X509_free(authority);
}

TEST_OF(a_folder_says_what_is_missing, key_folder, its, key_folder_remove)
{
    OWNED(roster_file) roster;
    tarry_diagnostic why;
    const int64_t now = (int64_t)time(NULL); /* a credential has to be good when it is loaded */
    key_folder_make(its, 1, now);
    OWNED(credential) own = key_load(its->home, "worker-0");
    assert_int_equal(credential_roster(own, NULL, &roster, &why), TARRY_ERROR_FILE);
    assert_non_null(strstr(why.text, "worker-0/roster.txt: is missing; tarry keys roster makes"));
    sign(its->home, now);
    assert_ok(credential_roster(own, NULL, &roster, &why));
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
    credential_own_fingerprint(own, fingerprint);
    assert_memory_equal(roster_file_find(roster, 0), fingerprint, sizeof(fingerprint));
}

typedef struct content {
    const char *text;
    size_t size;
    X509 *authority;
} content;

static int decode(void *user, const tarry_allocator *allocator)
{
    const content *from = user;
    roster_file *read;
    int error = roster_file_decode(from->text, from->size, from->authority, allocator, &read, NULL);
    if (error == TARRY_OK)
        roster_file_free(read);
    return error;
}

KEYS(no_allocation_has_to_succeed)
{
    char text[TEXT];
    sign(its->home, NOW);
    X509 *authority = read_certificate(its->home, "ca.pem");
    size_t size = read_text(its->home, ROSTER_FILE_NAME, text);
    const content its_own = {text, size, authority};
    assert_int_equal(fail_each_allocation(decode, (void *)&its_own), 2);
    X509_free(authority);
}
