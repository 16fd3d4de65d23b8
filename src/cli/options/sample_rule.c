/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/sample_rule.h"

#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"
#include "cli/options/gone.h"

int sample_rule_read(const char *text, tarry_server_settings *server, tarry_diagnostic *diagnostic)
{
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    char number[24];
    uint64_t chunks;
    if (colon != NULL && strcmp(colon, ":norm") == 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s': %s", text,
                        gone_option("sample-chunks:norm"));
    if ((colon != NULL && strcmp(colon, ":uniform") != 0) || length >= sizeof(number))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not K or K:uniform", text);
    snprintf(number, sizeof(number), "%.*s", (int)length, text);
    int error = parse_whole(number, 0, UINT32_MAX - 1, &chunks, diagnostic);
    if (error != TARRY_OK)
        return error;
    server->sample_chunks = (uint32_t)chunks;
    return TARRY_OK;
}
