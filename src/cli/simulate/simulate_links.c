/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_links.h"

#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"
#include "base/random.h"
#include "cli/simulate/simulate_schemes.h"

enum { FIRST_SIZE = 32 };

/* Cuts the text at its comma; what is behind it, or NULL after a complaint. */
static const char *cut(const char *text, char first[FIRST_SIZE], const char *form,
                       tarry_diagnostic *diagnostic)
{
    const char *comma = strchr(text, ',');
    if (comma == NULL || (size_t)(comma - text) >= FIRST_SIZE) {
        diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not %s", text, form);
        return NULL;
    }
    memcpy(first, text, (size_t)(comma - text));
    first[comma - text] = '\0';
    return comma + 1;
}

int slow_links_read(const char *text, slow_links *links, tarry_diagnostic *diagnostic)
{
    char count[FIRST_SIZE];
    const char *second = cut(text, count, "K,FACTOR", diagnostic);
    uint64_t whole;
    double factor;
    if (second == NULL)
        return TARRY_ERROR_FORMAT;
    int error = parse_whole(count, 0, SIMULATE_MOST_COUNT, &whole, diagnostic);
    if (error == TARRY_OK)
        error = parse_real(second, 1, 1e9, false, &factor, diagnostic);
    if (error == TARRY_OK)
        *links = (slow_links){(uint32_t)whole, factor};
    return error;
}

void slow_links_draw(const slow_links *links, uint64_t seed, uint32_t workers, double *factor,
                     uint32_t *order)
{
    random_stream stream = random_stream_make(seed, RANDOM_LINK, 0, 0);
    for (uint32_t worker = 0; worker < workers; worker++) {
        factor[worker] = 1;
        order[worker] = worker;
    }
    random_shuffle(&stream, order, workers);
    for (uint32_t i = 0; i < links->count; i++)
        factor[order[i]] = links->factor;
}

int jitter_links_read(const char *text, jitter_links *links, tarry_diagnostic *diagnostic)
{
    char mean[FIRST_SIZE];
    const char *second = cut(text, mean, "SECONDS,SD", diagnostic);
    if (second == NULL)
        return TARRY_ERROR_FORMAT;
    int error = parse_real(mean, 0, SIMULATE_MOST_SECONDS, false, &links->mean, diagnostic);
    return error == TARRY_OK ? parse_real(second, 0, 1e6, false, &links->spread, diagnostic)
                             : error;
}
