/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/share.h"

#include <openssl/rand.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/hex.h"
#include "memory/sealed.h"

#define PREFIX "tarry-"
#define DIGITS "0123456789"

enum {
    RANDOM_BYTES = 16,
    TOKEN_BYTES = 2 * RANDOM_BYTES + 1,
    LABEL_BYTES = sizeof(PREFIX) + TOKEN_BYTES,
    PATH_BYTES = 40,
    STEP_BYTES = 4 << 20, /* of a long copy: at most some tens of milliseconds */
    TARGET_BYTES = 80,
};

/* A sequence lock: odd while the numbers are being written, and different afterwards. */
typedef struct head {
    _Atomic uint64_t sequence;
    _Atomic uint64_t round;
} head;

_Static_assert(sizeof(head) <= SHARE_HEAD_BYTES, "the numbers stand behind the head");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "two processes don't share a lock");

void share_host(uint8_t host[SHARE_HOST_BYTES])
{
    uint8_t text[SEALED_BOOT_BYTES], whole[32];
    memset(host, 0, SHARE_HOST_BYTES);
    if (sealed_boot(text) && digest_of_bytes(text, SEALED_BOOT_BYTES, whole) == 0)
        memcpy(host, whole, SHARE_HOST_BYTES);
}

static bool draw_token(char token[TOKEN_BYTES])
{
    uint8_t random[RANDOM_BYTES];
    if (RAND_bytes(random, sizeof(random)) != 1)
        return false;
    hex_put(token, random, sizeof(random));
    return true;
}

int share_create(size_t bytes, const sealed_pause *pause, share *made)
{
    share created = {0};
    char token[TOKEN_BYTES], label[LABEL_BYTES];
    if (bytes == 0 || !draw_token(token))
        return TARRY_ERROR_SYSTEM;
    snprintf(label, sizeof(label), PREFIX "%s", token);
    int error = sealed_make(label, bytes, SEALED_WRITE, pause, &created.memory, &created.fd);
    if (error != TARRY_OK)
        return error;
    created.bytes = bytes;
    snprintf(created.name, sizeof(created.name), "%ld/%d/%s", (long)getpid(), created.fd, token);
    *made = created;
    return TARRY_OK;
}

/* Takes a name apart: where its maker has it open, and what the kernel says of it there. */
static bool read_name(const char *name, char path[PATH_BYTES], char target[TARGET_BYTES])
{
    size_t process = strspn(name, DIGITS);
    const char *number = name + process + 1;
    if (process == 0 || process > 10 || name[process] != '/')
        return false;
    size_t digits = strspn(number, DIGITS);
    const char *token = number + digits + 1;
    if (digits == 0 || digits > 10 || number[digits] != '/' || strlen(token) != TOKEN_BYTES - 1 ||
        strspn(token, DIGITS "abcdef") != TOKEN_BYTES - 1)
        return false;
    snprintf(path, PATH_BYTES, "/proc/%.*s/fd/%.*s", (int)process, name, (int)digits, number);
    snprintf(target, TARGET_BYTES, "/memfd:" PREFIX "%s (deleted)", token);
    return true;
}

/* The number of a process may mean another one here, in a container. */
static bool is_meant(const char *path, const char *target)
{
    char found[TARGET_BYTES];
    ssize_t length = readlink(path, found, sizeof(found));
    return length == (ssize_t)strlen(target) && memcmp(found, target, (size_t)length) == 0;
}

int share_open(const char *name, size_t bytes, uid_t owner, share *opened)
{
    share found = {0};
    char path[PATH_BYTES], target[TARGET_BYTES];
    if (!read_name(name, path, target))
        return TARRY_ERROR_FORMAT;
    if (!is_meant(path, target))
        return TARRY_ERROR_SYSTEM;
    int error = sealed_open(path, bytes, owner, SEALED_WRITE, &found.memory);
    if (error != TARRY_OK)
        return error;
    found.bytes = bytes;
    *opened = found;
    return TARRY_OK;
}

void share_unlink(share *self)
{
    if (self->name[0] != '\0')
        close(self->fd);
    self->name[0] = '\0';
}

void share_close(share *self)
{
    share_unlink(self);
    if (self->memory != NULL)
        munmap(self->memory, self->bytes);
    *self = (share){0};
}

/* ---- parameters ---- */

size_t share_parameters_bytes(size_t count)
{
    return SHARE_HEAD_BYTES + count * sizeof(float);
}

static void copy_in_steps(void *to, const void *from, size_t bytes, const sealed_pause *pause)
{
    for (size_t at = 0; at < bytes; at += STEP_BYTES) {
        size_t rest = bytes - at;
        memcpy((uint8_t *)to + at, (const uint8_t *)from + at,
               rest < STEP_BYTES ? rest : STEP_BYTES);
        if (pause != NULL && rest > STEP_BYTES)
            pause->call(pause->user);
    }
}

void share_publish(share *self, uint64_t round, const float *numbers, size_t count,
                   const sealed_pause *pause)
{
    head *at = self->memory;
    /* What follows does not overtake it. */
    atomic_fetch_add_explicit(&at->sequence, 1, memory_order_acq_rel);
    atomic_store_explicit(&at->round, round, memory_order_relaxed);
    copy_in_steps((uint8_t *)self->memory + SHARE_HEAD_BYTES, numbers, count * sizeof(*numbers),
                  pause);
    atomic_fetch_add_explicit(&at->sequence, 1, memory_order_release);
}

bool share_copy(const share *self, uint64_t round, float *numbers, size_t count,
                const sealed_pause *pause)
{
    head *at = self->memory;
    uint64_t sequence = atomic_load_explicit(&at->sequence, memory_order_acquire);
    if (sequence % 2 != 0 || sequence == 0 ||
        atomic_load_explicit(&at->round, memory_order_relaxed) != round)
        return false;
    copy_in_steps(numbers, (const uint8_t *)self->memory + SHARE_HEAD_BYTES,
                  count * sizeof(*numbers), pause);
    /* Order the copy before re-reading the sequence number. */
    return atomic_fetch_add_explicit(&at->sequence, 0, memory_order_acq_rel) == sequence;
}
