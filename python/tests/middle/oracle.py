# SPDX-License-Identifier: Apache-2.0
"""What the tests judge by: sums by NumPy in double, and plans by brute force. Slow and obvious."""

import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

import tarry

Doubles = npt.NDArray[np.float64]


class Gradients:
    """A gradient for each unit: a matrix of its own times the parameters, plus a vector of its own."""

    def __init__(self, plan: tarry.Plan, dimension: int, parameters: int, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.slopes = draw.standard_normal((plan.units, dimension, parameters)).astype(np.float32)
        self.constants = draw.standard_normal((plan.units, dimension)).astype(np.float32)

    def of(self, unit: int, parameters: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return (self.slopes[unit] @ parameters + self.constants[unit]).astype(np.float32)

    def all(self, parameters: npt.NDArray[np.float32]) -> Doubles:
        return np.array([self.of(unit, parameters) for unit in range(len(self.constants))], dtype=np.float64)

    def sum(self, parameters: npt.NDArray[np.float32]) -> Doubles:
        return self.all(parameters).sum(axis=0)

    def scale(self, parameters: npt.NDArray[np.float32]) -> float:
        """What errors are compared with: the greatest sum of absolute values."""
        return float(np.abs(self.all(parameters)).sum(axis=0).max())

    def compute(self, task: tarry.Task) -> None:
        parameters = task.parameters
        assert parameters is not None
        task.gradient[:] = self.of(task.unit, parameters)


def assert_sum(
    found: npt.NDArray[np.float32] | None, gradients: Gradients, parameters: npt.NDArray[np.float32]
) -> None:
    assert found is not None
    error = float(np.abs(found - gradients.sum(parameters)).max())
    assert error <= 1e-6 * gradients.scale(parameters)


def states(plan: tarry.Plan) -> Iterator[tuple[int, ...]]:
    """All ways in which workers can have got on: how many units of its order each has finished."""
    return itertools.product(*(range(len(plan.order_of(worker)) + 1) for worker in range(plan.workers)))


def q_by_states(plan: tarry.Plan, copies: int) -> int:
    """The most units that can be finished before each has so many copies, the last one included."""
    orders = [plan.order_of(worker) for worker in range(plan.workers)]
    most = 0
    for finished in states(plan):
        held = np.zeros(plan.units, dtype=int)
        for order, count in zip(orders, finished, strict=True):
            held[order[:count]] += 1
        if held.min() < copies:
            most = max(most, sum(finished))
    return most + 1


def worst_conditioning(plan: tarry.Plan, parts: int) -> float:
    """1/sigma_min over all sets of so many workers that share a unit."""
    matrix, held = plan.decode_matrix(), plan.assignment()
    worst = 0.0
    for unit in range(plan.units):
        for chosen in itertools.combinations(np.flatnonzero(held[:, unit]), parts):
            values = np.linalg.svd(matrix[:, chosen], compute_uv=False)
            worst = max(worst, float(1 / values[-1]))
    return worst


def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it holds within so many seconds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True
