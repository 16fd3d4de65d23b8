/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/roster.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

int roster_init(roster *self, uint32_t workers, const tarry_allocator *allocator)
{
    self->count = workers;
    self->seats = memory_allocate(allocator, workers, sizeof(*self->seats));
    return self->seats == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

void roster_destroy(roster *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->seats);
}

static bool is_bound(const roster_claim *claim)
{
    return claim->allowed != WIRE_ANY_WORKER;
}

/* The process that had it last, with a credential of the same kind. */
static bool is_own(const roster_seat *seat, const roster_claim *claim)
{
    return seat->arrivals > 0 && seat->bound == is_bound(claim) &&
           memcmp(seat->instance, claim->instance, WIRE_ID_BYTES) == 0;
}

/* A credential that is bound to the id goes before one that may have any. */
static bool can_take(const roster_seat *seat, const roster_claim *claim, uint64_t now,
                     uint64_t quiet_ns)
{
    if (seat->holder == NULL || is_own(seat, claim))
        return true;
    if (seat->bound != is_bound(claim))
        return is_bound(claim);
    return now - seat->heard_ns > quiet_ns;
}

/* Which of two free seats is rather given to someone new. */
static bool is_freer(const roster_seat *seat, const roster_seat *other)
{
    bool unused = seat->arrivals == 0, other_unused = other->arrivals == 0;
    if (unused || other_unused)
        return unused && !other_unused;
    if (seat->bound != other->bound)
        return other->bound;
    return seat->heard_ns < other->heard_ns;
}

static wire_reason find_any(const roster *self, const roster_claim *claim, uint32_t *worker)
{
    uint32_t best = self->count;
    for (uint32_t id = 0; id < self->count; id++) {
        const roster_seat *seat = &self->seats[id];
        if (is_own(seat, claim)) {
            *worker = id;
            return 0;
        }
        if (seat->holder == NULL && (best == self->count || is_freer(seat, &self->seats[best])))
            best = id;
    }
    if (best == self->count)
        return WIRE_REFUSED_FULL;
    *worker = best;
    return 0;
}

wire_reason roster_find(const roster *self, const roster_claim *claim, uint64_t now,
                        uint64_t quiet_ns, uint32_t *worker)
{
    uint32_t wanted = claim->wanted;
    if (claim->allowed != WIRE_ANY_WORKER) {
        if (wanted != WIRE_ANY_WORKER && wanted != claim->allowed)
            return WIRE_REFUSED_IDENTITY;
        wanted = claim->allowed;
    }
    if (wanted == WIRE_ANY_WORKER)
        return find_any(self, claim, worker);
    if (wanted >= self->count)
        return WIRE_REFUSED_RANGE;
    if (!can_take(&self->seats[wanted], claim, now, quiet_ns))
        return WIRE_REFUSED_TAKEN;
    *worker = wanted;
    return 0;
}

roster_arrival roster_sit(roster *self, uint32_t worker, void *holder, const roster_claim *claim,
                          uint64_t now)
{
    roster_seat *seat = &self->seats[worker];
    assert(seat->holder == NULL && holder != NULL);
    assert(!is_bound(claim) || claim->allowed == worker);
    roster_arrival how = seat->arrivals == 0   ? ROSTER_FIRST
                         : is_own(seat, claim) ? ROSTER_AGAIN
                                               : ROSTER_RESTARTED;
    seat->holder = holder;
    seat->heard_ns = now;
    seat->arrivals++;
    seat->bound = is_bound(claim);
    memcpy(seat->instance, claim->instance, WIRE_ID_BYTES);
    return how;
}

void roster_leave(roster *self, uint32_t worker)
{
    self->seats[worker].holder = NULL;
}
