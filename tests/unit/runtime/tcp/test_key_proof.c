/* SPDX-License-Identifier: Apache-2.0 */
/* A key of secure sums is taken of the worker whose certificate it comes with, and of nobody else.
 */
#include <stdio.h>
#include <time.h>

#include "key_folder.h"
#include "test.h"

enum { PATH = 300, DER = 4096 };

static const key_claim claim = {
    .job = {1, 2}, .worker = 1, .instance = {3, 4}, .numerics = 5, .key = {6, 7}};

typedef struct bench {
    key_folder keys;
    credential *reader; /* worker-0 of home */
} bench;

/* What somebody sends. */
typedef struct proof {
    uint8_t certificate[DER], signature[KEY_PROOF_MOST];
    size_t certificate_size, signature_size;
} proof;

static void begin(bench *its)
{
    key_folder_make(&its->keys, 3, time(NULL));
    key_folder_make_other(&its->keys, 3, time(NULL));
    its->reader = key_load(its->keys.home, "worker-0");
}

static void end(bench *its)
{
    credential_free(its->reader);
    key_folder_remove(&its->keys);
}

#define BENCH(name) TEST_WITH(name, bench, its, begin, end)

static proof prove(const char *cluster, const char *name, const key_claim *of)
{
    proof made;
    credential *own = key_load(cluster, name);
    assert_ok(credential_own_der(own, made.certificate, sizeof(made.certificate),
                                 &made.certificate_size));
    assert_ok(key_proof_sign(own, of, made.signature, &made.signature_size));
    credential_free(own);
    return made;
}

/* Why it is not taken; NULL: it is. */
static const char *fault_of(const bench *its, const proof *sent, const key_claim *of)
{
    static char text[CREDENTIAL_REFUSAL_SIZE];
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES] = {0}, zeros[sizeof(fingerprint)] = {0};
    text[0] = '\0';
    int error = key_proof_verify(its->reader, sent->certificate, sent->certificate_size,
                                 sent->signature, sent->signature_size, of, fingerprint, text);
    if (error == TARRY_OK) {
        assert_memory_not_equal(fingerprint, zeros, sizeof(zeros));
        return NULL;
    }
    assert_int_equal(error, TARRY_ERROR_FORMAT);
    assert_memory_equal(fingerprint, zeros, sizeof(zeros));
    assert_string_not_equal(text, "");
    return text;
}

BENCH(a_workers_own_key_is_taken)
{
    proof sent = prove(its->keys.home, "worker-1", &claim);
    assert_null(fault_of(its, &sent, &claim));
}

BENCH(a_signature_is_of_one_claim_alone)
{
    proof sent = prove(its->keys.home, "worker-1", &claim);
    key_claim changed[6];
    for (unsigned i = 0; i < 6; i++)
        changed[i] = claim;
    changed[0].job[15]++;
    changed[1].instance[0]++;
    changed[2].numerics++;
    changed[3].key[31] ^= 0x80;
    changed[4].key[0]++;
    changed[5].instance[15]++;
    for (unsigned i = 0; i < 6; i++)
        assert_string_equal(fault_of(its, &sent, &changed[i]),
                            "it is not signed by the key of its certificate");
    for (size_t i = 0; i < sent.signature_size; i++) {
        sent.signature[i] ^= 1;
        assert_non_null(fault_of(its, &sent, &claim));
        sent.signature[i] ^= 1;
    }
    for (size_t i = 0; i < sent.certificate_size; i++) {
        sent.certificate[i] ^= 1;
        assert_non_null(fault_of(its, &sent, &claim));
        sent.certificate[i] ^= 1;
    }
    sent.signature_size--;
    assert_non_null(fault_of(its, &sent, &claim));
    sent.signature_size++;
    sent.certificate_size--;
    assert_string_equal(fault_of(its, &sent, &claim), "what was passed on is no certificate");
}

BENCH(nobody_signs_for_another)
{
    static const char *const others[] = {"worker-2", "server", "viewer"};
    for (unsigned i = 0; i < 3; i++) {
        proof sent = prove(its->keys.home, others[i], &claim);
        assert_non_null(fault_of(its, &sent, &claim));
        /* The right certificate does not help who does not have its key. */
        const proof right = prove(its->keys.home, "worker-1", &claim);
        memcpy(sent.certificate, right.certificate, right.certificate_size);
        sent.certificate_size = right.certificate_size;
        assert_string_equal(fault_of(its, &sent, &claim),
                            "it is not signed by the key of its certificate");
    }
    const proof foreign = prove(its->keys.other, "worker-1", &claim);
    assert_non_null(fault_of(its, &foreign, &claim));
}

/* A certificate that may take any worker's place names none. */
BENCH(an_unbound_certificate_is_refused)
{
    proof sent = prove(its->keys.home, "worker", &claim);
    assert_string_equal(fault_of(its, &sent, &claim), "its certificate is not that of this worker");
    key_claim unbound = claim;
    unbound.worker = CREDENTIAL_ANY_ID;
    sent = prove(its->keys.home, "worker", &unbound);
    assert_non_null(fault_of(its, &sent, &claim));
}

BENCH(a_revoked_worker_is_refused)
{
    char command[2 * PATH + 40];
    proof sent = prove(its->keys.home, "worker-1", &claim);
    key_folder_revoke(&its->keys, "worker-1", time(NULL));
    snprintf(command, sizeof(command), "cp %s/revoked.pem %s/worker-0/", its->keys.home,
             its->keys.home);
    assert_int_equal(system(command), 0);
    credential_free(its->reader);
    its->reader = key_load(its->keys.home, "worker-0");
    assert_non_null(strstr(fault_of(its, &sent, &claim), "revoked"));
}
