# SPDX-License-Identifier: Apache-2.0
"""An attack on all that a private sum of tarry.torch goes through: draws by the piece's key, gradients of single
examples, clipping, pieces, their sum, and the hub's noise. From what is released it guesses which canaries were there.
What the guesses are worth bounds epsilon from below, with 99 % confidence (Jagielski, Ullman, Oprea, arXiv 2006.07709).
The bound may not exceed the claim; with an error planted it does. tests/unit/cli/test_privacy_audit.c is the tool's.

A canary is an example whose gradient is a single number, which no other example has, and is longer than the clip. So in
one training there are many, each with a number, draws and noise of its own: as many trials as trainings with one each.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import SEED

from tarry import privacy

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry.hub.private import Private  # noqa: E402
from tarry.results import Round  # noqa: E402
from tarry.torch import clipping  # noqa: E402
from tarry.torch.drawn import Drawn  # noqa: E402
from tarry.vectors import Floats  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(torch, "func"), reason="torch.func is of PyTorch 2")

CANARIES, OTHERS = 64, 16
EPSILON, CLIP, SAMPLE = 1.0, 1.0, 0.5
SURPRISE = 0.005  # of each of two bounds: 99 % for both
Numbers = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Trainings:
    """So many trials with a canary, and so many without, each of some steps with that noise; and from how much
    evidence on the canary is guessed to be there: as much as is claimed would be best where noise and claim are
    right, less finds errors better."""

    steps: int
    trials: int
    noise: float
    evidence: float

    @property
    def delta(self) -> float:
        """For the claimed epsilon."""
        return privacy.delta(noise=self.noise, sample=SAMPLE, steps=self.steps, epsilon=EPSILON)


ONE_STEP, TEN_STEPS = Trainings(1, 4096, 0.7, 0.6), Trainings(10, 2048, 1.8, 0.35)


def released(trainings: Trainings, noise: float, *, there: bool) -> Numbers:
    """The numbers of canaries, [trial, step]: sums as all workers have them."""
    data = torch.zeros(CANARIES + OTHERS, CANARIES + 2)
    for canary in range(CANARIES):
        data[canary, canary] = 10.0 if there else 0.0  # without: its slot is empty
    data[CANARIES:, CANARIES] = torch.arange(float(OTHERS))
    data[CANARIES:, CANARIES + 1] = 1
    data = data[torch.randperm(len(data), generator=torch.Generator().manual_seed(SEED))]
    model = torch.nn.Linear(CANARIES + 2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    seed = 4 * SEED + 2 * (trainings.steps > 1) + there
    terms = f"clip:{CLIP},noise:{noise},sample:{SAMPLE},seed:{seed}"
    steps = trainings.trials // CANARIES * trainings.steps
    found: list[Numbers] = []
    with tt.join(model, optimizer, data=(data,), piece=20, sum="server", dp=terms) as job:
        assert job.permutation.units == 2
        for step in job.steps(steps):
            for piece in step:
                with piece:
                    piece.private(lambda batch: torch.nn.functional.softplus(-model(batch[0])).sum())
            assert model.weight.grad is not None
            found.append(model.weight.grad[0, :CANARIES].double().numpy() * SAMPLE * len(data))
            optimizer.step()
    return np.concatenate(np.split(np.array(found), len(found) // trainings.steps), axis=1).T


def guesses(trainings: Trainings, numbers: Numbers) -> int:
    """In how many trials the canary is guessed to be there: it adds -clip where it is drawn, and nobody else does."""
    deviation = trainings.noise * CLIP
    drawn = np.exp(-CLIP * (2 * numbers + CLIP) / (2 * deviation**2))
    return int((np.log(1 - SAMPLE + SAMPLE * drawn).sum(axis=1) > trainings.evidence).sum())


def at_least(trials: int, hits: int, chance: float) -> float:
    """P[at least `hits` of `trials`], each with that chance."""
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])  # of factorials
    k = np.arange(hits, trials + 1)
    ways = logarithms[trials] - logarithms[k] - logarithms[trials - k]
    return float(np.exp(ways + k * math.log(chance) + (trials - k) * math.log1p(-chance)).sum())


def least_chance(trials: int, hits: int) -> float:
    """Clopper and Pearson's bound: the least with which so many hits are no surprise."""
    if hits == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if at_least(trials, hits, middle) < SURPRISE else (low, middle)
    return low


def epsilon_at_least(trials: int, hits: int, false_hits: int, delta: float) -> float:
    """Of events with so many hits with the canary and without, or the other way round."""
    gain = least_chance(trials, hits) - delta
    most = 1 - least_chance(trials, trials - false_hits)
    return math.log(gain / most) if gain > 0 else 0.0


def audit(trainings: Trainings, noise: float = 1.0) -> float:
    """The lower bound of epsilon. noise: a factor of what the claim is made of."""
    known = [released(trainings, trainings.noise * noise, there=there) for there in (True, False)]
    trials = trainings.trials
    assert all(numbers.shape == (trials, trainings.steps) for numbers in known)
    hits, false_hits = (guesses(trainings, numbers) for numbers in known)
    delta = trainings.delta
    found = max(
        epsilon_at_least(trials, hits, false_hits, delta),
        epsilon_at_least(trials, trials - false_hits, trials - hits, delta),
    )
    print(
        f"claimed after {trainings.steps} steps: epsilon {EPSILON:g} with delta {delta:.4f}; "
        f"{hits} and {false_hits} of {trials} guesses: at least {found:.3f}"
    )
    return found


BOTH = pytest.mark.parametrize("trainings", [ONE_STEP, TEN_STEPS], ids=["one step", "ten steps"])


@BOTH
def test_the_attack_finds_no_more_than_is_claimed(trainings: Trainings) -> None:
    found = audit(trainings)
    assert found <= EPSILON
    assert found > 0.3  # it is an attack: next to the claim, not next to nothing


@BOTH
def test_half_the_noise_is_found(trainings: Trainings) -> None:
    assert audit(trainings, noise=0.5) > EPSILON


def test_clipping_that_is_skipped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    clipped: Any = vars(clipping)["_clipped"]

    def unclipped(gradients: Any, _clip: float) -> Any:
        return clipped(gradients, math.inf)

    monkeypatch.setattr(clipping, "_clipped", unclipped)
    assert audit(ONE_STEP) > EPSILON


@BOTH
def test_samples_that_are_drawn_twice_are_found(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> None:
    indices = Drawn.indices

    def twice(self: Drawn, step: int, unit: int) -> npt.NDArray[np.int64]:
        return np.tile(indices(self, step, unit), 2)

    monkeypatch.setattr(Drawn, "indices", twice)
    assert audit(trainings) > EPSILON


def test_sums_without_noise_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchanged(_self: Private, _result: Round, _sum: Floats) -> None:
        """Nothing is added."""

    monkeypatch.setattr(Private, "release", unchanged)
    assert audit(ONE_STEP) > EPSILON
