#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks under mpirun: slow, stopped and killed ones, with a coordinator over TCP and sums over MPI.

    test_ranks.py MPIRUN RANKS_PROGRAM EXAMPLE [STORY...]

MPIRUN is mpirun.openmpi or mpirun.mpich, that of the MPI which the programs were built with. TARRY_TEST_SEED says at which
moments ranks die; TARRY_TEST_LONG=KILLS kills so many in all, under Open MPI: MPICH's launcher ends a job with its first death.
"""

import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

import launcher

RECOVERY = ["--enable-recovery"]
VADER = ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]
UCX = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"]
TIME_LIMIT = 150
DEATHS = 10
INT8 = 2  # TARRY_COMPRESS_INT8
MULTIPLE = 3  # MPI_THREAD_MULTIPLE, of both libraries
LONG = 100  # kills, with TARRY_TEST_LONG=1
MANY = 2000  # steps: more than a run does until a rank dies
SILENCE = 1  # seconds: the limit where a rank is stopped,
PROMISED = 1  # what a step may take beyond it on a quiet machine,
SLACK = 3  # and on a busy one beside


class Run:
    """One mpirun; its lines are kept, and told where it fails."""

    def __init__(self, mpirun, program, ranks, options, mpi=()):
        words = [f"{name}={value}" for name, value in options.items()]
        self.command = mpirun.command(ranks, program, *words, mpi=mpi)
        self.lines = []
        self.mark = f"TARRY_TEST_RUN={uuid.uuid4()}"
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=launcher.environment(self.mark))
        self.late = threading.Timer(TIME_LIMIT, self.process.terminate)
        self.late.start()

    def read_until(self, pattern):
        """The next line that has the pattern; None at the end."""
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        return None

    def finish(self):
        self.read_until(r"(?!)")
        self.status = self.process.wait()
        self.expect(self.late.is_alive(), f"no end within {TIME_LIMIT} s")
        self.late.cancel()
        return self

    def has(self, pattern):
        return [line for line in self.lines if re.search(pattern, line)]

    def expect(self, condition, what):
        if not condition:
            self.late.cancel()
            print(" ".join(self.command))
            print("".join(self.lines))
            raise SystemExit(f"{what} (status {self.process.poll()})")


def expect_all_right(run, ranks):
    run.expect(run.status == 0, "the run failed")
    run.expect(len(run.has(r"^rank \d+: .* right$")) == ranks, "not all ranks are right")
    run.expect(run.has("all ranks came to the end"), "not all came to the end")


def all_get_the_same_sums(start):
    for dimension in (1, 1000, 300000):
        expect_all_right(start(5, {"dimension": dimension, "steps": 3}).finish(), 5)


def sums_travel_in_fewer_bytes(start):
    """int8 both ways; the vote sees to it that all have the same bits."""
    def run_in(form):
        run = start(4, {"dimension": 100000, "steps": 2, "replication": 1, "up": form, "down": form}).finish()
        expect_all_right(run, 4)
        run.expect(len(run.has("off by")) == (4 if form else 0), "not all sums are rounded")
        return sum(int(line.split()[3]) for line in run.has("bytes of sums"))

    plain, rounded = run_in(0), run_in(INT8)
    print(f"  {plain} bytes of float32, {rounded} of int8: 1/{plain / rounded:.2f}")
    if not 0 < rounded < plain / 3.9:
        raise SystemExit("int8 takes more than 1/3.9 of the bytes")


def threads_must_be_allowed_to_call_mpi(start):
    """Every rank says why it does not begin, and what to do."""
    for level, name in enumerate(("MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED")):
        run = start(3, {"level": level}).finish()
        run.expect(run.status != 0, "the launcher does not hear of it")
        run.expect(len(run.has(f"threads may not call MPI, which runs with {name}: ask MPI_Init_thread for "
                               "MPI_THREAD_SERIALIZED, or for MPI_THREAD_MULTIPLE")) == 3, "not all say why")
        run.expect(not run.has("^step"), "there are steps all the same")
    expect_all_right(start(3, {"level": MULTIPLE}).finish(), 3)


def a_slow_rank_holds_up_nobody(start):
    """It takes 10 times as long as others for what it computes; others take over the rest."""
    run = start(4, {"slow": 2, "sleep": 50, "chunks": 16, "replication": 4, "steps": 4}).finish()
    expect_all_right(run, 4)
    times = [float(line.split(",")[-1].split()[0]) for line in run.has(r"^step \d")]
    run.expect(min(times) < 1, f"steps of {times} s: nobody took over what it had to compute")


def who_waits_burns_no_core(start):
    """All wait for one that takes a second a step; sanitizers make each look at MPI dearer."""
    run = start(4, {"slow": 2, "sleep": 100, "chunks": 4, "replication": 1, "steps": 3, "silence": 10000}).finish()
    run.expect(run.status == 0, "the run failed")
    shares = [float(line.split()[2]) for line in run.has(r"of a core$")]
    print(f"  shares of a core: {shares}")
    run.expect(len(shares) == 4 and max(shares) < 0.25, f"waiting takes {shares} of a core")


def a_stopped_rank_comes_back(start):
    """Stopped in a sum or between two, it is left out within the silence limit, and loads the state afterwards."""
    for after in (0, 2, 5):
        run = start(4, {"stop": 2, "after": after, "silence": 1000 * SILENCE, "replication": 3, "sleep": 20, "steps": 12})
        stopped = run.read_until(r"stops: (\d+)")
        run.expect(stopped, "no rank stopped")
        run.read_until(r"^step 8:")
        os.kill(int(stopped[1]), signal.SIGCONT)
        run.finish()
        run.expect(run.status == 0, "the run failed")
        run.expect(run.has(r"^rank 2: 12 steps, right"), "the stopped rank is not up to date")
        run.expect(len(run.has(r"^rank \d+: .* right$")) == 4, "not all ranks are right")
        longest = max(float(line.split(",")[-1].split()[0]) for line in run.has(r"^step \d"))
        where = "in a sum" if run.has(r"attempts [^1]") else "between sums"
        print(f"  stopped {where}: the longest step took {longest:.2f} s, {longest - SILENCE:+.2f} s beyond the silence limit")
        run.expect(longest < SILENCE + PROMISED + SLACK, f"a step took {longest} s, with a silence limit of {SILENCE} s")


def a_replica_that_fails_is_left_behind(start):
    """Its rank is there until the end, and the launcher hears of it by the rank's status."""
    run = start(4, {"lose": 2, "replication": 3, "steps": 6, "silence": 500}).finish()
    run.expect(run.status != 0, "the launcher does not hear of it")
    run.expect(len(run.has(r"^rank \d+: 6 steps, right$")) == 3, "the others do not go on")
    run.expect(run.has("^rank 2: what it steps: "), "the rank does not say why it does not")
    run.expect(run.has("all ranks came to the end"), "not all came to the end")


