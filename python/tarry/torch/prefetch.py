# SPDX-License-Identifier: Apache-2.0
"""Samples of the pieces to come, loaded by processes of their own while this one computes."""

import collections
import concurrent.futures
import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import torch.multiprocessing

from ..errors import Error
from .loader import Loader
from .seeding import kept_random, seed_data

_AHEAD = 2  # pieces for each process that are loaded or wait to be taken
_LOOK_SECONDS = 1.0

_loader: Loader | None = None  # in a process that loads


class Prefetcher:
    """Loads pieces by (step, unit): those of this worker's order in advance, others when they are asked for.

    What is random in a dataset is seeded before each piece, so that a piece is the same whoever loads it.
    """

    def __init__(
        self,
        loader: Loader,
        seed_of: Callable[[int], int | str],
        indices: Callable[[int, int], Sequence[int]],
        processes: int,
        begin: Callable[[int], Any] | None = None,
    ) -> None:
        """seed_of gives the seed of a unit, indices the samples of a step's unit, and `begin` is called in each process
        with its number, as worker_init_fn of a DataLoader. Made before this process has threads: it is forked."""
        self._loader, self._seed_of, self._indices = loader, seed_of, indices
        self._ahead = _AHEAD * processes
        self._order: list[int] = []  # of units, which this worker is given as long as others are as fast as it is
        self._place: dict[int, int] = {}
        self._step = -1
        self._next = 0  # in the order
        self._coming: dict[int, concurrent.futures.Future[Any]] = {}  # of the step, by unit
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        if processes:
            context: Any = torch.multiprocessing.get_context("fork")
            self._pool = concurrent.futures.ProcessPoolExecutor(
                processes, context, _begin, (loader, begin, context.Value("i", 0))
            )
            for one in [self._pool.submit(os.getpid) for _ in range(processes)]:
                one.result()

    def each(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Calls function(loader, ..) with each of the arguments and yields the results in order.

        The processes that load make the calls, if there are any, so that files that the dataset opens are theirs.
        Calls that are left when the caller stops iterating are not made."""
        if self._pool is None:
            for given in arguments:
                yield function(self._loader, *given)
            return
        coming: collections.deque[concurrent.futures.Future[Any]] = collections.deque()
        left = iter(arguments)
        try:
            while True:
                for given in itertools.islice(left, self._ahead - len(coming)):
                    coming.append(self._pool.submit(_call_there, function, given))
                if not coming:
                    return
                yield coming.popleft().result()
        except concurrent.futures.BrokenExecutor:
            raise Error("a process that loads samples has died") from None
        finally:
            for one in coming:
                one.cancel()

    @property
    def is_used(self) -> bool:
        return self._pool is not None

    def expect(self, order: Sequence[int]) -> None:
        """The units that this worker is given first in each step."""
        self._order = list(order)
        self._place = {unit: place for place, unit in enumerate(self._order)}

    def begin(self, step: int) -> None:
        """Pieces of this step are next; what was loaded for another one is dropped."""
        if step != self._step:
            for one in self._coming.values():
                one.cancel()
            self._step, self._next = step, 0
            self._coming.clear()
            self._go_on()

    def load(self, step: int, unit: int) -> Any:
        """The batch of a piece. Raises what the dataset does."""
        self.begin(step)
        coming = self._coming.pop(unit, None)
        self._next = max(self._next, self._place.get(unit, -1) + 1)
        self._go_on()
        if coming is None:
            return _load(self._loader, self._seed_of(unit), step, unit, self._indices(step, unit))
        try:
            return coming.result()
        except concurrent.futures.BrokenExecutor:
            raise Error("a process that loads samples has died") from None

    def _go_on(self) -> None:
        """As many pieces are on their way as there may be."""
        while self._pool is not None and len(self._coming) < self._ahead and self._next < len(self._order):
            unit = self._order[self._next]
            self._next += 1
            indices = self._indices(self._step, unit)
            if unit not in self._coming and len(indices) > 0:
                self._coming[unit] = self._pool.submit(_load_there, self._seed_of(unit), self._step, unit, indices)

    @contextlib.contextmanager
    def closed_on_error(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _load(loader: Loader, seed: int | str, step: int, unit: int, indices: Sequence[int]) -> Any:
    if loader.draws_nothing:
        return loader.load(indices)
    with kept_random():
        seed_data(seed, step, unit)
        return loader.load(indices)


# ---- in a process that loads ----


def _begin(loader: Loader, begin: Callable[[int], Any] | None, begun: Any) -> None:
    global _loader
    _loader = loader
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    if begin is not None:
        with begun.get_lock():
            number = begun.value
            begun.value += 1
        begin(number)


def _end_with(parent: int) -> None:
    """A worker that is killed takes nobody with it: whoever loads for it looks whether it is there."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(0)


def _load_there(seed: int | str, step: int, unit: int, indices: Sequence[int]) -> Any:
    assert _loader is not None
    return _load(_loader, seed, step, unit, indices)


def _call_there(function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    assert _loader is not None
    return function(_loader, *given)
