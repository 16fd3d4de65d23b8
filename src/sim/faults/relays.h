/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is more where workers' messages pass relays: relays that batch what goes up, add up
 * coded parts on the way, and die with all connections of the workers below. These are adrift for a
 * grace in which the server is told of no loss, and come back by their second parents, as the same
 * processes; or later, or not at all. A relay may have a relay above it.
 */
#ifndef SIM_FAULTS_RELAYS_H
#define SIM_FAULTS_RELAYS_H

#include <tarry/event.h>

#include "base/random.h"
#include "sim/faults/coded.h"

enum { MAX_RELAYS = 6, MAX_GATHERS = 16, NO_RELAY = UINT32_MAX };

struct cluster;
struct cluster_item;

typedef struct cluster_relay {
    uint32_t above;      /* another relay; NO_RELAY: the server */
    uint32_t life;       /* counts its deaths, and those of the server */
    uint64_t dead_until; /* a time that has come: it lives */
} cluster_relay;

/* What belongs to the world's relays. */
typedef struct relay_world {
    uint32_t count; /* of relays; 0: none, and all of this is unused */
    cluster_relay relays[MAX_RELAYS];
    uint32_t delay, batch; /* the longest of one relay; what goes up leaves at multiples of it */
    uint64_t grace;
    bool gathers;          /* parts are added up on the way */
    uint32_t gather_count; /* of `gathers`, ever */
    double breaks;         /* a relay dies while parts are on their way */
    uint32_t breaks_left;
    uint32_t deaths, returned, drifted; /* returned within the grace; given up after it */
    uint32_t summed, dropped;           /* gathered stripes that counted, and that did not */
} relay_world;

/* How a worker hangs on the relays. */
typedef struct relay_child {
    uint32_t relay, second; /* its parents; NO_RELAY: the server */
    bool adrift;
    uint32_t life; /* that of its process when it went adrift */
    uint32_t held; /* adrift: chunks that it was credited with, a bit each */
} relay_child;

/* The parts of one attempt that a relay below the server adds up. */
typedef struct relay_gather {
    uint32_t number; /* counts all of a world */
    uint32_t relay, life;
    uint64_t round;
    uint32_t attempt, parts, stripes;
    uint32_t members; /* workers, a bit each */
    uint32_t epochs[MAX_WORKERS];
    uint32_t got[MAX_STRIPES]; /* workers, a bit each */
    uint32_t arrived;          /* stripes that reached the server, a bit each */
    coded part[MAX_WORKERS][MAX_STRIPES];
} relay_gather;

/* relays.c. Draws the relays of a world, and plans their deaths until `horizon`. */
void relayed_set_up(struct cluster *it, uint32_t horizon);
/* What a message takes longer, and when what goes up leaves its last relay. */
uint64_t relayed_delay(struct cluster *it, uint32_t worker);
uint64_t relayed_batch(const struct cluster *it, uint32_t worker, uint64_t arrival);
/* The relay below the server that the worker's messages pass; NO_RELAY: none. */
uint32_t relayed_top(const struct cluster *it, uint32_t worker);
void relayed_die(struct cluster *it, uint32_t relay, random_stream *details);
/* Who was adrift is back, or the grace is over. Errors: NO_MEMORY. */
int relayed_return(struct cluster *it, const struct cluster_item *due);
void relayed_give_up(struct cluster *it, const struct cluster_item *due);
/* What these workers have, a bit each, does not count any more, whether they are adrift or not. */
void relayed_hold_nothing(struct cluster *it, uint32_t workers);
/* The worker is not adrift any more. */
void relayed_forget(struct cluster *it, uint32_t worker);
/* It needs a parent that lives. */
void relayed_choose_parent(struct cluster *it, uint32_t worker);

/* relays_gather.c. The step's signals make groups. */
void relayed_begin_gathers(struct cluster *it, const tarry_effects *effects);
/* Whether a relay takes the part to add it up. */
bool relayed_take_part(struct cluster *it, uint32_t worker, const tarry_message *message,
                       const coded *part);
/* The server restarts. */
void relayed_drop_gathers(struct cluster *it);
void relayed_deliver(struct cluster *it, const struct cluster_item *due);
/* The worker has come back: the group that waits for its part can't be completed. */
void relayed_stall(struct cluster *it, uint32_t worker, uint32_t epoch);

#endif
