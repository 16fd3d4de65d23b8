# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md: worlds full of faults, and errors that are planted into them."""

import re

import forms
import registry

page = registry.Page("reliability")
page.not_measured("each was a change of src/protocol by hand", "| error | found by | in world |")
page.not_measured("by hand; the test whose command stands there tells it", "| killed while | deaths |")

PLANTED = "tests/scenario/test-scenario-planted"


def campaign(tarry, runs, *options):
    """What a campaign of seed 1 counts, and what it printed."""
    printed = tarry.ended_well("simulate", "--faults", "--runs", runs, "--seed", 1, *options).stdout

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


TITLES = {
    "a_part_summed_twice": "a coded part is added twice",
    "a_stale_part_summed": "a part of another attempt is combined",
    "a_lost_worker_that_is_waited_for": "a lost worker counts as present, and is waited for",
    "an_estimate_that_is_not_cleared": "the estimate is not zeroed for a new attempt",
    "messages_of_an_earlier_arrival_that_count": "what an earlier arrival sent counts as the present one's",
    "a_report_that_is_overlooked": "a report is overlooked",
    "a_message_that_is_counted_twice": "a message is counted twice",
    "a_wrong_coefficient": "a coefficient is wrong by half",
    "a_chunk_encoded_before_it_is_computed": "a chunk is encoded that was never computed",
    "a_result_that_claims_too_little_error": "a result claims a smaller error",
    "a_signal_that_never_arrives": "signals don't arrive",
    "a_checkpoint_that_two_lives_begin_from": "a second restart is from the first one's checkpoint",
    "a_gradient_folded_twice": "a gradient is folded twice",
    "a_gradient_folded_that_does_not_count": "a gradient is folded that was to be dropped",
    "a_worker_that_runs_too_far_ahead": "a worker runs further ahead than it has places, over a gradient without a fate",
    "a_gradient_of_two_rounds_ago": "what fills a chunk is of two rounds ago",
    "a_copy_of_another_round_than_named": "a copy of another round than named is encoded",
    "a_sum_that_is_not_scaled": "a sum is not scaled",
    "news_that_never_arrive": "news of a dynamic order don't arrive",
    "a_bar_that_is_never_lifted": "a chunk that was barred once stays barred",
    "workers_whose_words_do_not_count": "what workers say that they are at does not count",
    "a_worker_that_is_kept_from_everything": "a worker is kept from all its chunks",
    "a_worker_that_overlooks_a_raised_limit": "a worker encodes by the usual limit where the signal raised it",
    "chunks_that_stay_what_they_were": "a worker's chunks stay what they were in the first plan",
    "a_part_of_another_plan_summed": "what came in under the plan before is summed in a part's place",
    "orders_of_another_plan": "what was said under the plan before reaches a machine of the next",
    "a_commit_before_the_log": "a sum is committed before it is in the log",
    "one_holder_that_is_enough": "one holder is enough to commit a sum",
    "an_attempt_beside_a_holder": "a new attempt begins beside one who holds the sum",
    "a_load_that_comes_again": "what a load brings comes again, later, over the state and a held sum",
    "an_engine_that_ends_late": "a sum that was abandoned ends all the same, and overwrites another",
    "a_sum_made_in_place": "a sum that failed leaves its numbers in what the worker contributes",
    "sums_with_other_bits": "sums with different bits count as the same",
    "what_stands_summed_again": "what stands of a sum is summed again",
    "more_that_stands_than_is_there": "the server hears of more that stands than is there",
    "parameters_of_which_nobody_hears": "nobody hears of parameters that differ",
    "attempts_that_nobody_ends": "an attempt that nobody answers goes on without end",
    "attempts_without_a_pause": "attempts that fail follow each other at once, and without a bound",
    "a_part_that_stays_what_it_was": "another attempt sums what a worker encoded for the one before",
    "a_share_that_its_owner_has_as_it_was": "who sums a share keeps it as it was before it was rounded for the others",
    "keys_and_masks_that_outlive_their_attempt": "secure sums: a second life has the keys of the first, and masks are for the "
                                                 "round alone",
    "a_part_masked_again_with_another_content": "the same: a part is masked again with another content",
    "a_worker_that_masks_for_the_signal_before": "the same: a worker masks for what the signal before named",
    "another_holder_than_is_credited": "the same: the server names another holder than it credits",
    "a_signal_that_says_something_else_to_one": "the same: one worker is told of another holder than the others",
    "masks_that_do_not_depend_on_the_length_of_stripes": "the same: masks don't depend on the length of stripes, and one "
                                                         "worker is told another length",
    "a_count_of_clamped_numbers_for_each_stripe": "the same: each stripe counts its own clamped numbers",
}


@page.table("planted")
def planted(tarry):
    """In the order of the titles; a new test of the program comes last, by its name."""
    printed = tarry.ended(PLANTED, "tests").stdout
    rows = {}
    for name, invariant, rounds, left, struck in re.findall(
            r"RUN +\] (\w+)\n(?:(?!\[).*\n)*?(\w+): within (\d+) rounds; (\d+) of (\d+) faults", printed):
        rows[name] = [TITLES.get(name, name.replace("_", " ")), f"`{invariant}`",
                      *map(forms.thousands, map(int, (rounds, struck, left)))]
    order = [name for name in TITLES if name in rows] + [name for name in rows if name not in TITLES]
    return (["error", "found by", "after rounds", "faults that struck", "that are enough"], [rows[name] for name in order])
