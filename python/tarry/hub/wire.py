# SPDX-License-Identifier: Apache-2.0
"""Messages between the hub and a worker: a line of JSON, and as many bytes behind it as its `bytes` says."""

import contextlib
import json
import socket
from typing import Any, cast

from ..errors import FormatError

MOST_LINE = 1 << 22
Message = dict[str, Any]


class Closed(Exception):
    """The other side is gone."""


class Wire:
    """One connection; one thread at a time sends, and one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")

    def send(self, message: Message, payload: bytes = b"") -> None:
        line = json.dumps(message | {"bytes": len(payload)}, separators=(",", ":")).encode() + b"\n"
        try:
            self._connection.sendall(line)
            if payload:
                self._connection.sendall(payload)
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self) -> tuple[Message, bytes]:
        """Raises Closed, and FormatError for what is no message."""
        try:
            line = self._file.readline(MOST_LINE)
            if not line.endswith(b"\n"):
                if len(line) == MOST_LINE:
                    raise FormatError("a line of the hub's protocol is too long")
                raise Closed("the connection was closed")
            told: Any = json.loads(line)
            message = cast(Message, told) if isinstance(told, dict) else {}
            size: Any = message.get("bytes")
            if not isinstance(size, int) or not 0 <= size < 1 << 48:
                raise FormatError("a message of the hub's protocol has no length")
            payload = self._file.read(size)
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, FormatError):
                raise
            if isinstance(error, OSError):
                raise Closed(str(error)) from None
            raise FormatError(f"no message of the hub's protocol: {error}") from None
        if len(payload) != size:
            raise Closed("the connection was closed")
        return message, payload

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._connection.close()
