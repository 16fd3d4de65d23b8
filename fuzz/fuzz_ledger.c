/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are refused, or read as a ledger that counts each whole entry, and a part of an entry
 * at the end. Half of the inputs are changes to a ledger that was good, cut off anywhere.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "fuzz_input.h"
#include "release/dp.h"

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

static uint64_t releases_of(const ledger_content *content)
{
    return content->whole + content->torn;
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

/* How many entries the bytes are, with one that is cut off. */
static uint64_t room_of(size_t size)
{
    return (size - LEDGER_HEAD_BYTES + LEDGER_ENTRY_BYTES - 1) / LEDGER_ENTRY_BYTES;
}

static void check(const uint8_t *bytes, size_t size)
{
    ledger_content content = {.whole = UINT64_MAX};
    tarry_diagnostic why;
    if (ledger_file_read(bytes, size, &terms, &content, &why) != TARRY_OK) {
        require(content.whole == UINT64_MAX && why.text[0] != '\0');
        return;
    }
    require(size >= LEDGER_HEAD_BYTES);
    require(releases_of(&content) == room_of(size));
    if (memcmp(bytes, good_ledger(), LEDGER_HEAD_BYTES) == 0)
        require(content.whole >= whole_entries(bytes, size));
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
    ledger_content content;
    if (!changed && kept >= LEDGER_HEAD_BYTES)
        require(ledger_file_read(copy, kept, &terms, &content, NULL) == TARRY_OK &&
                releases_of(&content) == room_of(kept));
    check(copy, kept);
    memory_release(NULL, copy);
    return 0;
}
