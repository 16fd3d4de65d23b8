# SPDX-License-Identifier: Apache-2.0
"""What a training with differential privacy is made of: terms, draws, noise, ledger and budget."""

import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import SEED

from tarry import ArgumentError, Error, FileError, FormatError, NumericalError, StateError, dp, privacy

TERMS = dp.Terms.read("clip:4,noise:1.5,sample:0.1")
COUNT = 20_000


def releases(text: str = TERMS.text, ledger: pathlib.Path | None = None, *, goes_on: bool = False) -> dp.Releases:
    return dp.Releases(dp.Terms.read(text), 1000, ledger, goes_on=goes_on)


def noise_of(owner: dp.Releases) -> np.ndarray:
    found = np.zeros(COUNT, dtype=np.float32)
    owner.release(found)
    return found.astype(np.float64)


# ---- terms ----


def test_terms_are_those_of_the_tool() -> None:
    read = dp.Terms.read("sample:0.5,seed:8,budget:2.5,clip:3,delta:1e-6,noise:4")
    assert (read.clip, read.noise, read.sample, read.delta, read.budget) == (3, 4, 0.5, 1e-6, 2.5)
    assert not read.secret
    usual = dp.Terms.read("clip:1,noise:1,sample:1")
    assert usual.delta == 1e-5 and usual.budget == math.inf and usual.secret


