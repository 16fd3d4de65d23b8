# SPDX-License-Identifier: Apache-2.0
"""docs/simulator.md: how fast it is."""

import forms
import registry

page = registry.Page("simulator")
page.not_measured("formulas", "| `--sum` | what n members do |")
page.not_measured("bench/shaped.py runs them, with the rights to make network namespaces", "| links | sums | TCP |")
page.not_measured("by SimGrid, which no command of ours runs", "| 33 members, d = 1e7, 10 Gb/s, 50 us |")
page.not_measured("tests/simgrid/test_links.py prints its rows",
                  "| members | way | ours, s | SimGrid, s | ratio | a thin card: ours, s | SimGrid, s | ratio |")


@page.table("speed", clock=True)
def speed(tarry):
    rows = [[f"{row['workers']:,}", f"{row['reports_per_second'] / 1e6:.1f} million",
             forms.seconds(row["longest_round_seconds"]), f"{row['memory_bytes'] / 1e6:.0f} MB"]
            for row in tarry.bench("simulate")["results"]]
    return ["workers", "reports per second", "a round at most", "memory"], rows
