# SPDX-License-Identifier: Apache-2.0
"""A peer that says what a test tells it to: over plain TCP or TLS, in order or not."""

import contextlib
import os
import socket
import ssl

import frames
from frames import Kind, Type

WAIT = 100


def context(folder, authority=None):
    """What a member's folder gives to connect with; None: no certificate. It believes that folder's authority."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(os.path.join(authority or folder, "ca.pem"))
    if folder is not None:
        made.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
    return made


class Peer:
    def __init__(self, address, tls=None):
        self._received = b""
        self.socket = socket.create_connection(address, timeout=WAIT)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="tarry-server")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.socket.close()

    def send(self, *parts):
        """False: the other side has closed the connection."""
        try:
            self.socket.sendall(b"".join(parts))
        except OSError:
            return False
        return True

    def receive(self):
        """The next frame and its body; None at the end. Whoever reads is there: a probe is answered."""
        head = self._take(frames.HEAD_BYTES)
        if head is None:
            return None
        length, kind, _ = frames.HEAD.unpack(head)
        body = self._take(length)
        if body is None:
            return None
        frame = frames.look(head + body)
        if frame.is_message(Type.PROBE):
            self.send(frames.message(Type.ALIVE, round=frame.round, epoch=frame.epoch))
        return frame, body

    def await_kind(self, *kinds):
        """The first frame of one of these kinds; None: the connection ended before."""
        while (got := self.receive()) is not None:
            if got[0].kind in kinds:
                return got
        return None

    def await_message(self, type):
        while (got := self.receive()) is not None:
            if got[0].is_message(type):
                return got[0]
        return None

    def end(self):
        """Reads until the other side closes; the reason and text of its REFUSED, or None if it didn't say."""
        got = self.await_kind(Kind.REFUSED)
        return None if got is None else frames.refusal(got[1])

    def join(self, worker, data=frames.ZEROS, plan=None):
        """Becomes that worker; gives back WELCOME, and keeps the job's text."""
        self.send(frames.hello(worker))
        got = self.await_kind(Kind.WELCOME, Kind.REFUSED)
        assert got is not None and got[0].kind == Kind.WELCOME, got
        welcome = frames.welcome(got[1])
        left, self.job = welcome.plan_bytes + welcome.job_bytes, b""
        while left > 0:
            body = self.await_kind(Kind.BLOB)[1]
            left -= len(body) - frames.BLOB_BYTES
            if body[0] == frames.JOB_BLOB:
                self.job += body[frames.BLOB_BYTES:]
        self.send(frames.ready(plan or welcome.plan, data))
        return welcome

    def _take(self, size):
        while len(self._received) < size:
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                raise AssertionError("the server says nothing more, and does not close the connection") from None
            except OSError:
                data = b""
            if not data:
                return None
            self._received += data
        taken, self._received = self._received[:size], self._received[size:]
        return taken
