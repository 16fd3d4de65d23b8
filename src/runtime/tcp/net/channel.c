/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/channel.h"

void channel_close(channel *self)
{
    if (self != NULL)
        self->methods->close(self);
}

void channel_close_gently(channel *self, uint64_t most_ns)
{
    if (self != NULL)
        self->methods->close_gently(self, most_ns);
}

bool channel_send(channel *self, const uint8_t *frame, size_t size)
{
    return self->methods->send(self, frame, size);
}

size_t channel_send_aside(channel *self, const uint8_t *frame, size_t size)
{
    return self->methods->send_aside(self, frame, size);
}

bool channel_send_load(channel *self, const uint8_t *prefix, size_t size, const channel_load *load)
{
    return self->methods->send_load(self, prefix, size, load);
}

bool channel_drop(channel *self, uint32_t tag)
{
    return self->methods->drop(self, tag);
}

bool channel_detach(channel *self, uint32_t tag)
{
    return self->methods->detach(self, tag);
}

void channel_divert(channel *self, wire_kind kind)
{
    self->methods->divert(self, kind);
}

size_t channel_loads(const channel *self)
{
    return self->methods->loads(self);
}

void channel_allow(channel *self, uint32_t most_length)
{
    self->methods->allow(self, most_length);
}

void channel_resume(channel *self)
{
    self->methods->resume(self);
}

uint64_t channel_received(const channel *self)
{
    return self->methods->received(self);
}

uint64_t channel_sent(const channel *self)
{
    return self->methods->sent(self);
}

const char *channel_failure(const channel *self)
{
    return self->methods->failure(self);
}

const char *channel_peer(const channel *self)
{
    return self->methods->peer(self);
}

SSL *channel_ssl(const channel *self)
{
    return self->methods->ssl(self);
}

X509 *channel_certificate(const channel *self)
{
    return self->methods->certificate(self);
}

bool channel_is_unix(const channel *self)
{
    return self->methods->is_unix(self);
}

uint64_t channel_latency_ns(const channel *self)
{
    return self->methods->latency_ns(self);
}

uint64_t channel_round_trip_ns(const channel *self)
{
    return self->methods->round_trip_ns(self);
}
