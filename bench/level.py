# SPDX-License-Identifier: Apache-2.0
"""Curves of errors over the deadline, as `results[].error` of a simulation's report has them."""


def where(falling, other, height):
    """(deadline, error of `other`) where `falling` comes down to `height`, between two deadlines. ValueError: nowhere."""
    for before, after, low, high in zip(falling, falling[1:], other, other[1:]):
        if after["mean"] <= height < before["mean"]:
            share = (before["mean"] - height) / (before["mean"] - after["mean"])
            return (before["deadline"] + share * (after["deadline"] - before["deadline"]),
                    low["mean"] + share * (high["mean"] - low["mean"]))
    raise ValueError(f"the error never falls to {height}")
