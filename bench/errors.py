#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the documentation claims of expected errors and prints it beside its limit, as a Markdown table.

Usage: bench/errors.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build). bench/claims.py runs these claims with all others. The exit status is 1 if a limit
is missed.
"""

import harness

claim = harness.Claims()

TRIALS = 300
DIMENSION = 500  # one trial's measured error is off by sqrt(4 / d) of itself: 0.5 % is left of that in 300
TOLERANCE = 0.03
CLUSTER = ["--workers", 20, "--chunks", 20, "--straggler", "jitter:0.1", "--rounds", 25]
SPLITS = ["--chunk-cost", "lognormal:2.5/run"]  # costs that last: heavy chunks are split, and stay so
MERGES = ["--chunk-cost", "lognormal:1.5", "--design", "fractional", "--pieces", 3]  # new ones in every round
CASES = (  # name, replication, seed, options, rules, other settings of the scheme
    ("1 part", 2, 1, SPLITS, ("error:0.1", "error:0.3", "deadline:0.8"), ""),
    ("1 part", 2, 2, MERGES, ("error:0.2",), ""),
    ("1 part, scaled", 2, 3, SPLITS, ("error:0.2", "deadline:0.8"), ",fill=scale"),
    ("2 parts", 4, 4, SPLITS, ("error:0.2",), ",parts=2"),
    ("2 parts", 4, 5, MERGES, ("error:0.2", "deadline:0.8"), ",parts=2"),
    ("2 parts, scaled", 4, 6, SPLITS, ("error:0.2",), ",parts=2,fill=scale"),
)


def limit_of(rule, settings):
    """The error that a rule does not let pass, if it has one: without a fill, as the rule sees it."""
    return float(rule.split(":")[1]) if rule.startswith("error:") and "fill" not in settings else None


@claim
def errors_after_changes(bench):
    """Expected over measured error in the 25th round, after splits, merges and moves between all rounds."""
    for name, replication, seed, options, rules, settings in CASES:
        scheme = ",".join(f"own:name=r{i},order=dynamic,adapt=1,0.05,stop={rule}{settings}"
                          for i, rule in enumerate(rules))
        rows = bench.results(*CLUSTER, *options, "--replication", replication, "--seed", seed, "--trials", TRIALS,
                             "--vectors", DIMENSION, "--scheme", scheme)
        for rule, row in zip(rules, rows):
            expected, measured = row["expected_error"], row["verified_squared_error"]
            what = f"{name}, {rule}, {row['split']:.1f} splits and {row['merged']:.1f} merges in a trial"
            bench.row(f"{what}: expected error / measured", f"{expected:.4f} / {measured:.4f} = {expected / measured:.3f}",
                      f"1 +- {TOLERANCE}", abs(expected / measured - 1) <= TOLERANCE)
            limit = limit_of(rule, settings)
            if limit is not None:
                bench.at_most(f"{what}: measured error", measured, limit * (1 + TOLERANCE))


if __name__ == "__main__":
    harness.main(claim, __doc__.split("\n")[0])
