/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members complete a sum front to back. What all of the next attempt's group have completed of a
 * void one stands: it is not summed again.
 */
#include "base/bitset.h"
#include "base/sum_id.h"
#include "protocol/vote/vote_state.h"

void vote_forget_piece(vote_member *member)
{
    member->piece = (tarry_sum_id){0};
    member->whole = 0;
}

void vote_forget_pieces(vote *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        vote_forget_piece(&it->members[worker]);
    it->stands = (vote_piece){.from = TARRY_NO_WORKER};
    it->mixes = 0;
}

void vote_take_piece(vote *it, vote_member *member, const tarry_message *said)
{
    vote_forget_piece(member);
    if (said->whole == 0 ||
        (!sum_id_named(&said->piece, &it->pending) && !sum_id_named(&said->piece, &it->stands.sum)))
        return;
    member->piece = said->piece;
    member->whole = said->whole;
}

void vote_choose_piece(vote *it, const uint64_t *group, uint32_t mixes)
{
    vote_piece found = {.from = TARRY_NO_WORKER};
    bool all = mixes != 0 && mixes == it->mixes;
    for (uint32_t worker = 0; worker < it->workers && all; worker++) {
        const vote_member *member = &it->members[worker];
        if (!bitset_test(group, worker))
            continue;
        bool first = found.from == TARRY_NO_WORKER;
        all = member->piece.step != 0 && (first || sum_id_named(&member->piece, &found.sum));
        if (first || member->whole < found.whole)
            found = (vote_piece){member->piece, member->whole, worker};
    }
    vote_forget_pieces(it);
    it->mixes = mixes;
    if (all && found.from != TARRY_NO_WORKER)
        it->stands = found;
}
