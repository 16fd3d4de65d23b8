# SPDX-License-Identifier: Apache-2.0
"""Trainings with secure sums: what is summed, to the bit, whoever dies; what the hub gets; and what is refused."""

import contextlib
import itertools
import os
import pathlib
import socket
import ssl
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import keys as credentials_of
import numpy as np
import pytest
import runs

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, Error, StateError  # noqa: E402
from tarry.hub import Agreement, Client, Hub, Security  # noqa: E402
from tarry.hub.at_server import AtServer  # noqa: E402
from tarry.hub.client import Refused  # noqa: E402
from tarry.hub.secure import check_secure, job_text  # noqa: E402
from tarry.hub.session import Session  # noqa: E402
from tarry.hub.settings import HubSettings  # noqa: E402
from tarry.hub.training import Training, plan_of  # noqa: E402
from tarry.settings import ServerSettings  # noqa: E402
from tarry.torch.loader import Loader  # noqa: E402
from tarry.torch.secure import Secret, digest_of, numerics  # noqa: E402
from tarry.worker import Job  # noqa: E402

pytestmark = credentials_of.needs_openssl
WORKERS = credentials_of.SECURE_WORKERS
HERE = "127.0.0.1:0"
UNITS, PIECE = 12, 25  # of scripts/secret.py


def over_tcp(keys: pathlib.Path, *options: object) -> tuple[object, ...]:
    return ("--listen", HERE, "--credentials", keys, *options)


# ---- whole runs ----


def ends(lines: list[str]) -> list[list[str]]:
    """Of 'end WORKER STEPS DIGEST LOST CLAMPED TOLD'."""
    return [line.split()[1:] for line in lines if line.startswith("end ")]


def locks(keys: pathlib.Path) -> dict[str, str]:
    """Of those that have sent anything, for each job."""
    return {str(file): file.read_text() for file in keys.glob("worker-*/secure/lock-*")}


