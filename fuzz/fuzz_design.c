/* SPDX-License-Identifier: Apache-2.0 */
/* Any file is refused, or read as an assignment: no chunk twice at a worker, none at too few. The
 * first bytes choose the sizes. */
#include <string.h>

#include "base/memory.h"
#include "fuzz_file.h"
#include "fuzz_input.h"
#include "plan/design.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_assignment(tarry_plan *plan, const tarry_plan_settings *settings)
{
    require(plan->chunks == settings->chunks * settings->pieces);
    require(plan_arrange(plan, TARRY_ORDER_AS_IS) == TARRY_OK);
    require(plan->min_replication >= settings->parts);
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        for (uint32_t i = plan->chunk_offset[chunk] + 1; i < plan->chunk_offset[chunk + 1]; i++)
            require(plan->holder_worker[i - 1] < plan->holder_worker[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.design = TARRY_DESIGN_FILE;
    settings.workers = 1 + take(&in) % 16;
    settings.chunks = 1 + take(&in);
    settings.parts = 1 + take(&in) % settings.workers;
    settings.pieces = 1 + take(&in) % 4;
    fuzz_file file = file_make(in.data, in.left);
    settings.file = file.path;

    tarry_plan *plan = memory_allocate(NULL, 1, sizeof(*plan));
    require(plan != NULL);
    plan->allocator = memory_allocator(NULL);
    plan->workers = settings.workers;
    plan->chunks = settings.chunks;
    plan->pieces = settings.pieces;
    plan->parts = settings.parts;
    tarry_diagnostic diagnostic;
    if (design_assign(plan, &settings, &diagnostic) == TARRY_OK)
        check_assignment(plan, &settings);
    tarry_plan_free(plan);
    file_remove(&file);
    return 0;
}
