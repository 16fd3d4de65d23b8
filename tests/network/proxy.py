# SPDX-License-Identifier: Apache-2.0
"""
A TCP proxy between one worker and the server, which makes the link between them as bad as a test wants it: late, narrow,
stalled, cut and healed, at given times or, on links in plain text, at given bytes of a frame.

Bytes go through each direction of each connection in this order: a reader takes them as they come; `delay` seconds
later, and no faster than `rate`, they go on. The delay costs no bandwidth: as much is on its way as fits into it. Nor
does a thread that is woken a little late: what the link would have carried meanwhile goes on at once.
"""

import asyncio
import collections
import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Callable

from frames import HEAD_BYTES, MESSAGE_BYTES, Frame, look

UP = "up"  # from the worker to the server
DOWN = "down"
CHUNK = 1 << 16
MOST_IN_FLIGHT = 1 << 24
MOST_LATE = 0.05  # seconds, after which it is the link that stood still
READY_SECONDS = 60

OPEN = "open"
HOLE = "hole"  # connections stay, nothing goes through, nobody is told
SHUT = "shut"  # connections are reset, new ones as well


@dataclass
class Watch:
    """
    Calls `action(frame)` once, in the proxy's thread, when `after` bytes of the body of a frame that `matches`, or of
    a PART's numbers, have gone through; None: all of it; -1: when it has come, and nothing of it has gone on. What the
    action does to the link holds from that byte on.
    """

    way: str
    matches: Callable[[Frame], bool]
    action: Callable[[Frame], None]
    after: int | None = None

    def position(self, frame):
        """In bytes from the frame's first one."""
        if self.after is None:
            return HEAD_BYTES + frame.length
        if self.after < 0:
            return 0
        return HEAD_BYTES + min(MESSAGE_BYTES + self.after, frame.length)


class Cutter:
    """Follows the frames of one direction, and cuts its bytes where a watch strikes."""

    def __init__(self, way, watches):
        self._way = way
        self._watches = watches  # the proxy's: each is taken out by the frame that it matches
        self._held = b""  # too few bytes to tell which frame begins
        self._frame = None
        self._gone = self._total = 0  # bytes of that frame
        self._marks = []  # where watches strike in it

    def cut(self, data):
        """Gives pieces of bytes, and between them (watch, frame) where one strikes."""
        data, self._held = self._held + data, b""
        while data:
            if self._frame is None and not self._begin(data):
                self._held = data
                return
            yield from self._strikes()
            end = self._marks[0][0] if self._marks else self._total
            piece, data = data[: end - self._gone], data[end - self._gone :]
            self._gone += len(piece)
            yield piece
            yield from self._strikes()
            if self._gone == self._total:
                self._frame = None

    def rest(self):
        return self._held

    def _begin(self, data):
        frame = look(data)
        if frame is None:
            return False
        self._frame, self._gone, self._total = frame, 0, HEAD_BYTES + frame.length
        struck = [watch for watch in self._watches if watch.way == self._way and watch.matches(frame)]
        for watch in struck:
            self._watches.remove(watch)
        self._marks = sorted(((watch.position(frame), watch) for watch in struck), key=lambda mark: mark[0])
        return True

    def _strikes(self):
        while self._marks and self._marks[0][0] == self._gone:
            yield self._marks.pop(0)[1], self._frame


class Pipe:
    """One direction of one connection."""

    def __init__(self, proxy, way, source, sink):
        self._proxy, self._way, self._source, self._sink = proxy, way, source, sink
        self._queue = collections.deque()  # (when it came, bytes); no bytes: the end
        self._in_flight = 0
        self._changed = asyncio.Event()
        self._free = 0.0  # when the link has carried what was put on it
        self._cutter = Cutter(way, proxy.watches) if proxy.framed else None

    def start(self, group):
        group.create_task(self._read())
        group.create_task(self._write())

    def _room(self):
        """What a link of this rate and delay holds, and a socket's buffer."""
        rate = self._proxy.rate
        return MOST_IN_FLIGHT if rate is None else CHUNK + rate * self._proxy.delay

    async def _read(self):
        loop = asyncio.get_running_loop()
        data = b"begin"
        while data:
            while self._in_flight >= self._room():
                await self._wait()
            data = await loop.sock_recv(self._source, CHUNK)
            self._queue.append((time.monotonic(), data))
            self._in_flight += len(data)
            self._changed.set()

    async def _write(self):
        while True:
            while not self._queue:
                await self._wait()
            came, data = self._queue.popleft()
            await sleep_until(came + self._proxy.delay)
            if not data:
                await self._pass(self._cutter.rest() if self._cutter else b"", came + self._proxy.delay)
                await self._proxy.passable(self._way)
                self._sink.shutdown(socket.SHUT_WR)
                return
            for piece in self._cutter.cut(data) if self._cutter else [data]:
                if isinstance(piece, tuple):
                    watch, frame = piece
                    watch.action(frame)
                    await asyncio.sleep(0)  # if it has reset the connection, this is where it ends
                else:
                    await self._pass(piece, came + self._proxy.delay)
            self._in_flight -= len(data)
            self._changed.set()

    async def _pass(self, data, due):
        """Passes on what could go at that time at the earliest."""
        loop = asyncio.get_running_loop()
        while data:
            await self._proxy.passable(self._way)
            rate = self._proxy.rate
            size = len(data) if rate is None else max(int(rate * 0.005), 1)
            piece, data = data[:size], data[size:]
            if rate is not None:
                self._free = max(self._free, due, time.monotonic() - MOST_LATE) + len(piece) / rate
                await sleep_until(self._free)
            await loop.sock_sendall(self._sink, piece)
            self._proxy.passed[self._way] += len(piece)

    async def _wait(self):
        self._changed.clear()
        await self._changed.wait()


