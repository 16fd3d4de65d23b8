/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOL_SERVER_SKIP_H
#define PROTOCOL_SERVER_SKIP_H

#include <tarry/server.h>

/*
 * Of a server that was restored and has been given a log (tarry_server_log) which is at another
 * step than its checkpoint's was: what is drawn for a round must be drawn once, so the next round
 * is as many later, or earlier, as the log's last step is than `step`. Before anybody has joined.
 */
void server_skip_rounds(tarry_server *server, uint64_t step);

#endif
