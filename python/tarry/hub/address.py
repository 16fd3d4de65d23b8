# SPDX-License-Identifier: Apache-2.0
"""Addresses of a hub: 'HOST:PORT', or 'unix:PATH' on this machine."""

import socket

from ..errors import ArgumentError, SystemResourceError


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ArgumentError(f"{address!r} is no address: HOST:PORT or unix:PATH is wanted")
    return host.strip("[]"), int(port)


def _unix(address: str) -> str | None:
    """'@' stands for the zero byte of Linux's abstract names."""
    if not address.startswith("unix:"):
        return None
    path = address.removeprefix("unix:")
    return "\0" + path[1:] if path.startswith("@") else path


def listen(address: str) -> socket.socket:
    path = _unix(address)
    try:
        if path is not None:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(path)
            listener.listen(128)
            return listener
        host, port = _split(address)
        return socket.create_server(
            (host, port), backlog=128, family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise SystemResourceError(f"the hub can't listen on {address}: {error.strerror or error}") from None


def connect(address: str, timeout: float) -> socket.socket:
    """Raises OSError."""
    path = _unix(address)
    if path is None:
        connection = socket.create_connection(_split(address), timeout=timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
    connection.settimeout(None)
    return connection


def is_local(address: str) -> bool:
    """Whether only processes of this machine reach it."""
    return _unix(address) is not None or _split(address)[0] in ("127.0.0.1", "::1", "localhost")
