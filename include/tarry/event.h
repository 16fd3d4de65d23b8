/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events that go into the state machines of server.h and worker.h, and the effects that come
 * out.
 *
 * The caller steps a machine with one event, and the machine answers with effects, in the order in
 * which the caller must carry them out. A machine does no I/O, reads no clock and never sees a
 * gradient: it handles ids, positions, stripes and coefficients; whoever carries the effects out (a
 * runtime, the simulator) holds the vectors. Times are nanoseconds of a monotonic clock.
 *
 * A link must deliver the server's messages to a worker in the order in which they were sent, or
 * break and be lost: a signal that overtakes its round is rejected and not sent again. Messages
 * that come twice, or late from an earlier round or arrival, do no harm, nor do a worker's messages
 * that overtake each other.
 */
#ifndef TARRY_EVENT_H
#define TARRY_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/api.h>
#include <tarry/compress.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_NEVER UINT64_MAX /* a time that does not come */

/* What a worker does with a gradient that it has finished; the same at the server and its workers.
 */
typedef enum tarry_keep {
    TARRY_KEEP_ALL, /* keeps each until the round is over: load + 1 vectors (with one part) */
    /*
     * The server credits one copy per chunk, the first that is reported, and answers every report
     * with the copy's fate; the worker folds a credited one into its running sum and drops others.
     * It holds the sum, the gradient that it computes, and those that wait for their fate while it
     * runs `ahead` of the answers. If a worker is lost, the chunks that it was credited with have
     * to be computed again. One part, credit by chunk.
     */
    TARRY_KEEP_CREDITED,
} tarry_keep;

/*
 * With TARRY_KEEP_CREDITED: by default so many finished gradients may wait for their fate while a
 * worker begins another chunk. A worker that runs `ahead` chunks ahead never waits for answers that
 * are back in the time of as many chunks, and holds ahead + 2 vectors (fewer if it has fewer
 * chunks).
 */
enum { TARRY_USUAL_AHEAD = 3 };

/* The fate of a finished copy with TARRY_KEEP_CREDITED. */
typedef enum tarry_fate {
    TARRY_FATE_OPEN,     /* the message does not tell it */
    TARRY_FATE_CREDITED, /* it counts: to be folded into the running sum */
    TARRY_FATE_DROPPED,  /* another one counts */
} tarry_fate;

/* Where the sum is made. */
typedef enum tarry_sum_place {
    TARRY_SUM_SERVER,     /* workers send coded parts to the server, which sums them and has the
                             parameters */
    TARRY_SUM_EVERYWHERE, /* workers sum among themselves and hold the parameters; the server has no
                             vector */
} tarry_sum_place;

/* A sum's name, and with the digest its content. */
typedef struct tarry_sum_id {
    uint64_t step; /* that it is for: counts the steps committed, from 1; 0: no sum */
    uint32_t
        term; /* of the server: goes up at each of its starts and each return to a checkpoint */
    uint32_t attempt; /* counts a term's attempts from 1, over all its rounds */
    uint64_t digest;  /* of the sum's bits */
} tarry_sum_id;

#define TARRY_NO_WORKER UINT32_MAX /* an id that no worker has */

