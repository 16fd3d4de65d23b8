/* SPDX-License-Identifier: Apache-2.0 */
/* A REPORT's frame, which is most of what comes in at a server. */
#ifndef PROTOCOL_CODEC_REPORT_H
#define PROTOCOL_CODEC_REPORT_H

#include <tarry/event.h>

/* Reads one of `size` bytes, at least a header's. Errors: FORMAT; nothing is set then. */
int codec_report_get(const uint8_t *frame, size_t size, tarry_message *message);

#endif
