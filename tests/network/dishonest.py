# SPDX-License-Identifier: Apache-2.0
"""
A dishonest server: an honest one, and in front of it somebody with the server's credentials who changes what it says.

Workers connect here, and each connection goes on to the honest server with that worker's own credentials, which a real
dishonest server would not need: it has no honest one behind it. `tamper(worker, way, frame, body)` gives back the frames to
pass on in the place of each one, as a list of bytes; None: that one.
"""

import asyncio
import contextlib
import itertools
import operator
import os
import ssl
import struct
import threading

import frames
from frames import HEAD_BYTES, Kind, Type
from peer import context
from proxy import DOWN, READY_SECONDS, UP

CLOSING_SECONDS = 0.05  # in which the loop closes what was given up
LIVES_AND_HOLDERS, TERM = 0x80, 0x40  # of a SIGNAL's flags
# Behind the numbers of a masked stripe: how many chunks, how many numbers were clamped, and two words that are zero.
COUNTS, CHUNKS_AT = 4, -4


class Signal:
    """A SIGNAL with lives and holders, as it can be written again."""

    def __init__(self, body, workers, chunks):
        start = frames.MESSAGE_BYTES + (4 if body[1] & TERM else 0)
        end = start + 4 * (workers + chunks)
        words = list(struct.unpack(f"<{workers + chunks}I", body[start:end]))
        self._before, self._behind = bytearray(body[:start]), body[end:]
        self.lives, self.holders = words[:workers], words[workers:]
        self.epoch, self.round, self.attempt = struct.unpack_from("<IQI", body, 4)

    def bytes(self):
        struct.pack_into("<IQI", self._before, 4, self.epoch, self.round, self.attempt)
        numbers = struct.pack(f"<{len(self.lives) + len(self.holders)}I", *self.lives, *self.holders)
        return frames.frame(Kind.MESSAGE, bytes(self._before) + numbers + self._behind)


def is_signal(frame, body):
    return frame.is_message(Type.SIGNAL) and body[1] & LIVES_AND_HOLDERS


def parts_of(body, bits):
    """The masked words of a PART."""
    words = body[frames.MESSAGE_BYTES:]
    return list(struct.unpack(f"<{len(words) * 8 // bits}{'I' if bits == 32 else 'Q'}", words))


def learns(parts, chunks, bits):
    """
    Which sums and differences of masked parts tell of less than all chunks. A part is a list of words, one of which counts
    chunks: where the masks cancel, what is counted is a number of chunks; else it looks drawn from 2^bits. The sum of all
    chunks tells nothing, nor does that of none, unless its numbers differ from zero.
    """
    found, modulus = [], 2**bits
    for signs in itertools.product((0, 1, -1), repeat=len(parts)):
        words = [sum(map(operator.mul, signs, column)) % modulus for column in zip(*parts)] or [0] * COUNTS
        count = min(words[CHUNKS_AT], modulus - words[CHUNKS_AT])
        if 0 < count < chunks or (count == 0 and any(words[:-COUNTS])):
            found.append(signs)
    return found


class Dishonest:
    """Listens, in a thread of its own, with the credentials of keys/server."""

    def __init__(self, target, keys, tamper=None):
        self.target, self._keys, self.tamper = target, keys, tamper or (lambda *_: None)
        self.failed = []  # what went wrong in tamper
        self._senders = {}

    def __enter__(self):
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(ready)), daemon=True)
        self._thread.start()
        if not ready.wait(READY_SECONDS):
            raise RuntimeError("the dishonest server does not start")
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(READY_SECONDS)

    def _context(self):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        folder = os.path.join(self._keys, "server")
        made.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
        made.load_verify_locations(os.path.join(folder, "ca.pem"))
        made.verify_mode = ssl.CERT_REQUIRED
        return made

    async def _main(self, ready):
        self._loop, self._end, self._tasks = asyncio.get_running_loop(), asyncio.Event(), set()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context())
        self.address = server.sockets[0].getsockname()
        ready.set()
        await self._end.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()
        await asyncio.sleep(CLOSING_SECONDS)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        subject = dict(pair[0] for pair in writer.get_extra_info("peercert")["subject"])
        name = subject["commonName"]
        ends = [writer]
        try:
            up_reader, up_writer = await asyncio.open_connection(
                *self.target, ssl=context(os.path.join(self._keys, name)), server_hostname="tarry-server")
            ends.append(up_writer)
            worker = int(name.partition("-")[2])
            pumps = [asyncio.create_task(self._pump(worker, UP, reader, up_writer)),
                     asyncio.create_task(self._pump(worker, DOWN, up_reader, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end.transport.abort()
            self._tasks.discard(task)

    async def _pump(self, worker, way, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, ssl.SSLError):
            while True:
                head = await reader.readexactly(HEAD_BYTES)
                length, _, _ = frames.HEAD.unpack(head)
                body = await reader.readexactly(length)
                frame = frames.look(head + body)
                try:
                    said = self.tamper(worker, way, frame, body)
                except Exception as fault:  # a test looks at it
                    self.failed.append(fault)
                    raise
                writer.write(b"".join([head + body] if said is None else said))
                await writer.drain()
