# SPDX-License-Identifier: Apache-2.0
"""Addresses of a hub: 'HOST:PORT', or 'unix:PATH' on this machine."""

import errno
import os
import socket
import struct

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
        if not is_of_this_user(connection):
            connection.close()
            raise PermissionError(errno.EPERM, "a process of another user listens there")
    connection.settimeout(None)
    return connection


def is_of_this_user(connection: socket.socket) -> bool:
    """Over a Unix socket: whether the other side is of the same user, or root. Abstract names have no permissions."""
    if connection.family != socket.AF_UNIX:
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user in (os.geteuid(), 0)
