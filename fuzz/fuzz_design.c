/* SPDX-License-Identifier: Apache-2.0 */
/* Any file is refused, or read as an assignment, with no chunk twice at a worker and none at too
 * few, or as the names of racks. The first bytes choose the sizes and which of the two. */
#include <string.h>

#include "base/memory.h"
#include "fuzz_file.h"
#include "fuzz_input.h"
#include "plan/design/design.h"
#include "plan/rack/rack.h"

static void check_assignment(tarry_plan *plan, const tarry_plan_settings *settings)
{
    require(plan->chunks == settings->chunks * settings->pieces);
    require(plan_arrange(plan, TARRY_ORDER_AS_IS) == TARRY_OK);
    require(plan->min_replication >= settings->parts);
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        for (uint32_t i = plan->chunk_offset[chunk] + 1; i < plan->chunk_offset[chunk + 1]; i++)
            require(plan->holder_worker[i - 1] < plan->holder_worker[i]);
}

/* Numbered as they first occur. */
static void check_racks(const tarry_plan *plan)
{
    uint32_t racks = 0;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        require(plan->rack[worker] <= racks);
        racks += plan->rack[worker] == racks ? 1 : 0;
    }
    require(racks == plan->racks);
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
    uint8_t how = take(&in);
    settings.pieces = 1 + how % 4;
    bool racks = how >= 0xc0;
    fuzz_file file = file_make(in.data, in.left);
    if (racks)
        settings.rack_file = file.path;
    else
        settings.file = file.path;

    tarry_plan *plan = memory_allocate(NULL, 1, sizeof(*plan));
    require(plan != NULL);
    plan->allocator = memory_allocator(NULL);
    plan->workers = settings.workers;
    plan->chunks = settings.chunks;
    plan->pieces = settings.pieces;
    plan->parts = settings.parts;
    tarry_diagnostic diagnostic;
    if (racks && rack_assign(plan, &settings, &diagnostic) == TARRY_OK)
        check_racks(plan);
    if (!racks && design_assign(plan, &settings, &diagnostic) == TARRY_OK)
        check_assignment(plan, &settings);
    tarry_plan_free(plan);
    file_remove(&file);
    return 0;
}
