# SPDX-License-Identifier: Apache-2.0
"""What travels between the server and its peers (docs/wire.md), as far as the tests look at it or say it."""

import enum
import os
import struct
from dataclasses import dataclass

HEAD_BYTES = 8
MESSAGE_BYTES = 24  # of a message before its sets, or its numbers
BLOB_BYTES = 24  # of a BLOB before its bytes, the first of which says what it has:
PLAN_BLOB, JOB_BLOB = 1, 2
ANY_WORKER = 2**32 - 1
ZEROS = bytes(32)
VERSION = 13  # of the protocol
RANKING = 2  # of ranks and coefficients

HEAD = struct.Struct("<IB3s")
_MESSAGE = struct.Struct("<BBHIQII")
_HELLO = struct.Struct("<6sHHBBI16s16s32s")
_WELCOME = struct.Struct("<HHI16s32sQQ")
# The run's terms in their order: the form of a value (None: bytes), and the default, which is not sent. Later ones, which no
# test looks at, stay bytes.
_TERMS = {
    "workers": ("<I", None), "parameters": ("<Q", 0), "ships": ("<B", 0), "dimension": ("<Q", None),
    "stripe_length": ("<Q", 65536), "keep": (None, b"all"), "ahead": ("<I", 3), "fill": (None, b"none"),
    "conditioning_limit": ("<d", 1000.0), "silence_ns": ("<Q", 2 * 10**9), "sum": (None, b"server"),
    "compress": (None, b"none"), "compress_down": (None, b"none"), "compress_seed": ("<Q", 0), "compress_exact": ("<I", 0),
    "compress_share": ("<I", 0), "compress_rank": ("<I", 0), "compress_matrices": (None, b""), "secure": ("<I", 0),
    "secure_fraction": ("<i", 0), "secure_bound": ("<d", 0.0), "secure_colluders": ("<I", 0), "secure_least": ("<Q", 0),
    "secure_roster": (None, ZEROS),
}
_LATER = (None, None)


class Kind(enum.IntEnum):
    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    HEARTBEAT = 4
    BYE = 5
    MESSAGE = 6
    PARAMETERS = 7
    BLOB = 8
    FETCH = 9
    READY = 10
    KEY = 12
    STATUS = 13
    BATCH = 21


class Type(enum.IntEnum):
    ROUND = 0
    SIGNAL = 1
    RESUME = 2
    NEWS = 3
    PROBE = 4
    FINISH = 5
    REPORT = 6
    PART = 7
    ALIVE = 8


class Reason(enum.IntEnum):
    VERSION = 1
    FORMAT = 2
    IDENTITY = 3
    REVOKED = 4
    RANGE = 5
    TAKEN = 6
    FULL = 7
    DATA = 8
    FLOOD = 9
    CLOSING = 10
    ARRIVALS = 11
    RANKING = 12


@dataclass(frozen=True)
class Frame:
    """A frame's head and, of a MESSAGE, the fields that stand before its sets."""

    kind: int
    length: int  # of the body
    type: int | None = None
    epoch: int = 0
    round: int = 0
    attempt: int = 0
    index: int = 0  # PART: stripe; others: position

    def is_message(self, type):
        return self.kind == Kind.MESSAGE and self.type == type


def look(data):
    """The frame that `data` begins with; None if it takes more bytes to tell."""
    if len(data) < HEAD_BYTES:
        return None
    length, kind, _ = HEAD.unpack_from(data)
    if kind != Kind.MESSAGE or length < MESSAGE_BYTES:
        return Frame(kind, length)
    if len(data) < HEAD_BYTES + MESSAGE_BYTES:
        return None
    type, _, _, epoch, round, attempt, index = _MESSAGE.unpack_from(data, HEAD_BYTES)
    return Frame(kind, length, type, epoch, round, attempt, index)


def frame(kind, body=b"", length=None):
    return HEAD.pack(len(body) if length is None else length, kind, bytes(3)) + body


def hello(worker=ANY_WORKER, role=0, oldest=VERSION, newest=VERSION, instance=None, magic=b"TARRY\0",
          job=bytes(16), rack=b"", ranking=RANKING):
    instance = os.urandom(16) if instance is None else instance
    said = _HELLO.pack(magic, oldest, newest, role, ranking, worker, instance, job, ZEROS)
    return frame(Kind.HELLO, said + bytes([len(rack)]) + rack)


@dataclass(frozen=True)
class Welcome:
    worker: int
    plan: bytes  # digest
    workers: int
    dimension: int
    stripe_length: int
    plan_bytes: int
    job_bytes: int


def welcome(body):
    _, _, worker, _, plan, plan_bytes, job_bytes = _WELCOME.unpack_from(body)
    told = terms(body)
    return Welcome(worker, plan, told["workers"], told["dimension"], told["stripe_length"], plan_bytes, job_bytes)


def terms(body):
    """The terms of a WELCOME by their names, with their defaults."""
    told, at = {name: default for name, (_, default) in _TERMS.items()}, _WELCOME.size
    while at < len(body):
        name = body[at + 1:at + 1 + body[at]].decode()
        at += 1 + body[at]
        size, = struct.unpack_from("<H", body, at)
        value, at = body[at + 2:at + 2 + size], at + 2 + size
        form, _ = _TERMS.get(name, _LATER)
        told[name] = value if form is None else struct.unpack(form, value)[0]
    return told


def with_terms(body, told):
    """A WELCOME with other terms."""
    body = bytes(body[:_WELCOME.size])
    for name in told:
        form, default = _TERMS.get(name, _LATER)
        if told[name] != default:
            value = told[name] if form is None else struct.pack(form, told[name])
            body += bytes([len(name)]) + name.encode() + struct.pack("<H", len(value)) + value
    return body


def refusal(body):
    """Reason and text of a REFUSED."""
    return struct.unpack_from("<H", body)[0], body[3:].decode("ascii", "replace")


def ready(plan, data=ZEROS):
    """What it answers is the plan of WELCOME; nothing is said of numerics."""
    return frame(Kind.READY, plan + data + bytes(8 + 4))


def message(type, round=0, epoch=1, attempt=0, index=0, flags=0, sequence=0, behind=b""):
    return frame(Kind.MESSAGE, _MESSAGE.pack(type, flags, sequence, epoch, round, attempt, index) + behind)
