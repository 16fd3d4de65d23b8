# SPDX-License-Identifier: Apache-2.0
"""docs/kernels.md: encoding beside what the machine can do."""

import registry

page = registry.Page("kernels")


@page.table("encoding", clock=True)
def encoding(tarry):
    at_pages, packed = (tarry.bench("kernels", *options)["results"] for options in ([], ["--packed"]))
    rows = [[row["inputs"], *(f"{of['encode'] / of[base]:.2f}" for of in (row, dense) for base in ("read", "sgemv"))]
            for row, dense in zip(at_pages, packed)]
    return ["inputs", "at pages: of read", "of sgemv", "packed: of read", "of sgemv"], rows
