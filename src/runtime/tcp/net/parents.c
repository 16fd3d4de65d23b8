/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/parents.h"

#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/tcp/net/address.h"

static char *text_at(const parents *self, uint32_t at)
{
    return self->texts + (size_t)at * PARENTS_TEXT_BYTES;
}

/* The next address of a list, up to a comma or the end. False: there is none, or it is too long,
 * and `text` has its beginning. */
static bool take(const char **list, char text[PARENTS_TEXT_BYTES])
{
    size_t length = strcspn(*list, ",");
    size_t kept = length < PARENTS_TEXT_BYTES ? length : PARENTS_TEXT_BYTES - 1;
    memcpy(text, *list, kept);
    text[kept] = '\0';
    *list += length;
    if (**list == ',')
        (*list)++;
    return kept == length;
}

int parents_check(const char *list, tarry_diagnostic *diagnostic)
{
    char text[PARENTS_TEXT_BYTES];
    uint32_t count = 0;
    bool more = true;
    while (more) {
        const char *at = list;
        if (!take(&list, text))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%.60s...: too long for an address",
                            text);
        int error = address_check(text, false, diagnostic);
        if (error != TARRY_OK)
            return error;
        if (++count > PARENTS_MOST)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "more than %d addresses", PARENTS_MOST);
        more = at[strlen(text)] == ',';
    }
    return TARRY_OK;
}

/* Whether one of the first `count` is of that text. */
static bool has(const parents *self, uint32_t count, const char *text)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(text_at(self, i), text) == 0)
            return true;
    return false;
}

static void add(parents *self, const char *text)
{
    if (self->count < PARENTS_MOST && !has(self, self->count, text))
        strcpy(text_at(self, self->count++), text);
}

int parents_init(parents *self, const char *list, const tarry_allocator *allocator)
{
    *self = (parents){.texts = memory_allocate(allocator, PARENTS_MOST, PARENTS_TEXT_BYTES)};
    if (self->texts == NULL)
        return TARRY_ERROR_NO_MEMORY;
    char text[PARENTS_TEXT_BYTES];
    while (*list != '\0' && take(&list, text))
        add(self, text);
    self->given = self->count;
    parents_settle(self);
    return TARRY_OK;
}

void parents_destroy(parents *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->texts);
    self->texts = NULL;
}

const char *parents_text(const parents *self, uint32_t at)
{
    return text_at(self, at);
}

const char *parents_current(const parents *self)
{
    return text_at(self, self->current);
}

bool parents_next(parents *self)
{
    if (self->untried == 0) {
        self->current = 0;
        return false;
    }
    self->untried--;
    self->current = (self->current + 1) % self->count;
    return true;
}

bool parents_close(parents *self)
{
    self->closed |= 1U << self->current;
    return self->closed == (1U << self->count) - 1;
}

void parents_choose(parents *self, const char *text)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (strcmp(text_at(self, i), text) == 0)
            self->current = i;
}

void parents_settle(parents *self)
{
    self->untried = self->count - 1;
}

/* The current one, if it is of those that go, takes the first place behind those that were given.
 */
void parents_learn(parents *self, const char *list)
{
    char text[PARENTS_TEXT_BYTES];
    if (self->current >= self->given && self->current != self->given)
        memmove(text_at(self, self->given), text_at(self, self->current), PARENTS_TEXT_BYTES);
    bool keeps = self->current >= self->given;
    self->current = keeps ? self->given : self->current;
    self->closed &= (1U << self->given) - 1;
    self->count = self->given + keeps;
    while (*list != '\0')
        if (take(&list, text) && address_check(text, false, NULL) == TARRY_OK)
            add(self, text);
    parents_settle(self);
}
