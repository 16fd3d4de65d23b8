# SPDX-License-Identifier: Apache-2.0
"""How a hub serves a training."""

import dataclasses
import os
from collections.abc import Callable

from ..errors import ArgumentError
from ..results import Round
from . import address as addresses
from .trust import ON_THIS_MACHINE, Security


@dataclasses.dataclass(frozen=True)
class HubSettings:
    """What is the same whatever is trained.

    workers      how many there are, or may come
    listen       where its server listens
    security     how workers of other machines, and the hub, show who they are
    here         workers, the first ones, that are started beside the hub
    start        seconds that the first round waits for all workers
    patience     seconds that a round waits where too few workers are left
    silence      seconds without an answer after which a worker counts as lost
    observe      called after each round, with the steps that are done and those that are wanted
    tell         called with a line of text on what happened
    give_up      called before workers hear that no worker can go on
    """

    workers: int
    listen: str
    security: Security = ON_THIS_MACHINE
    here: int = 0
    start: float = 60.0
    patience: float = 300.0
    silence: float = 2.0
    observe: Callable[[Round, int, int], None] | None = None
    tell: Callable[[str], None] | None = None
    give_up: Callable[[], None] | None = None

    def say(self, text: str) -> None:
        if self.tell is not None:
            self.tell(text)


def default_listen() -> str:
    """A name on this machine that nobody else has."""
    return f"unix:@tarry-{os.getpid()}-{os.urandom(6).hex()}"


def listen_beside(hub: str) -> str:
    """Where the server of a hub listens: over TCP at the next port. Raises ArgumentError."""
    if addresses.is_unix(hub):
        return default_listen()
    host, port = addresses.split(hub)
    if port == 65535:
        raise ArgumentError(f"{hub}: the server would be at the next port, and there is none")
    return addresses.joined(host, port + 1 if port else 0)