typedef enum tarry_message_type {
    /* from the server */
    TARRY_MESSAGE_ROUND,  /* compute round `round`, the positions `first` first; its parameters
                             travel with this message, but with TARRY_SUM_EVERYWHERE */
    TARRY_MESSAGE_SIGNAL, /* encode and transmit `stripes` with the state `psi`; begins `attempt` */
    TARRY_MESSAGE_RESUME, /* `attempt` is withdrawn: go on computing, `first`, then all but `barred`
                           */
    TARRY_MESSAGE_NEWS,   /* what is to be computed has changed: `first`, then all but `barred` */
    TARRY_MESSAGE_PROBE,  /* are you there? */
    TARRY_MESSAGE_FINISH, /* the round is over */
    /* from a worker */
    TARRY_MESSAGE_REPORT, /* the chunk at position `slot` is finished, or can't be computed
                             (`failed`) */
    TARRY_MESSAGE_PART,   /* one stripe of the coded part; its numbers travel with this message */
    TARRY_MESSAGE_ALIVE,  /* the answer to a probe, and to an order that changed the chunk in
                             progress */
    /*
     * With TARRY_SUM_EVERYWHERE, from the server; a SIGNAL has `sum` and `group` then. But for ASK
     * they matter only in the epoch that they name.
     */
    TARRY_MESSAGE_ASK,   /* an arrival's first: say what you have */
    TARRY_MESSAGE_BREAK, /* the attempt `sum` can't be completed, as `from` is gone or late: end it,
                            and answer FAILED unless the sum is held */
    TARRY_MESSAGE_FETCH, /* get the sum `sum`, of this name and digest, from the worker `from` */
    TARRY_MESSAGE_LOAD,  /* get the state after `sum`, the last one committed (step 0: the first
                            state), from the worker  `from`; from the vectors' checkpoint that it has
                            where that is itself */
    TARRY_MESSAGE_COMMIT, /* step on `sum` */
    /* The same, from a worker: */
    TARRY_MESSAGE_HELD,   /* it has the sum `sum`, of this name and digest */
    TARRY_MESSAGE_FAILED, /* it has not, and suspects `from`, or TARRY_NO_WORKER */
    TARRY_MESSAGE_STATE,  /* the answer to ASK, COMMIT and LOAD: it has stepped last on `last` and
                             holds `sum` */
} tarry_message_type;

#define TARRY_MESSAGE_TYPES (TARRY_MESSAGE_STATE + 1)

