# SPDX-License-Identifier: Apache-2.0
"""docs/protocol.md: how far workers run ahead of the answers, and what it costs not to."""

import latency
import registry

page = registry.Page("protocol")


@page.table("ahead")
def ahead(tarry):
    rows = []
    for of in latency.ahead(tarry):
        shown = latency.fraction(of.latency) + " (a piece)" * (of.latency == 1 / 16)
        rows.append([shown, of.ahead, of.vectors, *(f"{seconds:.3g}" if seconds >= 10 else f"{seconds:.2f}"
                                                    for seconds in of.seconds)])
    return ["latency", "`ahead`", "vectors", "all", "credited", "with `ahead` 3", "with `ahead` 1", "uncoded"], rows
