# SPDX-License-Identifier: Apache-2.0
"""What every system of steps.py trains: sleeps stand for compute, with the same delays for all."""

import dataclasses
import itertools
import json
import sys
import time

import torch

from tarry import Straggler

SIDE = 316  # a matrix of so many rows and columns: d = 1e5
COMPARED = 8  # steps after those that are timed
SAMPLES_RATE = 0.05  # of a step over the whole batch; twice that would not converge
OWN_RATE = 0.012  # of a step over a worker's own eighth, whose curvature is larger
GOAL = 0.01  # of the first loss


@dataclasses.dataclass(frozen=True)
class Workload:
    """A step of `pieces` pieces over all workers, each of `seconds` of sleep and next to no compute."""

    workers: int = 8
    pieces: int = 128
    seconds: float = 0.025
    steps: int = 40
    skipped: int = 10  # steps before the clock runs: connections, and what a system learns
    straggler: str = "none"
    seed: int = 1

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> "Workload":
        return cls(**json.loads(text))


def new_model() -> torch.nn.Module:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    return torch.nn.Linear(SIDE, SIDE)


def data(pieces: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(pieces, SIDE, generator=generator), torch.randn(pieces, SIDE, generator=generator)


loss_of = torch.nn.MSELoss(reduction="sum")


class Delays:
    """Sleeps for a worker that computes its own share, as Tarry's runtime delays its workers."""

    def __init__(self, workload: Workload, worker: int) -> None:
        self._workload, self._worker = workload, worker
        self._straggler = Straggler(workload.straggler, workload.workers, seed=workload.seed)

    def sleep(self, step: int, position: int, unit: int) -> None:
        base = self._workload.seconds
        time.sleep(self._straggler.seconds(step, self._worker, position, unit, base))


class Clock:
    """Looks at each step: when it was over, and the loss over all samples then. It prints a line when the first one is
    over, and one of JSON at the end."""

    def __init__(self, workload: Workload, model: torch.nn.Module) -> None:
        self._skipped = workload.skipped
        self._model = model
        self._x, self._y = data(workload.pieces)
        self._times: list[tuple[int, float]] = []
        self._losses = [self._loss()]
        self._apart = 0.0

    def _loss(self) -> float:
        with torch.no_grad():
            return float(loss_of(self._model(self._x), self._y))

    def compare(self) -> None:
        """The model's `.grad` with that of one process, piece by piece, with the same parameters."""
        found = [parameter.grad for parameter in self._model.parameters()]
        for parameter in self._model.parameters():
            parameter.grad = None
        for x, y in zip(self._x.split(1), self._y.split(1), strict=True):
            (loss_of(self._model(x), y) / len(self._x)).backward()
        for parameter, gradient in zip(self._model.parameters(), found, strict=True):
            assert parameter.grad is not None and gradient is not None
            apart = float((gradient - parameter.grad).norm() / parameter.grad.norm())
            self._apart = max(self._apart, apart)
            parameter.grad = gradient

    def stepped(self, done: int) -> None:
        if not self._times:
            print("begun", flush=True)
        self._times.append((done, time.monotonic()))
        self._losses.append(self._loss())

    def _to_goal(self) -> float | None:
        """Seconds from the first step's end until the loss is as low; None: it was not."""
        for (_, at), loss in zip(self._times, self._losses[1:], strict=True):
            if loss <= GOAL * self._losses[0]:
                return at - self._times[0][1]
        return None

    def tell(self) -> None:
        late = [(done, at) for done, at in self._times if done >= self._skipped]
        gaps = [
            (after[1] - before[1]) / (after[0] - before[0])
            for before, after in itertools.pairwise(late)
            if after[0] > before[0]
        ]
        mean = (late[-1][1] - late[0][1]) / (late[-1][0] - late[0][0])
        print(
            "figures " + json.dumps({"mean": mean, "gaps": gaps, "goal": self._to_goal(), "apart": self._apart}),
            flush=True,
        )
        sys.stdout.flush()
