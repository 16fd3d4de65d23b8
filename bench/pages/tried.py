# SPDX-License-Identifier: Apache-2.0
"""docs/tried.md: what features that are gone were measured at. None of it can be measured again."""

import registry

registry.Page("tried").not_measured(
    "features that are gone, by the last commit that had them", "| training | `topk:0.01` |", "| m | N | design |",
    "| regime | server | leaving early |", "| | uniform | by norms |", "| stragglers | share, r = 3 |",
    "| slowness | link of each worker | l = 1 | best fixed l |", "| parts | 1/sigma_min | error |",
    "| relays | million reports/s |", "| workers | balanced, relays |", "| workers | d | Mb/s |", "| over | d | killed in a sum |",
    "| training | numbers | pairs |", "| form up | form down | parts |")
