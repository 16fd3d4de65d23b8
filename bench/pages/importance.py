# SPDX-License-Identifier: Apache-2.0
"""docs/importance.md: what norms and samples are worth, in simulated time, which nothing but the seed decides."""

import registry

page = registry.Page("importance")

SEEDS = range(1, 6)
CLUSTER = ["--workers", 8, "--chunks", 40, "--sorted", "--straggler", "slow:2,4+exp:0.5/chunk", "--loss", 0.4, "--rounds",
           600]
ROWS = [
    ["--stop", "exact"],
    ["--stop", "error:0.3"],
    ["--stop", "error:0.3", "--importance"],
    ["--stop", "deadline:3"],
    ["--stop", "deadline:3", "--importance"],
    ["--sample-chunks", "20"],
    ["--sample-chunks", "20:norm"],
    ["--sample-chunks", "10"],
    ["--sample-chunks", "10:norm"],
]


def mean(reports, key):
    return sum(report[key] for report in reports) / len(reports)


@page.table("losses")
def losses(tarry):
    digits = tarry.needed("t10k-images-idx3-ubyte.gz")
    rows, exact = [], None
    for options in ROWS:
        reports = [tarry.bench("importance", "--data", digits, *CLUSTER, "--seed", seed, *options) for seed in SEEDS]
        if not all(report["reached"] for report in reports):
            rows.append([f"`{' '.join(options)}`", "never", "-", "-", "-", "-"])
            continue
        exact = exact or reports
        ratios = [one["seconds"] / other["seconds"] for one, other in zip(reports, exact, strict=True)]
        rows.append([f"`{' '.join(options)}`", f"{mean(reports, 'rounds'):.0f}", f"{mean(reports, 'seconds'):.0f} s",
                     f"{min(ratios):.2f} .. {max(ratios):.2f}", f"{mean(reports, 'work'):.1f}",
                     f"{mean(reports, 'apart'):.2f}"])
    return ["", "rounds", "simulated time", "over that of exact rounds", "data computed", "sum off by"], rows
