/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/adapt.h"

#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"

#define DEFAULT_SHARE 0.01
#define MOST_ROUNDS 1000000

int adapt_read(const char *text, adapt_rule *rule, tarry_diagnostic *diagnostic)
{
    adapt_rule read = {.share = DEFAULT_SHARE};
    char rounds[32];
    size_t length = strcspn(text, ",");
    uint64_t every;
    if (length >= sizeof(rounds))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%.200s' is not K or K,SHARE", text);
    snprintf(rounds, sizeof(rounds), "%.*s", (int)length, text);
    int error = parse_whole(rounds, 0, MOST_ROUNDS, &every, diagnostic);
    if (error == TARRY_OK && text[length] == ',')
        error = parse_real(text + length + 1, 0, 1, false, &read.share, diagnostic);
    if (error != TARRY_OK)
        return error;
    read.every = (uint32_t)every;
    *rule = read;
    return TARRY_OK;
}

bool adapt_due(const adapt_rule *rule, uint64_t round)
{
    return rule->every != 0 && round > 0 && round % rule->every == 0;
}
