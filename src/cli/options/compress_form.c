/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/compress_form.h"

#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "cli/options/parse.h"

#define MILLIONTHS 1e6

static const struct {
    const char *name;
    tarry_compress form;
} forms[] = {
    {"none", TARRY_COMPRESS_NONE}, {"bf16", TARRY_COMPRESS_BF16}, {"int8", TARRY_COMPRESS_INT8},
    {"int4", TARRY_COMPRESS_INT4}, {"sign", TARRY_COMPRESS_SIGN},
};

int compress_form_read(const char *text, tarry_server_settings *server,
                       tarry_diagnostic *diagnostic)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(text, forms[i].name) != 0)
            continue;
        server->compress = forms[i].form;
        server->compress_share = 0;
        return TARRY_OK;
    }
    if (strncmp(text, "topk:", 5) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "'%s' is not one of none, bf16, int8, int4, sign, topk:F", text);
    double share;
    int error = parse_real(text + 5, 1 / MILLIONTHS, TARRY_COMPRESS_SHARE_MOST / MILLIONTHS, false,
                           &share, diagnostic);
    if (error != TARRY_OK)
        return error;
    server->compress = TARRY_COMPRESS_TOPK;
    server->compress_share = (uint32_t)lround(share * MILLIONTHS);
    return TARRY_OK;
}
