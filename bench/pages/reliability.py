# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md: worlds full of faults, and errors that are planted into them."""

import re

import forms
import registry

page = registry.Page("reliability")
page.not_measured("each was a change of src/protocol by hand", "| error | found by | in world |")
page.not_measured("by hand; the test whose command stands there tells it", "| killed while | deaths |")

PLANTED = "tests/scenario/test-scenario-planted"
WORLDS = "tests/worlds/tarry-worlds"


def campaign(tarry, runs, *options):
    """What a campaign of seed 1 counts, and what it printed."""
    printed = tarry.ended(WORLDS, "tests", "--runs", runs, "--seed", 1, *options).stdout

    def found(pattern):
        return [int(number) for number in re.search(pattern, printed).groups()]

    rounds, runs, steps, faults, rate = found(r"(\d+) rounds in (\d+) worlds, (\d+) steps, (\d+) faults: (\d+) rounds/s")
    exact, failed, repeated = found(r"(\d+) rounds exact, (\d+) failed, (\d+) repeated")
    late, silent = found(r"late workers passed over (\d+) times, silent ones given up (\d+) times")
    between, computing, sending = found(r"(\d+) between rounds, (\d+) while workers compute, (\d+) while they send")
    restarts, changes, turned = found(
        r"(\d+) restarts of the server, (\d+) changes of the plan, to which workers turned (\d+) times")
    longest = re.search(r"the longest round took ([0-9.]+) of its bound", printed)[1]
    counts = [
        ("worlds, rounds", f"{runs:,} and {rounds:,}"),
        ("steps of machines, time included", f"{steps / 1e6:.1f} million"),
        ("faults that struck, of all kinds", f"{faults / 1e6:.1f} million"),
        ("crashes, cuts, pauses, slow links, restarts of the server between rounds", f"{between:,}"),
        ("the same while workers compute", f"{computing:,}"),
        ("the same while coded parts are on their way", f"{sending:,}"),
        ("restarts of the server from its checkpoint, of these", f"{restarts:,}"),
        ("changes of the plan between two rounds", f"{changes:,}"),
        ("times that a worker turned to another plan where it was", f"{turned:,}"),
        ("rounds with an exact sum", f"{exact:,}"),
        ("rounds that failed, since too few workers were left", f"{failed:,}"),
        ("repeated attempts", f"{repeated:,}"),
        ("late workers passed over", f"{late:,}"),
        ("silent workers given up", f"{silent:,}"),
        ("longest round, of its bound once nothing goes wrong any more", longest),
        ("rounds per second, on both processors (beside other programs)", f"{rate:,}"),
        ("**broken invariants**", "**none**" if "every invariant holds" in printed else printed.splitlines()[-1]),
    ]
    return counts, printed


@page.table("worlds", clock_rows="rounds per second")
def worlds(tarry):
    return ["", ""], campaign(tarry, 340000)[0]


@page.table("everywhere", clock_rows="rounds per second")
def everywhere(tarry):
    counts, printed = campaign(tarry, 34000, "--sum", "everywhere")
    sums, returns, fetches, loads = re.search(r"(\d+) sums committed, (\d+) returns to a checkpoint; workers fetched (\d+) sums, "
                                              r"and loaded the state (\d+) times", printed).groups()
    more = [("sums committed", f"{int(sums):,}"),
            ("returns to a checkpoint, as nobody had the last state any more", f"{int(returns):,}"),
            ("sums fetched, states loaded", f"{int(fetches):,} and {int(loads):,}")]
    return ["", ""], [*counts[:-1], *more, counts[-1]]


@page.table("secure", clock_rows="rounds per second")
def secure(tarry):
    counts, printed = campaign(tarry, 350000, "--secure")
    sums, again, lives = re.search(r"(\d+) sums were secure, (\d+) of them of repeated attempts; workers had second lives, with "
                                   r"keys of their own, (\d+) times", printed).groups()
    more = [("secure sums, each bit for bit that of the integers", f"{int(sums):,}"),
            ("of these, sums of repeated attempts", f"{int(again):,}"),
            ("second lives of workers, with keys of their own", f"{int(lives):,}")]
    return ["", ""], [*counts[:-1], *more, counts[-1]]


@page.table("planted")
def planted(tarry):
    """In the order of tests/worlds/plants.c."""
    printed = tarry.ended(PLANTED, "tests").stdout
    rows = [[title, f"`{invariant}`", *map(forms.thousands, map(int, (rounds, struck, left)))]
            for title, invariant, rounds, left, struck in re.findall(
                r"(?m)^(.+): (\w+): within (\d+) rounds; (\d+) of (\d+) faults", printed)]
    return ["error", "found by", "after rounds", "faults that struck", "that are enough"], rows