@pytest.mark.parametrize("text", ["", "clip:1", "clip:0,noise:1,sample:1", "clip:1,noise:1,sample:2", "clip:1,clip:1"])
def test_terms_that_are_wrong_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        dp.Terms.read(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("clip:1,noise:1,sample:0.1,delta:1e-3", "delta:0.001 is not below one in the 1000 samples"),
        ("clip:1,noise:1,sample:0.1,budget:0.1", "budget:0.1 is less than the epsilon of one round"),
        ("clip:1,noise:1e-6,sample:0.1", "noise 1e-06: 0.001 to 1e6 is wanted"),
    ],
)
def test_promises_that_can_not_be_kept_are_refused(text: str, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        releases(text)


# ---- noise ----


def test_noise_has_its_deviation_and_is_new_each_time() -> None:
    """Of the system's numbers, and, in the last two, of a seed's."""
    one, other = releases(), releases()
    seeded = releases(TERMS.text + f",seed:{SEED}")
    all_noise = [noise_of(owner) / 6 for owner in (one, one, other, seeded, seeded)]
    for place, found in enumerate(all_noise):
        assert abs(np.square(found).mean() - 1) < 5 * math.sqrt(2 / COUNT)
        assert abs(found.mean()) < 5 / math.sqrt(COUNT)
        assert all(abs((found * before).mean()) < 5 / math.sqrt(COUNT) for before in all_noise[:place])
    again = releases(TERMS.text + f",seed:{SEED}")
    assert np.array_equal(noise_of(again) / 6, all_noise[3])


def test_sums_with_noise_lie_on_a_grid_that_hides_their_last_bits() -> None:
    numbers = np.full(COUNT, 1 / 3, dtype=np.float32)
    releases().release(numbers)
    assert np.array_equal(numbers * 64, np.rint(numbers * 64))  # 6 / 256, rounded down to a power of two


@pytest.mark.parametrize("wrong", [np.zeros(4), np.zeros((4, 4), dtype=np.float32)[:, 0]])
def test_what_is_no_vector_of_float32_gets_no_noise(wrong: np.ndarray) -> None:
    owner = releases()
    with pytest.raises(ArgumentError, match="float32 numbers"):
        owner.release(wrong)
    assert owner.count == 0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_sum_that_is_not_finite_is_counted_and_not_released(tmp_path: pathlib.Path, wrong: float) -> None:
    owner = releases(ledger=tmp_path / "ledger")
    for number in range(5):
        sum = np.ones(5, dtype=np.float32)
        sum[number] = wrong
        with pytest.raises(NumericalError, match=f"sum of round {number + 1} is not finite: number {number} is"):
            owner.release(sum)
        assert (sum == 0).all() and owner.count == number + 1
    owner.close()
    assert releases(ledger=tmp_path / "ledger", goes_on=True).count == 5


def test_noise_that_float32_has_no_room_for_is_refused() -> None:
    with pytest.raises(ArgumentError, match="use a larger clip"):
        releases("clip:1e-35,noise:1,sample:0.1")


# ---- draws ----


def test_each_sample_is_drawn_by_itself_with_its_probability() -> None:
    owner = releases(f"{TERMS.text},seed:{SEED}")
    steps, samples = 400, range(50, 250)
    drawn = np.zeros((steps, len(samples)), dtype=bool)
    for step in range(steps):
        found = dp.draw(owner.key_of(3), 0.1, step, samples)
        drawn[step, found - samples.start] = True
        assert np.array_equal(found, dp.draw(owner.key_of(3), 0.1, step, samples))
        part = dp.draw(owner.key_of(3), 0.1, step, range(100, 130))  # in whatever pieces
        assert np.array_equal(part, found[(found >= 100) & (found < 130)])
    deviation = math.sqrt(0.1 * 0.9)
    assert abs(drawn.mean() - 0.1) < 5 * deviation / math.sqrt(drawn.size)
    assert abs(drawn.mean(0) - 0.1).max() < 5 * deviation / math.sqrt(steps)
    centred = (drawn - 0.1) / deviation
    both = centred.T @ centred / steps
    assert abs(both - np.diag(np.diag(both))).max() < 10 / math.sqrt(steps)  # of 20,000 pairs, seldom drawn together


def test_keys_are_of_a_piece_and_a_process() -> None:
    one, other = releases(), releases()
    keys = {owner.key_of(piece) for owner in (one, other) for piece in range(5)}
    assert len(keys) == 10 and all(len(key) == dp.KEY_BYTES for key in keys)
    assert releases(TERMS.text + ",seed:3").key_of(1) == releases(TERMS.text + ",seed:3").key_of(1)


@pytest.mark.parametrize(("key", "sample", "samples"), [(bytes(31), 0.5, range(9)), (bytes(32), 1.5, range(9))])
def test_draws_that_make_no_sense_are_refused(key: bytes, sample: float, samples: range) -> None:
    with pytest.raises(ArgumentError):
        dp.draw(key, sample, 0, samples)
    assert list(dp.draw(bytes(32), 1.0, 0, range(3, 6))) == [3, 4, 5]
    assert len(dp.draw(bytes(32), 0.5, 0, range(0))) == 0


# ---- budget and ledger ----


def test_the_budget_is_used_up_and_not_exceeded() -> None:
    owner = releases("clip:1,noise:1.5,sample:0.04,budget:0.6")
    sum = np.zeros(4, dtype=np.float32)
    while not owner.spent:
        owner.release(sum)
    assert 0.57 < owner.epsilon() <= 0.6
    assert owner.epsilon() == privacy.epsilon(noise=1.5, sample=0.04, steps=owner.count, delta=1e-5)
    assert privacy.epsilon(noise=1.5, sample=0.04, steps=owner.count + 1, delta=1e-5) > 0.6


def test_a_ledger_counts_over_processes_and_is_of_one_at_a_time(tmp_path: pathlib.Path) -> None:
    ledger, sum = tmp_path / "run.ckpt.privacy", np.zeros(4, dtype=np.float32)
    first = releases(ledger=ledger)
    for _ in range(3):
        first.release(sum)
    with pytest.raises(StateError, match="another run counts there"):
        releases(ledger=ledger, goes_on=True)
    first.close()
    with pytest.raises(StateError, match="an earlier run has released sums"):
        releases(ledger=ledger)
    with pytest.raises(FormatError, match="another clip, noise or sample"):
        releases("clip:4,noise:1.6,sample:0.1", ledger=ledger, goes_on=True)
    with pytest.raises(FileError, match="No such file"):
        releases(ledger=tmp_path / "other", goes_on=True)
    second = releases(ledger=ledger, goes_on=True)
    assert second.count == 3
    second.release(sum)
    assert second.count == 4
    second.close()


COUNTS = """
import sys, numpy as np
from tarry import dp
owner = dp.Releases(dp.Terms.read(sys.argv[1]), 1000, sys.argv[2], goes_on=sys.argv[3] == "True")
sum = np.zeros(64, dtype=np.float32)
while True:
    owner.release(sum)
    sys.stdout.write(".")
    sys.stdout.flush()
"""


def test_the_ledger_covers_all_that_was_used_whenever_its_process_is_killed(tmp_path: pathlib.Path) -> None:
    ledger, used = tmp_path / "ledger", 0
    for life in range(5):
        command = [sys.executable, "-c", COUNTS, TERMS.text, str(ledger), str(life > 0)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            used += len(process.stdout.read(1))
            time.sleep((life + 1) * 0.007)
            os.kill(process.pid, signal.SIGKILL)
            used += len(process.stdout.read())
        owner = releases(ledger=ledger, goes_on=True)
        assert used <= owner.count <= used + life + 1
        owner.close()


def test_a_ledger_that_can_not_be_written_releases_nothing(tmp_path: pathlib.Path) -> None:
    """The limit of a file's size stands for a full disk."""
    text = f"""
import resource, signal, numpy as np
from tarry import FileError, dp
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
owner = dp.Releases(dp.Terms.read({TERMS.text!r}), 1000, {str(tmp_path / "ledger")!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (48, 48))
sum = np.ones(4, dtype=np.float32)
try:
    owner.release(sum)
except FileError:
    print("not released" if (sum == 1).all() and owner.count == 0 else sum)
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout == "not released\n", ended.stderr


def test_a_damaged_ledger_is_refused(tmp_path: pathlib.Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.write_bytes(b"tarrypri" + bytes(100))
    with pytest.raises(Error, match="no ledger"):
        releases(ledger=ledger, goes_on=True)
