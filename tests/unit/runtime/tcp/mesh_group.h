/* SPDX-License-Identifier: Apache-2.0 */
/* A group of workers that are connected to each other over loopback, all in this process. */
#ifndef TEST_TCP_MESH_GROUP_H
#define TEST_TCP_MESH_GROUP_H

#include <tarry/engine.h>

#include "runtime/tcp/mesh/mesh.h"
#include "sum_case.h"

enum { MESH_GROUP_MOST = 16 };

typedef struct mesh_group {
    uint32_t count;
    mesh *members[MESH_GROUP_MOST];
    uint32_t workers[MESH_GROUP_MOST]; /* their ids: 0, 10, 20, .. */
    uint64_t epoch, step;
    const char *const *credentials; /* [count]; NULL: plain text */
    sum_case_forms forms;           /* of sums that begin from here on */
    float *sums[MESH_GROUP_MOST];   /* that began last; owned */
} mesh_group;

/* Asserts that all can be made; with a limit of silence that is longer than any wait here. */
void mesh_group_make(mesh_group *group, uint32_t count, const char *const *credentials);
/* In plain text, and all of them form a group. */
void mesh_group_begin(mesh_group *group, uint32_t count);
/* Plain text; only members of the group are kept connected. */
void mesh_group_make_apart(mesh_group *group, uint32_t count);
/* Plain text, with that limit of silence. */
void mesh_group_make_limited(mesh_group *group, uint32_t count, uint64_t silence_ns);
void mesh_group_free(mesh_group *group);
OWNED_STRUCT_BY(mesh_group, mesh_group_free)
/* A case with one (test.h). */
#define MESH_GROUP(name) TEST_OF(name, mesh_group, group, mesh_group_free)
/* All members that are there form a group. */
void mesh_group_form(mesh_group *group);
/* Begins the case's sum at that member, in new numbers; its last sum's are freed. */
void mesh_group_start(mesh_group *group, uint32_t place, const sum_case *of);
/* Begins the next step's at all but one; MESH_GROUP_MOST: at all. */
void mesh_group_start_but(mesh_group *group, uint32_t idle, const sum_case *of);
/* Waits some seconds at most for the end of what runs at that member. */
tarry_engine_progress mesh_group_wait(const mesh_group *group, uint32_t place);
/* What that member's exchange holds or fetches, in host memory. */
void mesh_group_hold(exchange *giver, const tarry_sum_id *sum, const float *numbers, size_t count);
int mesh_group_fetch(exchange *taker, uint32_t from, const tarry_sum_id *sum, float *into,
                     size_t count);
/* The whole sum, by all; asserts that it is right. */
void mesh_group_sum(mesh_group *group, const sum_case *of);
/* All begin the first sum; after that time the last member ends, and the others make the second. */
void mesh_group_lose_last(mesh_group *group, const sum_case *first, uint64_t after_ns,
                          const sum_case *second);

#endif
