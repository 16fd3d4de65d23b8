# SPDX-License-Identifier: Apache-2.0
"""Where the hub takes connections: on this machine those of its user, and over TCP those of members."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable

from ..errors import FileError, FormatError
from . import address as addresses
from .trust import Member, common_name, is_worker, reason

HANDSHAKE_SECONDS = 10.0
_MOST_HANDSHAKES = 128  # at a time: then the oldest makes room
_LINGER_SECONDS = 1.0  # for a refusal to be read
_SAY_SECONDS = 1.0  # between two lines on what strangers can cause


class Door:
    """Hands each connection on with its owner's name, that of its certificate; None where the system, or nobody, says
    who it is. Whoever is turned away is told of, a line a second at most."""

    def __init__(
        self,
        address: str,
        member: Member,
        enter: Callable[[socket.socket, str | None], None],
        tell: Callable[[str], None],
    ) -> None:
        """`enter` is called by a thread for each connection. Raises SystemResourceError (the address), ArgumentError,
        FileError, FormatError."""
        member.check(address)
        self._member = member
        self._secret = member.folder is not None and not addresses.is_unix(address)
        self._context = member.context(accepting=True) if self._secret else None
        self._enter, self._tell = enter, tell
        self._listener = addresses.listen(address)
        self.address = _told_address(address, self._listener)
        self._lock = threading.Lock()
        self._shaking: dict[socket.socket, None] = {}  # in the order in which they came
        self._unsaid, self._said_at = 0, -_SAY_SECONDS
        threading.Thread(target=self._accept, name="tarry-hub", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # so that a thread that accepts hears of it
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                time.sleep(0.05)  # too many files are open, say
                continue
            if not addresses.is_of_this_user(connection):
                connection.close()
                continue
            with self._lock:
                self._shaking[connection] = None
                oldest = next(iter(self._shaking)) if len(self._shaking) > _MOST_HANDSHAKES else None
                if oldest is not None:
                    del self._shaking[oldest]
            if oldest is not None:
                _shut(oldest)
            threading.Thread(target=self._admit, args=(connection,), name="tarry-hub-worker", daemon=True).start()

    def _admit(self, connection: socket.socket) -> None:
        peer = addresses.peer_of(connection)
        name: str | None = None
        try:
            addresses.watch(connection)
            if self._secret:
                found = self._shake_hands(connection)
                name, whole = common_name(found), found
                if not is_worker(name):
                    self._turn_away(peer, f"the credential of {name or 'nobody'}, and workers come here")
                    whole.close()
                    return
            else:
                whole = connection
        except OSError as error:
            self._turn_away(peer, reason(error))
            return
        finally:
            with self._lock:
                self._shaking.pop(connection, None)
        self._enter(whole, name)

    def _shake_hands(self, connection: socket.socket) -> ssl.SSLSocket:
        connection.settimeout(HANDSHAKE_SECONDS)
        made = self._newest_context().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            if connection in self._shaking:  # which `made` has taken over
                del self._shaking[connection]
                self._shaking[made] = None
        try:
            made.do_handshake()
            made.settimeout(None)
        except OSError:
            _linger(made)
            raise
        finally:
            with self._lock:
                self._shaking.pop(made, None)
        return made

    def _newest_context(self) -> ssl.SSLContext:
        """With the list of those that are revoked as it is on disk. One that can't be read is not taken."""
        try:
            self._context = self._member.context(accepting=True)
        except (FileError, FormatError) as error:
            self._say(f"{error}; what was read before is in force")
        assert self._context is not None
        return self._context

    def _turn_away(self, peer: str, why: str) -> None:
        self._say(f"{peer} is turned away: {why}")

    def _say(self, text: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._unsaid += 1
            if now - self._said_at < _SAY_SECONDS:
                return
            more = f" ({self._unsaid - 1} more like that)" if self._unsaid > 1 else ""
            self._said_at, self._unsaid = now, 0
        self._tell(text + more)


def _shut(connection: socket.socket) -> None:
    """Ends it beneath TLS; the thread that uses it closes it."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _linger(connection: socket.socket) -> None:
    """Closes it once the other side has read why: what it has sent would cut that off."""
    until = time.monotonic() + _LINGER_SECONDS
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_WR)
        connection.settimeout(_LINGER_SECONDS)
        while time.monotonic() < until and socket.socket.recv(connection, 4096):
            pass
    connection.close()


def _told_address(address: str, listener: socket.socket) -> str:
    """With the port that the system chose."""
    if addresses.is_unix(address):
        return address
    host, _ = addresses.split(address)
    return addresses.joined(host, listener.getsockname()[1])
