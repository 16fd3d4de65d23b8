/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/roster_file.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/digest.h"
#include "base/hex.h"
#include "base/memory.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/private_file.h"

enum {
    DIGITS = 2 * CREDENTIAL_FINGERPRINT_BYTES,
    NUMBER_DIGITS = 20,
    SIGNATURE_BYTES = 1024, /* at most; one of EC P-256 has 72 */
    LINE_BYTES = DIGITS + CREDENTIAL_NAME_SIZE + 2,
    HEAD_BYTES = 3 * (LINE_BYTES + NUMBER_DIGITS),
};

static const char title[] = "tarry roster 1\n";

/* ---- reading ---- */

/* What is left of a roster's bytes. */
typedef struct text {
    const char *at;
    size_t left;
} text;

static bool take_word(text *from, const char *word)
{
    size_t length = strlen(word);
    if (from->left < length || memcmp(from->at, word, length) != 0)
        return false;
    from->at += length;
    from->left -= length;
    return true;
}

/* As many bytes as there are pairs of digits, up to `most`; gives back how many. */
static size_t take_bytes(text *from, uint8_t *out, size_t most)
{
    size_t count = hex_get(from->at, from->left, out, most);
    from->at += 2 * count;
    from->left -= 2 * count;
    return count;
}

static bool take_fingerprint(text *from, uint8_t out[CREDENTIAL_FINGERPRINT_BYTES])
{
    return take_bytes(from, out, CREDENTIAL_FINGERPRINT_BYTES) == CREDENTIAL_FINGERPRINT_BYTES &&
           take_word(from, "\n");
}

/* A decimal number without leading zeros, at most `most`. */
static bool take_number(text *from, uint64_t most, uint64_t *out)
{
    uint64_t number = 0;
    size_t digits = 0;
    for (; from->left > 0 && *from->at >= '0' && *from->at <= '9'; digits++) {
        uint64_t digit = (uint64_t)(*from->at - '0');
        if ((digits == 1 && number == 0) || number > (most - digit) / 10)
            return false;
        number = 10 * number + digit;
        from->at++;
        from->left--;
    }
    *out = number;
    return digits > 0;
}

static size_t count_lines(text from)
{
    size_t lines = 0;
    for (size_t i = 0; i < from.left; i++)
        lines += from.at[i] == '\n';
    return lines;
}

static bool take_entry(text *from, roster_entry *out)
{
    uint64_t worker = 0;
    if (!take_word(from, "worker-") || !take_number(from, CREDENTIAL_IDS - 1, &worker) ||
        !take_word(from, " ") || !take_fingerprint(from, out->fingerprint))
        return false;
    out->worker = (uint32_t)worker;
    return true;
}

static bool take_entries(text *from, roster_file *out)
{
    for (size_t i = 0; from->left > 0 && *from->at == 'w'; i++) {
        roster_entry *entry = &out->entries[i];
        if (!take_entry(from, entry) || (i > 0 && out->entries[i - 1].worker >= entry->worker))
            return false;
        out->count = i + 1;
    }
    return out->count > 0;
}

/* What is wrong with it; NULL: nothing. */
static const char *read_all(text from, X509 *authority, roster_file *out)
{
    const char *start = from.at;
    uint8_t expected[CREDENTIAL_FINGERPRINT_BYTES], found[CREDENTIAL_FINGERPRINT_BYTES];
    uint8_t signature[SIGNATURE_BYTES];
    if (!take_word(&from, title))
        return "this is no roster";
    if (!take_word(&from, "authority ") || !take_fingerprint(&from, found))
        return "does not say whose it is";
    credential_fingerprint(authority, expected);
    if (memcmp(found, expected, sizeof(found)) != 0)
        return "of another cluster than ca.pem";
    if (!take_word(&from, "number ") || !take_number(&from, UINT64_MAX, &out->number) ||
        out->number == 0 || !take_word(&from, "\n"))
        return "has no number";
    if (!take_entries(&from, out))
        return "a worker's line is none, or not in its place";
    size_t size = (size_t)(from.at - start);
    if (!take_word(&from, "signature "))
        return "has no signature";
    size_t length = take_bytes(&from, signature, sizeof(signature));
    if (!take_word(&from, "\n") || from.left > 0)
        return "has no end";
    if (!bytes_are_signed(authority, start, size, signature, length))
        return "not signed by the authority in ca.pem";
    return digest_of_bytes((const uint8_t *)start, size, out->digest) == 0 ? NULL : "out of memory";
}

