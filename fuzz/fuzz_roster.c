/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are refused, or read as a roster in the one form that there is. Its signature would
 * keep the fuzzer out of what lies behind it, so half of the inputs are lines that are signed here,
 * with a key of this process; and half are changes to a roster that was good.
 */
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz_input.h"
#include "runtime/tcp/trust/roster_file.h"

enum { MOST_ENTRIES = 8 };

/* An authority, and a roster of it. */
typedef struct world {
    X509 *authority;
    EVP_PKEY *key;
    char *good;
    size_t good_size;
} world;

static const world *the_world(void)
{
    static world made;
    if (made.authority != NULL)
        return &made;
    const roster_entry entries[] = {{.worker = 0}, {.worker = 7}, {.worker = 12}};
    made.key = EVP_EC_gen("P-256");
    made.authority = X509_new();
    require(made.key != NULL && made.authority != NULL &&
            X509_set_pubkey(made.authority, made.key) == 1 &&
            X509_gmtime_adj(X509_getm_notBefore(made.authority), 0) != NULL &&
            X509_gmtime_adj(X509_getm_notAfter(made.authority), 9) != NULL &&
            X509_sign(made.authority, made.key, EVP_sha256()) != 0);
    require(roster_file_encode(entries, 3, 4, made.authority, made.key, &made.good, &made.good_size,
                               NULL) == TARRY_OK);
    return &made;
}

/* What is read is written as the same lines, but for the signature, which is another one each time.
 */
static void read_and_write(const world *its, const void *bytes, size_t size)
{
    roster_file *read;
    char *again;
    size_t again_size;
    if (roster_file_decode(bytes, size, its->authority, NULL, &read, NULL) != TARRY_OK)
        return;
    require(read->number > 0 && read->count > 0);
    for (size_t i = 0; i < read->count; i++) {
        require(i == 0 || read->entries[i - 1].worker < read->entries[i].worker);
        require(roster_file_find(read, read->entries[i].worker) == read->entries[i].fingerprint);
    }
    require(roster_file_encode(read->entries, read->count, read->number, its->authority, its->key,
                               &again, &again_size, NULL) == TARRY_OK);
    const char *end = strstr(again, "signature ");
    require(end != NULL && (size_t)(end - again) < size &&
            memcmp(bytes, again, (size_t)(end - again)) == 0);
    memory_release(NULL, again);
    roster_file_free(read);
}

/* Entries as the input has them, in any order, and any number: signed, and read or refused. */
static void sign_and_read(const world *its, input *in)
{
    roster_entry entries[MOST_ENTRIES];
    size_t count = take(in) % (MOST_ENTRIES + 1);
    uint64_t number = take(in);
    bool good = count > 0 && number > 0;
    for (size_t i = 0; i < count; i++) {
        entries[i].worker = take(in) % 16u == 15 ? UINT32_MAX : take(in) * 5000u;
        memset(entries[i].fingerprint, take(in), sizeof(entries[i].fingerprint));
        good = good && entries[i].worker < CREDENTIAL_IDS &&
               (i == 0 || entries[i].worker > entries[i - 1].worker);
    }
    char *bytes;
    size_t size;
    roster_file *read = NULL;
    require(roster_file_encode(entries, count, number, its->authority, its->key, &bytes, &size,
                               NULL) == TARRY_OK);
    int error = roster_file_decode(bytes, size, its->authority, NULL, &read, NULL);
    require((error == TARRY_OK) == good);
    roster_file_free(read);
    take_patches(in, (uint8_t *)bytes, size);
    read_and_write(its, bytes, size);
    memory_release(NULL, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const world *its = the_world();
    input in = {data, size};
    const uint8_t kind = take(&in);
    if (kind % 4 == 0) {
        read_and_write(its, in.data, in.left);
    } else if (kind % 4 == 1) {
        sign_and_read(its, &in);
    } else {
        char *copy = memory_allocate(NULL, its->good_size, 1);
        require(copy != NULL);
        memcpy(copy, its->good, its->good_size);
        take_patches(&in, (uint8_t *)copy, its->good_size);
        read_and_write(its, copy, its->good_size);
        memory_release(NULL, copy);
    }
    return 0;
}