typedef struct tarry_message {
    tarry_message_type type;
    uint64_t round;
    uint32_t epoch; /* counts the worker's arrivals from 1: a worker answers with the epoch it was
                       given */
    uint32_t
        attempt;   /* SIGNAL, RESUME, NEWS, PART: counts the round's encode signals from 1. BREAK,
                      FETCH, LOAD, COMMIT: counts the orders of these kinds to an arrival from 1;
                      what answers one (HELD and FAILED where `fetched`, STATE) names it */
    uint32_t slot; /* REPORT: a position in the worker's order; NEWS: that of `fate` */
    uint32_t next; /* REPORT, ALIVE: the position that it computes now; its load: none */
    uint16_t sequence; /* the same: counts what an arrival said of `next`, from 1 to 65535 and again
                      from 1; 0: nothing is said of it. ROUND, NEWS, RESUME: counts in the same
                      way what the worker was told to compute; 0: by the plan's order, or,
                      in NEWS after other counts, what it was told last holds on */
    uint32_t stripe;   /* PART */
    tarry_compress form; /* PART: of its numbers, that of the settings; or, of one with feedback,
                            NONE where a worker leaves nothing behind */
    bool failed;         /* REPORT */
    bool fetched;        /* HELD, FAILED: it answers a FETCH; else a SIGNAL or a BREAK */
    bool digests;        /* LOAD, COMMIT: `state` of the answer is wanted */
    uint32_t from;       /* BREAK, FETCH, LOAD, FAILED: another worker */
    tarry_sum_id sum;    /* SIGNAL (step 0: the server makes the sum), BREAK: a name, with digest 0;
                            FETCH, LOAD, COMMIT,  HELD, FAILED, STATE (step 0: it holds none) */
    tarry_sum_id last; /* STATE: the sum that it stepped on last; step 0: it has the first state */
    uint64_t state;    /* STATE: a digest of the parameters after `last`; 0: not worked out */
    double scale; /* SIGNAL with `sum`: the sum is multiplied by it; 1 but for TARRY_FILL_SCALE */
    tarry_fate fate; /* NEWS: of the copy at `slot`, which answers its report */
    /*
     * With TARRY_KEEP_CREDITED a worker may have to compute a dropped copy again, and a message
     * about the earlier copy must not be taken for one about the new copy. SIGNAL, RESUME, NEWS:
     * counts the signals and recalls that the server sent the worker in this round. REPORT: the
     * last that the worker heard of. A report from before a signal is void: the worker drops the
     * copies that a signal finds neither folded nor in its psi, and they are not finished any more.
     */
    uint32_t term;
    /*
     * Bit sets of 64-bit words, least significant bit first; borrowed, valid as long as what
     * carries the message. psi (SIGNAL): for each position of the receiver's order, one bit
     * per holder of that chunk (in ascending order of workers), set if that holder's copy is part
     * of the state. stripes (SIGNAL): one bit per stripe of a part.
     *
     * The other sets have one bit per position; NULL stands for an empty one. stale (SIGNAL), of
     * positions whose own copy is in psi: psi names copies of the round before, and the worker
     * encodes its own copy of that round. psi never names copies of both rounds for one chunk.
     *
     * first and barred replace the sets that the server sent before, unless NEWS say nothing of
     * that (sequence). first (ROUND, NEWS, RESUME): positions to compute before all others. barred
     * (ROUND, NEWS, RESUME): positions of which the server wants no copy from this worker now; the
     * worker drops one that it computes. Within either, the order of positions decides. recalled
     * (NEWS): copies that the worker has dropped, and that are not finished any more.
     */
    const uint64_t *psi;
    const uint64_t *stripes;
    const uint64_t *stale;
    const uint64_t *first;
    const uint64_t *barred;
    const uint64_t *recalled;
    /*
     * In forms of coded parts with feedback, a number per stripe (as many as in `stripes`);
     * borrowed as the sets are. ROUND: of the round before; FINISH: of this one. The epoch in which
     * the receiver sent the stripe of its coded part that stands in that round's sum; 0: none does.
     * NULL: not said. And the receiver's first epoch in this life of the server: of what was sent
     * before, nothing is known any more.
     */
    uint32_t life;
    const uint32_t *stood;
    /*
     * ROUND: a number per position of the receiver's order; borrowed as the sets are: what the
     * chunk's gradient counts with in the round's sum, >= 1 and finite; 0: it was not sampled, and
     * no worker computes it. NULL: each counts once.
     */
    const float *weights;
    /* SIGNAL with `sum`: one bit per worker of the plan, set for those who make the sum; else NULL.
     */
    const uint64_t *group;
    /*
     * SIGNAL of secure sums, else NULL; borrowed as the sets are. holders: a number per chunk of
     * the plan: the worker whose copy of it is in the sum. lives: a number per worker of the plan:
     * for those who hold chunks so, who mask their parts for each other, the epoch of the arrival
     * whose copies are meant; for all others 0.
     */
    const uint32_t *holders;
    const uint32_t *lives;
} tarry_message;

typedef enum tarry_event_type {
    TARRY_EVENT_TIME,     /* nothing happened but time (either machine) */
    TARRY_EVENT_MESSAGE,  /* `message` came in: server: from `worker`; worker: from the server */
    TARRY_EVENT_START,    /* server: begin the next round */
    TARRY_EVENT_ABORT,    /* server: end the round without an estimate */
    TARRY_EVENT_JOINED,   /* server: `worker` is there, with nothing finished */
    TARRY_EVENT_LOST,     /* server: `worker` is gone */
    TARRY_EVENT_COMBINED, /* server: COMBINE of (round, attempt, worker, stripe) is carried out
                           */
    TARRY_EVENT_COMPUTED, /* worker: the effect COMPUTE of (round, slot) ended, with `failed` if it
                             has no result */
    TARRY_EVENT_ENCODED, /* worker: the effect ENCODE of (round, attempt, stripe) is carried out and
                            sent */
    TARRY_EVENT_HEARD,   /* server: bytes of `worker` came in on its present connection, though no
                            whole message yet: it is there */
    /* With TARRY_SUM_EVERYWHERE: */
    TARRY_EVENT_REDUCED, /* worker: the effect REDUCE ended: the sum `sum`, with its digest, is
                            held; or `failed`, and `from` is suspected */
    TARRY_EVENT_FETCHED, /* worker: the effect FETCH ended: `sum` is held, or `failed` */
    TARRY_EVENT_LOADED,  /* worker: the effect LOAD ended: the state is that after `sum`, the one
                            of the effect or of a later step; or `failed`, and it is what it was */
    TARRY_EVENT_STEPPED, /* worker: the effect STEP is carried out */
    TARRY_EVENT_LOGGED,  /* server: the effect LOG is carried out, durably */
} tarry_event_type;

