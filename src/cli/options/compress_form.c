/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/compress_form.h"

#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"

#define MILLIONTHS 1e6

static const struct {
    const char *name;
    tarry_compress form;
} forms[] = {
    {"none", TARRY_COMPRESS_NONE}, {"bf16", TARRY_COMPRESS_BF16}, {"int8", TARRY_COMPRESS_INT8},
    {"int4", TARRY_COMPRESS_INT4}, {"sign", TARRY_COMPRESS_SIGN},
};

enum { FIELDS = 3, FIELD_LENGTH = 24 }; /* of F:FIRST:LAST */

/* The fields, of which those that are left out are "0". */
static bool split(const char *text, char fields[FIELDS][FIELD_LENGTH])
{
    for (size_t i = 0; i < FIELDS; i++)
        strcpy(fields[i], "0");
    for (size_t i = 0; i < FIELDS; i++) {
        size_t length = strcspn(text, ":");
        if (length >= FIELD_LENGTH)
            return false;
        memcpy(fields[i], text, length);
        fields[i][length] = '\0';
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
    return false;
}

/* The form, and nothing of any other. */
static void set_form(tarry_compress form, tarry_server_settings *server, uint64_t *last)
{
    server->compress = form;
    server->compress_share = 0;
    server->compress_rank = 0;
    server->compress_first = 0;
    server->compress_from = 0;
    *last = 0;
}

static int read_powersgd(const char *text, tarry_server_settings *server, uint64_t *last,
                         tarry_diagnostic *diagnostic)
{
    uint64_t rank;
    int error = parse_whole(text, 1, TARRY_COMPRESS_RANK_MOST, &rank, diagnostic);
    if (error != TARRY_OK)
        return error;
    set_form(TARRY_COMPRESS_POWERSGD, server, last);
    server->compress_rank = (uint32_t)rank;
    return TARRY_OK;
}

static int read_topk(const char *text, tarry_server_settings *server, uint64_t *last,
                     tarry_diagnostic *diagnostic)
{
    char fields[FIELDS][FIELD_LENGTH];
    double share;
    uint64_t first, end;
    if (!split(text, fields))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not F[:FIRST[:LAST]]", text);
    int error = parse_real(fields[0], 1 / MILLIONTHS, TARRY_COMPRESS_SHARE_MOST / MILLIONTHS, false,
                           &share, diagnostic);
    if (error == TARRY_OK)
        error = parse_whole(fields[1], 0, UINT16_MAX, &first, diagnostic);
    if (error == TARRY_OK)
        error = parse_whole(fields[2], 0, UINT32_MAX, &end, diagnostic);
    if (error != TARRY_OK)
        return error;
    set_form(TARRY_COMPRESS_TOPK, server, last);
    server->compress_share = (uint32_t)lround(share * MILLIONTHS);
    server->compress_first = (uint16_t)first;
    server->compress_from = end > 0 ? UINT64_MAX : 0;
    *last = end;
    return TARRY_OK;
}

void compress_form_end(uint64_t rounds, uint64_t last, tarry_server_settings *server)
{
    server->compress_from = last == 0 ? 0 : rounds > last ? rounds - last : 1;
    if (last > 0 && rounds <= last && server->compress_first == 0)
        server->compress_first = 1;
}

int compress_form_read(const char *text, tarry_server_settings *server, uint64_t *last,
                       tarry_diagnostic *diagnostic)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(text, forms[i].name) != 0)
            continue;
        set_form(forms[i].form, server, last);
        return TARRY_OK;
    }
    if (strncmp(text, "powersgd:", 9) == 0)
        return read_powersgd(text + 9, server, last, diagnostic);
    if (strncmp(text, "topk:", 5) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "'%s' is not one of none, bf16, int8, int4, sign, topk:F, powersgd:R",
                        text);
    return read_topk(text + 5, server, last, diagnostic);
}
