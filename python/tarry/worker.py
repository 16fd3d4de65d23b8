# SPDX-License-Identifier: Apache-2.0
"""A worker over the network, whose tasks are taken and given back."""

import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from ._native import ffi, lib
from .engine import Engine, EngineCalls
from .errors import Diagnostic, StateError, error_of, keep_error
from .lifetime import Handle, abandon, watch_for_abandoned
from .names import SUMS, name_of, nanoseconds, put
from .notices import Notice, Observer
from .owner import Vectors, VectorsCalls
from .replica import Replica, ReplicaCalls
from .secure import SecureMember
from .straggler import Straggler
from .task import Task

# Ctrl-C is heard between two of them.
_SLICE_NS = 100_000_000


class Job(NamedTuple):
    """What the server told a worker."""

    worker: int
    workers: int
    parameters: int
    dimension: int
    description: bytes  # Server(job=...)
    sum: str  # 'server' or 'everywhere'


class WorkerHandle(Handle):
    """The library's worker, of whose tasks one at a time is out."""

    def stop(self, pointer: Any, limit: float | None) -> bool:
        lib.tarry_tcp_worker_leave(pointer, 0)
        return True

    def free(self, pointer: Any) -> None:
        lib.tarry_tcp_worker_free(pointer)


class _Preparing:
    """The library's call before the first task of a job."""

    def __init__(
        self,
        prepare: Callable[[Job], Replica | None] | None,
        secure: SecureMember | None,
        vectors: VectorsCalls | None,
    ) -> None:
        self._prepare, self._secure, self.vectors = prepare, secure, vectors
        self._calls: list[ReplicaCalls] = []  # of all jobs: the library may still hold those before
        self._error: BaseException | None = None
        self.handle: Any = ffi.new_handle(self)

    def begin(self, worker: Any, told: Any, data: Any) -> None:
        job = Job(
            told.worker,
            told.workers,
            told.parameters,
            told.dimension,
            bytes(ffi.buffer(told.job, told.job_size)) if told.job_size else b"",
            name_of(SUMS, told.sum),
        )
        replica = self._prepare(job) if self._prepare is not None else None
        if replica is not None:
            self._calls.append(ReplicaCalls(replica))
            lib.tarry_tcp_worker_replica(worker, self._calls[-1].pointer, self._calls[-1].last)
        elif job.sum == "everywhere":
            raise StateError("the server wants everyone to get the sum: `prepare` has to give a replica")

        if self._secure is not None:
            self._secure.begin(worker, told, data)

    def fail(self, error: BaseException) -> None:
        """What ended the worker."""
        self._error = self._error or error

    def raise_own(self) -> None:
        of_vectors = self.vectors.error if self.vectors is not None else None
        for error in (self._error, of_vectors, *(calls.error for calls in self._calls)):
            if error is not None:
                raise error


