/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the vote do for each other:
 *   vote.c       who is there, and attempts
 *   vote_told.c  what workers say
 *   vote_compare.c  whether all have the same parameters
 *   vote_help.c  what those who are behind are given
 *   vote_piece.c what stands of a sum that failed
 *   vote_act.c   what follows: the attempt's end, the log
 */
#ifndef PROTOCOL_VOTE_VOTE_STATE_H
#define PROTOCOL_VOTE_VOTE_STATE_H

#include "protocol/vote/vote.h"

/* After so many transfers that failed in a row a worker is not waited for. */
enum { VOTE_TRIES = 8 };

void vote_set_presence(vote *it, uint32_t worker, vote_presence presence);
void vote_set_catching(vote *it, uint32_t worker, bool catches_up);
void vote_set_answer(vote *it, uint32_t worker, vote_answer answer);
/* What it does is in vain, because of another one: it is told when orders are given. */
void vote_break(vote *it, uint32_t worker, uint32_t because_of);

/* How many have an order out, but for that to sum and to fetch an attempt's sum. */
static inline uint32_t vote_busy(const vote *it)
{
    return it->present[VOTE_ASKED] + it->present[VOTE_FETCHING] + it->present[VOTE_LOADING] +
           it->present[VOTE_COMMITTING];
}

/* Whether the next attempt waits for links to come up that the last one failed for. */
static inline bool vote_pauses(const vote *it)
{
    return it->pauses && !it->hurried;
}

/* Whether the parameters after this sum are compared. */
static inline bool vote_compares(const vote *it, const tarry_sum_id *sum)
{
    return it->digest_steps > 0 && sum->step > 0 && sum->step % it->digest_steps == 0;
}

/* Whether it may be computing with the state that it is thought to have. */
static inline bool vote_has_begun(const vote_member *member)
{
    return member->presence == VOTE_READY || member->presence == VOTE_COMMITTING;
}

/* Judges its state by the log, and by the parameters of most: READY, or BEHIND. */
void vote_judge(vote *it, uint32_t worker);

/* vote_piece.c */
/* What a voter that failed has of the attempt's sum, or still of what stands in it. */
void vote_take_piece(vote *it, vote_member *member, const tarry_message *said);
void vote_forget_piece(vote_member *member);
/* All have other things to do. */
void vote_forget_pieces(vote *it);

/* vote_compare.c */
/* The log's last entry is another one. */
void vote_forget_states(vote *it);
/* Whether somebody to settle a dispute has been waited for in vain; if so, who differ is noted. */
bool vote_is_split(vote *it, uint64_t now, bool running);

/* What orders are given through. */
typedef struct vote_way {
    vote_give *give;
    void *user;
    vote *of;
} vote_way;

void vote_order_to(const vote_way *way, tarry_message_type type, uint32_t worker,
                   const tarry_sum_id *sum, uint32_t from);
/* Someone who holds the sum, or TARRY_NO_WORKER; not `other`; each time another one where there are
 * several. */
uint32_t vote_find_holder(vote *it, const tarry_sum_id *sum, uint32_t other);
/* Whether attempts wait for those who would lose what they are getting; as long as that takes them,
 * but not without end. */
void vote_hold(vote *it, uint64_t now, bool running);
/* Gives those who are behind what they need, as far as somebody has it. */
void vote_help(vote *it, uint64_t now, const vote_way *way);

#endif