def ranks_that_do_not_reach_each_other_go_on(start):
    """One of two is left out of the sums, and gets them from another one; rank 0 may be one of the two."""
    for severed in (0, 2):
        run = start(4, {"sever": severed, "replication": 3, "steps": 12, "sleep": 10}).finish()
        expect_all_right(run, 4)
        run.expect(run.has("attempts 2"), "nothing was broken")


def ranks_without_rank_0_end_by_themselves(start):
    run = start(3, {"head": 2, "patience": 1500}, RECOVERY + VADER).finish()
    run.expect(len(run.has(r"rank [12]: 127.0.0.1:\d+: no connection for 1.5\d* s")) == 2, "the others do not say why they end")


def killed_ranks_are_survived(start):
    """Any rank but 0, in any phase: no hang, and all exact."""
    seed = int(os.environ.get("TARRY_TEST_SEED", "1"))
    kills = int(os.environ.get("TARRY_TEST_LONG", "0") or 0)
    kills = LONG if kills == 1 else kills
    runs = max(2, kills // DEATHS)
    done = 0
    for number in range(runs):
        mpi = [VADER, UCX][number % 2]
        options = {"dimension": 20000, "chunks": 12, "replication": 12, "steps": 10, "silence": 400,
                   "sleep": 2, "deaths": DEATHS, "seed": seed + number}
        run = start(DEATHS + 2, options, RECOVERY + mpi).finish()
        run.expect(run.has("some ranks are gone"), "the run did not come to its end")
        run.expect(not run.has(r"^rank \d+: .* wrong$"), "a rank is wrong")
        run.expect(len(run.has(r"^rank [01]: .* right$")) == 2, "the survivors are not right")
        died = DEATHS + 2 - len(run.has(r"^rank \d+: \d+ steps"))
        print(f"seed {seed + number}, {mpi[2]}: {died} killed, "
              f"{len(run.has('^step'))} steps exact", flush=True)
        done += died
    print(f"{done} kills")
    if done < 0.9 * runs * DEATHS:
        raise SystemExit(f"only {done} of {runs * DEATHS} ranks died: the moments are badly chosen")


def the_example_runs(start):
    run = start(3, {}).finish()
    run.expect(run.status == 0, "the example failed")
    run.expect(len(run.has(r"^3\.5")) == 3, "the ranks of the example don't get to 3.5, the mean of the chunks' numbers")


def a_death_ends_the_job(start):
    """Of rank 0 and of another one; nobody is left."""
    for options in ({"head": 2}, {"deaths": 1, "seed": 1}):
        run = start(4, {"chunks": 12, "replication": 4, "sleep": 5, "steps": MANY, **options}).finish()
        run.expect(run.status != 0, "the launcher says nothing of a death")
        run.expect(not run.has(f"^step {MANY}:"), "the run came to its end")
        run.expect(launcher.are_gone(run.mark), "ranks are left")


COMMON = [all_get_the_same_sums, sums_travel_in_fewer_bytes, threads_must_be_allowed_to_call_mpi, a_slow_rank_holds_up_nobody, who_waits_burns_no_core, a_stopped_rank_comes_back,
          a_replica_that_fails_is_left_behind, ranks_that_do_not_reach_each_other_go_on]
STORIES = {False: [*COMMON, ranks_without_rank_0_end_by_themselves, killed_ranks_are_survived],
           True: [*COMMON, a_death_ends_the_job]}  # by whether it is MPICH


def main(mpirun, program, example, names):
    start = functools.partial(Run, mpirun, program)
    for story in STORIES[mpirun.is_mpich]:
        if names and story.__name__ not in names:
            continue
        begun = time.monotonic()
        story(start)
        print(f"{story.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    if not names:
        the_example_runs(functools.partial(Run, mpirun, example))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    paths = [str(pathlib.Path(path).resolve()) for path in sys.argv[2:4]]
    main(launcher.Launcher(sys.argv[1]), *paths, sys.argv[4:])
