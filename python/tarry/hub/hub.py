# SPDX-License-Identifier: Apache-2.0
"""The hub's process: takes workers in, and has a training run."""

import dataclasses
import socket
import threading
from typing import Any, Self

from ..errors import Error
from ..results import SumId
from . import address as addresses
from .agreement import Agreement
from .attendants import Attendants, named
from .door import Door
from .evaluation import Evaluations, Key
from .settings import HubSettings
from .training import Training
from .trust import number_of
from .wire import MOST_BYTES, Closed, Message, Wire

_TOLD_SECONDS = 3.0  # that those who attend workers have to ask, and to hear that it is over


@dataclasses.dataclass(eq=False)
class _Peer:
    """Whoever is connected: a worker, or who looks after some."""

    wire: Wire
    name: str | None  # of the certificate; None: the system says who it is
    where: str
    worker: int | None = None
    attends: range | None = None

    def check(self, worker: int) -> None:
        """Raises ValueError where its credential is that of another one."""
        if self.number not in (None, worker):
            raise ValueError(f"the credential of {self.name} is not for worker {worker}")

    @property
    def number(self) -> int | None:
        """The only one that it may have; None: any."""
        return None if self.name is None else number_of(self.name)


class Hub:
    """Listens for workers' questions at `address`, and serves them a training.

    Over TCP they show credentials (HubSettings.security), and each is who its certificate says."""

    def __init__(self, address: str, settings: HubSettings) -> None:
        """Raises SystemResourceError (the address), ArgumentError, FileError and FormatError (credentials)."""
        self.settings = settings
        self._lock = threading.Condition()
        self._training: Training | None = None
        self._rounds: threading.Thread | None = None
        self._asked: _Peer | None = None  # for the first state
        self._peers: set[_Peer] = set()
        self._evaluations = Evaluations()
        self._closing = False
        self._why = ""  # it closes
        self._left_out: set[int] = set()
        self._attendants = Attendants(settings.workers, settings.here)
        self._door = Door(address, settings.security.of_server(), self._enter, settings.say)
        self.address = self._door.address

    @property
    def training(self) -> Training | None:
        """None: no worker has come yet."""
        return self._training

    @property
    def is_used(self) -> bool:
        """Whether anybody is connected."""
        return bool(self._peers)

    def leave_out(self, worker: int) -> None:
        """This worker does not come any more: nobody waits for it."""
        with self._lock:
            self._left_out.add(worker)
            gone = frozenset(self._left_out)
        if self._training is not None:
            self._training.leave_out(gone)

    def close(self, *, finished: bool = True, why: str = "the training is over") -> None:
        """Ends the training: workers hear that it is over, or that it will be resumed; those who look after workers on
        other machines hear why."""
        with self._lock:
            self._closing, self._why = True, why
            self._lock.notify_all()
        self._door.close()
        if self._training is not None:
            self._training.end()
        if self._rounds is not None:
            self._rounds.join()
        if self._training is not None:
            self._training.close(finished=finished)
        with self._lock:
            self._lock.wait_for(lambda: not any(peer.attends for peer in self._peers), timeout=_TOLD_SECONDS)
            peers = list(self._peers)
        for peer in peers:
            peer.wire.close()

    def await_leaving(self, seconds: float) -> None:
        """Waits until all workers have left, so long at most."""
        with self._lock:
            self._lock.wait_for(lambda: not self._peers, timeout=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- connections: a thread for each ----

    def _enter(self, connection: socket.socket, name: str | None) -> None:
        peer = _Peer(Wire(connection), name, addresses.peer_of(connection))
        with self._lock:
            if self._closing:
                peer.wire.close()
                return
            self._peers.add(peer)
        left = False
        try:
            while self._answer(peer, peer.wire.receive(0)[0]):
                pass
            left = True
        except (Closed, Error, KeyError, TypeError, ValueError):
            pass  # it is gone, or no worker of ours
        finally:
            if peer.attends is not None:
                self._end_attending(peer.attends, peer.where, left=left)
            with self._lock:
                self._peers.discard(peer)
                if self._asked is peer:
                    self._asked = None
                self._lock.notify_all()
            peer.wire.close()

    def _answer(self, peer: _Peer, message: Message) -> bool:
        """False: the connection ends."""
        kind = message.get("type")
        if kind == "join":
            return self._join(peer, message)
        if kind == "attend":
            return self._attend(peer, message)
        if kind == "status":
            peer.wire.send({"type": "status"} | self._status())
            return not (peer.attends and self._closing)
        if kind == "leave-out" and peer.attends is not None:
            if message["worker"] in peer.attends:
                self.leave_out(int(message["worker"]))
            return True
        training = self._training
        if kind == "bye" or training is None or peer.worker is None:
            return False
        if kind == "steps":
            training.want(int(message["steps"]))
        elif kind == "digests":
            training.compare(peer.worker, int(message["step"]), dict(message["digests"]))
            peer.wire.send(_outcome(training.failure, "compared"))
        elif kind == "evaluate":
            peer.wire.send(self._evaluate(message))
        elif kind == "after":
            found, numbers = training.sums.after(int(message["step"]))
            peer.wire.send({"type": found, "done": training.done}, numbers)
        elif kind == "goes-on":
            peer.wire.send({"type": "goes-on", "more": training.goes_on(int(message["step"]))})
        elif kind == "give":
            if not training.sums.renew(int(message["step"]), lambda: _ask_state(peer.wire)):
                peer.wire.send({"type": "enough"})
        elif kind == "finish":
            self._finish(peer.wire, training, int(message["steps"]))
        else:
            return False
        return True

    def _status(self) -> Message:
        training = self._training
        known: Message = {"done": 0, "wanted": 0, "workers": [], "failure": None, "privacy": None, "clamped": 0}
        return (known if training is None else training.status()) | {"over": self._why if self._closing else None}

    # ---- joining ----

    def _join(self, peer: _Peer, message: Message) -> bool:
        try:
            worker = self._check_worker(message["worker"])
            peer.check(worker)
            training = self._agree(Agreement.of(message["agreement"]))
        except Exception as error:
            peer.wire.send({"type": "refused", "why": str(error)})
            return False
        peer.worker = worker
        state, last = self._first_state(peer, training)
        peer.wire.send(
            {
                "type": "welcome",
                "server": training.address,
                "worker": worker,
                "workers": self.settings.workers,
                "last": None if last is None else vars(last),
                "draws": training.keys_of(worker),
            },
            b"" if state is None else state,
        )
        return True

    def _check_worker(self, worker: Any) -> int:
        if not isinstance(worker, int) or not 0 <= worker < self.settings.workers:
            raise ValueError(f"there is no worker {worker} of {self.settings.workers}")
        return worker

    def _agree(self, agreement: Agreement) -> Training:
        with self._lock:
            if self._training is None:
                self._training = Training(self.settings, agreement)
                self._rounds = threading.Thread(target=self._training.run, name="tarry-rounds", daemon=True)
                self._rounds.start()
                return self._training
            difference = self._training.agreement.difference(agreement)
        if difference:
            raise ValueError(f"this worker has {difference}")
        return self._training

    def _first_state(self, peer: _Peer, training: Training) -> tuple[bytes | None, SumId | None]:
        """The state that a worker begins with, and the sum that it has stepped on; no state: its own, which the others
        get."""
        with self._lock:
            while (found := training.sums.for_newcomer()) is None and self._asked is not None and not self._closing:
                self._lock.wait()
            if found is not None:
                return found
            self._asked = peer
        state = _ask_state(peer.wire)
        with self._lock:
            training.sums.begin_with(state)
            self._asked = None
            self._lock.notify_all()
        return None, None

    # ---- evaluations ----

    def _evaluate(self, message: Message) -> Message:
        key: Key = tuple(int(one) for one in message["key"])
        if "pieces" not in message:
            return {"type": "evaluate", "sums": self._evaluations.find(key)}
        if message["told"] is not None:
            piece, sums = message["told"]
            self._evaluations.tell(key, int(piece), dict(sums))
        try:
            next_piece, sums = self._evaluations.take(key, int(message["samples"]), int(message["pieces"]))
        except ValueError as error:
            return _failed(error)
        return {"type": "evaluate", "piece": next_piece, "sums": sums}

    # ---- those who look after workers ----

    def _attend(self, peer: _Peer, message: Message) -> bool:
        try:
            if peer.attends is not None or peer.worker is not None:
                raise ValueError("one connection attends once")
            first: Any = message["first"]
            if first is None:
                first = peer.number
            else:
                peer.check(int(first))
            places = self._attendants.take(first, int(message["count"]), peer.where)
        except (KeyError, TypeError, ValueError) as error:
            peer.wire.send({"type": "refused", "why": str(error)})
            return False
        peer.attends = places
        with self._lock:
            self._left_out -= set(places)
            gone = frozenset(self._left_out)
        if self._training is not None:
            self._training.leave_out(gone)
        self.settings.say(f"{named(places)}: started from {peer.where}")
        peer.wire.send({"type": "attended", "first": places.start, "workers": self.settings.workers})
        return True

    def _end_attending(self, places: range, where: str, *, left: bool) -> None:
        self._attendants.free(places)
        if self._closing:
            return
        if left:
            if not self._left_out.issuperset(places):
                self.settings.say(f"{named(places)}: their tarry run was ended")
            for worker in places:
                self.leave_out(worker)
        else:
            self.settings.say(f"the tarry run of {named(places)} at {where} is gone; another one may take its place")

    # ---- the end ----

    def _finish(self, wire: Wire, training: Training, steps: int) -> None:
        training.sums.renew(steps, lambda: _ask_state(wire))
        with training.change:
            while training.failure is None and training.settled < steps and not self._closing:
                training.change.wait(1.0)
            failure = training.failure
        wire.send(_outcome(failure, "finished"))


def _outcome(failure: Exception | None, well: str) -> Message:
    return {"type": well} if failure is None else _failed(failure)


def _failed(failure: Exception) -> Message:
    return {"type": "failed", "why": str(failure)}


def _ask_state(wire: Wire) -> bytes:
    """Of the worker, which waits for an answer."""
    wire.send({"type": "state"})
    message, state = wire.receive(MOST_BYTES)
    if message.get("type") != "state":
        raise Closed("no state came")
    return state
