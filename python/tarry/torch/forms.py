# SPDX-License-Identifier: Apache-2.0
"""In which forms gradients and sums may travel, as `join` has it."""

from .._native import lib
from ..errors import ArgumentError
from ..names import COMPRESSES, DOWNS

AMONG_WORKERS = ("bf16", "int8")  # forms in which numbers of a sum among workers may travel


def check_forms(compress: str, share: float, rank: int, down: str, *, sum: str, engine: str, parts: int) -> None:
    """Raises ArgumentError."""
    if down not in DOWNS:
        raise ArgumentError(f"compress_down is {down!r}, and there are {', '.join(DOWNS)}")
    if down != "none" and sum == "server":
        raise ArgumentError(
            f"compress_down={down!r} goes with sum='everywhere', and sum is {sum!r}: the hub gives the sum as it has it"
        )
    if compress not in COMPRESSES:
        raise ArgumentError(f"compress is {compress!r}, and there are {', '.join(COMPRESSES)}")
    if compress == "topk":
        if not 1e-6 <= share <= 0.5:
            raise ArgumentError(f"compress_share is {share}: 'topk' sends a share of the numbers, 0.000001 to 0.5")
    elif share:
        raise ArgumentError(f"compress_share is for compress='topk', and compress is {compress!r}")
    if compress == "powersgd":
        most = lib.TARRY_COMPRESS_RANK_MOST
        if not 1 <= rank <= most:
            raise ArgumentError(f"compress_rank is {rank}: 'powersgd' sends matrices of 1 to {most} columns")
    elif rank:
        raise ArgumentError(f"compress_rank is for compress='powersgd', and compress is {compress!r}")
    if sum != "server" and compress not in ("none", *AMONG_WORKERS):
        raise ArgumentError(
            f"compress={compress!r} goes with sum='server', and sum is {sum!r}: what rounding lost would have to "
            "follow pieces of sums that failed"
        )
    named = f"compress={compress!r}" if compress != "none" else f"compress_down={down!r}"
    if compress == "none" and down == "none":
        return
    if engine not in ("direct", "gloo"):
        raise ArgumentError(f"{named} goes with engine='direct' and 'gloo': {engine!r} sums float32")
    if parts != 1:
        why = "what rounding cost would be multiplied" if compress != "none" else "sums of several come back as float32"
        raise ArgumentError(f"{named} goes with one part, and parts is {parts}: {why}")
