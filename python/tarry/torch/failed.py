# SPDX-License-Identifier: Apache-2.0
"""Tells the hub of pieces that this worker failed in, so that a run ends if no worker can compute one of them."""

import contextlib
import os
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import Error

if TYPE_CHECKING:
    from .job import Job

_SAMPLE, _TOLD = "tarry_sample", "tarry_told"  # attributes of exceptions
_SHOWN = 16
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def mark_sample(error: Exception, index: int) -> None:
    """The dataset raised this for the sample. The traceback says so."""
    with contextlib.suppress(AttributeError):
        setattr(error, _SAMPLE, index)
        error.add_note(f"tarry: raised by sample {index} of the data")


def tell(job: "Job", piece: str, step: str, samples: Sequence[int], error: BaseException) -> None:
    """This worker failed in a piece of the step, which has these samples. An exception is told once."""
    if not isinstance(error, Exception) or getattr(error, _TOLD, False):
        return
    told = {"samples": "", "error": "", "traceback": ""}
    if job.clipping is None and job.secret is None:  # an exception may tell of samples
        told = {
            "samples": _in_words(samples, error),
            "error": "".join(traceback.format_exception_only(error)).strip().partition("\n")[0],
            "traceback": _trace_of(error),
        }
    with contextlib.suppress(AttributeError):
        setattr(error, _TOLD, True)
    with contextlib.suppress(Error):  # the hub is gone
        job.client.tell_failed(piece, step, **told)


def _trace_of(error: Exception) -> str:
    """As Python prints it, without the frames of Tarry."""
    whole = traceback.TracebackException.from_exception(error)
    parts: list[traceback.TracebackException | None] = [whole]
    while parts:
        part = parts.pop()
        if part is not None:
            own = [frame for frame in part.stack if not frame.filename.startswith(_OURS)]
            part.stack = traceback.StackSummary.from_list(own)
            parts += [part.__cause__, part.__context__]
    return "".join(whole.format())


def _in_words(samples: Sequence[int], error: Exception) -> str:
    known = getattr(error, _SAMPLE, None)
    if known is not None:
        return f"sample {known}"
    shown = ", ".join(str(one) for one in samples[:_SHOWN])
    more = f" and {len(samples) - _SHOWN} more" if len(samples) > _SHOWN else ""
    return f"sample {shown}" if len(samples) == 1 else f"one of the samples {shown}{more}"
