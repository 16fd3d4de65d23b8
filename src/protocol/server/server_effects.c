/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/server/server_state.h"

#include <assert.h>

tarry_effect *server_emit(tarry_server *server, tarry_effect_type type, uint32_t worker)
{
    assert(server->effects.count < server->capacity);
    tarry_effect *effect = &server->items[server->effects.count++];
    *effect = (tarry_effect){.type = type, .worker = worker, .round = server->round};
    return effect;
}

tarry_effect *server_send(tarry_server *server, uint32_t worker, tarry_message_type type)
{
    tarry_effect *effect = server_emit(server, TARRY_EFFECT_SEND, worker);
    effect->message.type = type;
    effect->message.round = server->round;
    effect->message.epoch = server->members[worker].epoch;
    effect->message.attempt = server->attempt;
    return effect;
}

void server_left_out(tarry_server *server, uint32_t worker, tarry_absence reason,
                     uint64_t waited_ns, uint64_t limit_ns)
{
    tarry_effect *effect = server_emit(server, TARRY_EFFECT_LEFT_OUT, worker);
    effect->reason = reason;
    effect->waited_ns = waited_ns;
    effect->limit_ns = limit_ns;
}

int server_reject(tarry_server *server, uint32_t worker, tarry_reject why)
{
    server_emit(server, TARRY_EFFECT_REJECT, worker)->reject = why;
    return TARRY_OK;
}

void server_count_sent(tarry_server *server)
{
    for (size_t i = 0; i < server->effects.count; i++) {
        const tarry_effect *effect = &server->items[i];
        if (effect->type != TARRY_EFFECT_SEND)
            continue;
        server->result.control_bytes +=
            codec_size(&server->shapes[effect->worker], &effect->message);
        server->result.control_messages++;
    }
}