typedef struct tarry_event {
    tarry_event_type type;
    uint32_t worker;
    const tarry_message *message; /* MESSAGE: borrowed for the step */
    uint64_t round;
    uint32_t attempt;
    uint32_t stripe;
    uint32_t slot;
    bool failed;
    tarry_sum_id
        sum; /* REDUCED, FETCHED, STEPPED: that of the effect, with the digest; LOADED; LOGGED */
    uint32_t from;  /* REDUCED that `failed`: whom the engine suspects, or TARRY_NO_WORKER */
    uint64_t state; /* STEPPED, LOADED: a digest of the parameters; 0: not worked out */
} tarry_event;

typedef enum tarry_reject {
    TARRY_REJECT_STALE,     /* of an old round or attempt; not an error */
    TARRY_REJECT_DUPLICATE, /* already received; not an error */
    TARRY_REJECT_UNKNOWN,   /* no such worker, or one that has not joined */
    TARRY_REJECT_RANGE,     /* a position, stripe, round or attempt that does not exist */
    TARRY_REJECT_MISPLACED, /* a message that this machine never receives, or not in this state */
    TARRY_REJECT_EXHAUSTED, /* an arrival beyond those that the newest stored checkpoint reserved */
} tarry_reject;

/*
 * The rule of secure sums that the server has broken; see TARRY_EFFECT_REFUSE. An honest server
 * breaks none, however messages are lost.
 */
typedef enum tarry_refusal {
    TARRY_REFUSAL_NONE,   /* no rule is broken */
    TARRY_REFUSAL_OPEN,   /* a signal without holders: the part would go out without a mask */
    TARRY_REFUSAL_SECRET, /* a signal with holders to a worker whose sums are not secure */
    TARRY_REFUSAL_FORM,   /* it asks for gradients of the round before or with a weight, or names no
                             lives */
    TARRY_REFUSAL_COVER,  /* a chunk's holder is none of those that the plan gives it */
    TARRY_REFUSAL_GROUP,  /* who masks parts is not who holds chunks */
    TARRY_REFUSAL_LIFE,   /* another arrival of this worker is meant */
    TARRY_REFUSAL_VIEW,   /* psi is not what the holders say */
    TARRY_REFUSAL_OWN,    /* a copy that the worker has not, or not all that it has summed */
} tarry_refusal;

/* A sentence without a full stop, static: what the server did. */
TARRY_API const char *tarry_refusal_text(tarry_refusal refusal);

/* Why the server continues without a worker; see TARRY_EFFECT_LEFT_OUT. */
typedef enum tarry_absence {
    TARRY_ABSENT_GONE,   /* the event LOST: until it joins again */
    TARRY_ABSENT_SILENT, /* it did not answer a probe within its limit: the same */
    TARRY_ABSENT_LATE, /* its coded part would cost more than a round without it: for this round */
    TARRY_ABSENT_FAILED,  /* a chunk that it can't compute costs it its whole credit: the same */
    TARRY_ABSENT_DIFFERS, /* its parameters are not those of most: until it has loaded theirs */
} tarry_absence;