async def sleep_until(when):
    late = when - time.monotonic()
    if late > 0:
        await asyncio.sleep(late)


class Proxy:
    """
    Listens on a port of its own and passes connections on to `target`, in a thread of its own. What its methods change
    holds at once, for the connections there are and those to come; they may be called from any thread and by watches.
    With `framed` the link is plain text and can be watched. `inside` is a context manager in which its sockets are made
    (a network namespace).
    """

    def __init__(self, target, delay=0.0, rate=None, framed=False, inside=None, host="127.0.0.1"):
        self.target, self.delay, self.rate, self.framed = target, delay, rate, framed
        self.watches = []
        self.passed = {UP: 0, DOWN: 0}  # bytes
        self.connections = 0  # so far
        self.address = None
        self._state = {UP: OPEN, DOWN: OPEN}
        self._inside, self._host = inside or contextlib.nullcontext(), host
        self._pairs = {}  # the sockets of each connection's task

    def __enter__(self):
        ready = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(ready,), daemon=True)
        self._thread.start()
        if not ready.wait(READY_SECONDS) or self.address is None:
            raise RuntimeError("the proxy does not start")
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(READY_SECONDS)

    # What a test does to the link.

    def watch(self, way, matches, action, after=None):
        """Gives back the watch, which is among self.watches until it strikes."""
        watch = Watch(way, matches, action, after)
        self.watches.append(watch)
        return watch

    def hole(self, *ways):
        """Everything that comes in from now on, and what is on its way, waits until the link is healed."""
        self._call(self._set, ways or (UP, DOWN), HOLE)

    def shut(self):
        """Resets all connections, and those to come."""
        self._call(self._set, (UP, DOWN), SHUT)
        self._call(self._reset)

    def reset(self):
        """Resets the connections there are."""
        self._call(self._reset)

    def heal(self):
        self._call(self._set, (UP, DOWN), OPEN)

    def stall(self, seconds, *ways):
        """A hole that heals by itself."""
        self.hole(*ways)
        self._call(lambda: self._loop.call_later(seconds, self._set, ways or (UP, DOWN), OPEN))

    def later(self, seconds, action):
        """Calls action in so many seconds in the proxy's thread."""
        self._call(lambda: self._loop.call_later(seconds, action))

    # The proxy's own thread.

    async def passable(self, way):
        while self._state[way] != OPEN:
            self._turned.clear()
            await self._turned.wait()

    def _call(self, function, *arguments):
        if threading.current_thread() is self._thread:
            function(*arguments)
            return
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(*arguments), done.set()))
        done.wait(READY_SECONDS)

    def _set(self, ways, state):
        for way in ways:
            self._state[way] = state
        self._turned.set()

    def _reset(self):
        for task, sockets in self._pairs.items():
            for end in sockets:
                reset_on_close(end)
            task.cancel()

    def _main(self, ready):
        try:
            with self._inside:
                listener = socket.create_server((self._host, 0))
                asyncio.run(self._serve(listener, ready))
        finally:
            ready.set()

    async def _serve(self, listener, ready):
        self._loop, self._turned, self._end = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        listener.setblocking(False)
        self.address = listener.getsockname()
        ready.set()
        accepting = asyncio.create_task(self._accept(listener))
        await self._end.wait()
        self._reset()
        accepting.cancel()
        await asyncio.gather(accepting, *self._pairs, return_exceptions=True)
        listener.close()

    async def _accept(self, listener):
        while True:
            client, _ = await self._loop.sock_accept(listener)
            if self._state[UP] == SHUT:
                reset_on_close(client)
                client.close()
                continue
            self.connections += 1
            client.setblocking(False)
            task = asyncio.create_task(self._connect(client))
            self._pairs[task] = [client]
            task.add_done_callback(self._forget)

    async def _connect(self, client):
        await self.passable(UP)
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setblocking(False)
        self._pairs[asyncio.current_task()].append(server)
        try:
            await self._loop.sock_connect(server, self.target)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as group:
                Pipe(self, UP, client, server).start(group)
                Pipe(self, DOWN, server, client).start(group)
        except* OSError:  # one side is gone: so is the other
            for end in (client, server):
                reset_on_close(end)

    def _forget(self, task):
        for end in self._pairs.pop(task):
            end.close()


def reset_on_close(end):
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
