# SPDX-License-Identifier: Apache-2.0
"""docs/regimes.md: the map of who takes least."""

import os

import regimes
import registry

page = registry.Page("regimes")


def enter(axis):
    page.table(axis)(lambda runner: regimes.table(runner, axis))


for axis in regimes.regimes():
    enter(axis)


page.table("sums")(regimes.sums)


@page.drawing("regimes.svg")
def draw(runner, folder):
    regimes.draw(runner, os.path.join(folder, "regimes.svg"))
