/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_links.h"

#include <string.h>

#include "base/diagnostic.h"
#include "base/random.h"
#include "cli/options/parse.h"
#include "cli/simulate/simulate_schemes.h"

int slow_links_read(const char *text, slow_links *links, tarry_diagnostic *diagnostic)
{
    char count[32];
    const char *comma = strchr(text, ',');
    uint64_t whole;
    double factor;
    if (comma == NULL || (size_t)(comma - text) >= sizeof(count))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not K,FACTOR", text);
    memcpy(count, text, (size_t)(comma - text));
    count[comma - text] = '\0';
    int error = parse_whole(count, 0, SIMULATE_MOST_COUNT, &whole, diagnostic);
    if (error == TARRY_OK)
        error = parse_real(comma + 1, 1, 1e9, false, &factor, diagnostic);
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
