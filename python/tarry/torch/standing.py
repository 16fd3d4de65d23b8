# SPDX-License-Identifier: Apache-2.0
"""How far a worker's model is, and that as bytes."""

import json
from collections.abc import Mapping

from ..hub import blob
from .members import Members

_STEPS, _METRICS = "steps", "metrics"


class Standing:
    """The model with all that follows its steps.

    done    steps that it has taken
    told    metrics of the last of them
    """

    def __init__(self, members: Members) -> None:
        self.members = members
        self.done = 0
        self.told: dict[str, float] = {}

    def save(self) -> bytes:
        """The same state gives the same bytes at every worker."""
        return self.members.save({_STEPS: str(self.done), _METRICS: json.dumps(self.told)})

    def load(self, state: bytes) -> None:
        """Raises FormatError."""
        told = self.members.load(state)
        self.done, self.told = int(told[_STEPS]), _metrics_of(told)


def metrics_of(state: bytes) -> dict[str, float]:
    """What the state's last step told."""
    return _metrics_of(blob.metadata(state))


def _metrics_of(told: Mapping[str, str]) -> dict[str, float]:
    return json.loads(told.get(_METRICS, "{}"))
