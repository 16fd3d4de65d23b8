# SPDX-License-Identifier: Apache-2.0
"""Messages between the hub and a worker: a line of JSON, and as many bytes behind it as its `bytes` says."""

import contextlib
import json
import select
import socket
import ssl
from typing import Any, cast

from ..errors import FormatError
from .blob import Blob, view_of
from .trust import reason

MOST_LINE = 1 << 22
MOST_BYTES = 1 << 48
Message = dict[str, Any]


class Closed(Exception):
    """The other side is gone; `refused`: it has said by TLS that it does not take this side's credential."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Wire:
    """One connection, over TLS or in plain text. For one thread at a time, but `close` for any."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")

    def send(self, message: Message, payload: Blob = b"") -> None:
        numbers = view_of(payload)
        size = numbers.nbytes
        line = json.dumps(message | {"bytes": size}, separators=(",", ":")).encode() + b"\n"
        try:
            self._connection.sendall(line)
            if size:
                self._connection.sendall(numbers)
        except OSError as error:
            raise _closed(error) from None

    def receive(self, most_bytes: int = MOST_BYTES) -> tuple[Message, bytes]:
        """A message, and at most so many bytes behind it. Raises Closed, and FormatError for what is no message."""
        try:
            if self._file.peek(1)[:1] not in (b"{", b""):
                raise FormatError("what came is no message of the hub's protocol")
            line = self._file.readline(MOST_LINE)
            if not line.endswith(b"\n"):
                if len(line) == MOST_LINE:
                    raise FormatError("a line of the hub's protocol is too long")
                raise Closed("the connection was closed")
            told: Any = json.loads(line)
            message = cast(Message, told) if isinstance(told, dict) else {}
            size: Any = message.get("bytes")
            if not isinstance(size, int) or not 0 <= size <= most_bytes:
                raise FormatError("a message of the hub's protocol has no length, or too large a one")
            payload = self._file.read(size)
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, FormatError):
                raise
            if isinstance(error, OSError):
                raise _closed(error) from None
            raise FormatError(f"no message of the hub's protocol: {error}") from None
        if len(payload) != size:
            raise Closed("the connection was closed")
        return message, payload

    def is_open(self) -> bool:
        """Where nothing is due from the other side: whether it is still there."""
        look = select.poll()
        try:
            look.register(self._connection, select.POLLIN)
        except ValueError:  # closed on this side
            return False
        return not look.poll(0)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # beneath TLS, which another thread may be reading
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
        self._file.close()
        self._connection.close()


def _closed(error: OSError) -> Closed:
    refused = isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")
    return Closed(reason(error), refused=refused)
