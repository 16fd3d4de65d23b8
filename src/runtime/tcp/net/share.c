/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/share.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"

#define PREFIX "tarry-"
#define DIGITS "0123456789"

enum {
    RANDOM_BYTES = 16,
    TOKEN_BYTES = 2 * RANDOM_BYTES + 1,
    LABEL_BYTES = sizeof(PREFIX) + TOKEN_BYTES,
    PATH_BYTES = 40,
    TARGET_BYTES = 80,
    BOOT_ID_BYTES = 36,
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
    uint8_t text[BOOT_ID_BYTES], whole[32];
    memset(host, 0, SHARE_HOST_BYTES);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t got = read(fd, text, sizeof(text));
    close(fd);
    if (got == BOOT_ID_BYTES && digest_of_bytes(text, BOOT_ID_BYTES, whole) == 0)
        memcpy(host, whole, SHARE_HOST_BYTES);
}

static int map(int fd, size_t bytes, share *mapped)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return TARRY_ERROR_SYSTEM;
    mapped->memory = memory;
    mapped->bytes = bytes;
    return TARRY_OK;
}

/* fallocate, so that a lack of memory shows here and not when the numbers are written. */
static bool reserve(int fd, size_t bytes)
{
    return bytes <= INT64_MAX && fchmod(fd, S_IRUSR | S_IWUSR) == 0 &&
           posix_fallocate(fd, 0, (off_t)bytes) == 0 &&
           fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

static bool draw_token(char token[TOKEN_BYTES])
{
    uint8_t random[RANDOM_BYTES];
    if (RAND_bytes(random, sizeof(random)) != 1)
        return false;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    return true;
}

int share_create(size_t bytes, share *made)
{
    share created = {0};
    char token[TOKEN_BYTES], label[LABEL_BYTES];
    if (bytes == 0 || !draw_token(token))
        return TARRY_ERROR_SYSTEM;
    snprintf(label, sizeof(label), PREFIX "%s", token);
    int fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return TARRY_ERROR_SYSTEM;
    int error = reserve(fd, bytes) ? map(fd, bytes, &created) : TARRY_ERROR_SYSTEM;
    if (error != TARRY_OK) {
        close(fd);
        return error;
    }
    created.fd = fd;
    snprintf(created.name, sizeof(created.name), "%ld/%d/%s", (long)getpid(), fd, token);
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
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return TARRY_ERROR_SYSTEM;
    struct stat what;
    int error = TARRY_ERROR_SYSTEM;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &what) == 0)
        error = S_ISREG(what.st_mode) && what.st_uid == owner && bytes > 0 &&
                        (uintmax_t)what.st_size == bytes && seals >= 0 &&
                        (seals & F_SEAL_SHRINK) != 0
                    ? map(fd, bytes, &found)
                    : TARRY_ERROR_FORMAT;
    close(fd);
    if (error == TARRY_OK)
        *opened = found;
    return error;
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

void share_publish(share *self, uint64_t round, const float *numbers, size_t count)
{
    head *at = self->memory;
    /* What follows does not overtake it. */
    atomic_fetch_add_explicit(&at->sequence, 1, memory_order_acq_rel);
    atomic_store_explicit(&at->round, round, memory_order_relaxed);
    memcpy((uint8_t *)self->memory + SHARE_HEAD_BYTES, numbers, count * sizeof(*numbers));
    atomic_fetch_add_explicit(&at->sequence, 1, memory_order_release);
}

bool share_copy(const share *self, uint64_t round, float *numbers, size_t count)
{
    head *at = self->memory;
    uint64_t sequence = atomic_load_explicit(&at->sequence, memory_order_acquire);
    if (sequence % 2 != 0 || sequence == 0 ||
        atomic_load_explicit(&at->round, memory_order_relaxed) != round)
        return false;
    memcpy(numbers, (const uint8_t *)self->memory + SHARE_HEAD_BYTES, count * sizeof(*numbers));
    /* What was read before it is not read after it. */
    return atomic_fetch_add_explicit(&at->sequence, 0, memory_order_acq_rel) == sequence;
}
