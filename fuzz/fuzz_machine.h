/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that a network server runs on, as far as the server sees of it, played in memory: a
 * clock, sockets and a thread (fuzz_machine.c), and libuv's loop (fuzz_loop.c). All
 * of it goes on only when it is told to, in the caller's thread, so that the same calls always lead
 * to the same. The linker puts it in the place of the real one (fuzz/meson.build).
 */
#ifndef FUZZ_MACHINE_H
#define FUZZ_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    MACHINE_ROOM_IN = 1 << 14,  /* bytes on their way to the server */
    MACHINE_ROOM_OUT = 1 << 10, /* and from it, of one connection */
};

/* Begins anew, at one second; what there was before must have been closed. A thread that is started
 * from now on until machine_end is the machine's; at most one. */
void machine_begin(void);
void machine_end(void);

/* ---- the clock, in nanoseconds ---- */

uint64_t machine_now(void);
/* Not backwards. */
void machine_set_time(uint64_t now_ns);

/* ---- sockets: both ends have the same number ---- */

/* A new connection, over a Unix socket or TCP; -1: there are too many. The other end stays until
 * machine_leave, the server's until it closes it. */
int machine_connect(bool is_unix);
/* Bytes of the first ones for which there is room; they are on their way to the server. */
size_t machine_send(int fd, const uint8_t *bytes, size_t size);
/* Bytes that the server has sent, `room` at most. *over: it ends its stream behind them. */
size_t machine_receive(int fd, uint8_t *bytes, size_t room, bool *over);
/* Sends no more; what comes is still received. */
void machine_end_sending(int fd);
/* Closes the other end. broken: what was on its way is lost, and the server sees an error. */
void machine_leave(int fd, bool broken);

/* Connections that the server has, and whose other ends were closed. */
size_t machine_count_left(void);

/* What can be done without waiting, of UV_READABLE and UV_WRITABLE. */
int machine_socket_events(int fd);
bool machine_socket_is_broken(int fd);

/* ---- the thread and the loop ---- */

/* It goes on until it waits for something, unless it rests. */
void machine_run_thread(void);
bool machine_thread_is_due(void);
void machine_rest(bool rests);

/* One turn, in which the thread goes on, too. True: something came at its end, after all that is
 * done before the loop waits; there has to be another one. */
bool machine_turn(uv_loop_t *loop);
/* Whether another turn would find something to do, besides. */
bool machine_is_due(uv_loop_t *loop);
/* When the next timer is due; UINT64_MAX: none. */
uint64_t machine_next_timer(void);

#endif