/* How a round ended; see TARRY_EFFECT_DONE. */
typedef struct tarry_round_result {
    uint64_t round; /* counts from 0 */
    int error;      /* TARRY_OK, or TARRY_ERROR_COVERAGE: the stop rule can't be met; there is no
                       estimate */
    bool exact;     /* every chunk was recovered in every stripe, by the limit of the settings; with
                       sample_chunks: every one that was sampled */
    double expected_error;  /* relative expected squared error: mean over stripes of sum_i w_i (l -
                               rank_i) / l, where chunk i is the share w_i of the data: 1 / N, but
                               in a plan that changed; with sample_chunks over the chunks that
                               were sampled; see tarry_fill for what a fill makes of it */
    uint32_t chunks_filled; /* TARRY_FILL_STALE: chunks taken from the round before by the last
                               encode signal */
    double filled_share;    /* the same: what they recover of the round before; mean over stripes
                               of sum over filled chunks of w_i rank_i / l */
    uint32_t parts;         /* l: the plan's */
    uint32_t attempts;      /* encode signals sent */
    uint64_t copies_computed; /* finished chunks that workers reported */
    uint64_t copies_coded;    /* of these, in the state of the last encode signal */
    uint64_t copies_needed;   /* N * l, of chunks that were not sampled as well */
    uint32_t chunks_sampled;  /* that take part in the round: all, without sample_chunks */
    double sampling_error;    /* with sample_chunks: the variance of the sum over draws, relative to
                                 the sum of the chunks' squares: 1/p - 1 */
    uint32_t workers_heard;   /* workers that reported at least one finished chunk */
    uint32_t workers_lost;    /* workers absent when the round ended */
    uint32_t workers_late;    /* workers that were left out of this round as late */
    uint64_t upload_bytes;    /* numbers of coded parts received, in bytes, stale ones too */
    uint64_t control_bytes;   /* all other message bytes, both ways (without the parameters), as
                                 encoded on a wire */
    uint64_t control_messages;
    /* TARRY_SUM_EVERYWHERE; step 0: none was committed. */
    tarry_sum_id sum;
    uint32_t voters;  /* workers that were asked to make it, in the last attempt */
    uint32_t fetches; /* of these, those that were sent to another one for it */
    uint64_t clamped; /* secure sums, in what tarry_runtime_round gives back: numbers of gradients
                         that were beyond the bound, or are not finite, over all chunks */
    uint64_t start_ns, signal_ns,
        end_ns; /* begin; first signal (TARRY_NEVER if none was sent); end */
} tarry_round_result;

