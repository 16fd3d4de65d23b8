# SPDX-License-Identifier: Apache-2.0
"""Tarry: gradient sums over workers that are slow, uneven or dead.

Plan says which worker holds which chunk of the data. Server sums over the network, and Worker works for it; Local is
both in one process. simulate runs rounds in virtual time. tarry.torch puts all that under a PyTorch loop.
"""

from ._native import ffi as _ffi
from ._native import lib as _lib
from .errors import (
    ArgumentError,
    CoverageError,
    DifferError,
    Error,
    FileError,
    FormatError,
    GoneError,
    InterruptedByCaller,
    LinksError,
    MasksError,
    NumericalError,
    StateError,
    SystemResourceError,
)
from .local import Local
from .notices import Notice
from .owner import Vectors
from .plan import Conditioning, Plan
from .replica import Replica
from .results import Round, SumId
from .runtime import WorkerState
from .secure import SecureMember, SecureRules
from .server import Server
from .settings import ServerSettings
from .simulation import simulate
from .straggler import Straggler
from .task import Span, Task
from .worker import Job, Worker

__version__: str = _ffi.string(_lib.tarry_version()).decode()

__all__ = [
    "ArgumentError",
    "Conditioning",
    "CoverageError",
    "DifferError",
    "Error",
    "FileError",
    "FormatError",
    "GoneError",
    "InterruptedByCaller",
    "Job",
    "LinksError",
    "Local",
    "MasksError",
    "Notice",
    "NumericalError",
    "Plan",
    "Replica",
    "Round",
    "SecureMember",
    "SecureRules",
    "Server",
    "ServerSettings",
    "Span",
    "StateError",
    "Straggler",
    "SumId",
    "SystemResourceError",
    "Task",
    "Vectors",
    "Worker",
    "WorkerState",
    "simulate",
]
