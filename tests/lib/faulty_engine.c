/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_engine.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/clock.h"

typedef struct faulty_engine {
    tarry_engine base;
    tarry_engine *inner;
    tarry_allocator allocator;
    faulty_point point;
    bool struck;
    bool hangs; /* the sum in progress */
    tarry_engine_sum sum;
    tarry_engine_progress last;
    _Atomic bool woken;
} faulty_engine;

static faulty_engine *of_base(tarry_engine *base)
{
    return (faulty_engine *)base;
}

/* Whether a fault of this kind is due; it comes once. */
static bool strikes(faulty_engine *engine, faulty_kind kind)
{
    if (engine->point.kind != kind)
        return false;
    engine->point.kind = FAULTY_NONE;
    engine->struck = true;
    return true;
}

static void give_address(tarry_engine *base, uint8_t *bytes, size_t *size)
{
    of_base(base)->inner->methods->address(of_base(base)->inner, bytes, size);
}

static void abandon(tarry_engine *base)
{
    faulty_engine *engine = of_base(base);
    engine->hangs = false;
    engine->last =
        (tarry_engine_progress){.state = TARRY_ENGINE_IDLE, .suspect = TARRY_ENGINE_NOBODY};
    engine->inner->methods->abandon(engine->inner);
}

static int form(tarry_engine *base, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    faulty_engine *engine = of_base(base);
    abandon(base);
    if (!strikes(engine, FAULTY_FORM))
        return engine->inner->methods->form(engine->inner, group, diagnostic);
    if (diagnostic != NULL)
        snprintf(diagnostic->text, sizeof(diagnostic->text), "group: a planted fault");
    return TARRY_ERROR_SYSTEM;
}

static int start(tarry_engine *base, const tarry_engine_sum *sum)
{
    faulty_engine *engine = of_base(base);
    if (strikes(engine, FAULTY_START))
        return TARRY_ERROR_NO_MEMORY;
    int error = engine->inner->methods->start(engine->inner, sum);
    if (error != TARRY_OK)
        return error;
    engine->sum = *sum;
    engine->last =
        (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING, .suspect = TARRY_ENGINE_NOBODY};
    return TARRY_OK;
}

static void fail_sum(faulty_engine *engine)
{
    engine->inner->methods->abandon(engine->inner);
    engine->last.state = TARRY_ENGINE_FAILED;
    engine->last.suspect = engine->point.suspect;
    snprintf(engine->last.why, sizeof(engine->last.why), "a planted fault");
}

static bool is_due(const faulty_engine *engine)
{
    return engine->last.moved >= engine->point.after || engine->last.state == TARRY_ENGINE_DONE;
}

static void strike(faulty_engine *engine)
{
    if (engine->last.state == TARRY_ENGINE_DONE && strikes(engine, FAULTY_CORRUPT)) {
        uint32_t bits;
        memcpy(&bits, engine->sum.sum, sizeof(bits));
        bits ^= 1;
        memcpy(engine->sum.sum, &bits, sizeof(bits));
    }
    if (!is_due(engine))
        return;
    if (strikes(engine, FAULTY_KILL))
        raise(SIGKILL);
    if (strikes(engine, FAULTY_STOP))
        raise(SIGSTOP);
    if (strikes(engine, FAULTY_FAIL))
        fail_sum(engine);
    engine->hangs = engine->hangs || strikes(engine, FAULTY_HANG);
}

/* While a point is to come, the inner engine does one thing at a time, and naps while it has none
 * to do. */
static void advance(faulty_engine *engine, uint64_t until_ns)
{
    const uint64_t past = 1, nap_ns = 1000000;
    tarry_engine *inner = engine->inner;
    uint64_t moved = engine->last.moved;
    bool waits = engine->point.kind != FAULTY_NONE;
    inner->methods->wait(inner, waits ? past : until_ns, &engine->last);
    if (waits && until_ns != 0 && moved == engine->last.moved &&
        engine->last.state == TARRY_ENGINE_RUNNING && !is_due(engine)) {
        uint64_t nap = clock_from_now(nap_ns);
        inner->methods->wait(inner, nap < until_ns ? nap : until_ns, &engine->last);
    }
    strike(engine);
}

static void hang(faulty_engine *engine, uint64_t until_ns)
{
    while (clock_now_ns() < until_ns && !atomic_load(&engine->woken)) {
        struct timespec nap = {.tv_nsec = 1000000};
        nanosleep(&nap, NULL);
    }
}

static void wait_for_sum(tarry_engine *base, uint64_t until_ns, tarry_engine_progress *progress)
{
    faulty_engine *engine = of_base(base);
    bool more = true;
    if (engine->last.state == TARRY_ENGINE_RUNNING)
        strike(engine);
    while (more && engine->last.state == TARRY_ENGINE_RUNNING && !engine->hangs &&
           !atomic_exchange(&engine->woken, false)) {
        uint64_t moved = engine->last.moved;
        advance(engine, until_ns);
        more = until_ns == 0 ? engine->last.moved != moved : clock_now_ns() < until_ns;
    }
    if (engine->hangs) {
        hang(engine, until_ns);
        atomic_store(&engine->woken, false);
    }
    *progress = engine->last;
}

static void wake(tarry_engine *base)
{
    faulty_engine *engine = of_base(base);
    atomic_store(&engine->woken, true);
    engine->inner->methods->wake(engine->inner);
}

static void free_engine(tarry_engine *base)
{
    faulty_engine *engine = of_base(base);
    tarry_allocator allocator = engine->allocator;
    engine->inner->methods->free(engine->inner);
    memory_release(&allocator, engine);
}

static const tarry_engine_methods methods = {
    .name = "faulty",
    .address = give_address,
    .form = form,
    .start = start,
    .wait = wait_for_sum,
    .wake = wake,
    .abandon = abandon,
    .free = free_engine,
    .forms = true,
};

int faulty_engine_create(tarry_engine *inner, const tarry_allocator *allocator, tarry_engine **out)
{
    faulty_engine *engine = memory_allocate(allocator, 1, sizeof(*engine));
    if (engine == NULL) {
        inner->methods->free(inner);
        return TARRY_ERROR_NO_MEMORY;
    }
    engine->base.methods = &methods;
    engine->inner = inner;
    engine->last.suspect = TARRY_ENGINE_NOBODY;
    engine->allocator = memory_allocator(allocator);
    *out = &engine->base;
    return TARRY_OK;
}

void faulty_engine_set(tarry_engine *base, faulty_point point)
{
    of_base(base)->point = point;
    of_base(base)->struck = false;
}

bool faulty_engine_struck(const tarry_engine *base)
{
    return ((const faulty_engine *)base)->struck;
}
