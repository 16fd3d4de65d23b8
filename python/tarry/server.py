# SPDX-License-Identifier: Apache-2.0
"""A server over the network."""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic
from .names import SUMS, nanoseconds, put
from .notices import Notice, Observer
from .plan import Plan
from .results import SumId, fill_sum_id, sum_id_of
from .runtime import Runtime, RuntimeHandle
from .secure import SecureRules
from .settings import ServerSettings, server_settings
from .vectors import Bytes

JOB_ID_SIZE: int = lib.TARRY_JOB_ID_SIZE
# The place of the state that is offered, among what the library points to.
_OFFERED = 3


class Server(Runtime):
    """Listens for workers, and sums their gradients.

        with tarry.Server(plan, dimension=d, listen=":7077", credentials="keys/server") as server:
            server.wait()
            result = server.round(parameters)

    dimension    numbers in a gradient
    parameters   numbers in the parameters (None: the same)
    listen       'HOST:PORT', ':PORT' (any address) or 'unix:PATH', or several
    credentials  a folder of `tarry keys`; None with insecure=True, in plain text, on this machine alone, or with
                 force=True anywhere: everybody who can connect can take part
    job          bytes that every worker is handed
    job_id       by which workers know the job again when it is resumed; None: drawn
    checkpoint   of a server before, to go on from; a new one is to be stored before the first round
    log          where everyone gets the sum: called with each committed sum, to be appended so that it is there after a
                 crash; last, term: of the log's last two entries and of this start, above all before
    observe      called with each Notice, by threads of the library: it must return soon, and call nothing of the server
                 but `status`, `workers` and `note`
    patience     seconds for which a round waits where too few workers are left; 0: it ends at once
    secure       the server learns sums alone, by these rules: workers have to be set for it, too (Worker(secure=...)),
                 their credentials name them, and the authority has signed a list of them (`tarry keys roster`)

    Further settings are those of ServerSettings.
    """

    def __init__(
        self,
        plan: Plan,
        dimension: int,
        *,
        listen: str | Sequence[str],
        credentials: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        force: bool = False,
        parameters: int | None = None,
        job: bytes = b"",
        job_id: bytes | None = None,
        checkpoint: bytes | None = None,
        log: Callable[[SumId], None] | None = None,
        last: tuple[SumId, SumId] | None = None,
        term: int = 0,
        patience: float = 0.0,
        observe: Callable[[Notice], None] | None = None,
        secure: SecureRules | None = None,
        **wanted: Unpack[ServerSettings],
    ) -> None:
        server = server_settings(plan, dimension, wanted, secure=0 if secure is None else secure.bits)
        super().__init__(
            plan, dimension if parameters is None else parameters, dimension,
            everywhere=server.sum == SUMS["everywhere"],
        )  # fmt: skip
        settings = ffi.new("tarry_tcp_server_settings *")
        lib.tarry_tcp_server_settings_init_sized(settings, ffi.sizeof("tarry_tcp_server_settings"))
        stripe_length = settings.server.stripe_length
        addresses = [ffi.new("char[]", one.encode()) for one in ([listen] if isinstance(listen, str) else listen)]
        listened = ffi.new("const char *[]", addresses)
        folder = ffi.NULL if credentials is None else ffi.new("char[]", os.fsencode(credentials))
        description = ffi.from_buffer("uint8_t[]", job)
        settings.listen = listened
        settings.listen_count = len(addresses)
        settings.security.credentials = folder
        settings.security.insecure, settings.security.force = insecure, force
        put(settings, "parameters", self.parameters)
        put(settings, "dimension", dimension)
        settings.server = server
        settings.server.stripe_length = stripe_length
        settings.job, settings.job_size = description, len(job)
        if secure is not None:
            secure.fill(ffi.addressof(settings, "secure"), lib.tarry_plan_chunks(plan.pointer))
        if job_id is not None:
            if len(job_id) != JOB_ID_SIZE:
                raise ArgumentError(f"job_id has {len(job_id)} bytes, and {JOB_ID_SIZE} are wanted")
            ffi.memmove(settings.job_id, job_id, JOB_ID_SIZE)
        stored = ffi.from_buffer("uint8_t[]", checkpoint or b"")
        if checkpoint is not None:
            settings.checkpoint, settings.checkpoint_size = stored, len(checkpoint)
        settings.patience_ns = nanoseconds(patience, "patience")
        self._log = _Log(log) if log is not None else None
        if self._log is not None:
            settings.log.append, settings.log.user = lib.tarry_call_append, self._log.handle
        for place, entry in enumerate(last or ()):
            fill_sum_id(settings.log.last[place], entry)
        settings.log.term = term
        observer = Observer(observe) if observe is not None else None
        if observer is not None:
            settings.observe, settings.observe_user = lib.tarry_call_observe, observer.handle
        made, why = ffi.new("tarry_runtime **"), Diagnostic()
        why.check(lib.tarry_tcp_server_create(plan.pointer, settings, ffi.NULL, made, why.pointer))
        self._kept: list[Any] = [plan, self._log, observer]
        self._begin(RuntimeHandle("the server", made[0], self._kept))

    def open(self) -> None:
        """Lets workers in; the first `wait` or `round` does so, too."""
        why = Diagnostic()
        with self._handle.use() as runtime:
            why.check(lib.tarry_runtime_open(runtime, why.pointer))

    @property
    def addresses(self) -> list[str]:
        """Where it listens, with the ports that the system chose."""
        found: list[str] = []
        with self._handle.use() as runtime:
            while (address := lib.tarry_runtime_address(runtime, len(found))) != ffi.NULL:
                found.append(ffi.string(address).decode())
        return found

    @property
    def job_id(self) -> bytes:
        found = ffi.new("uint8_t[]", JOB_ID_SIZE)
        with self._handle.use() as runtime:
            lib.tarry_runtime_job_id(runtime, found)
        return bytes(ffi.buffer(found))

    def offer(self, after: SumId, state: bytes | bytearray | memoryview | Bytes) -> None:
        """Where everyone gets the sum: a state that workers may load from here, where none of them has the last."""
        entry, why = ffi.new("tarry_sum_id *"), Diagnostic()
        fill_sum_id(entry, after)
        held = ffi.from_buffer("uint8_t[]", state)
        with self._handle.use() as runtime:
            why.check(lib.tarry_runtime_vectors(runtime, entry, held, len(state), why.pointer))
        self._kept[_OFFERED:] = [held]

    def note(self, done: int, rounds: int, text: str = "") -> None:
        """Tells viewers (`tarry top`) how many rounds are done, of how many, and a line of text."""
        with self._handle.use() as runtime:
            lib.tarry_runtime_note(runtime, done, rounds, text.encode())

    def status(self) -> dict[str, Any]:
        """How the run stands: the document that `tarry top --json` prints (docs/status.schema.json).

        May be called from any thread, also during rounds and by `observe`.
        """
        size = lib.TARRY_STATUS_BYTES + self.plan.workers * lib.TARRY_STATUS_WORKER_BYTES
        text, why = ffi.new("char[]", size), Diagnostic()
        with self._handle.use() as runtime:
            why.check(lib.tarry_runtime_status(runtime, text, size))
        return json.loads(ffi.string(text))

    def _raise_own(self) -> None:
        if self._log is not None and self._log.error is not None:
            raise self._log.error


class _Log:
    def __init__(self, append: Callable[[SumId], None]) -> None:
        self.append = append
        self.error: BaseException | None = None
        self.handle: Any = ffi.new_handle(self)


@ffi.def_extern(error=lib.TARRY_ERROR_FILE)
def tarry_py_append(user: Any, entry: Any) -> int:
    log = ffi.from_handle(user)
    try:
        log.append(sum_id_of(entry))
    except BaseException as error:
        log.error = log.error or error
        return lib.TARRY_ERROR_FILE
    return lib.TARRY_OK
