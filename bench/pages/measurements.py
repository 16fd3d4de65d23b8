# SPDX-License-Identifier: Apache-2.0
"""docs/measurements.md: the claims of bench/claims.py, and the network runtime beside bare calls; and the README's figure."""

import os

import baselines
import claims
import demo
import latency
import racks
import registry

page = registry.Page("measurements")
page.not_measured("one column is of the version before", "| ratio | with a decode thread | without | wanted |")


@page.drawing("demo.svg", clock=True)
def draw_demo(tarry, folder):
    """What `make demo` shows, for the README."""
    rounds = ["--rounds", demo.ROUNDS]
    curves = demo.curves_of(tarry, *(tarry.report(*options, *rounds) for options in (demo.EVERYBODY, demo.TARRY)))
    demo.draw(os.path.join(folder, "demo.svg"), curves)


@page.table("claims", clock=True)
def all_claims(tarry):
    """Those of dynamic orders are tables of docs/dynamic.md."""
    return tarry.collected(claims.claim)


@page.table("simulated")
def simulated_claims(tarry):
    return tarry.collected(latency.claim + racks.claim + baselines.claim)


NETWORK = {("parts", "plain"): ("coded parts, plain", "GB/s", 0.8), ("parts", "tls"): ("coded parts, TLS", "GB/s", 0.8),
           ("reports", "plain"): ("reports, one by one", "M/s", 0.8),
           ("batched_reports", "plain"): ("reports, 64 per write", "M/s", 0.8)}


def rate(value, unit):
    return f"{value / (1e9 if unit == 'GB/s' else 1e6):.2g} {unit}"


@page.table("network", clock=True, by_hand=["ratio, busy machine"])
def network(tarry):
    found = {(row["what"], row["link"]): row for row in tarry.bench("network")["results"]}
    rows = [[title, rate(found[key]["bare"], unit), rate(found[key]["tarry"], unit), f"{found[key]['ratio']:.2f}", "",
             f">= {wanted}"] for key, (title, unit, wanted) in NETWORK.items()]
    return ["m = 8, d = 1e7", "limit", "Tarry", "ratio", "ratio, busy machine", "wanted"], rows
