# SPDX-License-Identifier: Apache-2.0
"""A training with secure sums, as hub and workers have it: what does not go with them, and by which rules they are
made."""

import json

from ..errors import refuse
from ..secure import SecureRules
from . import address as addresses
from .agreement import Agreement

_LEAST_SHARE = 8  # of the samples, an eighth
_BOUND_PER_SAMPLE = 4.0  # a piece's gradient is a sum over its samples, each of which is seldom above that


def check_secure(agreement: Agreement, workers: int, address: str | None, *, has_credentials: bool) -> None:
    """What would break the argument. Raises ArgumentError.

    workers  of the training
    address  of the hub; None: this process is alone
    """
    lone = "one worker's sum is its own: secure sums are of two workers at least"
    plain = (
        "workers have to know each other by credentials, over TCP: tarry keys init and roster, "
        "tarry run --listen HOST:PORT --credentials DIR"
    )
    refused = {
        "sum='everywhere': workers would send each other what they computed. sum='server' has them mask it": (
            agreement.sum != "server"
        ),
        "dp: noise in secure sums is not there": bool(agreement.dp),
        "reproducible: whole numbers have the same sum in every order": agreement.reproducible,
        "parts: coded parts are weighed, and masks would not cancel": agreement.parts != 1,
        "compress: what workers send are masked whole numbers": agreement.is_compressed,
        "metrics or buffers: the grid has one bound for all numbers": agreement.exact != 0,
        "batches: those that overlap are equations, which can be solved for samples. Each step is over all": (
            agreement.batch != agreement.samples
        ),
        _smallest_piece(agreement): _samples_of_smallest(agreement) < agreement.secure_piece_samples,
        f"secure_bits={agreement.secure_bits}: there are 32 and 64": agreement.secure_bits not in (32, 64),
        f"secure_bound={agreement.secure_bound}: a bound is above 0": not 0 < agreement.secure_bound < float("inf"),
        f"secure_least={agreement.secure_least}: there are {agreement.samples} samples": not (
            0 < agreement.secure_least <= agreement.samples
        ),
        f"secure_colluders={agreement.secure_colluders}: that is no count of workers": agreement.secure_colluders < 0,
        f"{workers} workers: {lone}": workers < 2,
        f"plain text: {plain}": not has_credentials or address is None or addresses.is_unix(address),
    }
    refuse("secure", refused)


def _samples_of_smallest(agreement: Agreement) -> int:
    """The last piece has what is left."""
    return agreement.samples % agreement.piece or min(agreement.piece, agreement.samples)


def _smallest_piece(agreement: Agreement) -> str:
    samples, wanted = agreement.samples, agreement.secure_piece_samples
    good = [size for size in range(max(wanted, 1), samples + 1) if not 0 < samples % size < wanted]
    nearest = min(good, key=lambda size: abs(size - agreement.piece), default=None)
    advice = "" if nearest is None else f". piece={nearest} leaves no smaller one"
    return (
        f"piece={agreement.piece}: the smallest piece has {_samples_of_smallest(agreement)} of {samples} samples, and "
        f"each has to have {wanted} at least (secure_piece_samples){advice}"
    )


def least_of(samples: int, wanted: int) -> int:
    """Samples that are left to one sum; wanted 0: an eighth of all."""
    return wanted or -(-samples // _LEAST_SHARE)


def bound_of(piece: int, wanted: float) -> float:
    """Of the numbers of a piece's gradient; wanted 0: by its samples."""
    return wanted or _BOUND_PER_SAMPLE * piece


def rules_of(agreement: Agreement) -> SecureRules:
    return SecureRules(
        agreement.secure_bound,
        agreement.secure_least,
        colluders=agreement.secure_colluders,
        bits=agreement.secure_bits,
    )


def job_text(agreement: Agreement) -> bytes:
    """What masks depend on: all that workers agreed on."""
    return json.dumps(agreement.message(), sort_keys=True).encode()