def test_sums_are_those_of_whole_numbers_whoever_is_slow_or_dies(keys: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The script looks at each step of each worker. As integers have the same sum in any order, all runs end with the
    same bits: one without deaths, one with a worker that is killed and comes again, and one that is resumed."""
    plain = runs.succeed(
        "secret", 16, "--check", workers=WORKERS,
        options=over_tcp(keys, "--straggler", "exp:0.003+slow:1,5"),
    )  # fmt: skip
    found = ends(plain)
    assert len(found) == WORKERS and {one[2] for one in found} == {found[0][2]}
    assert all(one[4:] == ["0", "0"] for one in found if one[3] == "0"), found
    before = locks(keys)
    checkpoint = tmp_path / "run.ckpt"
    words: tuple[object, ...] = ("--check", "--checkpoint", checkpoint)
    gate = tmp_path / "gate"
    with runs.running(
        "secret", 9, *words, "--report", 1, "--gate", gate, workers=WORKERS, options=over_tcp(keys, "--restarts", 1)
    ) as process:
        lines = runs.lines_to(process, "step 0 4")
        os.kill(runs.workers(process)[1], 9)
        lines += runs.lines_to(process, "begins 1")
        if sum("begins 1" in line for line in lines) < 2:  # the first one was slow to begin
            runs.await_line(process, "begins 1")
        gate.touch()
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
        assert process.returncode == 0, output + errors
        assert output.count("] end ") == WORKERS
    resumed = ends(runs.succeed("secret", 16, *words, workers=WORKERS, options=over_tcp(keys)))
    assert {one[1] for one in resumed} == {"16"}
    assert {one[2] for one in resumed} == {found[0][2]}
    after = locks(keys)  # the resumed run is another job, and no lock of the first one is forgotten
    assert len(before) > 1 and before.items() <= after.items() and len(after) > len(before)


def test_a_bound_that_many_numbers_are_beyond_ends_the_workers(keys: pathlib.Path) -> None:
    ended = runs.run("secret", 2, "--bound", 3, workers=WORKERS, options=over_tcp(keys))
    assert ended.returncode == 1
    assert (
        "% of this worker's numbers are beyond the bound of 3 or not finite, and at most 0.1 % may be" in ended.stderr
    )
    assert "(secure_bound)" in ended.stderr


def test_a_plan_that_leaves_too_few_samples_ends_the_workers(keys: pathlib.Path) -> None:
    """With four copies each worker may be given every piece, and would tell all if it colluded."""
    ended = runs.run("secret", 2, "--replication", WORKERS, workers=WORKERS, options=over_tcp(keys))
    assert ended.returncode == 1
    assert "1 colluders may hold all but 0 of 300 samples, and 38 are to be left (secure_least)" in ended.stderr


def test_a_piece_has_two_copies_where_three_and_more_compute() -> None:
    def copies(workers: int, agreement: Agreement) -> float:
        with plan_of(workers, agreement) as plan:
            return sum(len(plan.order_of(worker)) for worker in range(workers)) / agreement.units

    for workers, few in ((2, 1), (3, 2), (4, 2)):
        assert copies(workers, an_agreement()) == few
        assert copies(workers, an_agreement(secure=False)) == workers


# ---- a hub in this process, and what goes there ----


def work_for(hub: Hub, keys: pathlib.Path, steps: int) -> tuple[int, str]:
    """Processes of the script, to their end: the status of their `tarry run`, and what they said."""
    with runs.running(
        "secret", steps, workers=WORKERS, options=("--connect", hub.address, "--credentials", keys)
    ) as process:
        output, errors = process.communicate(timeout=runs.LIMIT_SECONDS)
        return process.returncode, output + errors


def a_hub(keys: pathlib.Path) -> Hub:
    return Hub(HERE, HubSettings(WORKERS, HERE, security=Security(str(keys))))


def test_workers_with_states_of_the_hubs_making_hide_everything(
    keys: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who could have the others compute nothing would have the sum of one worker's pieces."""
    given: Iterator[int] = itertools.count()
    first_state = Session.first_state

    def forged(self: Session, *arguments: Any) -> tuple[bytes | None, Any]:
        found, last = first_state(self, *arguments)
        state = None if found is None else bytes(found)
        if state is not None:  # each another one
            state = state[:-1] + bytes([state[-1] ^ (1 + next(given))])
        return state, last

    monkeypatch.setattr(Session, "first_state", forged)
    with a_hub(keys) as hub:
        status, told = work_for(hub, keys, 3)
        training = hub.training
        assert training is not None and training.done == 0
    assert status == 1 and "their models have different bits" in told, told
    assert "\nend" not in told


class Tap:
    """Between workers and the hub's server, with the credentials of both: keeps what workers send."""

    def __init__(self, keys: pathlib.Path, server: str) -> None:
        self.keys, self.server, self.heard = keys, server, bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        accepting = credentials_of.context(self.keys / "server", accepting=True)
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            worker = accepting.wrap_socket(connection, server_side=True)
            certificate: Any = worker.getpeercert()
            subject: dict[str, str] = dict(part[0] for part in certificate["subject"])
            host, _, port = self.server.rpartition(":")
            context = credentials_of.context(self.keys / subject["commonName"], accepting=False)
            server = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname="tarry-server")
            threading.Thread(target=self._pass, args=(worker, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, worker, False), daemon=True).start()

    def _pass(self, source: ssl.SSLSocket, to: ssl.SSLSocket, up: bool) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(1 << 16):
                if up:
                    self.heard += data
                to.sendall(data)
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def first_pieces() -> Any:
    """Whole numbers of each piece of the script's first step."""
    from tarry.torch.seeding import kept_random, seed_all

    with kept_random():
        torch.manual_seed(7)
        model = torch.nn.Sequential(
            torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
        )
        inputs = torch.randn(UNITS * PIECE, 10, generator=torch.Generator().manual_seed(1))
        wanted = inputs.sum(1, keepdim=True) ** 2
        fraction = 15  # 2^15 * 4000 * 12 < 2^31
        found: list[Any] = []
        for unit in range(UNITS):
            seed_all(3, 0, unit)
            of = slice(unit * PIECE, (unit + 1) * PIECE)
            loss = torch.nn.functional.mse_loss(model(inputs[of]), wanted[of], reduction="sum")
            gradient = torch.cat([one.reshape(-1) for one in torch.autograd.grad(loss, list(model.parameters()))])
            found.append(np.rint(gradient.numpy().astype(np.float64) * 2.0**fraction).astype(np.int64))
    return np.array(found)


