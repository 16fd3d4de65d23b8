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


@dataclasses.dataclass(frozen=True)
class Workload:
    """A step of `pieces` pieces over all workers, each of `seconds` of sleep and next to no compute."""

    workers: int = 8
    pieces: int = 64
    seconds: float = 0.008
    steps: int = 40
    skipped: int = 10  # steps before the clock runs: connections, and what a system learns
    straggler: str = "none"
    seed: int = 1

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> "Workload":
        return cls(**json.loads(text))


def model_and_optimizer() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Linear(SIDE, SIDE)
    return model, torch.optim.SGD(model.parameters(), lr=1e-6)


def data(pieces: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(pieces, SIDE, generator=generator), torch.randn(pieces, SIDE, generator=generator)


class Delays:
    """Sleeps for a worker that computes its own share, as Tarry's runtime delays its workers."""

    def __init__(self, workload: Workload, worker: int) -> None:
        self._workload, self._worker = workload, worker
        self._straggler = Straggler(workload.straggler, workload.workers, seed=workload.seed)

    def sleep(self, step: int, position: int, unit: int) -> None:
        base = self._workload.seconds
        time.sleep(self._straggler.seconds(step, self._worker, position, unit, base))


class Clock:
    """Seconds of a step, over those after the skipped ones; a line of JSON at the end."""

    def __init__(self, workload: Workload) -> None:
        self._skipped = workload.skipped
        self._times: list[tuple[int, float]] = []

    def stepped(self, done: int) -> None:
        self._times.append((done, time.monotonic()))

    def tell(self) -> None:
        late = [(done, at) for done, at in self._times if done >= self._skipped]
        gaps = [
            (after[1] - before[1]) / (after[0] - before[0])
            for before, after in itertools.pairwise(late)
            if after[0] > before[0]
        ]
        mean = (late[-1][1] - late[0][1]) / (late[-1][0] - late[0][0])
        print("figures " + json.dumps({"mean": mean, "gaps": gaps}), flush=True)
        sys.stdout.flush()
