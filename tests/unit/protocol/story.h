/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a server machine a timed story, event by event, and checks what it answers: every effect of
 * an event must be expected, in order, before the next event is told.
 */
#ifndef TEST_STORY_H
#define TEST_STORY_H

#include <tarry/server.h>

typedef struct story {
    tarry_plan *plan;
    tarry_server_settings settings;
    tarry_server *server;
    uint64_t now;
    const tarry_effects *effects;
    size_t expected; /* effects that were already expected */
    uint64_t round;
    double scale;   /* of the parts to be combined; 0 stands for 1 */
    uint32_t epoch; /* what the workers say; 1 if nothing else is told */
} story;

#define STORY_MS UINT64_C(1000000)

/*
 * The ring: `workers` workers and chunks, worker j computes chunk j, then j + 1, and so on,
 * `replication` of them. One part of 10 numbers in one stripe, silence_ns of 800 ms: the silent are
 * looked at every 100 ms, probed after 200 ms and given up 800 ms after that. What the settings
 * shall be otherwise is set between story_plan and story_begin.
 */
void story_plan(story *told, uint32_t workers, uint32_t replication);
/* Makes the server; all workers join and the first round starts, at 0 ms. */
void story_begin(story *told);
/* Both. */
void story_play(story *told, uint32_t workers, uint32_t replication);
/* Begun: a ring of three with two copies of each chunk, in two stripes, whose parts travel in this
 * form. All have finished their first chunk at 5 ms, and are signalled. */
void three_are_signalled(story *told, tarry_compress form);
void story_end(story *told);
/* A server of the present plan and settings goes on in the place of the one that there is. */
void story_adopt(story *told);
/* A case with one (test.h). */
#define STORY(name) TEST_OF(name, story, told, story_end)

/* What happens, at the story's time. */
void at(story *told, uint64_t ms);
void joins(story *told, uint32_t worker);
void is_lost(story *told, uint32_t worker);  /* expects that it is left out as gone */
void is_heard(story *told, uint32_t worker); /* bytes of it */
void is_aborted(story *told);                /* expects that the round ends so */
void starts(story *told); /* the next round; expects ROUND for all workers present */
void reports(story *told, uint32_t worker, uint32_t slot);
void each_reports(story *told, uint32_t count, uint32_t slot); /* workers 0 to count - 1 */
void fails(story *told, uint32_t worker, uint32_t slot);
void sends_part(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe);
void is_combined(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe);
/* The part comes in, is to be combined at once, and is. */
void delivers(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe);
void each_delivers(story *told, uint32_t count, uint32_t attempt, uint32_t stripe);
void is_alive(story *told, uint32_t worker);
void each_is_alive(story *told, uint32_t count);
void time_passes(story *told);
void passes(story *told, uint64_t ms); /* until then */
void says(story *told, uint32_t worker, const tarry_message *message);
void happens(story *told, const tarry_event *event);
/* The event is the caller's fault. */
void is_refused(story *told, const tarry_event *event, int error);

/* What must follow. */
const tarry_message *expect_send(story *told, uint32_t worker, tarry_message_type type);
void expect_each(story *told, uint32_t count, tarry_message_type type);
/* To all that are there, whatever it says. */
void expect_signals(story *told);
void expect_finish(story *told);
/* psi as a text of bits in their order; stripes and slots likewise. */
void expect_signal(story *told, uint32_t worker, uint32_t attempt, const char *psi,
                   const char *stripes);
void expect_resume(story *told, uint32_t worker, const char *slots);
void expect_clear(story *told, uint32_t stripe);
void expect_combine(story *told, uint32_t worker, uint32_t attempt, uint32_t stripe);
void expect_reject(story *told, uint32_t worker, tarry_reject why);
const tarry_effect *expect_left_out(story *told, uint32_t worker, tarry_absence reason);
const tarry_round_result *expect_done(story *told, int error);
const tarry_round_result *expect_exact(story *told); /* done, and nothing is missing */
void expect_nothing(story *told);
void expect_deadline(const story *told, uint64_t ms);

#endif
