# SPDX-License-Identifier: Apache-2.0
"""Control connections of the library (tarry/control.h): messages between a coordinator and those that take part."""

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ._native import ffi, lib
from .errors import Diagnostic, StateError, error_of
from .lifetime import Handle, abandon, watch_for_abandoned
from .names import nanoseconds

MOST_MESSAGE: int = lib.TARRY_CONTROL_MESSAGE_MOST
# Calls wait for so long at a time: where a side connects, Ctrl-C is heard between two of them.
_CONNECTS_NS, _LISTENS_NS = 100_000_000, 1_000_000_000
_T = TypeVar("_T")


class Closed(Exception):
    """The connection is over, or was not made."""


class _Handle(Handle):
    def stop(self, pointer: Any, limit: float | None) -> bool:
        lib.tarry_control_end(pointer, 0)
        return True

    def free(self, pointer: Any) -> None:
        lib.tarry_control_free(pointer)


class Control:
    """Listens, or connects once. Any thread.

    listen, connect  'HOST:PORT' or 'unix:PATH'; one of them
    credentials  a folder of `tarry keys`; None with insecure=True, in plain text, as for tarry.Server
    patience     seconds for which it tries to connect
    """

    def __init__(
        self,
        *,
        listen: str | None = None,
        connect: str | None = None,
        credentials: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        force: bool = False,
        patience: float = 60.0,
    ) -> None:
        settings = ffi.new("tarry_control_settings *")
        lib.tarry_control_settings_init_sized(settings, ffi.sizeof("tarry_control_settings"))
        texts = [
            ffi.NULL if one is None else ffi.new("char[]", os.fsencode(one)) for one in (listen, connect, credentials)
        ]
        settings.listen, settings.connect, settings.security.credentials = texts
        settings.security.insecure, settings.security.force = insecure, force
        settings.patience_ns = nanoseconds(patience, "patience")
        made, why = ffi.new("tarry_control **"), Diagnostic()
        why.check(lib.tarry_control_create(settings, ffi.NULL, made, why.pointer))
        self._handle = _Handle("the control connections", made[0], None)
        self._wait_ns = _CONNECTS_NS if listen is None else _LISTENS_NS
        self.address: str = ffi.string(lib.tarry_control_address(made[0])).decode()
        watch_for_abandoned()
        weakref.finalize(self, abandon, self._handle).atexit = False

    def call(self, function: Callable[[Any, int, Any], int]) -> None:
        """Calls a function that waits until it has something. Raises Closed, and Error."""
        why = Diagnostic()
        while True:
            try:
                with self._handle.use() as control:
                    code = function(control, self._wait_ns, why.pointer)
            except StateError as error:
                raise Closed(str(error)) from None
            if code == lib.TARRY_OK:
                return
            if code == lib.TARRY_ERROR_SYSTEM:
                raise Closed(why.text)
            if code != lib.TARRY_ERROR_STATE or why.text:
                raise error_of(code, why.text)

    def accept(self) -> "Connection | str":
        """The next connection, or a line on one that was turned away or is not made yet. Raises Closed: there is none
        any more; StateError: the other side refuses this one; ArgumentError."""
        found = ffi.new("tarry_control_arrival *")
        self.call(lambda control, wait_ns, why: lib.tarry_control_accept(control, wait_ns, found, why))
        name, where, text = (ffi.string(one).decode(errors="replace") for one in (found.name, found.where, found.text))
        return Connection(self, found.peer, name or None, where) if found.peer else text

    def use(self) -> Any:
        return self._handle.use()

    def stop_listening(self) -> None:
        """Whoever waits in `accept` returns."""
        self.end(0)

    def end(self, peer: int) -> None:
        try:
            with self._handle.use() as control:
                lib.tarry_control_end(control, peer)
        except StateError:
            pass

    def close(self) -> None:
        """Ends all connections, once what waits has gone out."""
        self._handle.close()


class Connection:
    """One connection. Any thread; `take` is for one at a time.

    name   in the other side's certificate; None: it has none
    where  the other side is, for people
    """

    def __init__(self, control: Control, peer: int, name: str | None, where: str) -> None:
        self._control, self._peer = control, peer
        self.name, self.where = name, where

    def say(self, kind: int, message: Any) -> None:
        """Of 1 to MOST_MESSAGE bytes. Raises Closed."""
        held = ffi.from_buffer(message)
        size = ffi.sizeof(held)
        self._control.call(
            lambda control, wait_ns, why: lib.tarry_control_say(control, self._peer, kind, held, size, wait_ns, why)
        )

    def take(self, read: Callable[[Any], _T]) -> tuple[int, _T]:
        """The next message's kind, and what `read` makes of its bytes, which are gone afterwards. Raises Closed."""
        found = ffi.new("tarry_control_message *")
        results: list[_T] = []

        def take(control: Any, wait_ns: int, why: Any) -> int:
            code: int = lib.tarry_control_take(control, self._peer, wait_ns, found, why)
            if code == lib.TARRY_OK:
                try:
                    results.append(read(ffi.buffer(found.bytes, found.size)))
                finally:
                    lib.tarry_control_release(control, found)
            return code

        self._control.call(take)
        return found.kind, results[0]

    def is_open(self) -> bool:
        try:
            with self._control.use() as control:
                return lib.tarry_control_is_open(control, self._peer)
        except StateError:
            return False

    def close(self) -> None:
        self._control.end(self._peer)