def sums_in(heard: bytes, pieces: Any) -> list[tuple[int, ...]]:
    """Sets of pieces whose sum, or a stretch of it, is in the bytes as it is."""
    found: list[tuple[int, ...]] = []
    for bits in range(1, 1 << UNITS):
        chosen = [unit for unit in range(UNITS) if bits >> unit & 1]
        words = pieces[chosen].sum(axis=0).astype(np.uint32)
        if words[:4].tobytes() in heard or words[-9:-5].tobytes() in heard:
            found.append(tuple(chosen))
    return found


def test_the_hub_gets_no_pieces_and_no_sum_of_some(keys: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taps: list[Tap] = []
    address = Training.address.fget
    assert address is not None

    def tapped(self: Training) -> str:
        if not taps:
            taps.append(Tap(keys, address(self)))
        return taps[0].address

    monkeypatch.setattr(Training, "address", property(tapped))
    with a_hub(keys) as hub:
        status, told = work_for(hub, keys, 2)
        training = hub.training
        assert status == 0 and training is not None and training.done == 2, told
        kind, numbers = training.sums.after(0)
    taps[0].close()
    heard, pieces = bytes(taps[0].heard), first_pieces()
    # The sum over all is what the hub made of it, and so what is looked for below is what workers had masked.
    assert kind == "sum"
    gradient, counts = np.split(np.frombuffer(numbers, np.float32), [pieces.shape[1]])
    assert gradient.tobytes() == (pieces.sum(axis=0) / 2.0**15).astype(np.float32).tobytes()
    assert counts.tolist() == [*[UNITS] * 4, 0]  # all pieces use each of the four parameters, and all are finite
    assert len(heard) > WORKERS * pieces.shape[1] * 4
    assert sums_in(heard, pieces) == []
    planted = pieces[[2, 5, 11]].sum(axis=0).astype(np.uint32).tobytes()
    assert sums_in(heard + planted, pieces) == [(2, 5, 11)]


# ---- what is agreed on, and what is refused ----


def an_agreement(**more: Any) -> Agreement:
    known: dict[str, Any] = {
        "dimension": 10, "units": 4, "samples": 100, "batch": 100, "piece": 25, "seed": 1, "replication": 0,
        "parts": 1, "engine": "direct", "exact": 0, "model": "weight (10,)", "options": "",
        "checkpoint": "", "checkpoint_seconds": 60.0, "secure": True, "secure_colluders": 1, "secure_least": 13,
        "secure_bound": 100.0, "secure_bits": 32, "secure_piece_samples": 25, "data": "ab" * 32,
        "numerics": "torch 9, 1 threads",
    }  # fmt: skip
    settings: Any = {"sum": "server"} | {
        name: more.pop(name) for name in [*more] if name in ServerSettings.__annotations__
    }
    return Agreement(settings=settings, **known | more)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sum": "everywhere"}, "sum='everywhere': workers would send each other"),
        ({"dp": "clip:1,noise:1,sample:0.1"}, "dp: noise in secure sums is not there"),
        ({"reproducible": True}, "reproducible"),
        ({"parts": 2}, "parts"),
        ({"compress": "int8"}, "compress"),
        ({"compress_down": "int8"}, "compress"),
        ({"exact": 2}, "metrics or buffers"),
        ({"batch": 50}, "batches: those that overlap are equations"),
        ({"secure_bits": 16}, "secure_bits=16"),
        ({"secure_bound": -1.0}, "secure_bound=-1.0"),
        ({"secure_bound": float("nan")}, "secure_bound=nan"),
        ({"secure_least": 101}, "secure_least=101: there are 100 samples"),
        ({"secure_colluders": -1}, "secure_colluders=-1"),
        (
            {"secure_piece_samples": 26},
            "piece=25: the smallest piece has 25 of 100 samples, and each .* 26 at least "
            r"\(secure_piece_samples\)\. piece=34 leaves no smaller one",
        ),
        ({"piece": 99, "secure_piece_samples": 2}, r"piece=99: the smallest piece has 1 of 100 .*\. piece=98 leaves"),
    ],
)
def test_what_would_break_the_argument_is_refused(keys: pathlib.Path, more: dict[str, Any], why: str) -> None:
    with a_hub(keys) as hub:
        client = Client(hub.address, Security(str(keys)).of_worker(0))
        with pytest.raises(Refused, match=f"secure does not go with {why}"):
            client.join(0, an_agreement(**more), bytes)
        client.close()


