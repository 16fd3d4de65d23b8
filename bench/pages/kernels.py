# SPDX-License-Identifier: Apache-2.0
"""docs/kernels.md: encoding beside what the machine can do."""

import registry

page = registry.Page("kernels")


@page.table("forms", clock=True)
def forms(tarry):
    report = tarry.bench("forms")
    plain = report["results"][0]
    return ["form", "bytes a number", "encode: GB/s", "of read", "added alone: 1e9 numbers/s", "of float32", "sum of 4: 1e9 numbers/s",
            "of float32"], [
        [row["form"], f"{row['bytes']:.3f}", f"{row['encode']:.1f}", f"{row['encode'] / report['read']:.2f}", f"{row['add']:.2f}",
         f"{row['add'] / plain['add']:.2f}", f"{row['sum']:.2f}", f"{row['sum'] / plain['sum']:.2f}"]
        for row in report["results"]]


@page.table("encoding", clock=True)
def encoding(tarry):
    at_pages, packed = (tarry.bench("kernels", *options)["results"] for options in ([], ["--packed"]))
    rows = [[row["inputs"], *(f"{of['encode'] / of[base]:.2f}" for of in (row, dense) for base in ("read", "sgemv"))]
            for row, dense in zip(at_pages, packed)]
    return ["inputs", "at pages: of read", "of sgemv", "packed: of read", "of sgemv"], rows
