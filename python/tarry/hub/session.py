# SPDX-License-Identifier: Apache-2.0
"""One training of a hub, and the workers that take part in it."""

import dataclasses
import io
import tempfile
import threading
from collections.abc import Set
from typing import IO, Any, cast

from ..errors import DifferError, Error, StateError
from ..results import SumId
from .agreement import Agreement
from .blob import Blob, view_of
from .broken import FailedPiece, FailedPieces
from .buffers import names_of, step_of
from .chief import Chief
from .data_summary import compare_data
from .drift import Drift, digest_told
from .evaluation import Evaluations, Key
from .nonfinite import text_of
from .settings import HubSettings
from .training import Training
from .trust import number_of
from .wire import MOST_BYTES, Closed, Message, Wire

_MOST_KEPT_BYTES = 1 << 26  # of a last state in memory


@dataclasses.dataclass(eq=False)
class Peer:
    """A connection: of a worker, or of a process that attends workers."""

    wire: Wire
    name: str | None  # of the certificate; None: the system says who it is
    where: str
    worker: int | None = None
    attends: range | None = None
    session: "Session | None" = None  # of a worker that has joined

    def check(self, worker: int) -> None:
        """Raises ValueError if its credential is that of another worker."""
        if self.number not in (None, worker):
            raise ValueError(f"the credential of {self.name} is not for worker {worker}")

    @property
    def number(self) -> int | None:
        """The only one that it may have; None: any."""
        return None if self.name is None else number_of(self.name)


class Ended(StateError):
    """The training has failed: no worker can join it any more."""


class OtherTraining(ValueError):
    """A worker wants to train something else than the others."""


