# SPDX-License-Identifier: Apache-2.0
"""Jobs of this process: which training of its script each of them is, and which are still open.

All workers of a run join the same trainings in the same order, so a training goes by its number. A worker that is
started again counts from the beginning: it gets the last states of trainings that are over.
"""

import atexit
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING

import torch

from ..errors import StateError
from ..hub import Hub
from .environment import Place

if TYPE_CHECKING:
    from .job import Job

_OURS = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, "<frozen ")
_LEAVE_SECONDS = 60.0  # that this process, if it has the hub, waits at its end for others than workers

_lock = threading.Lock()
_Key = tuple[str | None, int]  # hub and worker
_next: dict[_Key, int] = {}  # number of the next training
_left: set[_Key] = set()  # the worker has left that training before its end
_open: "weakref.WeakSet[Job]" = weakref.WeakSet()
_hubs: dict[str, Hub] = {}  # of this process, which launchers other than tarry run leave to it


class Join:
    """One training of the script."""

    def __init__(self, place: Place) -> None:
        """Raises StateError."""
        self._key = place.hub, place.worker
        self._alone = place.hub is None
        self.thread = threading.get_ident()
        others = [] if self._alone else [job.joined for job in list(_open) if job.joined.is_of_same_worker(self)]
        self.nested = bool(others)
        if any(other.thread != self.thread for other in others):
            raise StateError(
                "two threads of this process take part in trainings at the same time, and so workers may join them in "
                "different orders: call join in one thread for all of them"
            )
        with _lock:
            self.number = 0 if self._alone else _next.get(self._key, 0)
            if not self._alone:
                _next[self._key] = self.number + 1
            self.again = self._key in _left  # the training may be one that this worker has left, or the next one
            _left.discard(self._key)
        self.place = _place_in_script()
        self.hub: Hub | None = None  # of this process

    def is_of_same_worker(self, other: "Join") -> bool:
        return self._key == other._key

    def start_hub(self, place: Place) -> Hub:
        """One for each job of a process that is alone, else one for all of them."""
        if place.hub is None:
            self.hub = place.start_hub()
            return self.hub
        with _lock:
            if place.hub not in _hubs:
                _hubs[place.hub] = place.start_hub()
            self.hub = _hubs[place.hub]
        return self.hub

    def go_back(self) -> None:
        """The next join is for the same training: this worker could not join it."""
        with _lock:
            if not self._alone and _next[self._key] == self.number + 1:
                _next[self._key] = self.number
                if self.again:
                    _left.add(self._key)

    def leave(self) -> None:
        """This worker has left the training before its end. The next join may be for the same one, if the script tries
        again, or for the next one."""
        self.again = True
        self.go_back()

    def go_on(self) -> bool:
        """This is not the training that the worker has left. True if the join is for the next one now."""
        if not self.again:
            return False
        self.again = False
        with _lock:
            self.number += 1
            _next[self._key] = self.number + 1
        return True

    def leave_hub(self, *, wait: bool) -> None:
        """The job has ended. `wait`: the others may go on, and the hub of this process waits for them."""
        hub, self.hub = self.hub, None
        if hub is None:
            return
        if wait and not self._alone:
            hub.await_leaving_of(self.number)
            return
        if wait:
            hub.await_leaving(_LEAVE_SECONDS)
        with _lock:
            for address in [address for address, one in _hubs.items() if one is hub]:
                del _hubs[address]
        hub.close(finished=wait)


def _place_in_script() -> str:
    """Where the script joins: the name of its file, and the line."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def add(job: "Job") -> None:
    _open.add(job)


def remove(job: "Job") -> None:
    _open.discard(job)


def close_left(place: Place, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """An earlier job of this model or optimizer that was left open, as by a notebook's cell that has failed, is closed.

    Raises StateError if others may still be in its steps.
    """
    new = {id(one) for one in model.parameters()}
    for job in list(_open):
        shares = job.optimizer is optimizer or any(id(one) in new for one in job.model.parameters())
        if not shares:
            continue
        if place.hub is not None and job.is_in_steps:
            raise StateError(
                f"this process still takes part in another training of this model, after step {job.done}. Close that "
                "job first: train within `with tt.join(...) as job:`, or call job.close()"
            )
        job.close(wait=not job.is_in_steps)


def _close_hubs() -> None:
    """At the interpreter's end: workers that are left need the hub to their end."""
    for hub in list(_hubs.values()):
        hub.await_leaving(_LEAVE_SECONDS)
        hub.close()


def _forget() -> None:
    """In a child of fork, which has none of the threads."""
    _open.clear()
    _hubs.clear()


atexit.register(_close_hubs)
os.register_at_fork(after_in_child=_forget)
