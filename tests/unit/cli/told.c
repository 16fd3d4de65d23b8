/* SPDX-License-Identifier: Apache-2.0 */
#include "told.h"

#include <tarry/runtime.h>

#include "test.h"

static void describe(void *user, status_worker *out)
{
    const status_worker *workers = user;
    const uint32_t id = out->id;
    *out = workers[id];
    out->id = id;
}

void tell_top(top_run *its, const status_run *run, const status_worker *workers, uint64_t now_ns)
{
    tarry_diagnostic why;
    record_out out = {.size =
                          TARRY_STATUS_BYTES + (size_t)run->workers * TARRY_STATUS_WORKER_BYTES};
    out.text = checked_malloc(out.size);
    assert_true(status_write(run, run->workers, describe, (void *)workers, &out));
    if (top_run_read(its, out.text, out.length, now_ns, &why) != TARRY_OK)
        fail_msg("%s: %.*s", why.text, (int)out.length, out.text);
    assert_int_equal(its->status.workers, run->workers);
    free(out.text);
}
