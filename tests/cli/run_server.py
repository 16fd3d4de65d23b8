# SPDX-License-Identifier: Apache-2.0
"""A server that runs nothing and tells viewers what a test wants, by docs/wire.md."""

import socket
import struct
import threading

WELCOME, REFUSED, BYE, STATUS = 2, 3, 5, 13
DONE, RESTART = 2, 3
VERSION = 11  # of the protocol
STATES = ("absent", "resting", "receiving", "computing", "sending", "late", "silent", "gone", "left", "behind",
          "summing", "holding")
NEVER = 2**64 - 1
SILENCE_NS = 600 * 10**9  # it says nothing unless it is told to


def frame(kind, body):
    return struct.pack("<IBBH", len(body), kind, 0, 0) + body


def text(words):
    return bytes([len(words)]) + words


def welcome():
    return frame(WELCOME, struct.pack("<HBBI16s32sIIQQQdQQQB11xQ12x", VERSION, 0, 0, 2**32 - 1, b"j" * 16, b"p" * 32, 4, 0, 10,
                                      10, 10, 1e6, SILENCE_NS, 0, 0, 0, 0) + text(b""))


def worker(state="computing", near=0, load=4, finished=2, came=1, chunks=9, pace_ns=1_230_000, heard_ns=0,
           received=12_300_000, sent=0, rack=b""):
    return struct.pack("<BBHIIIQQQQQ64s", STATES.index(state), near, 0, load, finished, came, chunks, pace_ns, heard_ns,
                       received, sent, rack)


def status(workers, round=1234, elapsed_ns=43_200_000, median_ns=81_000_000, rounds=5000, exact=1230, attempts=1,
           running=1, waiting=0, sum=(0, 0, 0, 0, 0, 0), note=b"loss 0.4123", others={}):
    return frame(STATUS, struct.pack("<QQQQQIIBBHQ5I24x12I", round - running, elapsed_ns, median_ns, rounds, exact, attempts,
                                     len(workers), running, waiting, 0, *sum, *(others.get(state, 0) for state in STATES))
                 + b"".join(workers) + text(note))


class RunServer:
    """Serves one connection after the other in a thread: WELCOME and `greeting`, then whatever send is given."""

    def __init__(self, greeting=b"", port=0, answer=None):
        self.greeting, self.answer = greeting, answer
        self.listener = socket.create_server(("127.0.0.1", port))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.port = self.listener.getsockname()[1]
        self.hellos, self.connections = [], []
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
                hello = connection.recv(105, socket.MSG_WAITALL)
                connection.sendall(self.answer if self.answer is not None else welcome() + self.greeting)
            except OSError:
                return
            with self.changed:
                self.hellos.append(hello)
                self.connections.append(connection)
                self.changed.notify_all()

    def wait(self, count, seconds=60):
        """Until so many viewers have come, in all."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.connections) >= count, seconds):
                raise TimeoutError("no viewer came")

    def send(self, content):
        self.connections[-1].sendall(content)

    def cut(self):
        """Ends the last connection."""
        self.connections[-1].close()

    def close(self):
        """Ends all, and listens no more; again: nothing."""
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.connections:
            connection.close()
