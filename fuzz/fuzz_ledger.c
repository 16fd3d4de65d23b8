/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are refused, or read as a ledger that counts every release of which a whole entry is
 * there, but perhaps the last, which may be torn. Half of the inputs are changes to a ledger that
 * was good, cut off anywhere.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "fuzz_input.h"
#include "release/ledger_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RELEASES = 8, GOOD_BYTES = LEDGER_HEAD_BYTES + RELEASES * LEDGER_ENTRY_BYTES };

static const ledger_terms terms = {.clip = 1, .noise = 1.5, .sample = 0.25};

static const uint8_t *good_ledger(void)
{
    static uint8_t bytes[GOOD_BYTES];
    static bool made;
    if (made)
        return bytes;
    char path[] = "/tmp/tarry-fuzz-XXXXXX"; /* no link, as those of fuzz_file.h are */
    const int descriptor = mkstemp(path);
    ledger_file *ledger;
    require(descriptor >= 0);
    require(ledger_file_open(path, false, &terms, &ledger, NULL) == TARRY_OK);
    for (int i = 0; i < RELEASES; i++)
        require(ledger_file_add(ledger, NULL) == TARRY_OK);
    ledger_file_close(ledger);
    require(pread(descriptor, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    close(descriptor);
    unlink(path);
    made = true;
    return bytes;
}

/* How many entries from the first on are as they were written. */
static uint64_t whole_entries(const uint8_t *bytes, size_t size)
{
    uint64_t count = 0;
    for (size_t at = LEDGER_HEAD_BYTES; at + LEDGER_ENTRY_BYTES <= size && at < GOOD_BYTES;
         at += LEDGER_ENTRY_BYTES, count++)
        if (memcmp(bytes + at, good_ledger() + at, LEDGER_ENTRY_BYTES) != 0)
            break;
    return count;
}

static void check(const uint8_t *bytes, size_t size)
{
    uint64_t releases = UINT64_MAX;
    tarry_diagnostic why;
    if (ledger_file_read(bytes, size, &terms, &releases, &why) != TARRY_OK) {
        require(releases == UINT64_MAX && why.text[0] != '\0');
        return;
    }
    require(size >= LEDGER_HEAD_BYTES);
    const uint64_t room = (size - LEDGER_HEAD_BYTES) / LEDGER_ENTRY_BYTES;
    require(releases <= room && releases + 1 >= room);
    require(releases >= whole_entries(bytes, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    if (take(&in) % 2 == 0) {
        check(in.data, in.left);
        return 0;
    }
    const size_t kept = take(&in) % (GOOD_BYTES + 1u);
    uint8_t *copy = memory_allocate(NULL, kept + 1, 1);
    require(copy != NULL);
    memcpy(copy, good_ledger(), kept);
    const bool changed = in.left > 0;
    if (kept > 0)
        take_patches(&in, copy, kept);
    uint64_t releases;
    if (!changed && kept >= LEDGER_HEAD_BYTES)
        require(ledger_file_read(copy, kept, &terms, &releases, NULL) == TARRY_OK &&
                releases == (kept - LEDGER_HEAD_BYTES) / LEDGER_ENTRY_BYTES);
    check(copy, kept);
    memory_release(NULL, copy);
    return 0;
}
