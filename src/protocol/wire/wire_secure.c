/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire_secure.h"

#include <math.h>

#include "protocol/wire/wire_cursor.h"
#include "protocol/wire/wire_layout.h"

enum { MOST_FRACTION = 126 }; /* 2^-f is a normal float */

size_t wire_secure_encode(const wire_secure *rules, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, rules->bits, 4);
    at = bytes_put(at, (uint32_t)rules->fraction, 4);
    at = bytes_put_f64(at, rules->bound);
    at = bytes_put(at, rules->least, 8);
    at = bytes_put(at, rules->colluders, 4);
    at = bytes_put(at, 0, 4);
    at = wire_put_bytes(at, rules->roster, WIRE_DIGEST_BYTES);
    return wire_close(WIRE_SECURE, frame, at, 0);
}

int wire_secure_decode(const wire_head *head, const uint8_t *body, wire_secure *rules)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_secure read = {.bits = (uint32_t)wire_get(&from, 4)};
    wire_require(&from, read.bits == 32 || read.bits == 64);
    read.fraction = (int32_t)(uint32_t)wire_get(&from, 4);
    wire_require(&from, read.fraction >= -MOST_FRACTION && read.fraction <= MOST_FRACTION);
    const uint8_t *bound = wire_take(&from, 8);
    read.bound = bound != NULL ? bytes_get_f64(bound) : 0;
    wire_require(&from, read.bound > 0 && isfinite(read.bound)); /* a NaN is not */
    read.least = wire_get(&from, 8);
    read.colluders = (uint32_t)wire_get(&from, 4);
    wire_get_zeros(&from, 4);
    wire_get_bytes(&from, read.roster, WIRE_DIGEST_BYTES);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *rules = read;
    return TARRY_OK;
}

size_t wire_key_encode(const wire_key *key, uint8_t *frame)
{
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, key->worker, 4);
    at = bytes_put(at, key->epoch, 4);
    at = wire_put_bytes(at, key->instance, WIRE_ID_BYTES);
    at = wire_put_bytes(at, key->key, WIRE_KEY_BYTES);
    at = bytes_put(at, key->numerics, 8);
    at = bytes_put(at, key->certificate_size, 2);
    at = bytes_put(at, key->signature_size, 2);
    at = wire_put_bytes(at, key->certificate, key->certificate_size);
    at = wire_put_bytes(at, key->signature, key->signature_size);
    return wire_close(WIRE_KEY, frame, at, 0);
}

int wire_key_decode(const wire_head *head, const uint8_t *body, wire_key *key)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_key read = {.worker = (uint32_t)wire_get(&from, 4)};
    read.epoch = (uint32_t)wire_get(&from, 4);
    wire_get_bytes(&from, read.instance, WIRE_ID_BYTES);
    wire_get_bytes(&from, read.key, WIRE_KEY_BYTES);
    read.numerics = wire_get(&from, 8);
    read.certificate_size = (uint16_t)wire_get_between(&from, 2, 1, WIRE_CERTIFICATE_BYTES);
    read.signature_size = (uint16_t)wire_get_between(&from, 2, 1, WIRE_SIGNATURE_BYTES);
    read.certificate = wire_take(&from, read.certificate_size);
    read.signature = wire_take(&from, read.signature_size);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *key = read;
    return TARRY_OK;
}