int roster_file_decode(const void *bytes, size_t size, X509 *authority,
                       const tarry_allocator *allocator, roster_file **out,
                       tarry_diagnostic *diagnostic)
{
    const text from = {bytes, size};
    roster_file *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "roster");
    made->allocator = memory_allocator(allocator);
    made->entries = memory_allocate(allocator, count_lines(from) + 1, sizeof(roster_entry));
    if (made->entries == NULL) {
        roster_file_free(made);
        return diagnose_no_memory(diagnostic, "roster");
    }
    const char *wrong = read_all(from, authority, made);
    if (wrong != NULL) {
        roster_file_free(made);
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s", wrong);
    }
    *out = made;
    return TARRY_OK;
}

int roster_file_read(const char *path, X509 *authority, const tarry_allocator *allocator,
                     roster_file **out, tarry_diagnostic *diagnostic)
{
    BIO *content;
    char *bytes;
    tarry_diagnostic why;
    int error = private_file_read(path, false, &content, NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    long size = BIO_get_mem_data(content, &bytes);
    error = roster_file_decode(bytes, (size_t)size, authority, allocator, out, &why);
    BIO_free(content);
    return error == TARRY_OK ? TARRY_OK : diagnose(diagnostic, error, "%s: %s", path, why.text);
}

void roster_file_free(roster_file *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self->entries);
    memory_release(&allocator, self);
}

const uint8_t *roster_file_find(const roster_file *self, uint32_t worker)
{
    size_t low = 0, high = self->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->entries[middle].worker == worker)
            return self->entries[middle].fingerprint;
        if (self->entries[middle].worker < worker)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- writing ---- */

static size_t put_bytes(char *at, const uint8_t *bytes, size_t count)
{
    *hex_put(at, bytes, count) = '\n';
    return 2 * count + 1;
}

static size_t put_body(char *bytes, const roster_entry *entries, size_t count, uint64_t number,
                       X509 *authority)
{
    uint8_t fingerprint[CREDENTIAL_FINGERPRINT_BYTES];
    credential_fingerprint(authority, fingerprint);
    size_t size = (size_t)snprintf(bytes, HEAD_BYTES, "%sauthority ", title);
    size += put_bytes(bytes + size, fingerprint, sizeof(fingerprint));
    size += (size_t)snprintf(bytes + size, HEAD_BYTES - size, "number %" PRIu64 "\n", number);
    for (size_t i = 0; i < count; i++) {
        size +=
            (size_t)snprintf(bytes + size, LINE_BYTES, "worker-%" PRIu32 " ", entries[i].worker);
        size += put_bytes(bytes + size, entries[i].fingerprint, CREDENTIAL_FINGERPRINT_BYTES);
    }
    return size;
}

/* Behind the body; gives back its bytes, 0 for a failure. */
static size_t put_signature(char *bytes, size_t size, EVP_PKEY *key)
{
    static const char word[] = "signature ";
    uint8_t signature[SIGNATURE_BYTES];
    size_t length = sizeof(signature);
    if (!bytes_sign(key, bytes, size, signature, &length))
        return 0;
    memcpy(bytes + size, word, sizeof(word) - 1);
    return sizeof(word) - 1 + put_bytes(bytes + size + sizeof(word) - 1, signature, length);
}

int roster_file_encode(const roster_entry *entries, size_t count, uint64_t number, X509 *authority,
                       EVP_PKEY *key, char **bytes, size_t *size, tarry_diagnostic *diagnostic)
{
    const size_t room = HEAD_BYTES + 2 * SIGNATURE_BYTES + (count + 1) * LINE_BYTES;
    char *made = memory_allocate(NULL, room, 1);
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "roster");
    ERR_clear_error();
    size_t body = put_body(made, entries, count, number, authority);
    size_t behind = put_signature(made, body, key);
    if (behind == 0) {
        memory_release(NULL, made);
        return diagnose_openssl(diagnostic, TARRY_ERROR_SYSTEM, "signing a roster");
    }
    *bytes = made;
    *size = body + behind;
    return TARRY_OK;
}
