# SPDX-License-Identifier: Apache-2.0
"""Addresses of a hub: 'HOST:PORT', ':PORT' (all of this machine, to listen on), or 'unix:PATH' on this machine."""

import contextlib
import ipaddress
import socket

from ..errors import ArgumentError, SystemResourceError

# A peer whose machine or network is gone is noticed after so many seconds, though nothing is sent.
GONE_SECONDS = 20
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
