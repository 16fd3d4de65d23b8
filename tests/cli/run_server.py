# SPDX-License-Identifier: Apache-2.0
"""A server that runs nothing and tells viewers what a test wants, by docs/wire.md."""

import json
import socket
import struct
import threading

WELCOME, REFUSED, BYE, STATUS = 2, 3, 5, 13
DONE, RESTART = 2, 3
VERSION = 13  # of the protocol
SILENCE_NS = 600 * 10**9  # it says nothing unless it is told to


def frame(kind, body):
    return struct.pack("<IBBH", len(body), kind, 0, 0) + body


def text(words):
    return bytes([len(words)]) + words


def setting(name, value):
    return bytes([len(name)]) + name + struct.pack("<H", len(value)) + value


def welcome():
    terms = (setting(b"workers", struct.pack("<I", 4)) + setting(b"dimension", struct.pack("<Q", 10))
             + setting(b"silence_ns", struct.pack("<Q", SILENCE_NS)))
    return frame(WELCOME, struct.pack("<HHI16s32sQQ", VERSION, 0, 2**32 - 1, b"j" * 16, b"p" * 32, 0, 0) + terms)


def worker(state="computing", held=4, done=2, came=1, pace=1.23e-3, heard=0, received=12_300_000, rack=""):
    return {"state": state, "heard_seconds": heard, "arrivals": came, "chunks_held": held, "chunks_done": done,
            "chunks_ever": 9, "chunk_seconds": pace, "received_bytes": received, "sent_bytes": 0, "rack": rack}


def document(workers, round=1234, note="loss 0.4123", others={}):
    """How a run stands, by docs/status.schema.json."""
    return {"version": 1,
            "run": {"rounds_done": round - 1, "rounds": 5000, "rounds_exact": 1230, "running": True, "waiting": False,
                    "round_seconds": 0.0432, "median_seconds": 0.081, "attempts": 1, "note": note},
            "sum": None, "workers": [{"worker": id, **one} for id, one in enumerate(workers)], "unlisted": others}


def status(workers, **others):
    return frame(STATUS, json.dumps(document(workers, **others)).encode())


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
                hello = connection.recv(89, socket.MSG_WAITALL)
                with self.changed:  # who has read the answer finds the connection here
                    connection.sendall(self.answer if self.answer is not None else welcome() + self.greeting)
                    self.hellos.append(hello)
                    self.connections.append(connection)
                    self.changed.notify_all()
            except OSError:
                return

    def wait(self, count, seconds=60):
        """Until so many viewers have come, in all."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.connections) >= count, seconds):
                raise TimeoutError("no viewer came")

    def last(self):
        with self.changed:
            return self.connections[-1]

    def send(self, content):
        self.last().sendall(content)

    def cut(self):
        """Ends the last connection."""
        self.last().close()

    def close(self):
        """Ends all, and listens no more; again: nothing."""
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.connections:
            connection.close()
