# SPDX-License-Identifier: Apache-2.0
"""The accountant, held to a closed form, and to the accountants of others where they are installed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarry import ArgumentError, privacy


def _gaussian_delta(noise: float, epsilon: float) -> float:
    """Of one Gaussian mechanism (Balle and Wang, arXiv 1805.06530, theorem 8)."""
    half, ratio = 1 / (2 * noise), epsilon * noise

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    return below(half - ratio) - math.exp(epsilon) * below(-half - ratio)


@settings(max_examples=25, deadline=None)
@given(
    noise=st.floats(0.5, 20),
    steps=st.integers(1, 1000),
    share=st.floats(0.05, 3),
)
def test_steps_without_sampling_are_one_gaussian_mechanism(noise: float, steps: int, share: float) -> None:
    epsilon = share / noise
    delta = _gaussian_delta(noise, epsilon)
    found = privacy.epsilon(noise=noise * math.sqrt(steps), sample=1, steps=steps, delta=delta)
    assert epsilon - 1e-7 <= found <= epsilon + 1e-4


# Noise, sample, steps, delta, and epsilon by Google's dp_accounting 0.6 (connected dots, a grid of 1e-4) and by Opacus
# 1.6 (PRV).
OTHERS = [
    (1.5, 0.04, 2250, 1e-5, 6.768787, 6.779132),
    (1.1, 0.01, 10000, 1e-5, 5.192620, 5.202865),
    (0.8, 0.02, 1000, 1e-6, None, 7.347334),
    (0.8, 0.02, 1000, 1e-8, 9.058169, None),
    (4.0, 0.1, 5000, 1e-5, 8.797936, 8.808340),
    (0.3, 0.9, 3, 1e-5, 39.813888, None),
]


@pytest.mark.parametrize(("noise", "sample", "steps", "delta", "pld", "prv"), OTHERS)
def test_others_say_the_same(
    noise: float, sample: float, steps: int, delta: float, pld: float | None, prv: float | None
) -> None:
    found = privacy.epsilon(noise=noise, sample=sample, steps=steps, delta=delta)
    if pld is not None:
        assert found == pytest.approx(pld, abs=1e-3)
    if prv is not None:
        assert found < prv < found + 0.02


def test_the_grid_of_another_accountant_gives_the_same() -> None:
    distribution = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    draws = np.random.Generator(np.random.Philox(key=[1, 0]))
    for _ in range(10):
        noise, sample = float(draws.uniform(0.5, 5)), float(10 ** draws.uniform(-2, 0))
        steps, delta = int(10 ** draws.uniform(0, 3.5)), float(10 ** draws.uniform(-10, -4))
        one = distribution.from_gaussian_mechanism(noise, sampling_prob=sample, use_connect_dots=True)
        theirs = one.self_compose(steps).get_epsilon_for_delta(delta)
        ours = privacy.epsilon(noise=noise, sample=sample, steps=steps, delta=delta)
        assert ours == pytest.approx(theirs, abs=1e-3), (noise, sample, steps, delta)


def test_noise_delta_and_epsilon_go_together() -> None:
    least = privacy.noise(epsilon=3, sample=0.04, steps=500, delta=1e-5)
    spent = privacy.epsilon(noise=least, sample=0.04, steps=500, delta=1e-5)
    assert 3 - 1e-3 < spent <= 3
    assert privacy.delta(noise=least, sample=0.04, steps=500, epsilon=spent) == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"noise": 0}, "noise 0: 0.001 to 1e6 is wanted"),
        ({"sample": -0.1}, "sample -0.1: 0 to 1 is wanted"),
        ({"steps": -1}, "steps is -1"),
        ({"delta": 0.0}, "delta 0: more than 0 and less than 1 is wanted"),
        ({"accountant": "zcdp"}, "accountant is 'zcdp'"),
    ],
)
def test_what_makes_no_sense_is_refused(wanted: dict[str, object], why: str) -> None:
    usual: dict[str, object] = {"noise": 1.0, "sample": 0.5, "steps": 1, "delta": 1e-5}
    with pytest.raises(ArgumentError, match=why):
        privacy.epsilon(**(usual | wanted))  # type: ignore[arg-type]