class Session:
    """Workers join by `agree`, `add` and `first_state`, and then ask by `answer`. Any thread.

    Once all workers have left a training that is done, it may retire: its server ends, and its last state is kept for a
    worker that is started again and goes through its script from the beginning.
    """

    def __init__(self, settings: HubSettings, agreement: Agreement, first: int, place: str = "") -> None:
        """
        first  the worker whose agreement this is
        place  where its script joins

        Raises what Training raises.
        """
        self.training = Training(settings, agreement)
        self._first, self._place = first, place
        self._change = threading.Condition()
        self._peers: set[Peer] = set()
        self._asked: Peer | None = None  # for the first state
        self._evaluations = Evaluations()
        self._failed_pieces = FailedPieces()
        self._kinds: dict[int, str] = {}  # of workers: what decides their bits, in words
        self._drift = Drift(settings.say, lambda worker: self._kinds.get(worker, ""), self._there)
        self._chief = Chief(settings.workers)
        self._ended: Set[int] = frozenset()  # workers that do not come any more
        self._closing = False
        self._closed = False
        self._shutting = threading.Lock()
        self._last_state: IO[bytes] | None = None  # once it has retired
        self._rounds = threading.Thread(target=self.training.run, name="tarry-rounds", daemon=True)

    def begin(self) -> None:
        """Once: its rounds may run."""
        self._rounds.start()

    def end(self) -> None:
        """Ends the rounds. Workers that wait for anything hear of it."""
        with self._shutting:
            with self._change:
                self._closing = True
                self._change.notify_all()
            self._drift.end()
            self.training.end()
            self._rounds.join()

    def close(self, *, finished: bool) -> None:
        """After `end`."""
        with self._shutting:
            if not self._closed:
                self.training.close(finished=finished)
                with self._change:
                    self._closed = True
                    self._change.notify_all()

    @property
    def is_used(self) -> bool:
        """True if a worker is connected."""
        return bool(self._peers)

    @property
    def is_over(self) -> bool:
        """True if it has retired."""
        return self._last_state is not None

    def retire(self) -> None:
        """Ends the server, if the training is done and no worker is connected any more. Its port is free afterwards."""
        with self._change:
            if self.is_over:
                self._change.wait_for(lambda: self._closed)
                return
            if self._peers or self._closing or not self.training.is_settled:
                return
            found = self.training.sums.for_newcomer()
            self._last_state = _stored(b"" if found is None else found[0])
        self.end()
        self.close(finished=True)
        self.training.sums.drop_states()

    @property
    def has_port(self) -> bool:
        """True if its server still listens."""
        return not self._closed

    # ---- joining ----

    def check_place(self, worker: int, place: str) -> None:
        """Raises OtherTraining if the worker's script joins at another line than the first worker's."""
        if place != self._place:
            raise OtherTraining(
                f"worker {worker} joins at {place}, and worker {self._first} at {self._place}. If a script joins "
                "several times, all workers must join the same trainings in the same order"
            )

    def agree(self, worker: int, agreement: Agreement, kind: str) -> str:
        """What the worker should hear of its data. Raises OtherTraining."""
        known = self.training.agreement
        difference = known.difference(agreement)
        if difference:
            theirs, other = min(self._kinds.items(), default=(0, ""))
            differs = agreement.numerics != known.numerics and kind and other
            kinds = f". It is {kind}; worker {theirs} is {other}" if differs else ""
            raise OtherTraining(
                f"this worker has {difference} (it is worker {worker}; worker {self._first} came first){kinds}"
            )
        same_kind = kind == self._kinds.get(self._first, kind)
        try:
            return compare_data(known, agreement, self._first, worker, same_kind=same_kind)
        except ValueError as error:
            raise OtherTraining(str(error)) from None

    def add(self, peer: Peer, worker: int, kind: str) -> None:
        """The peer takes part as this worker. Raises Ended, and Error for a worker that was refused before."""
        if self.training.failure is not None:
            raise Ended(self.training.ended)
        self._drift.join(worker, self.training.done, kind)
        with self._change:
            peer.worker, peer.session, self._kinds[worker] = worker, self, kind
            self._peers.add(peer)

    def leave(self, peer: Peer) -> None:
        """The peer's connection has ended."""
        with self._change:
            self._peers.discard(peer)
            if self._asked is peer:
                self._asked = None
            self._change.notify_all()
        assert peer.worker is not None
        there = self._there()
        if peer.worker not in there:
            self._drift.leave(peer.worker)
            self.training.forget(peer.worker, there)

    def _there(self) -> set[int]:
        with self._change:
            return {peer.worker for peer in self._peers if peer.worker is not None}

    def leave_out(self, gone: Set[int]) -> None:
        """These workers do not come any more: nobody waits for them."""
        with self._change:
            self._ended = gone
        if not self.is_over:
            self.training.leave_out(gone)

    @property
    def chief(self) -> int:
        """The worker that is the chief."""
        with self._change:
            return self._chief.find(self._ended)

    def first_state(self, peer: Peer) -> tuple[Blob | None, SumId | None]:
        """The state that a worker begins with, and the sum that it has stepped on; no state: its own, which the others
        get."""
        sums = self.training.sums
        with self._change:
            if self._last_state is not None:
                self._last_state.seek(0)
                return self._last_state.read(), None
            while (found := sums.for_newcomer()) is None and self._asked is not None and not self._closing:
                self._change.wait()
            if found is not None:
                return found
            self._asked = peer
        state = _ask_state(peer.wire)
        with self._change:
            sums.begin_with(state)
            self._asked = None
            self._change.notify_all()
        return None, None

    # ---- what workers ask ----

    def answer(self, peer: Peer, message: Message) -> bool:
        """False: the connection ends."""
        kind, wire, training, worker = message.get("type"), peer.wire, self.training, peer.worker
        assert worker is not None
        if kind == "steps":
            if not self.is_over:
                training.want(int(message["steps"]))
        elif kind == "digests":
            training.compare(worker, int(message["step"]), dict(message["digests"]))
            wire.send(_outcome(training.failure, "compared"))
        elif kind == "order":
            differs = training.orders.hold(worker, int(message["place"]), str(message["what"]), message["digest"])
            wire.send(_outcome(DifferError(differs) if differs else None, "held"))
        elif kind == "evaluate":
            wire.send(self._evaluate(message))
        elif kind in ("after", "goes-on"):
            self._answer_step(wire, worker, message)
        elif kind == "in-step":
            training.is_in_step(worker, step_of(message["step"]))
        elif kind == "chief":
            with self._change:
                chief = self._chief.find(self._ended, asks=worker)
            wire.send({"type": "chief", "chief": chief})
        elif kind == "stop":
            training.stop()
            wire.send({"type": "stopped"})
        elif kind == "leave":
            self._leave(wire, worker, step_of(message["step"]))
        elif kind == "give":
            if not training.sums.renew(int(message["step"]), lambda: _ask_state(wire)):
                wire.send({"type": "enough"})
        elif kind in ("buffers", "buffers-of"):
            _answer_buffers(wire, training, message)
        elif kind == "fail":
            training.end(Error(text_of(message["why"])))
        elif kind in ("nonfinite", "nonfinite-sum"):
            wire.send(_answer_nonfinite(training, message))
        elif kind == "piece-failed":
            error = self._failed_pieces.add(FailedPiece.told(worker, message), training.lasting)
            if error is not None:
                training.end(error)
            wire.send({"type": "noted"})
        elif kind in ("state-digest", "state-verdict"):
            self._answer_drift(wire, worker, message)
        elif kind == "finish":
            self._finish(wire, worker, int(message["steps"]))
        else:
            return False
        return True

    def _answer_drift(self, wire: Wire, worker: int, message: Message) -> None:
        step = step_of(message["step"])
        if message["type"] == "state-digest":
            digest = digest_told(message)
            if step <= self.training.done + 1:
                self._drift.tell(worker, step, digest, inherited=message["inherited"] is True)
            return
        done = step_of(message["done"])
        try:
            verdict, state = self._drift.ask(worker, step, done)
            if verdict == "give":
                self._drift.give(done, _ask_state(wire))
                verdict = "unknown"
        except Error as error:
            wire.send(_failed(error))
            return
        wire.send({"type": "verdict", "verdict": verdict}, state)

    def _evaluate(self, message: Message) -> Message:
        done, within, question, before = message["key"]
        key: Key = (int(done), int(within), str(question), int(before))
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

    def _answer_step(self, wire: Wire, worker: int, message: Message) -> None:
        """A worker waits for the sum of its step, or for the step after it."""
        training, step = self.training, step_of(message["step"])
        if training.wants_last and message["gives"] is True:  # it gives its state, if that is newer than the hub's
            training.sums.renew(step, lambda: _ask_state(wire))
        if message["type"] == "after":
            training.is_in_step(worker, step)
            found, numbers = training.sums.after(step)
            wire.send({"type": found, "done": training.done}, numbers)
        elif message["follows"] is True:
            wire.send({"type": "goes-on", "more": training.follows(worker, step, self._there())})
        else:
            wire.send({"type": "goes-on", "more": training.goes_on(step)})

    def _leave(self, wire: Wire, worker: int, step: int) -> None:
        self.training.sums.renew(step, lambda: _ask_state(wire))
        is_over = self.training.leave(worker, step, self._there())
        if is_over:
            self._count_done(worker)
        wire.send(_outcome(self.training.failure if is_over else None, "left"))

    def _count_done(self, worker: int) -> None:
        with self._change:
            if self.training.failure is None and not self._closing:
                self._chief.finish(worker)

    def _finish(self, wire: Wire, worker: int, steps: int) -> None:
        training = self.training
        training.sums.renew(steps, lambda: _ask_state(wire))
        with training.change:
            while training.failure is None and training.settled < steps and not self._closing:
                training.change.wait(1.0)
            failure = training.failure
        if steps >= training.target:
            self._count_done(worker)
        wire.send(_outcome(failure, "finished"))


