# SPDX-License-Identifier: Apache-2.0
"""A server and workers over the loopback in one process, each worker in a thread."""

import contextlib
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

import tarry

Body = Callable[[tarry.Worker], None]


class Crew:
    """Workers in threads; what ends one of them is kept."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.errors: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def hire(self, body: Body, **settings: Any) -> threading.Thread:
        """A worker, for which a thread of its own calls the body."""

        def work() -> None:
            try:
                with tarry.Worker(self.address, insecure=True, **settings) as worker:
                    body(worker)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def join(self) -> None:
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


def computes(compute: Callable[[tarry.Task], None]) -> Body:
    """Does each task."""

    def body(worker: tarry.Worker) -> None:
        for task in worker:
            compute(task)

    return body


@contextlib.contextmanager
def serving(plan: tarry.Plan, dimension: int, **settings: Any) -> Generator[tuple[tarry.Server, Crew]]:
    """A server on a port of its own, and nobody at work yet. At the end all workers have ended without an error."""
    with tarry.Server(plan, dimension, listen="127.0.0.1:0", insecure=True, **settings) as server:
        crew = Crew(server.addresses[0])
        yield server, crew
    crew.join()
    assert crew.errors == []


class Model:
    """A replica: numbers, from which each sum is subtracted, and how many steps that was."""

    last: tarry.SumId | None = None

    def __init__(self, dimension: int) -> None:
        self.numbers = np.zeros(dimension, dtype=np.float32)
        self.steps = 0
        self.loads = 0

    def step(self, task: tarry.Task) -> None:
        self.numbers -= task.sum
        self.steps = task.step

    def save(self) -> bytes:
        return self.steps.to_bytes(8, "little") + self.numbers.tobytes()

    def load(self, state: bytes) -> None:
        self.loads += 1
        self.steps = int.from_bytes(state[:8], "little")
        self.numbers = np.frombuffer(state[8:], dtype=np.float32).copy()
