/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a sum still gets on, and who is suspected if it does not. Where all exchange numbers with
 * all, who owes something and says nothing is at fault. In a grid or a tree a neighbour may say
 * nothing since one of its own keeps it waiting: a member whose sum stands says again that it has
 * begun it, several times within the limit, and nobody is suspected who has done so.
 */
#include <assert.h>

#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum {
    LIMITS_OF_ALL = 3, /* after so many a sum ends of which all say that they are there */
};

static bool is_direct(const mesh_sum *sum)
{
    return sum->shape.kind == TARRY_SHAPE_DIRECT;
}

/* Whether it sums any numbers for others. */
static bool has_share(const mesh_sum *sum)
{
    for (uint32_t i = 0; i < sum->route.slice_count; i++) {
        const mesh_slice *slice = &sum->route.slices[i];
        if (slice->owner == sum->place && mesh_span(sum, &slice->where, 0).length > 0)
            return true; /* no stripe is longer */
    }
    return false;
}

void mesh_watch_begin(mesh *self)
{
    mesh_sum *sum = &self->sum;
    /* Who has no share does not hear who has begun: those who do name the one that all wait for
     * before it looks for one. */
    bool hears = !is_direct(sum) || has_share(sum);
    sum->pace.limit_ns = hears ? self->silence_ns : 2 * self->silence_ns;
    mesh_pace_moves(&sum->pace, clock_now_ns());
    sum->sign_ns =
        is_direct(sum) ? TARRY_NEVER : sum->pace.moved_ns + self->silence_ns / MESH_SIGNS;
}

uint64_t mesh_watch_due_ns(const mesh *self)
{
    const mesh_sum *sum = &self->sum;
    if (!sum->runs)
        return TARRY_NEVER;
    uint64_t due_ns = mesh_pace_due_ns(&sum->pace);
    return sum->sign_ns < due_ns ? sum->sign_ns : due_ns;
}

/* Whether the sum still waits for it to send something, or to take something. */
static bool owes(const mesh_sum *sum, uint32_t place)
{
    const mesh_member *member = sum->members[place];
    return place != sum->place &&
           (mesh_sum_needs(sum, place) ||
            (mesh_is_neighbour(sum, place) && member != NULL && mesh_is_linked(member) &&
             channel_loads(member->link->channel) > 0));
}

/* Whether the member was heard of longer ago than the other one; who is not connected has not been
 * since the sum began. */
static bool is_staler(const mesh_sum *sum, uint32_t place, uint32_t other)
{
    uint64_t came_ns = sum->intake[place].came_ns, others_ns = sum->intake[other].came_ns;
    return came_ns < others_ns || (came_ns == others_ns && !mesh_is_linked(sum->members[place]) &&
                                   mesh_is_linked(sum->members[other]));
}

/* Who owes something. */
static uint32_t find_suspect(const mesh_sum *sum)
{
    uint32_t suspect = sum->count;
    for (uint32_t i = 0; i < sum->count; i++)
        if (owes(sum, i) && (suspect == sum->count || is_staler(sum, i, suspect)))
            suspect = i;
    assert(suspect < sum->count); /* else it would be done */
    return suspect;
}

static void give_signs(mesh *self, uint64_t now_ns)
{
    mesh_sum *sum = &self->sum;
    if (now_ns < sum->sign_ns)
        return;
    sum->sign_ns = now_ns + self->silence_ns / MESH_SIGNS;
    for (uint32_t i = 0; i < sum->count && sum->runs; i++)
        if (mesh_is_neighbour(sum, i) && sum->members[i] != NULL && mesh_is_linked(sum->members[i]))
            mesh_sum_say_begun(self, sum->members[i]);
}

/* Its last sign of life is from within the limit. */
static bool is_there(const mesh_sum *sum, uint32_t place, uint64_t now_ns)
{
    return !is_direct(sum) && now_ns - sum->intake[place].came_ns < sum->pace.limit_ns;
}

void mesh_watch_look(mesh *self, uint64_t now_ns)
{
    mesh_sum *sum = &self->sum;
    if (!sum->runs)
        return;
    give_signs(self, now_ns);
    if (!sum->runs || !mesh_pace_stands(&sum->pace, now_ns))
        return;
    uint32_t suspect = find_suspect(sum);
    if (!is_there(sum, suspect, now_ns)) {
        mesh_sum_fail(self, suspect, "nothing has moved for the silence limit");
    } else if (now_ns - sum->pace.moved_ns >= LIMITS_OF_ALL * sum->pace.limit_ns) {
        mesh_sum_fail(self, sum->count, "nothing has moved for three silence limits");
    } else {
        mesh_pace_wait(&sum->pace, now_ns + self->silence_ns / MESH_SIGNS);
    }
}
