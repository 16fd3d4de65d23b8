# SPDX-License-Identifier: Apache-2.0
"""docs/scale.md: 10,000 emulated workers at one server; the simulated tables are printed by bench/scale.py."""

import registry

page = registry.Page("scale")
page.not_measured("bench/scale.py prints the rows; the largest take hours on a busy machine", "| workers | sum |",
                  "| workers with jitter |", "| workers | pieces | seconds | memory |")


@page.table("connections", clock=True)
def connections(tarry):
    found = tarry.bench("connections")["results"]
    return (["workers", "million reports/s", "us of the server's processor each", "ms to the last worker", "KiB, server"],
            [["10,000", f"{found['reports_per_second'] / 1e6:.2f}", f"{found['report_cpu_seconds'] * 1e6:.2f}",
              f"{found['signal_seconds'] * 1e3:.0f}", f"{found['server_bytes_per_worker'] / 1024:.1f}"]])