typedef enum tarry_effect_type {
    TARRY_EFFECT_SEND,    /* send `message`: server: to `worker`; worker: to the server */
    TARRY_EFFECT_REJECT,  /* the event was ignored, for `reject`; nothing changed */
    TARRY_EFFECT_CLEAR,   /* server: zero the estimate in `stripe` of each part */
    TARRY_EFFECT_COMBINE, /* server: add worker's part of `stripe`, times R[part][worker] and
                             `scale`, to each part's estimate */
    TARRY_EFFECT_DONE,    /* server: the round is over; `result` says how */
    TARRY_EFFECT_COMPUTE, /* worker: compute the gradient of `chunk`, at position `slot`, for
                             `round` */
    TARRY_EFFECT_CANCEL, /* worker: drop the computation in progress; its COMPUTED must not come any
                            more */
    TARRY_EFFECT_ENCODE, /* worker: encode `stripe` of the coded part for `attempt` with
                            `coefficients`, and send it as a PART; with TARRY_KEEP_CREDITED it is
                            that stripe of the running sum (each coefficient is 1 or, of what is not
                            in the sum, 0). Of a secure sum: masked for `message.holders` and
                            `message.lives`, which are borrowed until the next signal */
    TARRY_EFFECT_FOLD,   /* worker: add the finished gradient at `slot`, times `weight`, to the
                            running sum, which becomes that where this `begins` it; its place is
                            free then */
    TARRY_EFFECT_DROP,   /* worker: the place of the finished gradient at `slot` is free */
    /*
     * Server: the server continues without `worker`, for `reason`. The effect comes once for each
     * time that this happens, in the same step, and before all that follows from it (RESUME, NEWS,
     * CLEAR, SIGNAL, DONE). The runtime carries nothing out; it logs and shows the effect.
     * waited_ns is the time since the server heard the worker last (GONE), since the probe
     * (SILENT), since the signal (LATE), or since the server sent it the round (FAILED). limit_ns
     * is the time that the server would have allowed, for SILENT and LATE, else 0. A worker that is
     * LATE before its limit was too slow to keep the limit, by the stripes that had come in.
     */
    TARRY_EFFECT_LEFT_OUT,
    /*
     * With TARRY_SUM_EVERYWHERE; the first five are the worker's. At most one of REDUCE, FETCH,
     * LOAD and STEP is in progress; ENCODE writes into the coded part and sends nothing.
     */
    TARRY_EFFECT_REDUCE,  /* begin the sum `sum` of the workers in `message.group`, with `scale`.
                             The own coded part is what the ENCODEs before it wrote, or, if it is
                             `empty`, zeros. REDUCED follows */
    TARRY_EFFECT_ABANDON, /* end the REDUCE, FETCH or LOAD in progress: nothing of it is read or
                             written any more, and its event must not come any more */
    TARRY_EFFECT_FETCH,   /* get the sum `sum` from the worker `from`. FETCHED follows */
    TARRY_EFFECT_LOAD,    /* get the state after `sum`, or after a later one, from the worker
                           * `from`, itself: from its checkpoint. LOADED follows
                           */
    TARRY_EFFECT_STEP, /* step on the held sum `sum`. STEPPED follows; nothing is computed, encoded
                          or begun before that */
    /* Server: append `sum` to the log, durably; LOGGED follows. With attempt 0: the run goes back
     * to the state after the entry of `sum.step`, in the term `sum.term`, and the entries after
     * that are void. */
    TARRY_EFFECT_LOG,
    /* Worker, with feedback: of the stripes in `stood` what their last ENCODE left is their
     * residual from now on; of those in `voids` it is zero. Of all others it stays what it is. */
    TARRY_EFFECT_SETTLE,
    /* Worker, of secure sums: the server has broken the rule `refusal`. Nothing more must be sent,
     * and the worker's process is to end and say why: its machine takes nothing any more. */
    TARRY_EFFECT_REFUSE,
} tarry_effect_type;

typedef struct tarry_effect {
    tarry_effect_type type;
    uint32_t worker;
    tarry_message message;
    tarry_reject reject;
    uint64_t round;
    uint32_t attempt;
    uint32_t stripe;
    uint32_t slot;
    uint32_t chunk;
    bool begins;                  /* FOLD */
    float weight;                 /* FOLD: what the gradient is added times */
    tarry_refusal refusal;        /* REFUSE */
    tarry_absence reason;         /* LEFT_OUT */
    uint64_t waited_ns, limit_ns; /* LEFT_OUT */
    /* ENCODE: load x parts, row-major by position; rows of copies outside psi are zero; borrowed
     * until the next step */
    const float *coefficients;
    /* ENCODE: a bit per position, set where the gradient is that of the round before; borrowed
     * until the next step */
    const uint64_t *stale;
    /* SETTLE: a bit per stripe; borrowed until the next step; no stripe is in both */
    const uint64_t *stood, *voids;
    double scale;     /* COMBINE, REDUCE: the same for all parts of an attempt; 1 but for
                         TARRY_FILL_SCALE */
    tarry_sum_id sum; /* REDUCE (digest 0), FETCH, LOAD, STEP, LOG */
    uint32_t from;    /* FETCH, LOAD */
    bool digests;     /* STEP, LOAD: the event's `state` is wanted */
    bool empty;       /* REDUCE: it contributes zeros */
    const tarry_round_result *result; /* DONE: borrowed until the next step */
} tarry_effect;

/* Borrowed until the machine's next step. */
typedef struct tarry_effects {
    size_t count;
    const tarry_effect *items;
} tarry_effects;

#ifdef __cplusplus
}
#endif

#endif
