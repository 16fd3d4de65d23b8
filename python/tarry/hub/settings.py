# SPDX-License-Identifier: Apache-2.0
"""How a hub serves a training."""

import dataclasses
import os
from collections.abc import Callable

from ..results import Round


@dataclasses.dataclass(frozen=True)
class HubSettings:
    """What is the same whatever is trained.

    workers      how many there are, or may come
    listen       where its server listens
    credentials  a folder of `tarry keys`; None: plain text, on this machine alone
    start        seconds that the first round waits for all workers
    patience     seconds that a round waits where too few workers are left
    silence      seconds without an answer after which a worker counts as lost
    observe      called after each round, with the steps that are done and those that are wanted
    tell         called with a line of text on what happened
    """

    workers: int
    listen: str
    credentials: str | None = None
    start: float = 60.0
    patience: float = 300.0
    silence: float = 2.0
    observe: Callable[[Round, int, int], None] | None = None
    tell: Callable[[str], None] | None = None

    def say(self, text: str) -> None:
        if self.tell is not None:
            self.tell(text)


def default_listen() -> str:
    """A name on this machine that nobody else has."""
    return f"unix:@tarry-{os.getpid()}-{os.urandom(6).hex()}"