class Worker:
    """Connects to a server, and is given tasks.

        with tarry.Worker("hub:7077", credentials="keys/worker-0") as worker:
            for task in worker:
                task.gradient[:] = ...

    connect      the server's address, 'HOST:PORT' or 'unix:PATH'
    credentials  a folder of `tarry keys`; None with insecure=True, in plain text, on this machine alone, or with
                 force=True anywhere: everybody who can connect can take part
    worker       the number to ask for; None: that of the credential, or any
    straggler    delays that are injected
    patience     seconds after which it gives up to connect; None: never
    prepare      called with a Job before the first task, and when the server starts another one; gives the replica that
                 this worker steps where everyone gets the sum, or None. An exception ends the worker
    observe      called with each Notice, by threads of the library: it must return soon
    listen, advertise   where other workers reach it, where everyone gets the sum
    share_memory whether it may sum there through memory that it shares with workers on this machine
    engine       makes the sum there, in place of the library's; the same one, by its name, at all workers
    secure       sums have to be secure, and are over its samples alone; it is to be closed after the worker
    vectors      owns the worker's vectors; None: they are in the library's memory

    The connection is kept up, and made anew, by threads of the library. One thread at a time may take tasks.
    """

    def __init__(
        self,
        connect: str,
        *,
        credentials: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        force: bool = False,
        worker: int | None = None,
        rack: str | None = None,
        straggler: Straggler | None = None,
        share_memory: bool = True,
        patience: float | None = 300.0,
        seed: int = 0,
        prepare: Callable[[Job], Replica | None] | None = None,
        listen: str | None = None,
        advertise: str | None = None,
        engine: Engine | None = None,
        observe: Callable[[Notice], None] | None = None,
        secure: SecureMember | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        settings = ffi.new("tarry_tcp_worker_settings *")
        lib.tarry_tcp_worker_settings_init_sized(settings, ffi.sizeof("tarry_tcp_worker_settings"))
        kept: list[Any] = []

        def text(value: str | os.PathLike[str] | None) -> Any:
            if value is None:
                return ffi.NULL
            kept.append(ffi.new("char[]", os.fsencode(value)))
            return kept[-1]

        self._preparing = _Preparing(prepare, secure, VectorsCalls(vectors) if vectors is not None else None)
        self._task: Task | None = None
        self._found, self._why = ffi.new("const tarry_task **"), Diagnostic()
        self.ended = False  # no tasks come any more, after an error
        settings.connect = text(connect)
        settings.security.credentials = text(credentials)
        settings.security.insecure, settings.security.force = insecure, force
        if worker is not None:
            put(settings, "worker", worker)
        settings.rack = text(rack)
        settings.straggler = straggler.pointer if straggler is not None else ffi.NULL
        settings.share = share_memory
        settings.patience_ns = nanoseconds(patience, "patience")
        put(settings, "seed", seed)
        settings.begin = lib.tarry_call_begin
        settings.user = self._preparing.handle
        settings.listen = text(listen)
        settings.advertise = text(advertise)
        calls = EngineCalls(engine) if engine is not None else None
        if calls is not None:
            settings.engine = calls.pointer
        if self._preparing.vectors is not None:
            settings.vectors = self._preparing.vectors.pointer
        observer = Observer(observe) if observe is not None else None
        if observer is not None:
            settings.observe, settings.observe_user = lib.tarry_call_observe, observer.handle
        if secure is not None:
            secure.fill(settings.secure)
            settings.share = False
        made, why = ffi.new("tarry_tcp_worker **"), Diagnostic()
        why.check(lib.tarry_tcp_worker_create(settings, ffi.NULL, made, why.pointer))
        self._handle = WorkerHandle("the worker", made[0], (straggler, self._preparing, observer, calls, secure))
        watch_for_abandoned()
        weakref.finalize(self, abandon, self._handle).atexit = False

    def take(self, wait: float | None = None) -> Task | None:
        """The next task; None: the run is over. The one before must have been given back.

        Raises StateError when none came within `wait` seconds (None: no limit), or the worker was closed meanwhile; and
        what ended the worker.
        """
        if self._task is not None and not self._task.given:
            raise StateError("the task before was not given back")
        left = nanoseconds(wait, "wait")
        found, why = self._found, self._why
        while True:
            piece = min(left, _SLICE_NS)
            with self._handle.use() as worker:
                code = lib.tarry_tcp_worker_take(worker, piece, found, why.pointer)
            if code == lib.TARRY_OK:
                task = found[0]
                self._task = Task(self._handle, task) if task else None
                return self._task
            self.ended = code != lib.TARRY_ERROR_STATE or bool(why.text)
            self._preparing.raise_own()
            if self.ended:
                raise error_of(code, why.text)
            if left <= _SLICE_NS:
                raise StateError("no task came in time")
            left = left - piece if wait is not None else left

    def __iter__(self) -> Iterator[Task]:
        """Tasks until the run is over; each is given back when the next one is asked for, unless it was."""
        while (task := self.take()) is not None:
            yield task
            if not task.given:
                task.give()

    def leave(self, grace: float = 0.0) -> None:
        """Takes leave: what is finished is still sent if the server asks for it within the grace. Any thread."""
        limit = nanoseconds(grace, "grace")
        with self._handle.use() as worker:
            lib.tarry_tcp_worker_leave(worker, limit)

    @property
    def number(self) -> int | None:
        """The worker's number; None: not told yet."""
        with self._handle.use() as worker:
            found = lib.tarry_tcp_worker_work(worker).worker
        return None if found == lib.TARRY_TCP_NO_WORKER else found

    def close(self) -> None:
        """Ends the worker; a task that was not given back is void. Any thread: a `take` in progress ends."""
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@ffi.def_extern(error=lib.TARRY_ERROR_INTERRUPTED, onerror=keep_error)
def tarry_py_begin(user: Any, worker: Any, job: Any, data: Any, diagnostic: Any) -> int:
    ffi.from_handle(user).begin(worker, job, data)
    return lib.TARRY_OK