def test_a_step_with_too_many_clamped_numbers_ends_the_training() -> None:
    """Of 1,000 numbers and 4 pieces; workers that keep to the rule send no such step."""
    told: list[str] = []
    sums: Any = types.SimpleNamespace(
        agreement=an_agreement(dimension=1000), settings=types.SimpleNamespace(say=told.append), done=3, clamped=0,
        saturation=0.0,
    )  # fmt: skip
    for clamped in (0, 4, 0, 2):
        AtServer.count_clamped(sums, clamped)
    assert (sums.clamped, sums.saturation) == (6, 0.001)
    assert told == [
        "step 3: 0.100% of the numbers in pieces' gradients were beyond secure_bound=100, to which they are held, or "
        "not finite"
    ]
    with pytest.raises(
        StateError, match=r"step 3: 0\.125% .* At most 0\.1% may be: give all workers a larger secure_bound"
    ):
        AtServer.count_clamped(sums, 5)
    assert (sums.clamped, sums.saturation) == (11, 0.00125)


def test_secure_sums_are_of_several_workers_with_credentials() -> None:
    for workers, address, has in ((1, "h:1", True), (2, "h:1", False), (2, None, True), (2, "unix:@x", True)):
        why = "1 workers: one worker's sum is its own" if workers == 1 else "plain text: .*tarry keys init and roster"
        with pytest.raises(ArgumentError, match=why):
            check_secure(an_agreement(), workers, address, has_credentials=has)
    check_secure(an_agreement(), 2, "h:1", has_credentials=True)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"data": "cd" * 32}, "other samples than the others: their digest is cdcd"),
        ({"numerics": "torch 9, 2 threads"}, "'torch 9, 2 threads' where the others have 'torch 9, 1 threads'"),
        ({"secure_least": 14}, "secure_least 14 where the others have 13"),
        ({"secure_bound": 99.0}, "secure_bound 99.0"),
        ({"secure": False}, "secure=False where the others have True"),
    ],
)
def test_workers_that_differ_are_told_in_what(keys: pathlib.Path, more: dict[str, Any], why: str) -> None:
    with a_hub(keys) as hub:
        clients = [Client(hub.address, Security(str(keys)).of_worker(one)) for one in range(2)]
        clients[0].join(0, an_agreement(), bytes)
        with pytest.raises(Refused, match=why):
            clients[1].join(1, an_agreement(**more), bytes)
        for client in clients:
            client.close()


def test_a_worker_takes_no_other_job_and_no_other_samples(keys: pathlib.Path) -> None:
    """Than those that it has told the hub, and in its next life than those of its first job."""
    agreement = an_agreement()
    secret = Secret(agreement, Security(str(keys)).of_worker(0))
    job = Job(0, 3, 12, 10, job_text(agreement), "server")
    assert secret.prepare(job) is None
    with pytest.raises(StateError, match="of another training than the hub has agreed on"):
        secret.prepare(job._replace(description=job_text(an_agreement(seed=2))))
    with pytest.raises(StateError, match="another worker is using these credentials"):
        Secret(agreement, Security(str(keys)).of_worker(0))
    secret.close()
    Secret(agreement, Security(str(keys)).of_worker(0)).close()


class Bench:
    """`join` in this process, by itself."""

    def __init__(self, model: Any = None, **options: Any) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Linear(3, 1) if model is None else model
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.data = (torch.randn(200, 3), torch.randn(200, 1))
        known: dict[str, Any] = {"data": self.data, "piece": 40, "sum": "server", "secure": True}
        self.job = tt.join(self.model, optimizer, **known | options)


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 100}, "batch: each step is over all samples"),
        ({"drop_last": True}, "drop_last"),
        ({"dp": "clip:1,noise:1,sample:0.1"}, "dp: noise in secure sums is not there"),
        ({"metrics": "hits"}, "metrics: with secure nobody learns it"),
        ({"buffers": "x"}, "buffers"),
        ({"scaler": object()}, "scaler"),
        ({"model": torch.nn.BatchNorm1d(3)}, "the model, a BatchNorm1d: their changes would have to be summed"),
        ({"model": torch.nn.Linear(3, 1, device="meta")}, "weight on meta"),
        ({"sum": "everywhere"}, "sum='everywhere'"),
        ({"reproducible": True}, "reproducible"),
        ({"compress": "int8"}, "compress"),
        ({"secure_bits": 31}, "secure_bits=31"),
        ({"secure_bound": -2.0}, "secure_bound=-2.0"),
        ({"secure_least": 201}, "secure_least=201"),
        ({"piece": 20}, "piece=20: the smallest piece has 20 of 200 samples"),
        ({}, "1 workers"),
    ],
)
def test_join_says_what_does_not_go_together(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ArgumentError, match=f"secure does not go with {why}"):
        Bench(**options)


