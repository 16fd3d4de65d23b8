# SPDX-License-Identifier: Apache-2.0
"""A training with differential privacy, as the hub has it: it gives workers the keys by which they draw, counts each
sum before anybody has it, and adds the noise."""

import dataclasses
import os
import threading
from typing import Any

from .. import privacy
from ..dp import Mark, Releases, Terms
from ..errors import ArgumentError, NumericalError, StateError, refuse
from ..results import Round
from ..vectors import Floats
from . import address as addresses
from .agreement import Agreement
from .settings import HubSettings

_LEDGER_HEAD_BYTES = 40


def ledger_of(checkpoint: str) -> str:
    return checkpoint + ".privacy"


def check_private(agreement: Agreement) -> None:
    """What would break the argument: a worker asks before it joins, and the hub of each agreement that it is sent.
    Raises ArgumentError."""
    refused = {
        "sum='everywhere': each worker would have the sum without the noise. sum='server' has the hub add it": (
            agreement.sum != "server"
        ),
        "reproducible=True: noise that can be made again hides nothing": agreement.reproducible,
        "parts: what coding rounds is not counted": agreement.parts != 1,
        "compress: what it rounds is not counted": agreement.is_compressed,
        "metrics or buffers: sums of these would have no noise of their own": agreement.exact != 0,
    }
    refuse("dp", refused)


class Private:
    """Threads: `release` and `spent` are for one, everything else for any."""

    def __init__(self, settings: HubSettings, agreement: Agreement, *, resumes: bool) -> None:
        """Of an agreement that `check_private` lets through. If the training resumes from a checkpoint, the ledger has
        to be there: see also `check`. Without a checkpoint, an existing ledger counts on: its sums are known to all who
        saw them.

        Raises ArgumentError, FileError, FormatError, StateError, SystemResourceError.
        """
        self.terms = Terms.read(agreement.dp)
        plain = not addresses.is_unix(settings.listen) and settings.security.credentials is None
        if plain:
            raise ArgumentError(
                "dp does not go with plain text over a network: workers send sums that have no noise yet, and get the "
                "keys of the draws. Credentials are wanted"
            )
        ledger = ledger_of(agreement.checkpoint) if agreement.checkpoint else None
        goes_on = ledger is not None and (resumes or _has_releases(ledger))
        self._lock = threading.Lock()
        self._releases = Releases(self.terms, agreement.samples, ledger, goes_on=goes_on)
        self._count = self._releases.count
        if not self.terms.secret:
            settings.say("dp has a seed: draws and noise are known, and nothing is private")

    def check(self, mark: dict[str, int] | None, steps: int) -> None:
        """The ledger has to have the releases of a checkpoint that was written after so many steps, at that mark (None:
        not known, of an older version). Otherwise it is closed. Raises FormatError, FileError."""
        try:
            self._releases.check(Mark(**(mark or {})), steps)
        except Exception:
            self._releases.close()  # others may use the ledger
            raise

    def keys_of(self, pieces: list[int]) -> dict[str, str]:
        """For whoever computes these."""
        with self._lock:
            return {str(piece): self._releases.key_of(piece).hex() for piece in pieces}

    @property
    def spent(self) -> bool:
        """Whether the budget does not allow another step."""
        with self._lock:
            return self._releases.spent

    def release(self, result: Round, sum: Floats) -> None:
        """Counts, and then adds the noise in place. Raises StateError (it is not exact), FileError, NumericalError (it
        is not finite: it is counted, and becomes zeros)."""
        if not result.exact:
            raise StateError(f"the sum of round {result.number} is not exact, and is not released")
        with self._lock:
            try:
                self._releases.release(sum)
            except NumericalError:
                raise NumericalError(
                    f"the sum of round {result.number} is not finite. It is not released, but counts as a release. "
                    "Some worker computes numbers that are not finite: check its data, model and machine"
                ) from None
            finally:
                self._count = self._releases.count

    def mark(self) -> dict[str, int]:
        """The releases of the ledger, for a checkpoint."""
        with self._lock:
            return dataclasses.asdict(self._releases.mark)

    def status(self) -> dict[str, Any]:
        return {"releases": self._count, "secret": self.terms.secret}

    def told(self) -> str:
        """What was spent, in words."""
        return told(self.terms, self._count)

    def close(self) -> None:
        with self._lock:
            self._releases.close()


def _has_releases(ledger: str) -> bool:
    """False if the ledger is missing, or its creation may not have ended."""
    try:
        return os.path.getsize(ledger) > _LEDGER_HEAD_BYTES
    except FileNotFoundError:
        return False


def epsilon_of(terms: Terms, releases: int) -> float:
    """Of so many; takes some tenths of a second."""
    if releases == 0:
        return 0.0
    return privacy.epsilon(noise=terms.noise, sample=terms.sample, steps=releases, delta=terms.delta)


def told(terms: Terms, releases: int) -> str:
    public = "" if terms.secret else ", but nothing is private with a seed"
    return f"{releases} sums were released: epsilon {epsilon_of(terms, releases):.4g}, delta {terms.delta:g}{public}"
