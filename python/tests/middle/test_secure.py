# SPDX-License-Identifier: Apache-2.0
"""Secure sums: against the sum of whole numbers by NumPy, to the bit; and what workers do not agree to."""

import contextlib
import hashlib
import pathlib
import threading
from collections.abc import Callable
from typing import Any, cast

import keys as credentials_of
import numpy as np
import numpy.typing as npt
import pytest

import tarry

pytestmark = credentials_of.needs_openssl
WORKERS = credentials_of.SECURE_WORKERS
SAMPLES, DIMENSION, BOUND = 90, 1200, 50.0
PLAN = tarry.Plan(WORKERS, 8, replication=2)
RULES = tarry.SecureRules(BOUND, least=30)
NAMES = ("T", "L", "B", "W", "U")
DIGEST = hashlib.sha256(b"the samples").digest()


def gradient_of(unit: int, round_: int) -> npt.NDArray[np.float32]:
    numbers = np.random.default_rng((unit, round_)).standard_normal(DIMENSION).astype(np.float32) * 8
    numbers[unit] = 1e6  # beyond the bound, as a number in 1,200 may be
    return numbers


def expected(round_: int, fraction: int) -> npt.NDArray[np.float32]:
    """Each number is rounded to a multiple of 2^-fraction, and these are added."""
    total = np.zeros(DIMENSION, dtype=np.int64)
    for unit in range(8):
        held = np.clip(gradient_of(unit, round_).astype(np.float64), -BOUND, BOUND)
        total += np.rint(held * 2.0**fraction).astype(np.int64)
    return (total / 2.0**fraction).astype(np.float32)


class Crew:
    """Workers in threads, and what ended them."""

    def __init__(self, keys: pathlib.Path, address: str, more: int = 0) -> None:
        """more: numbers of each unit that are beyond the bound as well."""
        self.keys, self.address, self.more = keys, address, more
        self.errors: dict[int, BaseException] = {}
        self.threads: list[threading.Thread] = []

    def hire(self, number: int, state: Callable[[tarry.Task], bytes | None] = lambda _: None, **wanted: Any) -> None:
        known: dict[str, Any] = {"samples": SAMPLES, "digest": DIGEST, "bound": BOUND, "unit_samples": 11}

        def work() -> None:
            folder = self.keys / f"worker-{number}"
            try:
                with (
                    contextlib.closing(tarry.SecureMember(folder, **known | wanted)) as member,
                    tarry.Worker(self.address, credentials=folder, secure=member, patience=20) as worker,
                ):
                    for task in worker:
                        bound = state(task)
                        if bound is not None:
                            task.bind(bound)
                        task.gradient[:] = gradient_of(task.unit, task.round)
                        task.gradient[100 : 100 + self.more] = np.inf
            except BaseException as error:
                self.errors[number] = error

        self.threads.append(threading.Thread(target=work, daemon=True))
        self.threads[-1].start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


def serving(keys: pathlib.Path, rules: tarry.SecureRules = RULES) -> tarry.Server:
    return tarry.Server(
        PLAN, DIMENSION, parameters=1, listen="127.0.0.1:0", credentials=keys / "server", secure=rules
    )  # fmt: skip


def parameters() -> npt.NDArray[np.float32]:
    return np.ones(1, dtype=np.float32)


def fraction_of(keys: pathlib.Path) -> int:
    """As the workers' files have it."""
    words = (keys / "worker-0" / "secure" / "grid").read_text().split()
    return int(words[words.index("fraction") + 1])


def test_a_sum_is_that_of_the_rounded_gradients_to_the_bit(keys: pathlib.Path) -> None:
    told: list[str] = []
    with serving(keys) as server:
        crew = Crew(keys, server.addresses[0])
        for number in range(WORKERS):
            crew.hire(number, lambda task: bytes([task.round + 1] * 32), tell=told.append)
        server.wait(timeout=20)
        for round_ in range(3):
            result = server.round(parameters())
            beyond = sum(int((np.abs(gradient_of(unit, round_)) > BOUND).sum()) for unit in range(8))
            assert result.exact and result.clamped == beyond >= 8 and result.sum is not None
            assert result.sum.tobytes() == expected(round_, fraction_of(keys)).tobytes()
    crew.join()
    assert crew.errors == {}
    assert sum("sums are over these 90 samples" in line for line in told) == WORKERS


def test_a_worker_with_too_many_numbers_beyond_the_bound_sends_nothing(keys: pathlib.Path) -> None:
    """Each of its units has 2 in 1,200."""
    with serving(keys) as server:
        crew = Crew(keys, server.addresses[0], more=1)
        for number in range(WORKERS):
            crew.hire(number, names=NAMES)
        server.wait(timeout=20)
        with pytest.raises(tarry.Error):
            server.round(parameters())
    crew.join()
    assert crew.errors
    for error in crew.errors.values():
        assert "in round 0, 0.167 % of this worker's numbers are beyond the bound of 50 or not finite" in str(error)
        assert "at most 0.1 % may be: nothing was sent" in str(error) and "(B)" in str(error)


