# SPDX-License-Identifier: Apache-2.0
"""What the launcher and the process of `--preload` tell each other: JSON objects, a socket's messages."""

import json
import socket
from typing import Any

_MOST_BYTES = 1 << 17  # about what the system takes
_MOST_STREAMS = 2


def send(to: socket.socket, streams: list[int] | None = None, **told: object) -> None:
    """streams: of this process, which the other one gets, too. Raises OSError."""
    socket.send_fds(to, [json.dumps(told).encode()], streams or [])


def receive(by: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message, and its streams; None: the other side has ended. Raises OSError."""
    try:
        message, streams, _, _ = socket.recv_fds(by, _MOST_BYTES, _MOST_STREAMS)
    except ConnectionResetError:
        return None, []
    return json.loads(message) if message else None, streams
