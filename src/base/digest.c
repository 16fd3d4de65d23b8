/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <openssl/evp.h>
#include <string.h>

enum { BATCH = 64 };

/* OpenSSL's context is the state; it takes its own memory. */
digest *digest_begin(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        context = NULL;
    }
    return (digest *)context;
}

int digest_add_bytes(digest *state, const uint8_t *bytes, size_t count)
{
    return EVP_DigestUpdate((EVP_MD_CTX *)state, bytes, count) == 1 ? 0 : -1;
}

int digest_add_u32(digest *state, const uint32_t *values, size_t count)
{
    for (size_t start = 0; start < count; start += BATCH) {
        uint8_t bytes[BATCH * 4];
        size_t size = 0;
        for (size_t i = start; i < count && i < start + BATCH; i++)
            for (unsigned shift = 0; shift < 32; shift += 8)
                bytes[size++] = (uint8_t)(values[i] >> shift);
        if (digest_add_bytes(state, bytes, size) != 0)
            return -1;
    }
    return 0;
}

int digest_add_f64(digest *state, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        uint32_t halves[2] = {(uint32_t)bits, (uint32_t)(bits >> 32)};
        if (digest_add_u32(state, halves, 2) != 0)
            return -1;
    }
    return 0;
}

int digest_end(digest *state, uint8_t out[32])
{
    int good = EVP_DigestFinal_ex((EVP_MD_CTX *)state, out, NULL);
    EVP_MD_CTX_free((EVP_MD_CTX *)state);
    return good == 1 ? 0 : -1;
}

int digest_of_bytes(const uint8_t *bytes, size_t count, uint8_t out[32])
{
    digest *state = digest_begin();
    if (state == NULL)
        return -1;
    int failed = digest_add_bytes(state, bytes, count);
    failed |= digest_end(state, out);
    return failed == 0 ? 0 : -1;
}
