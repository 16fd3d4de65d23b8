/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/worker/tcp_worker.h"

worker_fault tcp_worker_take_share(tarry_tcp_worker *worker, const wire_head *head,
                                   const uint8_t *body)
{
    worker_link *link = &worker->link;
    wire_share words;
    if (worker->settings.secure.required || !channel_is_unix(link->channel) ||
        wire_share_decode(head, body, &words) != TARRY_OK)
        return "the server shares memory in a way that makes no sense";
    share *memory = words.kind == WIRE_SHARE_PART ? &link->part : &link->shm_parameters;
    share_close(memory);
    bool opened =
        share_open(words.name, (size_t)words.bytes, link->server_user, memory) == TARRY_OK;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_shared answer = {.kind = words.kind, .opened = opened};
    bool sent = channel_send(link->channel, frame, wire_shared_encode(&answer, frame));
    return sent ? NULL : WORKER_LINK_OVER;
}

static void beat(void *user)
{
    tcp_worker_beat_aside(user);
}

/* The loop says that it is there while it copies: the server would take it for lost otherwise. */
bool tcp_worker_read_shm_parameters(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    size_t count = (size_t)link->welcome.parameters;
    const sealed_pause pause = {beat, worker};
    return link->shm_parameters.memory != NULL &&
           link->shm_parameters.bytes == share_parameters_bytes(count) &&
           share_copy(&link->shm_parameters, link->waiting.round, link->waiting.place, count,
                      &pause);
}

void tcp_worker_drop_shares(tarry_tcp_worker *worker)
{
    share_close(&worker->link.part);
    share_close(&worker->link.shm_parameters);
    worker->link.near = false;
}