def _outcome(failure: Exception | None, well: str) -> Message:
    return {"type": well} if failure is None else _failed(failure)


def _failed(failure: Exception) -> Message:
    return {"type": "failed", "why": str(failure)}


def _answer_buffers(wire: Wire, training: Training, message: Message) -> None:
    """A worker has the buffers of a step, or asks for them."""
    step = step_of(message["step"])
    if message["type"] == "buffers-of":
        found = training.buffers.find(step)
        wire.send({"type": "buffers", "known": found is not None}, found or b"")
        return
    names = names_of(message["names"])
    if training.buffers.lacks(step, training.sums.oldest, training.done):
        training.buffers.keep(step, names, _ask_state(wire))
    wire.send({"type": "enough"})


def _answer_nonfinite(training: Training, message: Message) -> Message:
    """A worker has computed such a piece, or has got a sum with one."""
    step, known = step_of(message["step"]), training.nonfinite
    if message["type"] == "nonfinite":
        if training.sums.oldest <= step <= training.done + 1:  # a worker may be ahead of the hub
            known.keep(step, step_of(message["unit"]), text_of(message["what"]))
        return {"type": "enough"}
    marked = bool(message["marked"])
    if known.ends:
        training.end(Error(known.why(step, marked=marked)))
        return _outcome(training.failure, "skip")
    known.skip(step, marked=marked)
    return {"type": "skip"}


def _stored(state: Blob) -> IO[bytes]:
    """On disk if it is large and the disk takes it."""
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_MOST_KEPT_BYTES))  # noqa: SIM115 (it stays open)
    try:
        file.write(view_of(state))
    except OSError:
        file = io.BytesIO(view_of(state))
    return file


def _ask_state(wire: Wire) -> bytes:
    """Of the worker, which waits for an answer."""
    wire.send({"type": "state"})
    message, state = wire.receive(MOST_BYTES)
    if message.get("type") != "state":
        raise Closed("no state came")
    return state


def status_of(session: Session | None) -> dict[str, Any]:
    """What is known of its training; None: no worker has come yet."""
    if session is not None:
        return session.training.status()
    known: Message = {"done": 0, "wanted": 0, "workers": [], "failure": None, "privacy": None}
    return known | {"clamped": 0, "saturation": 0.0}
