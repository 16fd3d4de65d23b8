/* SPDX-License-Identifier: Apache-2.0 */
/* What messages tell those who watch: the state of each worker, and who gets what from whom where
 * workers make the sum. */
#include "base/sum_id.h"
#include "runtime/tcp/server/tcp_server.h"

static void tell(tarry_tcp_server *server, tarry_tcp_notice_type type, uint32_t worker,
                 const tarry_message *message)
{
    tcp_server_notify(server,
                      &(tarry_tcp_notice){
                          .type = type,
                          .round = server->base.host->round.number,
                          .worker = worker,
                          .sum = &message->sum,
                          .from = message->from != worker ? message->from : TARRY_TCP_NO_WORKER,
                      });
}

void tcp_server_note_sent(tarry_tcp_server *server, uint32_t worker, const tarry_message *message)
{
    tcp_member *member = &server->members[worker];
    switch (message->type) {
    case TARRY_MESSAGE_ROUND:
        member->state = WIRE_WORKER_RECEIVING;
        break;
    case TARRY_MESSAGE_RESUME:
        member->state = WIRE_WORKER_COMPUTING;
        break;
    case TARRY_MESSAGE_SIGNAL:
        if (member->state != WIRE_WORKER_LATE)
            member->state = message->sum.step > 0 ? WIRE_WORKER_SUMMING : WIRE_WORKER_SENDING;
        server->signalled = message->sum;
        break;
    case TARRY_MESSAGE_COMMIT:
        member->steps_on = message->sum.step;
        break;
    case TARRY_MESSAGE_FETCH:
        tell(server, TARRY_TCP_FETCH, worker, message);
        break;
    case TARRY_MESSAGE_LOAD:
        member->steps_on = 0;
        tell(server, TARRY_TCP_LOAD, worker, message);
        break;
    case TARRY_MESSAGE_FINISH:
    case TARRY_MESSAGE_NEWS:
    case TARRY_MESSAGE_PROBE:
    case TARRY_MESSAGE_REPORT:
    case TARRY_MESSAGE_PART:
    case TARRY_MESSAGE_ALIVE:
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
    case TARRY_MESSAGE_STATE:
        break;
    }
}

void tcp_server_note_said(tarry_tcp_server *server, uint32_t worker, const tarry_message *message)
{
    tcp_member *member = &server->members[worker];
    if (member->state != WIRE_WORKER_SUMMING || !sum_id_named(&message->sum, &server->signalled))
        return;
    if (message->type == TARRY_MESSAGE_HELD)
        member->state = WIRE_WORKER_HOLDING;
    if (message->type != TARRY_MESSAGE_FAILED)
        return;
    member->state = WIRE_WORKER_RESTING;
    tell(server, TARRY_TCP_SUM_FAILED, worker, message);
}
