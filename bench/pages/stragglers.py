# SPDX-License-Identifier: Apache-2.0
"""docs/stragglers.md: racks that plans know."""

import racks
import registry

page = registry.Page("stragglers")


@page.table("racks")
def slow_racks(tarry):
    rows = [[of.workers, f"`{of.spec}`", of.trials, f"{of.known:.3f}", f"{of.unknown:.3f}", f"{of.gain:.2f}"]
            for of in racks.slow(tarry)]
    return ["m", "SPEC", "trials", "time / balanced, racks known", "not known", "mean time, not known / known"], rows