def test_join_wants_the_same_bits_from_all() -> None:
    with pytest.raises(ArgumentError, match=r"call torch\.use_deterministic_algorithms\(True\)"):
        Bench()
    for name, value in (("colluders", 2), ("least", 3), ("bound", 1.0), ("bits", 64), ("piece_samples", 9)):
        with pytest.raises(ArgumentError, match=f"secure_{name} is for secure=True"):
            Bench(secure=False, batch=40, **{f"secure_{name}": value})


@pytest.mark.usefixtures("deterministic")
def test_what_the_loop_does_wrong_is_told(keys: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Hub(HERE, HubSettings(2, HERE, security=Security(str(keys)))) as hub:
        known = {"TARRY_HUB": hub.address, "TARRY_WORKERS": "2", "TARRY_CREDENTIALS": str(keys)}
        made: list[Bench] = []
        for worker in range(2):
            for name, value in (known | {"TARRY_WORKER": str(worker)}).items():
                monkeypatch.setenv(name, value)
            made.append(Bench())
        own, job = made[0], made[0].job

        def loss_of(bench: Bench) -> Callable[[Any], tuple[Any, int]]:
            return lambda batch: (
                torch.nn.functional.mse_loss(bench.model(batch[0]), batch[1], reduction="sum"),
                len(batch[1]),
            )

        def work() -> None:
            with contextlib.suppress(Error), made[1].job as other:
                for step in other.steps(2):
                    step.compute(loss_of(made[1]))

        thread = threading.Thread(target=work)
        thread.start()
        with pytest.raises(ArgumentError, match="secure does not go with local steps"):
            job.local_steps(2, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
        with pytest.raises(ArgumentError, match="with secure nothing is told of the training samples"):
            job.evaluate(own.data, loss_of(own))
        with pytest.raises(ArgumentError, match=r"its 40 samples: backward was given 1$"), job:
            for step in job.steps(2):
                for piece in step:
                    assert piece.samples == list(range(40 * piece.unit, 40 * piece.unit + 40))
                    with piece:
                        loss, samples = loss_of(own)(piece.batch)
                        piece.backward(loss, weight=1 if step.number else samples)
                assert step.metrics["pieces"] > 0 and "weight" not in step.metrics
                with pytest.raises(StateError, match="'loss': with secure nobody learns it"):
                    step.metrics["loss"]
    thread.join(20)
    assert not thread.is_alive()


# ---- samples and numerics ----


class Listed:
    """A dataset of whatever it is given."""

    def __init__(self, *samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        found = self.samples[index]
        return found() if callable(found) else found


def test_digests_tell_samples_apart() -> None:
    def digest(*samples: Any) -> bytes:
        return digest_of(Loader(Listed(*samples), lambda found: found), 1)

    one = torch.zeros(2)
    kinds: list[tuple[Any, ...]] = [
        (one,), (one, one), (one + 1,), (one.double(),), (torch.zeros(2, 1),), (torch.zeros(0),), (one.numpy(),),
        ((one,),), ({"a": one},), ({"b": one},), (1,), (1.0,), (True,), ("1",), (None,), ("a", "b"), ("b", "a"),
        (["a", "b"],), (["ab"],), (torch.rand,),
    ]  # fmt: skip
    kinds[-1] = (lambda: torch.rand(2),)
    found = [digest(*samples) for samples in kinds]
    assert len(set(found)) == len(kinds)
    assert found == [digest(*samples) for samples in kinds]  # what is random in loading, too
    with pytest.raises(ArgumentError, match="not of a set"):
        digest({1})
    data = (torch.arange(6.0).reshape(3, 2), torch.arange(3))
    assert digest_of(Loader(data, None), 1) == digest_of(Loader(data, None), 2)


def test_numerics_name_what_decides_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    state = torch.get_rng_state()
    before = numerics()
    assert before == numerics() and torch.__version__ in before
    assert torch.equal(state, torch.get_rng_state())
    threads: Callable[[], int] = torch.get_num_threads
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads() + 1)
    assert numerics() != before
