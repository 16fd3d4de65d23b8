/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FIXED = F_SEAL_SHRINK | F_SEAL_GROW,
    STEP_BYTES = 64 << 20, /* that the kernel zeroes at a time */
};

/* What the system's last refusal was about: this process's own memory, mappings or descriptors, or
 * something else. */
static int refusal(int number)
{
    bool lacks = number == ENOMEM || number == ENOSPC || number == EMFILE || number == ENFILE;
    return lacks ? TARRY_ERROR_NO_MEMORY : TARRY_ERROR_SYSTEM;
}

static int map(int file, size_t bytes, int protection, void **memory)
{
    void *at = mmap(NULL, bytes, protection, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        return refusal(errno);
    *memory = at;
    return TARRY_OK;
}

/* In steps, as the kernel zeroes what it reserves. */
static int reserve(int file, size_t bytes, const sealed_pause *pause)
{
    if (bytes == 0 || bytes > INT64_MAX || fchmod(file, S_IRUSR | S_IWUSR) != 0)
        return TARRY_ERROR_SYSTEM;
    for (size_t at = 0; at < bytes; at += STEP_BYTES) {
        size_t rest = bytes - at, step = rest < STEP_BYTES ? rest : STEP_BYTES;
        int number = posix_fallocate(file, (off_t)at, (off_t)step);
        if (number != 0)
            return refusal(number);
        if (pause != NULL && rest > step)
            pause->call(pause->user);
    }
    return TARRY_OK;
}

int sealed_make(const char *label, size_t bytes, sealed_access others, const sealed_pause *pause,
                void **memory, int *file)
{
    int made = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return refusal(errno);
    void *mapped;
    int error = reserve(made, bytes, pause);
    if (error == TARRY_OK)
        error = map(made, bytes, PROT_READ | PROT_WRITE, &mapped);
    /* Mappings from before this seal can be written. */
    int seals = FIXED | F_SEAL_SEAL | (others == SEALED_READ ? F_SEAL_FUTURE_WRITE : 0);
    if (error == TARRY_OK && fcntl(made, F_ADD_SEALS, seals) != 0) {
        munmap(mapped, bytes);
        error = TARRY_ERROR_SYSTEM;
    }
    if (error != TARRY_OK) {
        close(made);
        return error;
    }
    *memory = mapped;
    *file = made;
    return TARRY_OK;
}

static bool is_sound(int file, size_t bytes, uid_t owner)
{
    struct stat what;
    int seals = fcntl(file, F_GET_SEALS);
    return fstat(file, &what) == 0 && S_ISREG(what.st_mode) && what.st_uid == owner && bytes > 0 &&
           (uintmax_t)what.st_size == bytes && seals >= 0 && (seals & FIXED) == FIXED;
}

int sealed_open(const char *path, size_t bytes, uid_t owner, sealed_access access, void **memory)
{
    bool writes = access == SEALED_WRITE;
    /* Whatever else the path leads to is neither waited for nor becomes this process's terminal. */
    int file = open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return refusal(errno);
    int error = TARRY_ERROR_FORMAT;
    if (is_sound(file, bytes, owner))
        error = map(file, bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ, memory);
    close(file);
    return error;
}

bool sealed_boot(uint8_t text[SEALED_BOOT_BYTES])
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t got = read(file, text, SEALED_BOOT_BYTES);
    close(file);
    return got == SEALED_BOOT_BYTES;
}
