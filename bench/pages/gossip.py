# SPDX-License-Identifier: Apache-2.0
"""docs/gossip.md: gossip averaging beside exact sums."""

import gossip
import registry

page = registry.Page("gossip")


def enter(case):
    page.table(case)(lambda tarry: gossip.table(tarry, case)[:2])


for name in gossip.CASES:
    enter(name)
