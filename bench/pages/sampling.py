# SPDX-License-Identifier: Apache-2.0
"""docs/sampling.md: what sampling chunks is worth, in simulated time, which nothing but the seed decides."""

import registry

page = registry.Page("sampling")

SEEDS = range(1, 6)
CLUSTER = ["--workers", 8, "--chunks", 40, "--sorted", "--loss", 0.4, "--rounds", 600]
# Options, and the seconds of a chunk.
ROWS = [
    (["--stop", "exact"], 0.5),
    (["--stop", "error:0.3"], 0.5),
    (["--stop", "deadline:3"], 0.5),
    (["--sample-chunks", "20"], 0.5),
    (["--sample-chunks", "10"], 0.5),
    (["--batch", "5000"], 0.25),
    (["--batch", "2500"], 0.125),
    (["--batch", "2500"], 0.5),
    (["--sample-chunks", "20", "--batch", "5000"], 0.25),
]


def mean(reports, key):
    return sum(report[key] for report in reports) / len(reports)


@page.table("losses")
def losses(tarry):
    digits = tarry.needed("t10k-images-idx3-ubyte.gz")
    rows, exact = [], None
    for options, seconds in ROWS:
        straggler = f"slow:2,4+exp:{seconds}/chunk"
        reports = [tarry.bench("sampling", "--data", digits, *CLUSTER, "--straggler", straggler, "--seed", seed, *options)
                   for seed in SEEDS]
        name = f"`{' '.join(options)}`" + (", chunks take as long" if "--batch" in options and seconds == 0.5 else "")
        if not all(report["reached"] for report in reports):
            rows.append([name, "never", "-", "-", "-", "-"])
            continue
        exact = exact or reports
        ratios = [one["seconds"] / other["seconds"] for one, other in zip(reports, exact, strict=True)]
        rows.append([name, f"{mean(reports, 'rounds'):.0f}", f"{mean(reports, 'seconds'):.0f} s",
                     f"{min(ratios):.2f} .. {max(ratios):.2f}", f"{mean(reports, 'work'):.1f}",
                     f"{mean(reports, 'apart'):.2f}"])
    return ["", "rounds", "simulated time", "over that of exact rounds", "data computed", "sum off by"], rows
