/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/round_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/checkpoint/history.h"
#include "file/whole_file.h"

#define BLOCK_BYTES (ROUND_STORE_BLOCK * sizeof(history_round))

struct round_store {
    int file;             /* -1: none */
    size_t count;         /* rounds */
    size_t written;       /* blocks in the file; later ones are in memory */
    history_round **kept; /* the blocks from `written` on; the last one may be incomplete */
    size_t kept_count;
    size_t kept_room;
    history_round *read; /* a block of the file */
    size_t read_block;   /* its number plus 1; 0: none was read */
};

int round_store_create(round_store **out)
{
    round_store *self = memory_allocate(NULL, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->file = -1;
    *out = self;
    return TARRY_OK;
}

void round_store_clear(round_store *self)
{
    for (size_t i = 0; i < self->kept_count; i++)
        memory_release(NULL, self->kept[i]);
    self->count = self->written = self->kept_count = self->read_block = 0;
}

void round_store_free(round_store *self)
{
    if (self == NULL)
        return;
    round_store_clear(self);
    if (self->file >= 0)
        close(self->file);
    memory_release(NULL, self->kept);
    memory_release(NULL, self->read);
    memory_release(NULL, self);
}

/* A file without a name, which vanishes however this process ends; -1: the folder can't hold it. */
static int open_nameless(const char *folder)
{
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return file;
    char path[4096];
    const int size = snprintf(path, sizeof(path), "%s/.tarry-rounds-XXXXXX", folder);
    if (size < 0 || (size_t)size >= sizeof(path))
        return -1;
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0)
        unlink(path);
    return file;
}

static int open_beside(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return -1; /* the folders of devices are in memory */
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof(folder))
        return -1;
    if (slash != NULL)
        memcpy(folder, path, length);
    folder[length] = '\0';
    return open_nameless(folder);
}

void round_store_use_file(round_store *self, const char *path)
{
    const char *folder = getenv("TMPDIR");
    self->file = open_beside(path);
    if (self->file < 0 && folder != NULL && *folder != '\0')
        self->file = open_nameless(folder);
    if (self->file < 0)
        self->file = open_nameless("/tmp");
}

static int add_block(round_store *self)
{
    if (self->kept_count == self->kept_room) {
        const size_t room = self->kept_room == 0 ? 8 : 2 * self->kept_room;
        history_round **grown =
            memory_grow(NULL, self->kept, self->kept_count, room, sizeof(history_round *));
        if (grown == NULL)
            return TARRY_ERROR_NO_MEMORY;
        self->kept = grown;
        self->kept_room = room;
    }
    history_round *block = memory_allocate(NULL, ROUND_STORE_BLOCK, sizeof(*block));
    if (block == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->kept[self->kept_count++] = block;
    return TARRY_OK;
}

/* Blocks follow each other in the file: one that can't be written keeps later ones in memory. */
static void write_block(round_store *self)
{
    if (self->file < 0 || self->kept_count != 1 ||
        !whole_file_write_at(self->file, (const uint8_t *)self->kept[0], BLOCK_BYTES,
                             self->written * BLOCK_BYTES))
        return;
    memory_release(NULL, self->kept[0]);
    self->kept_count = 0;
    self->written++;
}

int round_store_add(round_store *self, const history_round *round)
{
    const size_t place = self->count % ROUND_STORE_BLOCK;
    if (place == 0 && add_block(self) != TARRY_OK)
        return TARRY_ERROR_NO_MEMORY;
    self->kept[self->kept_count - 1][place] = *round;
    self->count++;
    if (place == ROUND_STORE_BLOCK - 1)
        write_block(self);
    return TARRY_OK;
}

static bool read_block(round_store *self, size_t number)
{
    size_t done = 0;
    self->read_block = 0;
    while (done < BLOCK_BYTES) {
        const ssize_t size = pread(self->file, (uint8_t *)self->read + done, BLOCK_BYTES - done,
                                   (off_t)(number * BLOCK_BYTES + done));
        if (size < 0 && errno == EINTR)
            continue;
        if (size == 0)
            errno = EIO; /* it was written whole */
        if (size <= 0)
            return false;
        done += (size_t)size;
    }
    self->read_block = number + 1;
    return true;
}

int round_store_get(round_store *self, size_t index, history_round *out)
{
    const size_t block = index / ROUND_STORE_BLOCK, place = index % ROUND_STORE_BLOCK;
    if (block >= self->written) {
        *out = self->kept[block - self->written][place];
        return TARRY_OK;
    }
    if (self->read == NULL)
        self->read = memory_allocate(NULL, ROUND_STORE_BLOCK, sizeof(*self->read));
    if (self->read == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (self->read_block != block + 1 && !read_block(self, block))
        return TARRY_ERROR_FILE;
    *out = self->read[place];
    return TARRY_OK;
}
