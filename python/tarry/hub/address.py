# SPDX-License-Identifier: Apache-2.0
"""Addresses of a hub: 'HOST:PORT', ':PORT' (all of this machine, to listen on), or 'unix:PATH' on this machine."""

import contextlib
import errno
import ipaddress
import os
import socket
import struct

from ..errors import ArgumentError, SystemResourceError

# A peer whose machine or network is gone is noticed after so many seconds, though nothing is sent.
GONE_SECONDS = 20
_PROBE_SECONDS = 5
# Addresses that documents may name: nothing is sent there.
_NOBODIES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def split(address: str) -> tuple[str, int]:
    """Of a TCP address; the host is '' for ':PORT'."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ArgumentError(f"{address!r} is no address: HOST:PORT or unix:PATH is wanted")
    return host.removeprefix("[").removesuffix("]"), int(port)


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_unix(address: str) -> bool:
    return address.startswith("unix:")


def is_loopback(address: str) -> bool:
    """Whether it is of this machine alone, under all addresses that its host has."""
    if is_unix(address):
        return True
    host, _ = split(address)
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


def seen_from_outside(host: str) -> str:
    """The host as other machines reach it, if it is this one: '' and a name that means a loopback address here, as a
    machine's own name often does, become the address that this machine has towards others. Addresses stay.

    Raises SystemResourceError where this machine has no such address.
    """
    is_this = host in ("", "0.0.0.0", "::")
    if not is_this and (host == "localhost" or _is_number(host) or not is_loopback(joined(host, 0))):
        return host
    found = own_address()
    if found is None:
        raise SystemResourceError(f"{host or 'this machine'} has no address here by which others reach it: name one")
    return found


def own_address() -> str | None:
    """Of this machine, where its packets to others come from by default; None: it has no way to them."""
    for family, nobody in _NOBODIES:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((nobody, 9))
            return str(asking.getsockname()[0])
    return None


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _unix(address: str) -> str | None:
    """'@' stands for the zero byte of Linux's abstract names."""
    if not is_unix(address):
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
        host, port = split(address)
        both = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
        return socket.create_server((host, port), backlog=128, family=family, dualstack_ipv6=both)
    except OSError as error:
        raise SystemResourceError(f"the hub can't listen on {address}: {error.strerror or error}") from None


def connect(address: str, timeout: float) -> socket.socket:
    """The timeout is still set. Raises OSError."""
    path = _unix(address)
    if path is None:
        connection = socket.create_connection(split(address), timeout=timeout)
        watch(connection)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    connection.connect(path)
    if not is_of_this_user(connection):
        connection.close()
        raise PermissionError(errno.EPERM, "a process of another user listens there")
    return connection


def watch(connection: socket.socket) -> None:
    """A TCP connection ends when the other machine does not answer any more."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, GONE_SECONDS // _PROBE_SECONDS - 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * GONE_SECONDS)


def peer_of(connection: socket.socket) -> str:
    """Where the other side is, for people."""
    if connection.family == socket.AF_UNIX:
        return "this machine"
    with contextlib.suppress(OSError):
        host, port = connection.getpeername()[:2]
        return joined(str(host).removeprefix("::ffff:"), port)
    return "somewhere"


def is_of_this_user(connection: socket.socket) -> bool:
    """Over a Unix socket: whether the other side is of the same user, or root. Abstract names have no permissions."""
    if connection.family != socket.AF_UNIX:
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user in (os.geteuid(), 0)
