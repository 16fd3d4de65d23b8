# SPDX-License-Identifier: Apache-2.0
"""Sums among workers by torch.distributed: an engine (tarry.engine) over Gloo, or over NCCL on a GPU."""

import os
import threading
import time

import torch

from ..engine import DONE, FAILED, IDLE, RUNNING, EngineSum, Group, Progress
from ..errors import ArgumentError
from ..hub import address as addresses
from .carried import Carried, carried
from .process_group import LastingGroup, Order, Store

BACKENDS = ("gloo", "nccl")
_CLOSE_SECONDS = 1.0  # for a group whose members are all there


class _Attempt:
    """A sum in progress: what it is of, and what became of it."""

    def __init__(self, wanted: EngineSum, group: Group, sum: Carried) -> None:
        self.wanted, self.group, self.sum = wanted, group, sum
        self.over = False
        self.error: BaseException | None = None


class Collective:
    """torch.distributed as an engine.

    A sum is one all-reduce of the members' own terms or, where numbers travel in a form, two exchanges of all with all
    (carried.py). What hangs because of a dead member is left to itself, with its buffers, until it fails by `timeout`
    seconds; the next group is a new one.

    backend  'gloo', or 'nccl', for which CUDA must be there: the sum passes this process's current device
    host     the address of this machine by which other workers reach it. Connections are plain text

    Raises ArgumentError.
    """

    def __init__(self, backend: str, host: str, *, timeout: float = 10.0) -> None:
        check(backend)
        self.name = backend
        self.owners = True
        self.forms = backend == "gloo"  # NCCL's numbers are on a GPU, and forms are made by processors
        self._host, self._timeout = host, timeout
        self._device = torch.device("cuda") if backend == "nccl" else torch.device("cpu")
        self._store = Store(host, timeout)
        self._address = self._store.address
        self._group: Group | None = None
        self._lasting: LastingGroup | None = None
        self._attempt: _Attempt | None = None
        self._change = threading.Condition()
        self._woken = False

    def address(self) -> bytes:
        return self._address

    def form(self, group: Group) -> None:
        self.abandon()
        self._group = group
        if self._lasting is not None and self._lasting.addresses != tuple(one.address for one in group.members):
            self._leave()

    def start(self, wanted: EngineSum) -> None:
        group = self._group
        assert group is not None
        attempt = _Attempt(wanted, group, carried(wanted, group, self._device))
        self._attempt = attempt

        def over(error: BaseException | None) -> None:
            with self._change:
                attempt.error, attempt.over = error, True
                self._change.notify_all()

        if self._lasting is None:
            self._lasting = LastingGroup(self.name, self._host, group, self._timeout)
        self._lasting.sum(Order(attempt.sum, group, over))

    def wait(self, until: float | None) -> Progress:
        attempt = self._attempt
        with self._change:
            limit = None if until is None else max(0.0, until - time.monotonic())
            self._change.wait_for(lambda: self._woken or attempt is None or attempt.over, limit)
            self._woken = False
        if attempt is None:
            return Progress(IDLE)
        if not attempt.over:
            return Progress(RUNNING)
        self._attempt = None
        return self._end(attempt)

    def wake(self) -> None:
        with self._change:
            self._woken = True
            self._change.notify_all()

    def abandon(self) -> None:
        if self._attempt is not None:
            self._attempt = None
            self._leave()

    def close(self) -> None:
        """After the worker."""
        self.abandon()
        if self._lasting is not None:
            self._lasting.close(_CLOSE_SECONDS)
            self._lasting = None

    def _leave(self) -> None:
        if self._lasting is not None:
            self._lasting.leave()
            self._lasting = None

    def _end(self, attempt: _Attempt) -> Progress:
        if attempt.error is not None:
            self._leave()
            return Progress(FAILED, f"{self.name}: {attempt.error}")
        try:
            numbers = attempt.sum.numbers()
        except RuntimeError as error:
            self._leave()
            return Progress(FAILED, f"{self.name}: {error}")
        attempt.wanted.take(numbers)
        return Progress(DONE)


def check_setting(backend: str, where: str, hub: str | None) -> None:
    """where: `sum` of join. Raises ArgumentError."""
    if where != "everywhere":
        raise ArgumentError(f"engine {backend!r} is for sums among workers, and sum is {where!r}")
    check(backend)
    if hub is not None and not addresses.is_loopback(hub):
        raise ArgumentError(
            f"engine {backend!r} sums in plain text among the processes of one machine, and the hub is at {hub}: "
            "'direct' sums over networks"
        )


def check(backend: str) -> None:
    """Raises ArgumentError for what can't be used here."""
    if backend not in BACKENDS:
        raise ArgumentError(f"engine is {backend!r}; it can be 'direct', 'gloo' or 'nccl'")
    if not torch.distributed.is_available() or (
        backend == "gloo" and not hasattr(torch.distributed, "ProcessGroupGloo")
    ):
        raise ArgumentError(f"engine is {backend!r}, and this PyTorch has no torch.distributed with it")
    if backend == "nccl":
        if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
            raise ArgumentError("engine is 'nccl', and this PyTorch finds no GPU: torch.cuda.is_available() says no")
        # A sum that fails is an exception here, and not the end of the process.
        for name in ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"):
            os.environ.setdefault(name, "1")
