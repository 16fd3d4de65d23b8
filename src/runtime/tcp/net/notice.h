/* SPDX-License-Identifier: Apache-2.0 */
/* How a server or a worker tells its observer. */
#ifndef TCP_NOTICE_H
#define TCP_NOTICE_H

#include <tarry/tcp.h>

/* Calls the observer, with "" for texts that are NULL. */
static inline void notice_tell(tarry_tcp_observe *observe, void *user, tarry_tcp_notice *notice)
{
    if (notice->peer == NULL)
        notice->peer = "";
    if (notice->text == NULL)
        notice->text = "";
    if (notice->rack == NULL)
        notice->rack = "";
    observe(user, notice);
}

#endif
