# SPDX-License-Identifier: Apache-2.0
"""docs/relays.md: 10,000 emulated workers, by themselves and through relays."""

import registry

page = registry.Page("relays")


@page.table("workers", clock=True)
def workers(tarry):
    rows = []
    for relays in (0, 1, 4):
        report = tarry.bench("relays", "--relays", relays, *(["--kill"] if relays > 1 else []))
        found, death = report["results"], report["death"]
        rows.append([
            relays, f"{found['reports_per_second'] / 1e6:.2f}", f"{found['report_cpu_seconds'] * 1e6:.2f}",
            f"{found['signal_seconds'] * 1e3:.0f}", f"{found['server_bytes_per_worker'] / 1024:.1f}",
            f"{found['relay_bytes_per_worker'] / 1024:.1f}" if relays else "", *lost(death)])
    return ["relays", "million reports/s", "us of the server's processor each", "ms to the last worker", "KiB, server",
            "KiB, relays", "ms, detected", "ms, all back", "round trips", "orders to others"], rows


def lost(death):
    """What a relay's death comes to."""
    if death is None:
        return [""] * 4
    return [f"{death['detected_seconds'] * 1e3:.0f}", f"{death['repaired_seconds'] * 1e3:.0f}",
            f"{death['round_trips']:.2f}", death["orders_to_others"]]
