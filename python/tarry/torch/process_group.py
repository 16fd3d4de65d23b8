# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch.distributed that come and go as members die and return, without anybody waiting for others.

Each member keeps a store (torch.distributed.TCPStore) on a port that the system chose; a group meets at the store of
its first member. It lasts over many sums of the same members. Whoever gives it up says so at that store, so that the
others make a new one as well, for their next sum.
"""

import contextlib
import datetime
import hashlib
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch.distributed as distributed

from ..engine import Group
from .carried import Carried

_LEFT = "left"  # a key: how many have left the group

# PyTorch tells no types of what is used here.
_c10d: Any = distributed


class Order(NamedTuple):
    """A sum over a group, for its thread."""

    sum: Carried
    group: Group
    over: Callable[[BaseException | None], None]  # called with what went wrong; None: the sum is there


class Store:
    """This member's store; its address is given to others."""

    def __init__(self, host: str, timeout: float) -> None:
        port = 0
        wanted: dict[str, Any] = {
            "is_master": True,
            "wait_for_workers": False,
            "timeout": datetime.timedelta(seconds=timeout),
        }
        if "master_listen_fd" in (_c10d.TCPStore.__init__.__doc__ or ""):
            # Older ones listen on all addresses.
            listener = socket.create_server((host, 0))
            port = listener.getsockname()[1]
            wanted["master_listen_fd"] = listener.detach()
        self._store = _c10d.TCPStore(host, port, **wanted)
        self.address = f"{host}:{self._store.port}".encode()


def _connect(address: bytes, timeout: float) -> Any:
    """To a member's store. Waits for it."""
    host, _, port = address.decode().rpartition(":")
    wait = datetime.timedelta(seconds=timeout)
    return _c10d.TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=wait)


class LastingGroup:
    """The sums of the same members, made by a thread of its own, one after the other.

    A group that is left is left as it is: its thread ends when what it waits for has failed, and the buffers live as
    long as it does.
    """

    def __init__(self, backend: str, host: str, group: Group, timeout: float) -> None:
        self.addresses = tuple(member.address for member in group.members)
        self._backend, self._host, self._timeout = backend, host, timeout
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._made: Any = None  # the thread's
        self._key = ""  # of what was made; "": nothing was
        self._thread = threading.Thread(target=self._run, name=f"tarry-{backend}", daemon=True)
        self._thread.start()

    def sum(self, order: Order) -> None:
        self._orders.put(order)

    def leave(self) -> None:
        """No sum comes any more; a sum in progress is left to itself."""
        self._orders.put(None)
        key = self._key
        if key:
            told = threading.Thread(target=_say_left, args=(self.addresses[0], key, self._timeout), daemon=True)
            told.start()

    def close(self, seconds: float) -> None:
        """Ends the thread, if it ends within so many seconds."""
        self._orders.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                self._carry_out(order)
            except Exception as error:
                order.over(error)
                break  # a group in which a sum has failed makes no other
            order.over(None)
            del order
        self._made = None

    def _carry_out(self, order: Order) -> None:
        if self._made is not None and self._store.add(f"{self._key}/{_LEFT}", 0) > 0:
            self._made = None
        if self._made is None:
            self._made = self._make(order.group)
        order.sum.carry_out(self._made)

    def _make(self, group: Group) -> Any:
        """All members do so for the same sum, and wait for each other here."""
        text = b"".join([group.epoch.to_bytes(8, "little"), *self.addresses])
        self._key = hashlib.sha256(text).hexdigest()[:16]
        self._store = _connect(self.addresses[0], self._timeout)
        place, members = group.place, len(group.members)
        meeting = _c10d.PrefixStore(self._key, _connect(self.addresses[0], self._timeout))
        maker = _make_nccl if self._backend == "nccl" else _make_gloo
        return maker(meeting, place, members, self._host, datetime.timedelta(seconds=self._timeout))


def _make_gloo(store: Any, place: int, members: int, host: str, timeout: datetime.timedelta) -> Any:
    options = _c10d.ProcessGroupGloo._Options()
    options._timeout = timeout
    options._devices = [_c10d.ProcessGroupGloo.create_device(hostname=host)]
    return _c10d.ProcessGroupGloo(store, place, members, options)


def _make_nccl(store: Any, place: int, members: int, _host: str, timeout: datetime.timedelta) -> Any:
    return _c10d.ProcessGroupNCCL(store, place, members, timeout)


def _say_left(address: bytes, key: str, timeout: float) -> None:
    """The store's owner may be gone."""
    with contextlib.suppress(Exception):
        _connect(address, timeout).add(f"{key}/{_LEFT}", 1)
