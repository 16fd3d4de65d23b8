# SPDX-License-Identifier: Apache-2.0
"""The hub's process: takes workers in, and has a training run."""

import threading
from typing import Any, Self

from ..errors import Error
from ..results import SumId
from . import address as addresses
from .agreement import Agreement
from .evaluation import Evaluations, Key
from .settings import HubSettings
from .training import Training
from .wire import Closed, Message, Wire


class Hub:
    """Listens for workers' questions at `address`, and serves them a training."""

    def __init__(self, address: str, settings: HubSettings) -> None:
        """Raises SystemResourceError (the address), ArgumentError."""
        self.settings = settings
        self._listener = addresses.listen(address)
        self.address = _told_address(address, self._listener)
        self._lock = threading.Condition()
        self._training: Training | None = None
        self._rounds: threading.Thread | None = None
        self._asked: Wire | None = None  # for the first state
        self._wires: set[Wire] = set()
        self._evaluations = Evaluations()
        self._closing = False
        self._left_out: set[int] = set()
        self._acceptor = threading.Thread(target=self._accept, name="tarry-hub", daemon=True)
        self._acceptor.start()

    @property
    def training(self) -> Training | None:
        """None: no worker has come yet."""
        return self._training

    def leave_out(self, worker: int) -> None:
        """This worker does not come any more: nobody waits for it."""
        self._left_out.add(worker)
        if self._training is not None:
            self._training.leave_out(self._left_out)

    def close(self, *, finished: bool = True) -> None:
        """Ends the training: workers hear that it is over, or that it will be resumed."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
            wires = list(self._wires)
        self._listener.close()
        if self._training is not None:
            self._training.end()
        if self._rounds is not None:
            self._rounds.join()
        if self._training is not None:
            self._training.close(finished=finished)
        for wire in wires:
            wire.close()

    def await_leaving(self, seconds: float) -> None:
        """Waits until all workers have left, so long at most."""
        with self._lock:
            self._lock.wait_for(lambda: not self._wires, timeout=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- connections ----

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not addresses.is_of_this_user(connection):
                connection.close()
                continue
            wire = Wire(connection)
            with self._lock:
                self._wires.add(wire)
            threading.Thread(target=self._serve, args=(wire,), name="tarry-hub-worker", daemon=True).start()

    def _serve(self, wire: Wire) -> None:
        try:
            while self._answer(wire, *wire.receive()):
                pass
        except (Closed, Error, KeyError, TypeError, ValueError):
            pass  # it is gone, or no worker of ours
        finally:
            with self._lock:
                self._wires.discard(wire)
                if self._asked is wire:
                    self._asked = None
                self._lock.notify_all()
            wire.close()

    def _answer(self, wire: Wire, message: Message, _payload: bytes) -> bool:
        """False: the connection ends."""
        kind = message.get("type")
        if kind == "join":
            return self._join(wire, message)
        training = self._training
        if kind == "bye" or training is None:
            return False
        if kind == "steps":
            training.want(int(message["steps"]))
        elif kind == "digests":
            training.compare(int(message["worker"]), int(message["step"]), dict(message["digests"]))
        elif kind == "evaluate":
            wire.send(self._evaluate(message))
        elif kind == "status":
            wire.send({"type": "status"} | training.status())
        elif kind == "finish":
            self._finish(wire, training)
        else:
            return False
        return True

    # ---- joining ----

    def _join(self, wire: Wire, message: Message) -> bool:
        try:
            worker = self._check_worker(message["worker"])
            training = self._agree(Agreement.of(message["agreement"]))
        except Exception as error:
            wire.send({"type": "refused", "why": str(error)})
            return False
        state, last = self._first_state(wire, training)
        wire.send(
            {
                "type": "welcome",
                "server": training.address,
                "worker": worker,
                "workers": self.settings.workers,
                "last": None if last is None else vars(last),
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

    def _first_state(self, wire: Wire, training: Training) -> tuple[bytes | None, SumId | None]:
        """The state that a worker begins with, and the sum that it has stepped on; no state: its own, which the others
        get."""
        with self._lock:
            while (found := training.sums.for_newcomer()) is None and self._asked is not None and not self._closing:
                self._lock.wait()
            if found is not None:
                return found
            self._asked = wire
        wire.send({"type": "state"})
        message, state = wire.receive()
        if message.get("type") != "state":
            raise Closed("no state came")
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
            return {"type": "failed", "why": str(error)}
        return {"type": "evaluate", "piece": next_piece, "sums": sums}

    # ---- the end ----

    def _finish(self, wire: Wire, training: Training) -> None:
        with training.change:
            while training.failure is None and training.settled < training.wanted and not self._closing:
                training.change.wait(1.0)
            failure = training.failure
        if failure is not None:
            wire.send({"type": "failed", "why": str(failure)})
        else:
            wire.send({"type": "finished"})


def _told_address(address: str, listener: Any) -> str:
    """With the port that the system chose."""
    if address.startswith("unix:"):
        return address
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
