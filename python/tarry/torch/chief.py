# SPDX-License-Identifier: Apache-2.0
"""Whether this worker is the chief, which the hub knows."""

import contextlib
import threading

from ..errors import Error
from ..hub import Client


class Chief:
    """A worker that is the chief stays it while its process lives, so only the others ask, once in a step."""

    def __init__(self, client: Client, worker: int) -> None:
        self._client, self._worker = client, worker
        self._thread = threading.get_ident()  # the client's
        self._number: int | None = None
        self._asked_at: object = None
        self._closed = False

    def is_own(self, place: object) -> bool:
        """`place`: where this worker is in the training."""
        asks = self._number is None or place != self._asked_at
        if asks and self._number != self._worker and not self._closed and threading.get_ident() == self._thread:
            with contextlib.suppress(Error):  # the hub may be gone
                self._number = self._client.chief()
                self._asked_at = place
        return self._number == self._worker

    def close(self, *, asks: bool) -> None:
        """What was heard last holds from now on. `asks`: the client is not in the middle of a question."""
        if asks:
            self.is_own("the end")
        self._closed = True
