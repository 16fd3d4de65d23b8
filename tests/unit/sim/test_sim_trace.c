/* SPDX-License-Identifier: Apache-2.0 */
/* The same settings, the same steps of all machines, on every machine. */
#include <stdio.h>

#include "base/bitset.h"
#include "edge_plan.h"
#include "plan/plan.h"
#include "protocol/wire/codec.h"
#include "test.h"
#include "world.h"

/* FNV-1a over all that is observed. */
typedef struct trace_hash {
    uint64_t value;
    uint64_t steps;
    uint64_t last_ns;
    const tarry_plan *plan;
} trace_hash;

static void add(trace_hash *hash, uint64_t number)
{
    for (int byte = 0; byte < 8; byte++) {
        hash->value ^= number >> 8 * byte & 255;
        hash->value *= UINT64_C(0x100000001b3);
    }
}

static void add_bits(trace_hash *hash, const uint64_t *set, size_t bits)
{
    for (size_t bit = 0; bit < bits; bit++)
        add(hash, bitset_test(set, bit));
}

static void add_message(trace_hash *hash, uint32_t worker, const tarry_message *message)
{
    codec_shape shape = codec_shape_of(hash->plan, worker, 2);
    add(hash, message->type);
    add(hash, message->round);
    add(hash, message->epoch);
    add(hash, message->attempt);
    add(hash, message->type == TARRY_MESSAGE_REPORT ? message->slot : 0);
    add(hash, message->type == TARRY_MESSAGE_PART ? message->stripe : 0);
    add(hash, message->failed);
    if (message->type == TARRY_MESSAGE_SIGNAL) {
        add_bits(hash, message->psi, shape.psi_bits);
        add_bits(hash, message->stripes, shape.stripes);
    }
    if (message->type == TARRY_MESSAGE_RESUME)
        add_bits(hash, message->first, shape.slots);
}

static void observe(void *user, uint64_t now, uint32_t node, const tarry_event *event,
                    const tarry_effects *effects)
{
    trace_hash *hash = user;
    assert_true(now >= hash->last_ns);
    hash->last_ns = now;
    hash->steps++;
    add(hash, now);
    add(hash, node);
    add(hash, event->type);
    if (event->type == TARRY_EVENT_MESSAGE)
        add_message(hash, node == TARRY_SIM_SERVER ? event->worker : node, event->message);
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_LEFT_OUT)
            continue; /* a word on what the others say */
        add(hash, effect->type);
        add(hash, effect->worker);
        add(hash, effect->slot);
        add(hash, effect->stripe);
        if (effect->type == TARRY_EFFECT_SEND)
            add_message(hash, effect->worker, &effect->message);
        if (effect->type == TARRY_EFFECT_REJECT)
            add(hash, effect->reject);
    }
}

/* 50 rounds of 12 workers whose parts come in two stripes over narrow links. */
static trace_hash run(const char *spec, uint64_t seed)
{
    static const double cost[] = {1, 1.5, 0.25, 2, 1, 1, 0.75, 1.25, 3, 1, 0.5, 1};
    OWNED(world) all;
    world_init(&all);
    all.plan_settings.workers = all.plan_settings.chunks = 12;
    all.plan_settings.replication = 3;
    all.spec = spec;
    all.straggler_seed = seed;
    all.settings.chunk_cost = cost;
    all.settings.dimension = 1000;
    all.settings.parameter_bytes = 4000;
    all.settings.link = (tarry_sim_link){.latency_ns = 1000000, .bytes_per_second = 3e5};
    all.settings.server_bytes_per_second = 7e5;
    all.settings.server.stripe_length = 700;
    all.settings.server.silence_ns = SECOND / 2;
    trace_hash hash = {.value = UINT64_C(0xcbf29ce484222325)};
    all.settings.observer = observe;
    all.settings.user = &hash;
    /* The plan is the one that world_begin makes. */
    OWNED(tarry_plan) plan = plan_make(&all.plan_settings);
    hash.plan = plan;
    world_begin(&all);
    for (int round = 0; round < 50; round++)
        world_round(&all);
    return hash;
}

TEST(a_seed_gives_the_same_steps)
{
    const char *spec = "exp:0.5+jitter:0.1/chunk+fail:0.1+rejoin:2";
    trace_hash first = run(spec, 1), again = run(spec, 1), other = run(spec, 2);
    printf("%llu steps\n", (unsigned long long)first.steps);
    assert_true(first.steps > 50 * 12 * 4);
    assert_true(first.value == again.value);
    assert_true(first.value != other.value);
}

/* Whoever changes this on purpose says so: it is what seeds mean. The terms of this SPEC take no
 * function of the C library's that may round differently elsewhere. */
TEST(the_steps_are_the_same_everywhere)
{
    trace_hash hash = run("slow:3,2.5+dead:1", 1);
    printf("%llu steps, hash 0x%016llx\n", (unsigned long long)hash.steps,
           (unsigned long long)hash.value);
    assert_true(hash.value == UINT64_C(0xa334ac423f7b35b8));
}
