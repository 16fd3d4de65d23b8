# SPDX-License-Identifier: Apache-2.0
"""Why workers failed: what they wrote to stderr last, and who was first."""

import dataclasses
import time

_MOST_LETTERS = 500  # of a line


class Errors:
    """The stderr of one process. It is written by one thread, and read after the end of the process."""

    def __init__(self) -> None:
        self.exception = ""  # the line of the last traceback that names it
        self.last = ""  # line with text
        self.at: float | None = None  # when the exception came
        self._in_traceback = False

    def line(self, text: str) -> None:
        if text.strip():
            self.last = text.strip()[:_MOST_LETTERS]
        if text.startswith("Traceback ("):
            self._in_traceback = True
        elif self._in_traceback and text and not text[0].isspace():
            self.exception, self.at = text[:_MOST_LETTERS], time.monotonic()
            self._in_traceback = False


@dataclasses.dataclass(frozen=True)
class Failure:
    """The bad end of a worker's process."""

    worker: int
    end: str  # in words
    why: str  # its exception, or its last line; "": it wrote none
    at: float  # when it failed

    @property
    def is_of_script(self) -> bool:
        """False for exceptions of Tarry's, which may follow from another worker's failure."""
        return self.why != "" and not self.why.startswith("tarry.")

    def told(self) -> str:
        return f"worker {self.worker} {self.end}{f': {self.why}' if self.why else ''}"


def failure_of(worker: int, status: int, end: str, errors: Errors) -> Failure:
    """Of a process with this status, not 0. Python's own status after an exception is 1."""
    if status == 1 and errors.at is not None:
        return Failure(worker, end, errors.exception, errors.at)
    return Failure(worker, end, errors.last if status > 0 else "", time.monotonic())


def first_of(failures: list[list[Failure]]) -> Failure:
    """The failure that others may follow from. `failures` has a list for each worker that failed in the end. The last
    one of each list counts: after an earlier one the worker was started again."""
    last = [of_worker[-1] for of_worker in failures]
    own = [one for one in last if one.is_of_script]
    before = [one for of_worker in failures for one in of_worker[:-1] if one.is_of_script]
    if before and not own:
        return max(before, key=lambda one: one.at)
    return min(own or last, key=lambda one: one.at)


def summary(failures: list[list[Failure]], workers: int, *, complete: bool) -> str:
    """Of a run with workers that failed. complete: the training has done all its steps."""
    if len(failures) == workers:
        others = " after all steps were done" if complete else ""
    else:
        others = "; the others did all steps" if complete else "; the others ended before all steps were done"
    return f"{len(failures)} of {workers} workers failed{others}. First failure: {first_of(failures).told()}"
