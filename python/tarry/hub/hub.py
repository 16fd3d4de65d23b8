# SPDX-License-Identifier: Apache-2.0
"""The hub's process: takes workers in, and has their trainings run."""

import contextlib
import dataclasses
import os
import threading
import time
from typing import Any, Self

from ..control import Connection, Control
from ..errors import Error, SystemResourceError
from . import address as addresses
from .agreement import Agreement
from .attendants import Attendants, named
from .drift import kind_told
from .session import Ended, OtherTraining, Peer, Session, status_of
from .settings import HubSettings, default_listen
from .training import Training
from .wire import Closed, Message, Wire

_FAILED_SECONDS = 20.0  # that workers have to ask why the training has failed
_TOLD_SECONDS = 3.0  # that those who attend workers have to ask, and to hear that it is over
_MOST_PLACE = 400  # letters
_PORT_SECONDS, _LOOK_SECONDS = 5.0, 0.05  # of trying to listen at the port of a server that has ended


class Hub:
    """Listens for workers' questions at `address`, and serves them a training, or several if their script joins several
    times. Workers number these trainings by themselves: all join the same ones in the same order.

    Over TCP they show credentials (HubSettings.security), and each is who its certificate says."""

    def __init__(self, address: str, settings: HubSettings) -> None:
        """Raises SystemResourceError (the address), ArgumentError, FileError and FormatError (credentials)."""
        self.settings = settings
        self._lock = threading.Condition()
        self._sessions: list[Session] = []  # by the number of the training
        self._peers: set[Peer] = set()
        self._closing = False
        self._why = ""  # it closes
        self._left_out: set[int] = set()
        self._attendants = Attendants(settings.workers, settings.here)
        self._control = Control(listen=address, **settings.security.of_server().library(address))
        self.address = self._control.address
        threading.Thread(target=self._accept, name="tarry-hub", daemon=True).start()

    @property
    def training(self) -> Training | None:
        """The last one. None: no worker has come yet."""
        return self._sessions[-1].training if self._sessions else None

    @property
    def is_used(self) -> bool:
        """Whether anybody is connected."""
        return bool(self._peers)

    def leave_out(self, worker: int) -> None:
        """This worker does not come any more: nobody waits for it."""
        with self._lock:
            self._left_out.add(worker)
        self._tell_left_out()

    def _tell_left_out(self) -> None:
        with self._lock:
            gone, sessions = frozenset(self._left_out), list(self._sessions)
        for session in sessions:
            session.leave_out(gone)

    @property
    def chief(self) -> int:
        """The worker that is the chief of the last training."""
        with self._lock:
            return self._sessions[-1].chief if self._sessions else 0

    def close(self, *, finished: bool = True, why: str = "the training is over") -> None:
        """Ends the training: workers hear that it is over, or that it will be resumed; those who look after workers on
        other machines hear why."""
        with self._lock:
            self._closing, self._why = True, why
            self._lock.notify_all()
            sessions = list(self._sessions)
        self._control.stop_listening()
        for session in sessions:
            session.end()
        for session in sessions:
            session.close(finished=finished)
        self._await_told()
        with self._lock:
            peers = list(self._peers)
        for peer in peers:
            peer.wire.close()
        self._control.close()

    def _await_told(self) -> None:
        """Workers hear why the training has failed, and those who attend workers that it is over."""
        failed = any(session.training.failure is not None for session in self._sessions)
        with self._lock:
            if failed:
                self._lock.wait_for(lambda: all(peer.worker is None for peer in self._peers), timeout=_FAILED_SECONDS)
            self._lock.wait_for(lambda: not any(peer.attends for peer in self._peers), timeout=_TOLD_SECONDS)

    def take_last_state(self, seconds: float) -> None:
        """Begins to end the trainings before their last step: the newest state that workers give within so many seconds
        is stored. Does not wait for it."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            if not session.is_over:
                session.training.take_last_state(seconds)

    @property
    def last_is_taken(self) -> bool:
        """True once nothing more is stored."""
        with self._lock:
            sessions = list(self._sessions)
        return all(session.is_over or session.training.last_is_taken for session in sessions)

    @property
    def told_of_last(self) -> str:
        """Where the next run continues, in words; "": the training has no checkpoint."""
        training = self.training
        return "" if training is None else training.told_of_last()

    @property
    def done(self) -> int:
        """Steps of the model."""
        training = self.training
        return 0 if training is None else training.done

    def await_leaving(self, seconds: float) -> None:
        """Waits until all workers have left, and for other peers so long at most. A worker that still is in its last
        step needs the hub for its end. The connection of a machine that is gone ends by itself."""
        with self._lock:
            self._lock.wait_for(lambda: not self._peers, timeout=seconds)
            self._lock.wait_for(lambda: all(peer.worker is None for peer in self._peers))

    def await_leaving_of(self, number: int) -> None:
        """Waits until all workers have left this training."""
        with self._lock:
            self._lock.wait_for(lambda: number >= len(self._sessions) or not self._sessions[number].is_used)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- connections: a thread for each ----

    def _accept(self) -> None:
        with contextlib.suppress(Closed, Error):
            while True:
                found = self._control.accept()
                if isinstance(found, str):
                    self.settings.say(found)
                else:
                    threading.Thread(target=self._enter, args=(found,), name="tarry-hub-worker", daemon=True).start()

    def _enter(self, connection: Connection) -> None:
        where = "this machine" if connection.where.startswith("unix") else connection.where
        peer = Peer(Wire(connection), connection.name, where)
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
            if peer.session is not None:
                peer.session.leave(peer)
            with self._lock:
                self._peers.discard(peer)
                self._lock.notify_all()
            peer.wire.close()
            if peer.session is not None:
                self._retire()

    def _answer(self, peer: Peer, message: Message) -> bool:
        """False: the connection ends."""
        kind = message.get("type")
        if kind == "join":
            return self._join(peer, message)
        if kind == "attend":
            return self._attend(peer, message)
        if kind == "status":
            over = self._why if self._closing else None
            peer.wire.send({"type": "status"} | status_of(self._session_of(peer)) | {"over": over})
            return not (peer.attends and self._closing)
        if kind == "leave-out" and peer.attends is not None:
            if message["worker"] in peer.attends:
                self.leave_out(int(message["worker"]))
            return True
        if kind == "bye" or peer.session is None:
            return False
        return peer.session.answer(peer, message)

    def _session_of(self, peer: Peer) -> Session | None:
        """For a peer that has joined none, the last one."""
        return peer.session or (self._sessions[-1] if self._sessions else None)

    # ---- joining ----

    def _join(self, peer: Peer, message: Message) -> bool:
        try:
            worker = self._check_worker(message["worker"])
            peer.check(worker)
            kind = kind_told(message["kind"])
            session, notice = self._agree(worker, message, kind)
            session.add(peer, worker, kind)
        except Exception as error:
            which = {"ended": isinstance(error, Ended), "other": isinstance(error, OtherTraining)}
            peer.wire.send({"type": "refused", "why": str(error)} | which)
            return False
        state, last = session.first_state(peer)
        over = session.is_over
        peer.wire.send(
            {
                "type": "welcome",
                "server": "" if over else session.training.address,
                "worker": worker,
                "workers": self.settings.workers,
                "last": None if last is None else vars(last),
                "draws": session.training.keys_of(worker),
                "notice": notice,
                "over": over,
            },
            b"" if state is None else state,
        )
        self._retire()
        return True

    def _check_worker(self, worker: Any) -> int:
        if not isinstance(worker, int) or not 0 <= worker < self.settings.workers:
            raise ValueError(f"there is no worker {worker} of {self.settings.workers}")
        return worker

    def _agree(self, worker: int, message: Message, kind: str) -> tuple[Session, str]:
        """The training, and what the worker should hear of its data. Raises ValueError."""
        agreement = Agreement.of(message["agreement"])
        number, place = message["training"], str(message["place"])[:_MOST_PLACE]
        known = len(self._sessions)
        if not isinstance(number, int) or not 0 <= number <= known:
            raise ValueError(f"worker {worker} wants to join training {number}, and there are {known} so far")
        if number == known:
            self._await_port(number, nested=message["nested"] is True)
        until = time.monotonic() + _PORT_SECONDS
        with self._lock:
            while number == len(self._sessions):
                self._check_checkpoint(agreement)
                try:
                    session = self._open(agreement, worker, place)
                except SystemResourceError:
                    if not self._sessions or time.monotonic() > until:
                        raise
                    self._lock.wait(_LOOK_SECONDS)  # a thread of the server before may still hold its port
                    continue
                return session, session.training.notice
            session = self._sessions[number]
        if number > 0 or message["again"] is True:
            session.check_place(worker, place)
        return session, session.agree(worker, agreement, kind)

    def _open(self, agreement: Agreement, worker: int, place: str) -> Session:
        """The next training. The lock is held."""
        settings = dataclasses.replace(self.settings, listen=self._listen())
        session = Session(settings, agreement, worker, place)
        session.leave_out(frozenset(self._left_out))
        self._sessions.append(session)
        self._lock.notify_all()
        session.begin()
        return session

    def _check_checkpoint(self, agreement: Agreement) -> None:
        """Raises ValueError. A training would go on from the end of an earlier one, and do no step at all."""
        for number, session in enumerate(self._sessions):
            other = session.training.agreement.checkpoint
            if session.training.failure is None and other and _is_same_file(other, agreement.checkpoint):
                raise ValueError(
                    f"checkpoint={agreement.checkpoint!r} is the file of training {number + 1} of this script, and "
                    f"this is training {len(self._sessions) + 1}: give each training a file of its own"
                )

    # ---- where servers listen ----

    def _has_one_port(self) -> bool:
        """True if servers listen at the port that --listen names, and not at one that the system chooses."""
        return not addresses.is_unix(self.settings.listen) and addresses.split(self.settings.listen)[1] != 0

    def _await_port(self, number: int, *, nested: bool) -> None:
        """The training before has the port until all workers have left it. nested: the worker that joins still takes
        part in it, and so in two at the same time."""
        if nested or not self._has_one_port():
            return

        def is_left() -> bool:
            is_used = any(peer.session is not None for peer in self._peers)
            return not is_used or self._closing or len(self._sessions) > number

        with self._lock:
            self._lock.wait_for(is_left, timeout=self.settings.start)
        self._retire(also_last=True)

    def _listen(self) -> str:
        """For the next session. The servers of trainings at the same time have ports one after the other."""
        if addresses.is_unix(self.settings.listen):
            return default_listen() if self._sessions else self.settings.listen
        if not self._has_one_port():
            return self.settings.listen
        host, port = addresses.split(self.settings.listen)
        taken = {addresses.split(one.training.settings.listen)[1] for one in self._sessions if one.has_port}
        return addresses.joined(host, next(one for one in range(port, port + len(taken) + 1) if one not in taken))

    def _retire(self, *, also_last: bool = False) -> None:
        """Trainings that all workers have left make room. The last one stays for workers that come late to it."""
        with self._lock:
            found = [] if self._closing else self._sessions[: None if also_last else -1]
        for session in found:
            session.retire()

    # ---- those who look after workers ----

    def _attend(self, peer: Peer, message: Message) -> bool:
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
        self._tell_left_out()
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


def _is_same_file(one: str, other: str) -> bool:
    return os.path.abspath(one) == os.path.abspath(other) if other else False