def test_workers_with_states_of_their_own_hide_everything(keys: pathlib.Path) -> None:
    """As those to whom the server has given different ones."""
    with serving(keys) as server:
        crew = Crew(keys, server.addresses[0])
        for number in range(WORKERS):
            crew.hire(number, lambda _, state=bytes([number + 1] * 32): state)
        server.wait(timeout=20)
        with pytest.raises(tarry.MasksError):
            server.round(parameters())
    crew.join()


def test_a_round_is_of_one_state(keys: pathlib.Path) -> None:
    with serving(keys) as server:
        crew = Crew(keys, server.addresses[0])
        for number in range(WORKERS):
            states = iter(range(1, 100))
            crew.hire(number, lambda _, states=states: bytes([next(states)] * 32))
        server.wait(timeout=20)
        with pytest.raises(tarry.Error):
            server.round(parameters())
    crew.join()
    assert any("bound to something else" in str(error) for error in crew.errors.values())


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"samples": SAMPLES - 1}, "secure/target says"),
        ({"digest": bytes([7] * 32)}, "secure/target says"),
        ({"begins": [0, 10, SAMPLES]}, "the plan is of other chunks"),
        ({"colluders": 2, "names": NAMES}, r"reckons with 1 colluders, and this worker with 2 \(T\)"),
        ({"least": 40, "names": NAMES}, r"would leave 30 samples to one sum, and this worker wants 40 \(L\)"),
        ({"bound": 49.0, "names": NAMES}, r"the server's bound is 50, and this worker's owner allows 49 \(B;"),
        ({"bound": 0.0}, r"the server's bound is 50, and this worker's owner allows 48 \(bound; by default 4 for each"),
        ({"bits": 64, "names": NAMES}, r"numbers of 32 bits, and this worker's owner allows 64 \(W\)"),
        ({"unit_samples": 12, "names": NAMES}, r"unit|chunk 0 of .* has 11 samples, and .* wants 12 in each .*\(U\)"),
    ],
)
def test_a_worker_keeps_to_what_it_agreed_to(keys: pathlib.Path, wanted: dict[str, Any], why: str) -> None:
    for more in ({}, wanted):
        with serving(keys) as server:
            server.open()
            crew = Crew(keys, server.addresses[0])
            crew.hire(0, **more)
            if more:
                crew.join()
            else:
                server.wait(1, timeout=20)
        crew.join()
        assert crew.errors.keys() == ({0} if more else set())
    with pytest.raises(tarry.Error, match=why):
        raise crew.errors[0]


def test_workers_of_other_numerics_are_not_taken(keys: pathlib.Path) -> None:
    refused: list[str] = []

    def observe(notice: tarry.Notice) -> None:
        if notice.kind == "refused":
            refused.append(notice.text)

    with tarry.Server(
        PLAN, DIMENSION, parameters=1, listen="127.0.0.1:0", credentials=keys / "server", secure=RULES, observe=observe
    ) as server:
        crew = Crew(keys, server.addresses[0])
        crew.hire(0, numerics="torch 2.13, 1 thread")
        server.wait(1, timeout=20)
        crew.hire(1, numerics="torch 2.13, 2 threads")
        crew.threads[1].join(20)
    crew.join()
    assert "computes chunks to other bits than" in str(crew.errors[1])
    assert any("computes chunks to other bits than" in text for text in refused)


@pytest.mark.parametrize(
    ("rules", "more", "why"),
    [
        (tarry.SecureRules(BOUND, 1, bits=16), {}, "16 bits"),
        (tarry.SecureRules(-1.0, 1), {}, "numbers up to -1"),
        (RULES, {"stop": "workers", "workers_needed": 2}, "secure"),
        (RULES, {"compress": "int8"}, "secure"),
        (RULES, {"sum": "everywhere"}, "secure"),
    ],
)
def test_what_can_not_be_secure_is_refused(
    keys: pathlib.Path, rules: tarry.SecureRules, more: dict[str, Any], why: str
) -> None:
    with pytest.raises(tarry.ArgumentError, match=why):
        tarry.Server(PLAN, DIMENSION, listen="127.0.0.1:0", credentials=keys / "server", secure=rules, **more)


def test_secure_sums_need_credentials(keys: pathlib.Path) -> None:
    member = tarry.SecureMember(keys / "worker-0", SAMPLES, DIGEST)
    with pytest.raises(tarry.StateError, match="another worker is using these credentials"):
        tarry.SecureMember(keys / "worker-0", SAMPLES, DIGEST)
    with pytest.raises(tarry.ArgumentError, match="secure sums need credentials"):
        tarry.Worker("127.0.0.1:1", insecure=True, secure=member)
    member.close()
    with pytest.raises(tarry.ArgumentError, match="secure sums need credentials"):
        tarry.Server(PLAN, DIMENSION, listen="127.0.0.1:0", insecure=True, secure=RULES)
    for samples, digest, begins in ((0, DIGEST, None), (9, b"", None), (9, bytes(32), None), (9, DIGEST, [0, 8])):
        with pytest.raises(tarry.ArgumentError):
            tarry.SecureMember(keys / "worker-0", samples, digest, begins=begins)
    for more in ({"bits": 16}, {"bound": -1.0}, {"bound": float("nan")}, {"unit_samples": 0}):
        with pytest.raises(tarry.ArgumentError, match="bits must be 32 or 64, not"):
            tarry.SecureMember(keys / "worker-0", SAMPLES, DIGEST, **cast(Any, more))
