# SPDX-License-Identifier: Apache-2.0
"""Messages between the hub and a worker, over the library's control connections: JSON, and as many bytes behind it as
its `bytes` says."""

import io
import json
from typing import Any, cast

from ..control import MOST_MESSAGE, Closed, Connection
from ..errors import FormatError
from .blob import Blob, view_of

__all__ = ["MOST_BYTES", "Closed", "Message", "Wire"]

MOST_TEXT = 1 << 22
MOST_BYTES = 1 << 48
Message = dict[str, Any]
# Kinds of the library's messages, each of which has a part of one of ours.
_TEXT, _END_OF_TEXT, _NUMBERS = 0, 1, 2


class Wire:
    """One connection. For one thread at a time, but `close` for any."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: Message, payload: Blob = b"") -> None:
        """Raises Closed."""
        numbers = view_of(payload).cast("B")
        text = memoryview(json.dumps(message | {"bytes": numbers.nbytes}, separators=(",", ":")).encode())
        for first in range(0, len(text), MOST_MESSAGE):
            is_end = first + MOST_MESSAGE >= len(text)
            self._connection.say(_END_OF_TEXT if is_end else _TEXT, text[first : first + MOST_MESSAGE])
        for first in range(0, len(numbers), MOST_MESSAGE):
            self._connection.say(_NUMBERS, numbers[first : first + MOST_MESSAGE])

    def receive(self, most_bytes: int = MOST_BYTES) -> tuple[Message, bytes]:
        """A message, and at most so many bytes behind it. Raises Closed, and FormatError for what is no message."""
        text, kind = b"", _TEXT
        while kind == _TEXT:
            kind, part = self._connection.take(bytes)
            text += part
            if len(text) > MOST_TEXT:
                raise FormatError("a message of the hub's protocol is too long")
        try:
            told: Any = json.loads(text)
        except ValueError as error:
            raise FormatError(f"no message of the hub's protocol: {error}") from None
        message = cast(Message, told) if isinstance(told, dict) else {}
        size: Any = message.get("bytes")
        if kind != _END_OF_TEXT or not isinstance(size, int) or not 0 <= size <= most_bytes:
            raise FormatError("a message of the hub's protocol has no length, or too large a one")
        payload = io.BytesIO()
        while payload.tell() < size:
            kind, _ = self._connection.take(payload.write)
            if kind != _NUMBERS or payload.tell() > size:
                raise FormatError("what follows a message of the hub's protocol is not as long as it says")
        return message, payload.getvalue()

    def is_open(self) -> bool:
        """Whether the other side is still there."""
        return self._connection.is_open()

    def close(self) -> None:
        """What was sent before still arrives."""
        self._connection.close()
